//! Encodes decoded pictures, which come in the order of display, as H.264.

use std::time::Duration;

use glassline_media::{Bitrate, Codec, MediaTime};
use openh264::formats::YUVSource;

use super::encoder::Encoder;
use super::scale::{ScaledFrame, Scaler};
use super::{PIXELS_MAX, RungTarget, VideoError, VideoFrame};
use crate::FrameSize;
use crate::transcoder::Counts;

/// Bitrates of the encoder of whole pictures.
const BITRATE_MIN: u64 = 300_000;
const BITRATE_MAX: u64 = 12_000_000;
/// Bitrate where the source's is not known: 720p of a camera.
const BITRATE_USUAL: u64 = 2_500_000;

/// Time between two frames, unless their times say otherwise.
pub(super) const FRAME: Duration = Duration::from_millis(33);

/// Factor between two frame rates from which on an encoder is made anew for the right one.
const RATE_TOLERANCE: f64 = 1.25;

/// Shortest time between two keyframes of a rung, whoever requests them.
const KEYFRAMES_APART: Duration = Duration::from_millis(500);

/// Encodes the pictures of one track, once for each output.
pub(super) struct FrameEncoder {
    /// The outputs, the largest first.
    outputs: Vec<Output>,
    /// Time of the latest picture.
    shown: Option<MediaTime>,
    /// Size of the latest picture that was encoded.
    size: Option<FrameSize>,
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

/// One encoding of the pictures.
struct Output {
    /// Size of the encoded pictures; `None` for that of the source.
    size: Option<FrameSize>,
    bitrate: Bitrate,
    /// Whether pictures are encoded.
    is_active: bool,
    scaler: Option<Scaler>,
    encoder: Option<Encoder>,
    is_keyframe_wanted: bool,
    keyframe: Option<MediaTime>,
    /// The frame rate that the encoder was made for before two pictures had come. The frames that
    /// the decoder has by then lie as far ahead as the source reorders.
    guessed_rate: Option<f64>,
}

/// The rate of pictures, as far as it is known when one is encoded.
#[derive(Clone, Copy, Debug)]
struct Rates {
    /// Rate by the time since the picture before; `None` for the first one.
    measured: Option<f64>,
    /// Rate by the frames ahead.
    ahead: f64,
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
        let bitrate = Bitrate::from_bps(bps.clamp(BITRATE_MIN, BITRATE_MAX));
        Self::with(vec![Output::new(None, bitrate, true)])
    }

    /// Creates an encoder of smaller pictures, the largest first. None of them is encoded before it is
    /// [active](Self::set_active).
    pub(super) fn of_rungs(rungs: &[RungTarget]) -> Self {
        let outputs = rungs
            .iter()
            .map(|it| Output::new(Some(it.size.even()), it.bitrate, false));
        Self::with(outputs.collect())
    }

    const fn with(outputs: Vec<Output>) -> Self {
        Self {
            outputs,
            shown: None,
            size: None,
        }
    }

    /// Sets whether output `place` is encoded.
    pub(super) fn set_active(&mut self, place: usize, is_active: bool) {
        let Some(output) = self.outputs.get_mut(place) else {
            return;
        };
        if std::mem::replace(&mut output.is_active, is_active) != is_active {
            // What comes next follows nothing.
            (output.encoder, output.scaler, output.keyframe) = (None, None, None);
        }
    }

