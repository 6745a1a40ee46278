//! Opus frames of 20 ms.

use std::time::Duration;

use glassline_media::{Bitrate, MediaTime};
use opusic_c::{Application, Channels, SampleRate};

use crate::{FRAME_SAMPLES, RATE};

/// Longest Opus frame, in bytes (RFC 6716 §3.4, R2), with its TOC byte.
const FRAME_BYTES_MAX: usize = 1_276;

/// Settings of the Opus encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bitrate of each channel, 6 to 255 kbit/s; values outside are clamped.
    pub bitrate: Bitrate,
    /// Complexity, 0 to 10: higher values give better quality for more processor time.
    pub complexity: u8,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            bitrate: Bitrate::from_bps(48_000),
            // From 5 on, the frames of music hardly get better, and take twice the time at 10.
            complexity: 5,
        }
    }
}

/// One Opus frame of 20 ms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpusFrame {
    /// Media time of the first sample that a decoder makes of the frame.
    pub time: MediaTime,
    /// The frame: an RTP payload (RFC 7587 §4.2).
    pub data: Vec<u8>,
}

/// Encodes samples at [`RATE`].
#[derive(derive_more::Debug)]
#[debug(
    "Encoder {{ look_ahead: {look_ahead:?}, samples: {:?}, .. }}",
    FRAME_SAMPLES
)]
pub(crate) struct Encoder {
    inner: opusic_c::Encoder,
    /// Delay of decoded audio behind the samples, encoder and decoder together.
    look_ahead: Duration,
}

impl Encoder {
    /// Creates an encoder of one or two channels.
    ///
    /// # Errors
    /// Returns the reason of libopus.
    pub(crate) fn new(channels: usize, settings: Settings) -> Result<Self, String> {
        let reason = |code: opusic_c::ErrorCode| code.message().to_owned();
        let layout = match channels {
            1 => Channels::Mono,
            _ => Channels::Stereo,
        };
        // Only CELT is used: 2.5 ms of look-ahead, and half the time of a hybrid frame.
        let mut inner = opusic_c::Encoder::new(layout, SampleRate::Hz48000, Application::LowDelay)
            .map_err(reason)?;
        let bps = settings.bitrate.bps().clamp(6_000, 255_000) as u32 * channels as u32;
        inner
            .set_complexity(settings.complexity.min(10))
            .map_err(reason)?;
        inner
            .set_bitrate(opusic_c::Bitrate::Value(bps))
            .map_err(reason)?;
        let samples = inner.get_look_ahead().map_err(reason)?;
        Ok(Self {
            inner,
            look_ahead: Duration::from_secs_f64(f64::from(samples) / f64::from(RATE)),
        })
    }

    /// Encodes [`FRAME_SAMPLES`] interleaved samples of each channel, the first of them at `time`.
    ///
    /// # Errors
    /// Returns the reason of libopus.
    pub(crate) fn encode(&mut self, samples: &[f32], time: MediaTime) -> Result<OpusFrame, String> {
        let mut data = Vec::with_capacity(FRAME_BYTES_MAX);
        let encoded = self.inner.encode_float_to_vec(samples, &mut data);
        encoded.map_err(|code| code.message().to_owned())?;
        Ok(OpusFrame {
            time: time - self.look_ahead,
            data,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_has_the_time_of_what_a_decoder_makes_of_it() {
        for channels in [1, 2] {
            let mut encoder = Encoder::new(channels, Settings::default()).expect("an encoder");
            let samples = vec![0.0; FRAME_SAMPLES * channels];
            let time = MediaTime::from_nanos(100_000_000);
            let frame = encoder.encode(&samples, time).expect("a frame");
            assert_eq!(frame.time.nanos(), 97_500_000, "2.5 ms of look-ahead");
            assert!(!frame.data.is_empty());
            assert_eq!(frame.data[0] >> 2 & 1, channels as u8 - 1, "stereo or not");
            assert!(encoder.encode(&samples[1..], time).is_err());
        }
    }
}
