//! Encodes decoded pictures, which come in the order of display, as H.264.

use std::time::Duration;

use glassline_media::{Bitrate, Codec, MediaTime};
use openh264::formats::YUVSource;

use super::encoder::Encoder;
use super::{PIXELS_MAX, VideoError, VideoFrame};
use crate::FrameSize;
use crate::transcoder::Counts;

/// Bitrates of the encoder.
const BITRATE_MIN: u64 = 300_000;
const BITRATE_MAX: u64 = 12_000_000;
/// Bitrate where the source's is not known: 720p of a camera.
const BITRATE_USUAL: u64 = 2_500_000;

/// Time between two frames, unless their times say otherwise.
pub(super) const FRAME: Duration = Duration::from_millis(33);

/// Factor between two frame rates from which on an encoder is made anew for the right one.
const RATE_TOLERANCE: f64 = 1.25;

/// Encodes the pictures of one track.
pub(super) struct FrameEncoder {
    encoder: Option<Encoder>,
    pub(super) bitrate: Bitrate,
    /// Time of the latest picture.
    shown: Option<MediaTime>,
    is_keyframe_wanted: bool,
    /// The frame rate that the encoder was made for before two pictures had come. The frames that
    /// the decoder has by then lie as far ahead as the source reorders.
    guessed_rate: Option<f64>,
}

/// Facts about a picture beside its samples.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown {
    pub(super) time: MediaTime,
    /// Earliest time of the frames that the decoder has.
    pub(super) next: Option<MediaTime>,
    /// Whether there is time to encode the picture, and the picture is right.
    pub(super) encodes: bool,
}

impl FrameEncoder {
    /// Creates an encoder of pictures that come as `codec` at `source` bit/s, 0 if that is not known.
    pub(super) fn new(codec: Codec, source: Bitrate) -> Self {
        // Percent of the source's bitrate at which Baseline without B-frames has the same picture.
        let percent = match codec {
            Codec::H265 => 250,
            Codec::H264 => 150,
            Codec::Jpeg => 25,
            _ => 100,
        };
        let bps = match source.bps() {
            0 => BITRATE_USUAL,
            bps => bps.saturating_mul(percent) / 100,
        };
        Self {
            encoder: None,
            bitrate: Bitrate::from_bps(bps.clamp(BITRATE_MIN, BITRATE_MAX)),
            shown: None,
            is_keyframe_wanted: false,
            guessed_rate: None,
        }
    }

    /// Encodes one picture, unless its time has passed, and appends the frame to `frames`.
    ///
    /// # Errors
    /// Returns [`VideoError`] if the picture is too large, or the encoder fails.
    pub(super) fn encode(
        &mut self,
        decoded: &impl YUVSource,
        shown: Shown,
        counts: &mut Counts,
        frames: &mut Vec<VideoFrame>,
    ) -> Result<(), VideoError> {
        let time = shown.time;
        // Damaged streams have pictures out of order, whose time has passed.
        if self.shown.is_some_and(|before| time <= before) {
            counts.steps += 1;
            return Ok(());
        }
        let before = self.shown.replace(time);
        let measured = before.map(|before| rate_of(time.saturating_since(before)));
        if !shown.encodes {
            return Ok(());
        }
        let (width, height) = decoded.dimensions();
        let size = FrameSize::new(width, height);
        if size.pixels() > PIXELS_MAX {
            return Err(VideoError::Size { width, height });
        }
        let was_wrong = self
            .guessed_rate
            .zip(measured)
            .is_some_and(|(guessed, rate)| {
                !(1.0 / RATE_TOLERANCE..=RATE_TOLERANCE).contains(&(rate / guessed))
            });
        let encoder = match &mut self.encoder {
            Some(encoder) if encoder.size() == size && !was_wrong => encoder,
            _ => {
                counts.changes += u64::from(!was_wrong);
                let ahead = shown.next.map(|next| next.saturating_since(time));
                let rate = measured.unwrap_or_else(|| rate_of(ahead.unwrap_or(FRAME)));
                let encoder = Encoder::new(size, rate, self.bitrate);
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
            counts.frames_out += 1;
            frames.push(VideoFrame {
                data,
                time,
                keyframe,
            });
        }
        Ok(())
    }

    /// Makes the next frame a keyframe.
    pub(super) const fn request_keyframe(&mut self) {
        self.is_keyframe_wanted = true;
    }

    /// Returns the size of the pictures; `None` before the first is encoded.
    pub(super) fn size(&self) -> Option<FrameSize> {
        self.encoder.as_ref().map(Encoder::size)
    }
}

/// Returns the frames a second of pictures that are `gap` apart, 1 to 120.
fn rate_of(gap: Duration) -> f64 {
    (1.0 / gap.as_secs_f64()).clamp(1.0, 120.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_from_one_to_120_frames() {
        for (ms, rate) in [
            (0, 120.0),
            (5, 120.0),
            (10, 100.0),
            (40, 25.0),
            (500, 2.0),
            (1_000, 1.0),
            (4_000, 1.0),
        ] {
            let made = rate_of(Duration::from_millis(ms));
            assert!((made - rate).abs() < 1e-9, "{ms}: {made}");
        }
    }
}
