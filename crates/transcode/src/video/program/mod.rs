//! Video that FFmpeg decodes, in a process of its own: bytes for its standard input, pictures from its
//! standard output.
//!
//! ```text
//! coded frame, media time ─► nut::Writer ─► (the caller's process) ─► nut::Reader ─► Pictures ─► H.264
//!                    └────────── ticks ─────────────────────────────────► media time
//! ```
//!
//! FFmpeg decodes alone. The encoder is the one of H.264 with B-frames, which makes keyframes on request;
//! a process has no way to be asked for one. The decoders of H.265 in Rust are too young to read what
//! strangers publish.
//!
//! A picture has the ticks of its coded frame, whatever the program drops, doubles or invents before:
//! pictures with other ticks are left out.

use std::collections::VecDeque;

use glassline_media::{Bitrate, MediaTime};

use super::frame_encoder::{FrameEncoder, Shown};
use super::nut::{self, Broken, Frame, Reader, Writer};
use super::raw_frame::RawFrame;
use super::trouble::Failures;
use super::{AccessUnit, PIXELS_MAX, RungTarget, VideoError, VideoFrame, VideoSource};
use crate::FrameSize;
use crate::transcoder::Counts;

/// Most frames that wait for their pictures: a second of a fast camera, and what codecs reorder.
const PENDING_MAX: usize = 128;

/// Media time by which a picture may be older than the newest frame that the program has. Older ones are
/// not encoded: what lies in the pipes of a program that falls behind must not add to the delay.
const LATE_MAX_NS: i64 = 1_000_000_000;

/// Ticks of the first frame. Those that are shown before it have fewer.
const FIRST: i64 = 10 * nut::TICKS as i64;

/// Nanoseconds of a tick.
const TICK: i64 = 1_000_000_000 / nut::TICKS as i64;

/// Most bytes of a picture.
const RAW_BYTES_MAX: usize = PIXELS_MAX * 3 / 2 + 2 * 8_192;

/// Arguments of FFmpeg before the decoder's name. Nothing is looked at ahead of the frame at hand, and
/// one thread decodes, since each further one would hold back a frame.
const INPUT: [&str; 19] = [
    "-nostdin",
    "-hide_banner",
    "-loglevel",
    "error",
    "-protocol_whitelist",
    "pipe",
    "-threads",
    "1",
    "-probesize",
    "32",
    "-analyzeduration",
    "1",
    // A parser would hold back a frame, too.
    "-fflags",
    "+noparse+nofillin",
    "-copyts",
    "-f",
    "nut",
    "-flags",
    "+output_corrupt",
];

/// Arguments of FFmpeg behind the decoder's name.
const OUTPUT: [&str; 18] = [
    "-i",
    "pipe:0",
    "-map",
    "0:v:0",
    "-fps_mode",
    "passthrough",
    "-enc_time_base",
    "1:10000",
    "-c:v",
    "rawvideo",
    "-pix_fmt",
    "yuv420p",
    "-flush_packets",
    "1",
    // An index would grow for as long as the program runs.
    "-write_index",
    "0",
    "-f",
    "nut",
];

/// Transcodes one track of video whose decoder is a process of FFmpeg.
#[derive(derive_more::Debug)]
#[debug("ProgramTranscoder {{ source: {source:?}, counts: {counts:?}, .. }}")]
pub struct ProgramTranscoder {
    source: VideoSource,
    writer: Option<Writer>,
    reader: Reader,
    encoder: FrameEncoder,
    /// The frames that the program has, in the order of decoding.
    pending: VecDeque<Pending>,
    /// Time of the first frame.
    first: Option<MediaTime>,
    /// Whether frames are left out until the next keyframe, because one before was.
    is_broken: bool,
    counts: Counts,
    /// Pictures that the program showed, whether or not they belong to a frame.
    frames_seen: u64,
    failures: Failures,
}

/// A frame that the program has.
#[derive(Clone, Copy, Debug)]
struct Pending {
    ticks: u64,
    time: MediaTime,
    encodes: bool,
}

impl ProgramTranscoder {
    /// Creates a transcoder of `source`, which has to [need a program](VideoSource::needs_program).
    /// `bitrate`: that of the coded video, 0 if it is not known.
    pub fn new(source: VideoSource, bitrate: Bitrate) -> Self {
        Self::with(source, FrameEncoder::new(source.codec(), bitrate))
    }

    /// Creates a transcoder of `source` into `rungs`, the largest first, each of which is encoded while it
    /// is [active](Self::set_active).
    pub fn of_ladder(source: VideoSource, rungs: &[RungTarget]) -> Self {
        Self::with(source, FrameEncoder::of_rungs(rungs))
    }

    fn with(source: VideoSource, encoder: FrameEncoder) -> Self {
        Self {
            source,
            writer: None,
            reader: Reader::new(RAW_BYTES_MAX),
            encoder,
            pending: VecDeque::new(),
            first: None,
            is_broken: true,
            counts: Counts::default(),
            frames_seen: 0,
            failures: Failures::default(),
        }
    }

