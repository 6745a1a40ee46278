//! Media that a pipe brings: timed units as they arrive, without seeking and without an index.
//!
//! ```text
//! first bytes ► sniff ► PipeReader (Matroska, FLV, Ogg, Annex B, frames of audio) ► PipeUnit
//!                                                                                     │
//!                  Frame, in the order of arrival ◄── PipeDemuxer: tracks, time zero ◄┘
//! ```
//!
//! The tracks are known before the first frame is handed out: units wait until each announced track
//! has one, or for a second of media. Memory is bounded by the largest unit and these.

mod audio;
mod elementary;

use std::collections::VecDeque;
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use glassline_media::{Kind, MediaTime, Track, TrackIndex};

use crate::audio::ac3::Ac3;
use crate::audio::adts::Adts;
use crate::audio::mpeg_audio::MpegAudio;
use crate::container::growing::GrowingReader;
use crate::container::transport::TransportPipe;
use crate::container::{flv, ivf, matroska, ogg};
use crate::error::{Fault, Reason, WarningReason, Warnings};
use crate::pipe_reader::{PipeReader, PipeUnit};
use crate::sniff;
use crate::window::Window;
use crate::{Error, Frame, FrameRate, Warning};
use audio::AudioReader;
use elementary::ElementaryReader;

/// How many of the first bytes are looked at, in turn: a pipe may bring few bytes a second.
const SNIFFED_BYTES: [usize; 3] = [16, 1024, sniff::SNIFF_BYTES];

/// Media in ns that wait for the first unit of another track.
const SETTLE_NS: i64 = 1_000_000_000;

/// Most bytes that wait for it.
const SETTLE_BYTES_MAX: usize = 32 << 20;

/// Distance in ns between two units of a track beyond which the clock of the pipe has jumped.
const JUMP_NS: i64 = 10_000_000_000;

/// Duration in ns that is assumed for a frame until the next one tells.
const FRAME_NS: i64 = 40_000_000;

/// The frames of a pipe as they arrive.
///
/// Its methods wait for the pipe: the caller's reader decides for how long, and ends the demuxer by
/// an error.
pub struct PipeDemuxer {
    name: PathBuf,
    reader: Box<dyn PipeReader>,
    /// Units that were read and not handed out.
    waiting: VecDeque<PipeUnit>,
    tracks: Vec<Track>,
    /// For each track of the reader, its index here, unless it is left out.
    indices: Vec<Option<TrackIndex>>,
    clocks: Vec<TrackClock>,
    /// What is taken from the times of the pipe, so that the first is zero.
    zero_ns: i64,
    has_ended: bool,
    /// Why the pipe ended, until the frames before that are handed out.
    failure: Option<Fault>,
    jumps: Warnings,
}

/// The times of one track.
#[derive(Clone, Copy, Debug, Default)]
struct TrackClock {
    /// Latest presentation time so far.
    highest_ns: Option<i64>,
    decode_ns: i64,
    start_ns: i64,
}

impl PipeDemuxer {
    /// Waits for the first media of a pipe and tells its tracks.
    ///
    /// `name`: the pipe in errors. `fps`: frames per second of H.264 and H.265 in Annex-B form that
    /// state none.
    ///
    /// # Errors
    /// The bytes are of an unknown format, of one that needs the whole file, or damaged; or the pipe
    /// cannot be read.
    pub fn open(name: &Path, pipe: Box<dyn Read + Send>, fps: Option<f64>) -> Result<Self, Error> {
        Self::begin(name, pipe, fps).map_err(|fault| fault.of(name))
    }

    fn begin(name: &Path, pipe: Box<dyn Read + Send>, fps: Option<f64>) -> Result<Self, Fault> {
        let mut demuxer = Self {
            name: name.to_owned(),
            reader: reader(pipe, fps)?,
            waiting: VecDeque::new(),
            tracks: Vec::new(),
            indices: Vec::new(),
            clocks: Vec::new(),
            zero_ns: 0,
            has_ended: false,
            failure: None,
            jumps: Warnings::default(),
        };
        while !demuxer.has_ended && !demuxer.is_settled() {
            demuxer.read();
        }
        if let Some(fault) = demuxer.failure.take_if(|_| demuxer.waiting.is_empty()) {
            return Err(fault);
        }
        demuxer.settle()?;
        Ok(demuxer)
    }

