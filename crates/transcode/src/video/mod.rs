//! Video with B-frames, or without IDR pictures, made into H.264 with IDR pictures and without B-frames
//! on the same timeline.
//!
//! ```text
//! coded frame, media time ─► Decoder: pictures in the order of display ─► Encoder ─► coded frame
//!                               │ number of the frame                        ▲
//!                               └──────────► media time of the picture ──────┘
//! ```
//!
//! Receivers over WebRTC show frames in the order in which they arrive. A picture waits until
//! all pictures before it are there, which is what B-frames cost any player.
//!
//! They also begin with IDR pictures only. Of a source with intra refresh, the pictures behind a
//! recovery point are decoded until they are right, and encoded from then on.
//!
//! A ladder is the same with several encoders, each of which gets the picture in its size: a picture is
//! decoded once.
//!
//! Other codecs are decoded by a program, FFmpeg, which the caller starts: [`ProgramTranscoder`] makes
//! the bytes that the program reads, and takes those that the program writes.

pub(crate) mod decoder;
pub(crate) mod encoder;
mod frame_encoder;
mod nut;
mod program;
pub(crate) mod raw_frame;
mod scale;
mod source;
mod trouble;

use std::collections::VecDeque;

use glassline_media::{Bitrate, Codec, MediaTime};
use glassline_rtp::payload::{Recovery, recovery};
use thiserror::Error;

use crate::FrameSize;
use crate::transcoder::Counts;
use decoder::{Decoded, Decoder};
use frame_encoder::{FrameEncoder, Shown};
pub use program::ProgramTranscoder;
pub use source::{PIXELS_MAX, UntranscodableVideo, VideoSource};
use trouble::Failures;

/// Most frames that are in the decoder. H.264 reorders 16 at most (ITU-T H.264, A.3.1).
const PENDING_MAX: usize = 32;

/// Most pictures behind a recovery point that are not shown since they are not right yet. Encoders with
/// intra refresh take a second or two.
const RECOVERY_MAX: u32 = 150;

/// The reason why a frame made no picture. Later ones may.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum VideoError {
    /// The decoder refused the frame.
    #[error(
        "the decoder refuses a frame (OpenH264 state {state:#x}): only progressive H.264 of 8 bits \
         and 4:2:0 is decoded"
    )]
    Undecodable {
        /// The decoder's state, a sum of `DECODING_STATE` bits.
        state: i32,
    },
    /// The picture is too large.
    #[error(
        "encoder of {width} x {height} are not transcoded, at most {PIXELS_MAX} pixels: make them \
         smaller"
    )]
    Size {
        /// Width of the refused pictures, in pixels.
        width: usize,
        /// Height of the refused pictures, in pixels.
        height: usize,
    },
    /// The decoder is a program whose output makes no sense.
    #[error("the decoder is no FFmpeg that works: {0}")]
    Program(&'static str),
    /// The pictures have other times than their frames.
    #[error(
        "the encoder come in another order than their times, as of AVI with B-frames: make the file \
         anew (ffmpeg -i FILE -c:v libx264 -bf 0 FILE.mkv)"
    )]
    Order,
    /// The encoder refused a picture.
    #[error("the encoder failed: {0}")]
    Encoder(String),
}

/// A coded frame of the source.
#[derive(Clone, Copy, Debug)]
pub struct AccessUnit<'a> {
    /// Bytes in Annex B form.
    pub data: &'a [u8],
    /// Media time at which the picture is shown.
    pub time: MediaTime,
    /// Whether a decoder can start here.
    pub keyframe: bool,
}

/// A lower layer that is encoded: its size and its bitrate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RungTarget {
    /// Size of the pictures, at most that of the source in both directions.
    pub size: FrameSize,
    /// Bitrate of the encoder.
    pub bitrate: Bitrate,
}

/// A frame without reordering.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VideoFrame {
    /// Place of the rung that the frame belongs to; 0 without a ladder.
    pub output: usize,
    /// Access unit of H.264 in Annex B form, with parameter sets if it is a keyframe.
    pub data: Vec<u8>,
    /// Media time at which the picture is shown.
    pub time: MediaTime,
    /// Whether a decoder can start here.
    pub keyframe: bool,
}

/// Transcodes one track of video into H.264 with IDR pictures and without B-frames.
#[derive(derive_more::Debug)]
#[debug("VideoTranscoder {{ counts: {counts:?}, .. }}")]
pub struct VideoTranscoder {
    decoder: Option<Decoder>,
    encoder: FrameEncoder,
    /// Numbers and times of the frames that the decoder has, in the order of decoding.
    pending: VecDeque<(u64, MediaTime)>,
    next: u64,
    /// Whether frames are left out until the next keyframe, because one before was.
    is_broken: bool,
    /// Pictures that come out before they are right, because decoding began at a recovery point.
    unrecovered: u32,
    counts: Counts,
    failures: Failures,
}

