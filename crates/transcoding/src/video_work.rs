//! The work on a track of video: decoded in full, encoded as far as there is time, as a whole or as the rungs
//! of a ladder.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_hub::RenditionPublisher;
use glassline_media::{MediaTime, MediaUnit, Stamps, UnitBuilder};
use glassline_rtp::payload::Packetizer;
use glassline_transcode::{
    AccessUnit, Counts, FrameSize, ProgramTranscoder, VideoFrame, VideoSource, VideoTranscoder,
};
use mio::Registry;

use super::job::Job;
use super::lateness::Lateness;
use super::program::ProgramDecoding;

/// Age from which a frame is decoded and not encoded, so that the thread catches up.
const ENCODED_MAX: Duration = Duration::from_millis(200);

/// Age from which a frame is left out, and all after it up to the next keyframe.
const DECODED_MAX: Duration = Duration::from_secs(1);

/// Most frames since the latest keyframe that are decoded at the beginning. Behind more of them the
/// first picture waits for the next keyframe.
const BEGINNING_MAX: usize = 120;

/// Most frames whose stamps are kept: more than a decoder reorders, and a program has.
const STAMPS_MAX: usize = 192;

/// The state of the work on a track of video.
#[derive(Debug)]
pub(super) struct VideoWork {
    decoding: Decoding,
    /// The track as a whole, or each rung of a ladder.
    outputs: Vec<VideoOutput>,
    lateness: Lateness,
    /// Number of the next unit of the track.
    next: u64,
    /// Whether the frames are still those from before the work began.
    is_beginning: bool,
    /// Times and stamps of the frames that were decoded last.
    stamps: VecDeque<(MediaTime, Stamps)>,
    /// Empty between turns, and kept for its capacity.
    frames: Vec<VideoFrame>,
}

/// One encoding of the track.
#[derive(Debug)]
struct VideoOutput {
    packetizer: Packetizer,
    /// `None` while the rung is not encoded.
    publisher: Option<RenditionPublisher>,
}

/// The decoder of the frames.
#[derive(Debug)]
enum Decoding {
    /// The decoder within this process.
    Here(Box<VideoTranscoder>),
    Program(Box<ProgramDecoding>),
}

impl VideoWork {
    /// Begins at the latest keyframe: `units` gets the frames since then.
    /// FFmpeg, if the source needs it, is `ffmpeg`, and its pipes wake the thread of `registry`.
    ///
    /// # Errors
    /// Returns the system's error if no descriptor is left.
    pub(super) fn begin(
        job: &Job,
        source: VideoSource,
        ffmpeg: &str,
        registry: &Registry,
        units: &mut Vec<Arc<MediaUnit>>,
    ) -> io::Result<Self> {
        *units = job.stream.since_keyframe(job.track);
        if units.len() > BEGINNING_MAX {
            units.clear();
        }
        if units.is_empty() {
            job.stream.request_keyframe();
        }
        let bitrate = job.stream.bitrate(Instant::now());
        let rungs = job.ladder.as_ref().map(super::job::LadderJob::targets);
        let decoding = match source.needs_program() {
            true => {
                let transcoder = match &rungs {
                    Some(rungs) => ProgramTranscoder::of_ladder(source, rungs),
                    None => ProgramTranscoder::new(source, bitrate),
                };
                let (ffmpeg, registry) = (ffmpeg.to_owned(), registry.try_clone()?);
                let program = ProgramDecoding::new(transcoder, ffmpeg, registry);
                Decoding::Program(Box::new(program))
            }
            false => Decoding::Here(Box::new(match &rungs {
                Some(rungs) => VideoTranscoder::of_ladder(rungs),
                None => VideoTranscoder::new(bitrate),
            })),
        };
        let output = |publisher| VideoOutput {
            packetizer: Packetizer::new(&source.transcoded()),
            publisher,
        };
        let outputs = match &rungs {
            Some(rungs) => rungs.iter().map(|_| output(None)).collect(),
            None => {
                let whole = job.stream.publish_rendition(job.track, job.layout);
                vec![output(Some(whole))]
            }
        };
        Ok(Self {
            decoding,
            outputs,
            lateness: Lateness::default(),
            next: 0,
            is_beginning: true,
            stamps: VecDeque::new(),
            frames: Vec::new(),
        })
    }

    pub(super) fn counts(&self) -> Counts {
        match &self.decoding {
            Decoding::Here(transcoder) => transcoder.counts(),
            Decoding::Program(program) => program.counts(),
        }
    }

    pub(super) fn size(&self) -> Option<FrameSize> {
        match &self.decoding {
            Decoding::Here(transcoder) => transcoder.size(),
            Decoding::Program(program) => program.size(),
        }
    }

    /// Returns what is wrong with the source or the machine, and what to do.
    pub(super) fn trouble(&self) -> Option<String> {
        let of_source = match &self.decoding {
            Decoding::Here(transcoder) => transcoder.trouble().map(ToString::to_string),
            Decoding::Program(program) => program.trouble(),
        };
        of_source.or_else(|| self.lateness.trouble())
    }