    /// Returns the tracks, video first.
    pub fn tracks(&self) -> &[Track] {
        &self.tracks
    }

    /// Takes the warnings since the last call, which are meant for the user.
    pub fn take_warnings(&mut self) -> Vec<Warning> {
        let mut warnings = self.reader.take_warnings();
        warnings.append(&mut self.jumps);
        warnings.of(&self.name).collect()
    }

    /// Waits for the next frame; `None` at the end of the pipe.
    ///
    /// Frames come in the order of the pipe. A `decode_time` never falls within a track, and says
    /// when a frame is to be sent at the latest.
    ///
    /// # Errors
    /// The bytes are damaged beyond what can be skipped, or the pipe cannot be read. The demuxer has
    /// then ended.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, Error> {
        loop {
            if let Some(unit) = self.waiting.pop_front() {
                match self.indices.get(unit.track).copied().flatten() {
                    Some(index) => return Ok(Some(self.frame(index, unit))),
                    None => continue,
                }
            }
            if let Some(fault) = self.failure.take() {
                return Err(fault.of(&self.name));
            }
            if self.has_ended {
                return Ok(None);
            }
            self.read();
        }
    }

    /// Reads the next units, or notes the end.
    fn read(&mut self) {
        match self.reader.read(&mut self.waiting) {
            Ok(more) => self.has_ended = !more,
            Err(fault) => {
                self.has_ended = true;
                self.failure = Some(fault);
            }
        }
    }

    /// Returns the bytes of the pipe behind the end, if another file follows the first one there:
    /// two writers that took turns, or two files that one writer joined.
    pub fn into_rest(self) -> Option<Box<dyn Read + Send>> {
        self.has_ended.then(|| self.reader.into_rest()).flatten()
    }

    /// Returns whether every track has had a unit, or none is waited for any longer.
    fn is_settled(&mut self) -> bool {
        let (Some(first), Some(last)) = (self.waiting.front(), self.waiting.back()) else {
            return false;
        };
        let bytes: usize = self.waiting.iter().map(|unit| unit.data.len()).sum();
        if last.start_ns - first.start_ns > SETTLE_NS || bytes > SETTLE_BYTES_MAX {
            return true;
        }
        let tracks = self.reader.tracks().len();
        let has = |track| self.waiting.iter().any(|unit| unit.track == track);
        self.reader.has_all_tracks() && (0..tracks).all(has)
    }

    /// Settles the tracks: those that have a unit.
    fn settle(&mut self) -> Result<(), Fault> {
        let tracks = self.reader.tracks();
        let has = |place: &usize| self.waiting.iter().any(|unit| unit.track == *place);
        let mut kept: Vec<usize> = (0..tracks.len()).filter(has).collect();
        kept.sort_by_key(|place| match tracks[*place].kind() {
            Kind::Video => 0,
            Kind::Audio => 1,
            Kind::Text => 2,
        });
        if kept.is_empty() {
            let what = "the pipe ended before its first frame".to_owned();
            return Err(Fault::whole(Reason::NothingToPlay(what)));
        }
        self.indices = vec![None; tracks.len()];
        for (index, place) in kept.iter().enumerate() {
            self.indices[*place] = Some(TrackIndex(index));
        }
        self.clocks = vec![TrackClock::default(); kept.len()];
        self.tracks = kept.iter().map(|place| tracks[*place].clone()).collect();
        let starts = self.waiting.iter().map(|unit| unit.start_ns);
        self.zero_ns = starts.min().unwrap_or(0);
        Ok(())
    }

    fn frame(&mut self, track: TrackIndex, unit: PipeUnit) -> Frame {
        let is_video = self.tracks[track].kind() == Kind::Video;
        let clock = self.clocks[track.get()];
        let expected = clock.start_ns;
        let mut start_ns = unit.start_ns.saturating_sub(self.zero_ns);
        if clock.highest_ns.is_some() && start_ns.abs_diff(expected) > JUMP_NS.unsigned_abs() {
            // The writer's clock began anew, as where two recordings follow each other.
            let ends = self
                .clocks
                .iter()
                .filter_map(|clock| clock.highest_ns)
                .max();
            let next = ends.unwrap_or(expected).saturating_add(FRAME_NS);
            self.zero_ns = unit.start_ns.saturating_sub(next);
            start_ns = next;
            self.jumps.add(None, WarningReason::TimeJump);
        }
        let clock = &mut self.clocks[track.get()];
        let stated = unit
            .decode_ns
            .map(|decode| decode.saturating_sub(self.zero_ns));
        let decode_ns = stated.unwrap_or(match clock.highest_ns {
            // A frame ahead of its turn is sent when the frame before it in presentation is, and those
            // that belong between them at once: which of these is the next is known later.
            Some(highest) if is_video && start_ns > highest => highest,
            Some(_) if is_video => clock.decode_ns,
            _ => start_ns,
        });
        let step = start_ns.saturating_sub(clock.start_ns);
        let known = unit.duration_ns.filter(|ns| *ns > 0);
        let duration_ns = known.unwrap_or(if step > 0 { step } else { FRAME_NS });
        clock.decode_ns = match clock.highest_ns {
            Some(_) => decode_ns.min(start_ns).max(clock.decode_ns),
            None => decode_ns.min(start_ns),
        };
        clock.start_ns = start_ns;
        clock.highest_ns = Some(clock.highest_ns.map_or(start_ns, |it| it.max(start_ns)));
        Frame {
            track,
            time: MediaTime::from_nanos(start_ns),
            decode_time: MediaTime::from_nanos(clock.decode_ns),
            duration: Duration::from_nanos(duration_ns.unsigned_abs().min(FRAME_NS_MAX)),
            keyframe: unit.keyframe,
            data: unit.data,
        }
    }
}

