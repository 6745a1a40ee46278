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

pub(crate) mod decoder;
pub(crate) mod encoder;
mod source;

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use glassline_media::{Bitrate, Codec, MediaTime};
use glassline_rtp::payload::{Recovery, recovery};
use thiserror::Error;

use crate::FrameSize;
use crate::transcoder::Counts;
use decoder::{Decoded, Decoder};
use encoder::Encoder;
pub use source::{PIXELS_MAX, UntranscodableVideo, VideoSource};

/// Most frames that are in the decoder. H.264 reorders 16 at most (ITU-T H.264, A.3.1).
const PENDING_MAX: usize = 32;

/// Most pictures behind a recovery point that are not shown since they are not right yet. Encoders with
/// intra refresh take a second or two.
const RECOVERY_MAX: u32 = 150;

/// Failures from which the source is in trouble: each frame that fails adds two, each other one takes
/// one away.
const FAILURES: u32 = 20;

/// Most failures that are remembered, so that a source that was mended is out of trouble soon.
const FAILURES_MAX: u32 = 40;

/// Bitrates of the encoder. Without B-frames and within Baseline the same picture takes about half as
/// much again.
const BITRATE_MIN: u64 = 300_000;
const BITRATE_MAX: u64 = 12_000_000;
/// Bitrate where the source's is not known: 720p of a camera.
const BITRATE_USUAL: u64 = 2_500_000;

/// Time between two frames, unless their times say otherwise.
const FRAME: Duration = Duration::from_millis(33);

/// Factor between two frame rates from which on an encoder is made anew for the right one.
const RATE_TOLERANCE: f64 = 1.25;

/// Why a frame made no picture. Later ones may.
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
        "pictures of {width} x {height} are not transcoded, at most {PIXELS_MAX} pixels: make them \
         smaller"
    )]
    Size {
        /// Width of the refused pictures, in pixels.
        width: usize,
        /// Height of the refused pictures, in pixels.
        height: usize,
    },
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

/// A frame without reordering.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VideoFrame {
    /// Access unit of H.264 in Annex B form, with parameter sets if it is a keyframe.
    pub data: Vec<u8>,
    /// Media time at which the picture is shown.
    pub time: MediaTime,
    /// Whether a decoder can start here.
    pub keyframe: bool,
}

/// Transcodes one track of video into H.264 with IDR pictures and without B-frames.
pub struct VideoTranscoder {
    decoder: Option<Decoder>,
    encoder: Option<Encoder>,
    bitrate: Bitrate,
    /// Numbers and times of the frames that the decoder has, in the order of decoding.
    pending: VecDeque<(u64, MediaTime)>,
    next: u64,
    /// Time of the latest picture that came out.
    shown: Option<MediaTime>,
    /// Whether frames are left out until the next keyframe, because one before was.
    is_broken: bool,
    /// Pictures that come out before they are right, because decoding began at a recovery point.
    unrecovered: u32,
    is_keyframe_wanted: bool,
    /// The frame rate that the encoder was made for before two pictures had come out. The frames that
    /// the decoder has by then lie as far ahead as the source reorders.
    guessed_rate: Option<f64>,
    counts: Counts,
    failures: u32,
    failure: Option<VideoError>,
}

impl VideoTranscoder {
    /// Creates a transcoder. Decoder and encoder are made with the first keyframe. `source`: bitrate
    /// of the coded video, 0 if it is not known.
    pub fn new(source: Bitrate) -> Self {
        let bps = match source.bps() {
            0 => BITRATE_USUAL,
            bps => bps.saturating_mul(3) / 2,
        };
        Self {
            decoder: None,
            encoder: None,
            bitrate: Bitrate::from_bps(bps.clamp(BITRATE_MIN, BITRATE_MAX)),
            pending: VecDeque::new(),
            next: 0,
            shown: None,
            is_broken: true,
            unrecovered: 0,
            is_keyframe_wanted: false,
            guessed_rate: None,
            counts: Counts::default(),
            failures: 0,
            failure: None,
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
            Ok(()) => self.failures = self.failures.saturating_sub(1),
            Err(error) => {
                self.counts.undecodable += 1;
                self.failures = (self.failures + 2).min(FAILURES_MAX);
                self.failure = Some(error.clone());
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
        // Damaged streams have pictures out of order, whose time has passed.
        if self.shown.is_some_and(|shown| time <= shown) {
            self.counts.steps += 1;
            return Ok(());
        }
        let before = self.shown.replace(time);
        let measured = before.map(|before| rate_of(time.saturating_since(before)));
        let is_right = self.unrecovered == 0;
        self.unrecovered = self.unrecovered.saturating_sub(1);
        if !encodes || !is_right {
            return Ok(());
        }
        if decoded.size.pixels() > PIXELS_MAX {
            let FrameSize { width, height } = decoded.size;
            return Err(VideoError::Size { width, height });
        }
        let was_wrong = self
            .guessed_rate
            .zip(measured)
            .is_some_and(|(guessed, rate)| {
                !(1.0 / RATE_TOLERANCE..=RATE_TOLERANCE).contains(&(rate / guessed))
            });
        let encoder = match &mut self.encoder {
            Some(encoder) if encoder.size() == decoded.size && !was_wrong => encoder,
            _ => {
                self.counts.changes += u64::from(!was_wrong);
                let rate = measured.unwrap_or_else(|| self.guess_rate(time));
                let encoder = Encoder::new(decoded.size, rate, self.bitrate);
                self.guessed_rate = measured.is_none().then_some(rate);
                self.encoder.insert(encoder.map_err(VideoError::Encoder)?)
            }
        };
        if measured.is_some() {
            self.guessed_rate = None;
        }
        if std::mem::take(&mut self.is_keyframe_wanted) {
            encoder.request_keyframe();
        }
        let coded = encoder.encode(decoded, time).map_err(VideoError::Encoder)?;
        if let Some((data, keyframe)) = coded {
            self.counts.frames_out += 1;
            frames.push(VideoFrame {
                data,
                time,
                keyframe,
            });
        }
        Ok(())
    }

    /// Returns the frame rate that the times of the frames in the decoder tell, for the first picture,
    /// which is shown at `time`.
    fn guess_rate(&self, time: MediaTime) -> f64 {
        let next = self.pending.iter().map(|(_, time)| *time).min();
        rate_of(next.map_or(FRAME, |next| next.saturating_since(time)))
    }

    /// Notes that a coded frame was left out: those after it are, too, up to the next keyframe.
    pub fn leave_out(&mut self) {
        self.is_broken = true;
        self.pending.clear();
        // Its references are wrong by now.
        self.decoder = None;
    }

    /// Makes the next frame a keyframe.
    pub fn request_keyframe(&mut self) {
        self.is_keyframe_wanted = true;
    }

    /// Returns the counts since the transcoder was created. `steps` are pictures that were left out
    /// because they came out of order.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the size of the pictures; `None` before the first.
    pub fn size(&self) -> Option<FrameSize> {
        self.encoder.as_ref().map(Encoder::size)
    }

    /// Returns what is wrong with a source of which more than a third fails.
    pub fn trouble(&self) -> Option<&VideoError> {
        self.failure.as_ref().filter(|_| self.failures >= FAILURES)
    }
}

/// Returns the frames a second of pictures that are `gap` apart, 1 to 120.
fn rate_of(gap: Duration) -> f64 {
    (1.0 / gap.as_secs_f64()).clamp(1.0, 120.0)
}

impl fmt::Debug for VideoTranscoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VideoTranscoder")
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