impl VideoTranscoder {
    /// Creates a transcoder. Decoder and encoder are made with the first keyframe. `source`: bitrate
    /// of the coded video, 0 if it is not known.
    pub fn new(source: Bitrate) -> Self {
        Self::with(FrameEncoder::new(Codec::H264, source))
    }

    /// Creates a transcoder into `rungs`, the largest first, each of which is encoded while it is
    /// [active](Self::set_active).
    pub fn of_ladder(rungs: &[RungTarget]) -> Self {
        Self::with(FrameEncoder::of_rungs(rungs))
    }

    fn with(encoder: FrameEncoder) -> Self {
        Self {
            decoder: None,
            encoder,
            pending: VecDeque::new(),
            next: 0,
            is_broken: true,
            unrecovered: 0,
            counts: Counts::default(),
            failures: Failures::default(),
        }
    }

    /// Takes one access unit in the order of decoding, and appends the
    /// frames that are complete to `frames`. With `encodes` unset, pictures are decoded only: later
    /// frames refer to them, but there is no time to encode them.
    ///
    /// # Errors
    /// Returns why the frame made no picture. The transcoder goes on with the next keyframe.
    pub fn push(
        &mut self,
        unit: AccessUnit<'_>,
        encodes: bool,
        frames: &mut Vec<VideoFrame>,
    ) -> Result<(), VideoError> {
        self.counts.frames_in += 1;
        if self.is_broken && !unit.keyframe {
            self.counts.undecodable += 1;
            return Ok(());
        }
        let pushed = self.take(unit, encodes, frames);
        match &pushed {
            Ok(()) => self.failures.note_success(),
            Err(error) => {
                self.counts.undecodable += 1;
                self.failures.note(error);
                self.leave_out();
            }
        }
        pushed
    }

    fn take(
        &mut self,
        unit: AccessUnit<'_>,
        encodes: bool,
        frames: &mut Vec<VideoFrame>,
    ) -> Result<(), VideoError> {
        let mut decoder = match self.decoder.take() {
            Some(decoder) => decoder,
            None => Decoder::new().map_err(VideoError::Encoder)?,
        };
        if unit.keyframe {
            self.begin_at(unit.data, &mut decoder);
        }
        if self.pending.len() == PENDING_MAX {
            self.pending.pop_front();
        }
        let number = self.next;
        self.next += 1;
        self.pending.push_back((number, unit.time));
        let made = match decoder.decode(unit.data, number) {
            Ok(Some(decoded)) => self.encode(&decoded, encodes, frames),
            Ok(None) => Ok(()),
            Err(state) => Err(VideoError::Undecodable { state }),
        };
        self.decoder = Some(decoder);
        made
    }

    /// Prepares for `unit`, at which a decoder can start.
    fn begin_at(&mut self, unit: &[u8], decoder: &mut Decoder) {
        let starts = std::mem::take(&mut self.is_broken);
        match recovery(Codec::H264, unit) {
            Recovery::Keyframe => {
                decoder.conceal(false);
                self.unrecovered = 0;
            }
            Recovery::Frames(frames) if starts => {
                decoder.conceal(true);
                self.unrecovered = frames.min(RECOVERY_MAX);
            }
            Recovery::Refresh if starts => {
                decoder.conceal(true);
                self.unrecovered = RECOVERY_MAX;
            }
            // The decoder has what the unit refers to.
            Recovery::Frames(_) => {}
            // The refresh with which the decoder started is over.
            Recovery::Refresh => self.unrecovered = 0,
        }
    }

    fn encode(
        &mut self,
        decoded: &Decoded<'_>,
        encodes: bool,
        frames: &mut Vec<VideoFrame>,
    ) -> Result<(), VideoError> {
        let mut pending = self.pending.iter();
        let place = pending.position(|(number, _)| *number == decoded.number);
        let Some((_, time)) = place.and_then(|place| self.pending.remove(place)) else {
            return Ok(());
        };
        let is_right = self.unrecovered == 0;
        let shown = Shown {
            time,
            next: self.pending.iter().map(|(_, time)| *time).min(),
            encodes: encodes && is_right,
        };
        let before = self.counts.steps;
        let encoded = self
            .encoder
            .encode(&decoded.frame, shown, &mut self.counts, frames);
        if self.counts.steps == before {
            self.unrecovered = self.unrecovered.saturating_sub(1);
        }
        encoded
    }

    /// Notes that a coded frame was left out: those after it are, too, up to the next keyframe.
    pub fn leave_out(&mut self) {
        self.is_broken = true;
        self.pending.clear();
        // Its references are wrong by now.
        self.decoder = None;
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
    /// because they came out of order.
    pub fn counts(&self) -> Counts {
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
}

#[cfg(test)]
mod ladder_tests;
#[cfg(test)]
mod tests;