/// Longest duration of a frame in ns that is told to anybody.
const FRAME_NS_MAX: u64 = 10_000_000_000;

/// Looks at the first bytes of a pipe, and returns the reader of their format.
fn reader(mut pipe: Box<dyn Read + Send>, fps: Option<f64>) -> Result<Box<dyn PipeReader>, Fault> {
    let rate = match fps {
        Some(fps) => {
            Some(FrameRate::from_decimal(fps).ok_or_else(|| Fault::whole(Reason::FrameRate(fps)))?)
        }
        None => None,
    };
    let mut head = Vec::new();
    let mut found = None;
    for wanted in SNIFFED_BYTES {
        let room = wanted.saturating_sub(head.len()) as u64;
        let read = pipe.by_ref().take(room).read_to_end(&mut head);
        read.map_err(|error| Fault::at(0, Reason::Read(error)))?;
        found = sniff::looks_like(&head);
        if found.is_some() || head.len() < wanted {
            break;
        }
    }
    if head.is_empty() {
        return Err(Fault::at(0, Reason::Empty));
    }
    let pipe: Box<dyn Read + Send> = Box::new(Cursor::new(head).chain(pipe));
    let window = |pipe| Window::of_pipe(pipe);
    Ok(match found {
        Some(sniff::MATROSKA) => {
            let reading = matroska::Reading::new(window(pipe));
            Box::new(GrowingReader::new(reading))
        }
        Some(sniff::FLV) => Box::new(GrowingReader::new(flv::Reading::new(window(pipe)))),
        Some(sniff::TRANSPORT_STREAM) => Box::new(TransportPipe::new(window(pipe))),
        Some(sniff::IVF) => Box::new(GrowingReader::new(ivf::Reading::new(window(pipe)))),
        Some(sniff::OGG) => Box::new(ogg::OggPipe::new(pipe)),
        Some(sniff::H264 | sniff::H265) => Box::new(ElementaryReader::new(pipe, rate)),
        Some(sniff::AAC) => Box::new(AudioReader::new(&Adts, window(pipe))),
        Some(sniff::MPEG_AUDIO) => Box::new(AudioReader::new(&MpegAudio, window(pipe))),
        Some(sniff::AC3) => Box::new(AudioReader::new(&Ac3, window(pipe))),
        Some(found) => {
            let why = match found {
                sniff::MP4 => {
                    ": the part that says where its frames are (moov) may come last, so it is \
                     read from files only"
                }
                _ => "",
            };
            return Err(Fault::at(0, Reason::NotFromPipe { found, why }));
        }
        None => return Err(Fault::at(0, Reason::UnknownPipe)),
    })
}

#[cfg(test)]
mod tests;