    /// Returns the arguments with which FFmpeg is to be started.
    pub fn arguments(source: VideoSource) -> Vec<&'static str> {
        let decoder = source.program_names().map_or("", |(_, decoder)| decoder);
        let input = INPUT.into_iter().chain(["-c:v", decoder]);
        input.chain(OUTPUT).chain(["pipe:1"]).collect()
    }

    /// Begins anew with a program that has just been started, at the next keyframe.
    pub fn restart(&mut self) {
        self.writer = None;
        self.reader = Reader::new(RAW_BYTES_MAX);
        self.pending.clear();
        self.is_broken = true;
    }

    /// Takes one access unit in the order of decoding, and appends what the program is to read to
    /// `input`. With `encodes` unset, its picture is decoded only.
    pub fn push(&mut self, unit: AccessUnit<'_>, encodes: bool, input: &mut Vec<u8>) {
        self.counts.frames_in += 1;
        let Some(ticks) = self
            .ticks_of(unit.time)
            .filter(|_| unit.keyframe || !self.is_broken)
        else {
            self.counts.undecodable += 1;
            return;
        };
        let Some((name, _)) = self.source.program_names() else {
            return;
        };
        self.is_broken = false;
        if self.pending.len() == PENDING_MAX {
            self.pending.pop_front();
        }
        self.pending.push_back(Pending {
            ticks,
            time: unit.time,
            encodes,
        });
        let writer = self.writer.get_or_insert(Writer::new(nut::Codec(name)));
        writer.frame(ticks, unit.keyframe, unit.data, input);
    }

    /// Returns ticks for a time that no pending frame has; `None` if the time is too early.
    fn ticks_of(&mut self, time: MediaTime) -> Option<u64> {
        let first = *self.first.get_or_insert(time);
        let since = time.nanos().checked_sub(first.nanos())?.div_euclid(TICK);
        let mut ticks = u64::try_from(since.checked_add(FIRST)?).ok()?;
        while self.pending.iter().any(|it| it.ticks == ticks) {
            ticks += 1;
        }
        Some(ticks)
    }

    /// Takes what the program wrote, and appends the frames that are complete to `frames`. With
    /// `encodes` unset, there is no time to encode.
    ///
    /// # Errors
    /// Returns [`VideoError`] if the output makes no sense, after which the program is of no use, or if
    /// a picture is too large or not encoded.
    pub fn take(
        &mut self,
        output: &[u8],
        encodes: bool,
        frames: &mut Vec<VideoFrame>,
    ) -> Result<(), VideoError> {
        self.reader.push(output);
        let taken = loop {
            let frame = match self.reader.next() {
                Ok(Some(frame)) => frame,
                Ok(None) => break Ok(()),
                Err(Broken(reason)) => {
                    break Err(match self.reader.size() {
                        Some((width, height)) if width.saturating_mul(height) > PIXELS_MAX => {
                            VideoError::Size { width, height }
                        }
                        _ => VideoError::Program(reason),
                    });
                }
            };
            let Some(decoded) = planes_of(&frame) else {
                break Err(VideoError::Program(
                    "a picture has another length than its size",
                ));
            };
            self.frames_seen += 1;
            let of_frame = self.pending.iter().find(|it| it.ticks == frame.ticks);
            let Some(Pending {
                time,
                encodes: is_due,
                ..
            }) = of_frame.copied()
            else {
                self.counts.steps += 1;
                self.failures.note(&VideoError::Order);
                continue;
            };
            // Pictures come in the order of display: those before were dropped.
            self.pending.retain(|it| it.time > time);
            let later = self.pending.iter().map(|it| it.time);
            let newest = later.clone().max().unwrap_or(time);
            let is_late = newest.nanos().saturating_sub(time.nanos()) > LATE_MAX_NS;
            let shown = Shown {
                time,
                next: later.min(),
                encodes: encodes && is_due && !is_late,
            };
            let (encoder, counts) = (&mut self.encoder, &mut self.counts);
            match encoder.encode(&decoded, shown, counts, frames) {
                Ok(()) => self.failures.note_success(),
                Err(error) => break Err(error),
            }
        };
        if let Err(error) = &taken {
            self.counts.undecodable += 1;
            self.failures.note(error);
        }
        taken
    }

    /// Notes that a coded frame was left out: those after it are, too, up to the next keyframe.
    pub const fn leave_out(&mut self) {
        self.is_broken = true;
    }

    /// Returns the video that is decoded.
    pub const fn source(&self) -> VideoSource {
        self.source
    }

    /// Makes the next frame of output `place` a keyframe; of a rung, which has two keyframes a second at
    /// most, one of the next.
    pub fn request_keyframe(&mut self, place: usize) {
        self.encoder.request_keyframe(place);
    }

    /// Sets whether rung `place` is encoded. A rung begins with a keyframe.
    pub fn set_active(&mut self, place: usize, is_active: bool) {
        self.encoder.set_active(place, is_active);
    }

    /// Returns the counts since the transcoder was created. `steps` are pictures that were left out
    /// because they came out of order, or belong to no frame.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the size of the pictures; `None` before the first.
    pub fn size(&self) -> Option<FrameSize> {
        self.encoder.size()
    }

    /// Returns what is wrong with a source of which more than a third fails.
    pub fn trouble(&self) -> Option<&VideoError> {
        self.failures.trouble()
    }

    /// Returns how many pictures the program has shown.
    pub const fn frames_seen(&self) -> u64 {
        self.frames_seen
    }
}

/// Returns the planes of a frame, without an odd column and row; `None` if the frame has another length
/// than its size.
fn planes_of<'a>(frame: &Frame<'a>) -> Option<RawFrame<'a>> {
    let (width, height) = (frame.width, frame.height);
    let (columns, rows) = (width.div_ceil(2), height.div_ceil(2));
    let luminance = width.checked_mul(height)?;
    let chrominance = columns.checked_mul(rows)?;
    let is_whole = frame.data.len() == luminance.checked_add(chrominance.checked_mul(2)?)?;
    if !is_whole || width < 2 || height < 2 {
        return None;
    }
    let (y, rest) = frame.data.split_at(luminance);
    let (u, v) = rest.split_at(chrominance);
    Some(RawFrame {
        planes: [y, u, v],
        strides: [width, columns],
        size: FrameSize::new(width, height).even(),
    })
}

#[cfg(test)]
mod tests;
