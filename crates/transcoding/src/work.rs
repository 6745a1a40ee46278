//! A job that a thread works on: frames of the hub in, frames of the rendition out.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_hub::{RenditionPublisher, Stream, Subscription};
use glassline_media::{MediaTime, MediaUnit, Stamps, TrackLayer, UnitBuilder};
use glassline_net::thread_cpu;
use glassline_runtime::{StreamWaker, Waker};
use glassline_transcode::{AudioTranscoder, Counts, OpusFrame};
use mio::Registry;

use super::job::Job;
use super::source::TranscodingSource;
use super::transcoders::Transcoders;
use super::video_work::VideoWork;

/// Time that a coded frame of audio may wait in the hub's ring before it is dropped.
const LATE: Duration = Duration::from_millis(500);

/// A job that a thread works on.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) job: Arc<Job>,
    subscription: Subscription,
    waker: Arc<StreamWaker>,
    transcoder: Transcoder,
    builder: UnitBuilder,
    /// Buffers that are empty between turns and kept for their capacity.
    units: Vec<Arc<MediaUnit>>,
    coded: Vec<u8>,
    /// Value of [`Subscription::missed`] that was counted.
    missed: u64,
}

#[derive(Debug)]
enum Transcoder {
    Audio {
        transcoder: Box<AudioTranscoder>,
        publisher: RenditionPublisher,
        /// Empty between turns, and kept for its capacity.
        frames: Vec<OpusFrame>,
    },
    Video(Box<VideoWork>),
}

impl Work {
    /// # Errors
    /// Returns the system's error if no descriptor is left.
    pub(super) fn new(
        job: Arc<Job>,
        waker: &Arc<Waker>,
        registry: &Registry,
        transcoders: &Transcoders,
    ) -> io::Result<Self> {
        let waker = Arc::new(StreamWaker::new(Arc::clone(waker)));
        let subscription = Stream::subscribe(&job.stream, Arc::clone(&waker) as _);
        let mut units = Vec::new();
        let transcoder = match job.source {
            TranscodingSource::Audio(source) => Transcoder::Audio {
                transcoder: Box::new(AudioTranscoder::new(source, transcoders.settings())),
                publisher: job.stream.publish_rendition(job.track, job.layout),
                frames: Vec::new(),
            },
            TranscodingSource::Video(source, _) | TranscodingSource::Ladder(source) => {
                let ffmpeg = &transcoders.video_rules().ffmpeg;
                let video = VideoWork::begin(&job, source, ffmpeg, registry, &mut units)?;
                Transcoder::Video(Box::new(video))
            }
        };
        Ok(Self {
            subscription,
            waker,
            transcoder,
            job,
            builder: UnitBuilder::default(),
            units,
            coded: Vec::new(),
            missed: 0,
        })
    }

    /// Returns whether units were published since the last call, or a program has to be looked at.
    pub(super) fn is_awake(&self) -> bool {
        let has_program =
            matches!(&self.transcoder, Transcoder::Video(video) if video.has_program());
        self.waker.take() || !self.units.is_empty() || has_program
    }

    pub(super) fn counts(&self) -> Counts {
        match &self.transcoder {
            Transcoder::Audio { transcoder, .. } => transcoder.counts(),
            Transcoder::Video(video) => video.counts(),
        }
    }