    /// Begins the rungs that are needed now, and ends those that are not any more.
    pub(super) fn follow_rungs(&mut self, job: &Job) {
        let Some(ladder) = &job.ladder else {
            return;
        };
        let rungs = self.outputs.iter_mut().zip(&ladder.plan.rungs);
        for (place, (output, planned)) in rungs.enumerate() {
            let is_active = ladder.is_active(place);
            if is_active == output.publisher.is_some() {
                continue;
            }
            let publish = || job.stream.publish_rung(&ladder.plan, planned.layer);
            output.publisher = is_active.then(publish);
            match &mut self.decoding {
                Decoding::Here(transcoder) => transcoder.set_active(place, is_active),
                Decoding::Program(program) => program.set_active(place, is_active),
            }
        }
    }

    /// Leaves frames out up to the next keyframe, which is requested.
    pub(super) fn leave_out(&mut self, job: &Job) {
        match &mut self.decoding {
            Decoding::Here(transcoder) => {
                transcoder.leave_out();
                self.stamps.clear();
            }
            // The program still has the frames before.
            Decoding::Program(program) => program.leave_out(),
        }
        job.stream.request_keyframe();
    }

    /// Transcodes `coded`, the frame of `unit`, and publishes what it makes. Returns whether the frame
    /// was too late to be encoded.
    pub(super) fn take(
        &mut self,
        unit: &MediaUnit,
        coded: &[u8],
        job: &Job,
        builder: &mut UnitBuilder,
    ) -> bool {
        // The first units are read from the ring, and again from the subscription.
        if unit.index < self.next {
            return false;
        }
        self.next = unit.index + 1;
        let age = unit.stamps.published.elapsed();
        self.is_beginning &= age > ENCODED_MAX;
        if age > DECODED_MAX && !self.is_beginning {
            job.counters.late.add(1);
            self.lateness.note(true, Instant::now());
            self.leave_out(job);
            return true;
        }
        let encodes = age <= ENCODED_MAX;
        if self.stamps.len() == STAMPS_MAX {
            self.stamps.pop_front();
        }
        self.stamps.push_back((unit.time, unit.stamps));
        let coded = AccessUnit {
            data: coded,
            time: unit.time,
            keyframe: unit.keyframe,
        };
        let mut is_late = !encodes && !self.is_beginning;
        match &mut self.decoding {
            Decoding::Here(transcoder) => {
                for place in wanted_keyframes(&self.outputs) {
                    transcoder.request_keyframe(place);
                }
                if transcoder.push(coded, encodes, &mut self.frames).is_err() {
                    // The transcoder counts it; only a keyframe helps.
                    job.stream.request_keyframe();
                }
            }
            Decoding::Program(program) => {
                for place in wanted_keyframes(&self.outputs) {
                    program.request_keyframe(place);
                }
                if program.push(coded, encodes, Instant::now()) {
                    is_late = true;
                    job.stream.request_keyframe();
                }
            }
        }
        self.publish_all(job, builder);
        if !self.is_beginning {
            self.lateness.note(is_late, Instant::now());
        }
        job.counters.late.add(u64::from(is_late));
        is_late
    }

    /// Serves the program, if one decodes, and publishes what it has shown. Returns its processor time
    /// since the last call.
    pub(super) fn serve_program(
        &mut self,
        job: &Job,
        builder: &mut UnitBuilder,
        now: Instant,
    ) -> Duration {
        let Decoding::Program(program) = &mut self.decoding else {
            return Duration::ZERO;
        };
        program.serve(now, &mut self.frames);
        let cpu = program.cpu_since(now);
        self.publish_all(job, builder);
        cpu
    }

    /// Returns whether a program decodes, which has something to say without a frame.
    pub(super) const fn has_program(&self) -> bool {
        matches!(self.decoding, Decoding::Program(_))
    }

    fn publish_all(&mut self, job: &Job, builder: &mut UnitBuilder) {
        let mut frames = std::mem::take(&mut self.frames);
        for frame in frames.drain(..) {
            self.publish(&frame, job, builder);
        }
        self.frames = frames;
    }

    fn publish(&mut self, frame: &VideoFrame, job: &Job, builder: &mut UnitBuilder) {
        let of_frame = self.stamps.iter().find(|(time, _)| *time == frame.time);
        let Some((_, stamps)) = of_frame.copied() else {
            return;
        };
        let Some(output) = self.outputs.get_mut(frame.output) else {
            return;
        };
        let Some(publisher) = &output.publisher else {
            return;
        };
        builder.clear();
        if output.packetizer.packetize(&frame.data, builder).is_err() {
            return;
        }
        let built = builder.build(job.track, frame.time, frame.keyframe, stamps);
        let Some(unit) = built else { return };
        let published = Instant::now();
        if publisher.push(unit, published).is_some() {
            let delay = published.saturating_duration_since(stamps.published);
            job.state().delays.record(delay, published);
        }
    }
}

/// Returns the places of the outputs of which a keyframe was requested since the last call.
fn wanted_keyframes(outputs: &[VideoOutput]) -> impl Iterator<Item = usize> + '_ {
    let is_wanted = |it: &VideoOutput| {
        it.publisher
            .as_ref()
            .is_some_and(RenditionPublisher::keyframe_wanted)
    };
    let places = outputs.iter().enumerate();
    places.filter_map(move |(place, it)| is_wanted(it).then_some(place))
}