    /// Encodes one picture, unless its time has passed, and appends the frames to `frames`.
    ///
    /// # Errors
    /// Returns [`VideoError`] if the picture is too large, or an encoder fails.
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
        if !shown.encodes {
            return Ok(());
        }
        let (width, height) = decoded.dimensions();
        let size = FrameSize::new(width, height);
        if size.pixels() > PIXELS_MAX {
            return Err(VideoError::Size { width, height });
        }
        counts.changes += u64::from(self.size != Some(size));
        self.size = Some(size);
        let ahead = shown.next.map(|next| next.saturating_since(time));
        let rates = Rates {
            measured: before.map(|before| rate_of(time.saturating_since(before))),
            ahead: rate_of(ahead.unwrap_or(FRAME)),
        };
        for place in 0..self.outputs.len() {
            let (larger, rest) = self.outputs.split_at_mut(place);
            let Some(output) = rest.first_mut().filter(|it| it.is_active) else {
                continue;
            };
            let larger = larger.iter().rev().find(|it| it.is_active);
            let larger = larger.and_then(|it| it.scaler.as_ref());
            let coded = match (output.size, larger) {
                (None, _) => output.encode(decoded, time, rates),
                // A rung is no larger than the source.
                (Some(to), _) if to.width > width || to.height > height => continue,
                (Some(to), Some(larger)) => {
                    output.scale(larger.frame(), to);
                    output.encode_scaled(time, rates)
                }
                (Some(to), None) => {
                    output.scale(decoded, to);
                    output.encode_scaled(time, rates)
                }
            };
            if let Some((data, keyframe)) = coded? {
                counts.frames_out += 1;
                frames.push(VideoFrame {
                    output: place,
                    data,
                    time,
                    keyframe,
                });
            }
        }
        Ok(())
    }

    /// Makes the next frame of output `place` a keyframe.
    pub(super) fn request_keyframe(&mut self, place: usize) {
        if let Some(output) = self.outputs.get_mut(place) {
            output.is_keyframe_wanted = true;
        }
    }

    #[cfg(test)]
    pub(super) fn bitrate(&self) -> Bitrate {
        self.outputs[0].bitrate
    }

    /// Returns the size of the decoded pictures; `None` before the first is encoded.
    pub(super) const fn size(&self) -> Option<FrameSize> {
        self.size
    }
}

impl Output {
    const fn new(size: Option<FrameSize>, bitrate: Bitrate, is_active: bool) -> Self {
        Self {
            size,
            bitrate,
            is_active,
            scaler: None,
            encoder: None,
            is_keyframe_wanted: false,
            keyframe: None,
            guessed_rate: None,
        }
    }

    /// Makes `source` a picture of size `to`.
    fn scale(&mut self, source: &impl YUVSource, to: FrameSize) {
        let (width, height) = source.dimensions();
        let from = FrameSize::new(width, height).even();
        let scaler = match self.scaler.take() {
            Some(scaler) if scaler.takes(from) => scaler,
            _ => Scaler::new(from, to),
        };
        self.scaler.insert(scaler).scale(source);
    }

    /// Encodes the picture that was scaled last.
    fn encode_scaled(
        &mut self,
        time: MediaTime,
        rates: Rates,
    ) -> Result<Option<(Vec<u8>, bool)>, VideoError> {
        let Some(scaler) = self.scaler.take() else {
            return Ok(None);
        };
        let frame: &ScaledFrame = scaler.frame();
        let coded = self.encode(frame, time, rates);
        self.scaler = Some(scaler);
        coded
    }

    fn encode(
        &mut self,
        frame: &impl YUVSource,
        time: MediaTime,
        rates: Rates,
    ) -> Result<Option<(Vec<u8>, bool)>, VideoError> {
        let (width, height) = frame.dimensions();
        let size = FrameSize::new(width, height);
        let was_wrong = self
            .guessed_rate
            .zip(rates.measured)
            .is_some_and(|(guessed, rate)| {
                !(1.0 / RATE_TOLERANCE..=RATE_TOLERANCE).contains(&(rate / guessed))
            });
        let encoder = match &mut self.encoder {
            Some(encoder) if encoder.size() == size && !was_wrong => encoder,
            _ => {
                let rate = rates.measured.unwrap_or(rates.ahead);
                let encoder = Encoder::new(size, rate, self.bitrate);
                self.guessed_rate = rates.measured.is_none().then_some(rate);
                self.encoder.insert(encoder.map_err(VideoError::Encoder)?)
            }
        };
        if rates.measured.is_some() {
            self.guessed_rate = None;
        }
        let is_due = self.size.is_none()
            || self
                .keyframe
                .is_none_or(|at| time.saturating_since(at) >= KEYFRAMES_APART);
        if is_due && std::mem::take(&mut self.is_keyframe_wanted) {
            encoder.request_keyframe();
        }
        let coded = encoder.encode(frame, time).map_err(VideoError::Encoder)?;
        if coded.as_ref().is_some_and(|(_, keyframe)| *keyframe) {
            self.keyframe = Some(time);
        }
        Ok(coded)
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