    /// Transcodes what was published since the last call.
    pub(super) fn transcode(&mut self, now: Instant, transcoders: &Transcoders) {
        let before = thread_cpu();
        if let Transcoder::Video(video) = &mut self.transcoder {
            video.follow_rungs(&self.job);
        }
        let mut units = std::mem::take(&mut self.units);
        self.subscription.poll(&mut units);
        let counts = self.counts();
        // The viewers of an old layout are closed; new ones lease a job of the new one.
        if self.subscription.layout() == self.job.layout {
            let source = TrackLayer::from(self.job.track);
            for unit in units.iter().filter(|unit| unit.track_layer() == source) {
                self.take(unit, now, transcoders);
            }
        }
        units.clear();
        self.units = units;
        let missed = self.subscription.missed()
            - std::mem::replace(&mut self.missed, self.subscription.missed());
        if missed > 0
            && let Transcoder::Video(video) = &mut self.transcoder
        {
            video.leave_out(&self.job);
        }
        let mut of_program = Duration::ZERO;
        if let Transcoder::Video(video) = &mut self.transcoder {
            of_program = video.serve_program(&self.job, &mut self.builder, now);
        }
        let cpu = thread_cpu().saturating_sub(before) + of_program;
        let cpu_ns = u64::try_from(cpu.as_nanos()).unwrap_or(0);
        let all = &transcoders.counters;
        let after = self.counts();
        all.frames_in.add(after.frames_in - counts.frames_in);
        all.frames_out.add(after.frames_out - counts.frames_out);
        all.undecodable.add(after.undecodable - counts.undecodable);
        all.missed.add(missed);
        all.cpu_ns.add(cpu_ns);
        self.job.counters.missed.add(missed);
        self.job.counters.cpu_ns.add(cpu_ns);
        self.show();
    }

    /// Publishes the state of the transcoder, and logs a trouble that begins.
    fn show(&self) {
        let trouble = match &self.transcoder {
            Transcoder::Audio { transcoder, .. } => transcoder.trouble().map(|it| it.to_string()),
            Transcoder::Video(video) => video.trouble(),
        };
        let trouble = trouble.or_else(|| self.job.source.loss());
        let mut state = self.job.state();
        state.counts = self.counts();
        match &self.transcoder {
            Transcoder::Audio { transcoder, .. } => state.decoded = transcoder.decoded(),
            Transcoder::Video(video) => state.size = video.size(),
        }
        if state.trouble != trouble {
            if let Some(trouble) = &trouble
                && state.trouble.is_none()
            {
                let (stream, kind) = (self.job.stream.name(), self.job.source.kind());
                tracing::warn!(%stream, "{kind} that is transcoded: {trouble}");
            }
            state.trouble = trouble;
        }
    }

    /// Transcodes one coded frame and publishes what it makes.
    fn take(&mut self, unit: &MediaUnit, now: Instant, transcoders: &Transcoders) {
        let Some(coded) = unit.coded_frame() else {
            return;
        };
        let is_late = now.saturating_duration_since(unit.stamps.published) > LATE;
        self.coded.clear();
        coded
            .pieces()
            .for_each(|piece| self.coded.extend_from_slice(piece));
        match &mut self.transcoder {
            Transcoder::Video(video) => {
                if video.take(unit, &self.coded, &self.job, &mut self.builder) {
                    transcoders.counters.late.add(1);
                }
            }
            Transcoder::Audio { .. } if is_late => {
                transcoders.counters.late.add(1);
                self.job.counters.late.add(1);
            }
            Transcoder::Audio {
                transcoder,
                publisher,
                frames,
            } => {
                // A frame that makes no audio is counted by the transcoder, which knows when it is
                // worth telling.
                let _ = transcoder.push(&self.coded, unit.time, frames);
                for frame in frames.drain(..) {
                    self.builder.push(&frame.data);
                    let stamps = stamps_at(unit, frame.time);
                    let built = self.builder.build(self.job.track, frame.time, true, stamps);
                    let Some(opus) = built else {
                        continue;
                    };
                    let published = Instant::now();
                    if publisher.push(opus, published).is_none() {
                        continue;
                    }
                    let waited = unit.time.saturating_since(frame.time);
                    let arrived = unit.stamps.published;
                    let delay = published.saturating_duration_since(arrived) + waited;
                    self.job.state().delays.record(delay, published);
                }
            }
        }
    }
}

/// Returns the stamps of a transcoded frame at `time` that ended with `unit`.
fn stamps_at(unit: &MediaUnit, time: MediaTime) -> Stamps {
    let earlier = unit.time.saturating_since(time);
    let later = time.saturating_since(unit.time);
    let reference = unit.stamps.reference;
    let moved = reference.checked_sub(earlier).unwrap_or(reference);
    Stamps {
        reference: moved.checked_add(later).unwrap_or(moved),
        ..unit.stamps
    }
}
