use std::time::Duration;

use glassline_media::Bitrate;
use thiserror::Error;

/// What samples are: how many a second, and of how many channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Format {
    rate: u32,
    channels: usize,
}

impl Format {
    /// `rate` 8,000 to 48,000 Hz, `channels` 1 or 2; `None` beyond.
    pub const fn new(rate: u32, channels: usize) -> Option<Self> {
        if rate < 8_000 || rate > 48_000 || channels < 1 || channels > 2 {
            return None;
        }
        Some(Self { rate, channels })
    }

    /// Samples a second and channel.
    pub const fn rate(self) -> u32 {
        self.rate
    }

    /// 1 or 2; samples of channels alternate.
    pub const fn channels(self) -> usize {
        self.channels
    }

    /// Frames (a sample of each channel) in `ms` milliseconds, at least one.
    pub(crate) fn frames(self, ms: f64) -> usize {
        (f64::from(self.rate) * ms / 1e3).round().max(1.0) as usize
    }

    /// Milliseconds that `frames` take.
    pub(crate) fn ms(self, frames: usize) -> f64 {
        frames as f64 * 1e3 / f64::from(self.rate)
    }
}

/// A payload that the codec cannot make audio of. The stream goes on: it is
/// concealed like a lost one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the codec makes no audio of this payload")]
pub struct Undecodable;

/// A codec's receiving end, as the jitter buffer needs it.
///
/// All of them append interleaved samples, −1.0 to 1.0, to `out`. Only
/// [`Self::format`], [`Self::frames`] and [`Self::decode`] are needed; the rest is
/// what a codec may know better than the buffer.
pub trait Decoder {
    /// What [`Self::decode`] makes. May change with [`Self::reset`] only.
    fn format(&self) -> Format;

    /// Frames (samples a channel) that `payload` holds; `None` if it is not the
    /// codec's. At most [`FRAMES_MS_MAX`] are believed.
    fn frames(&self, payload: &[u8]) -> Option<usize>;

    /// Makes audio of `payload`.
    ///
    /// # Errors
    /// If it is not the codec's.
    fn decode(&mut self, payload: &[u8], out: &mut Vec<f32>) -> Result<(), Undecodable>;

    /// Recovers the `frames` right before `following` from redundancy in it (Opus:
    /// LBRR, RFC 6716 §2.1.7). False, and nothing appended, if there is none.
    fn recover(&mut self, following: &[u8], frames: usize, out: &mut Vec<f32>) -> bool {
        let _ = (following, frames, out);
        false
    }

    /// Goes on for `frames` after what was lost. False, and nothing appended, if the
    /// codec leaves that to the buffer.
    fn conceal(&mut self, frames: usize, out: &mut Vec<f32>) -> bool {
        let _ = (frames, out);
        false
    }

    /// The background for `frames` while the sender sends nothing. False, and nothing
    /// appended, if the codec has none: then the last audio fades.
    fn comfort(&mut self, frames: usize, out: &mut Vec<f32>) -> bool {
        let _ = (frames, out);
        false
    }

    /// Whether the sender says with `payload` that it falls silent, so that what does
    /// not come after it is not lost (Opus DTX: at most two bytes).
    fn begins_silence(&self, payload: &[u8]) -> bool {
        let _ = payload;
        false
    }

    /// Whether what it makes of a payload depends on no other: then a loss spoils nothing
    /// that comes after it.
    fn is_stateless(&self) -> bool {
        false
    }

    /// Forgets the stream: what comes next has nothing to do with it.
    fn reset(&mut self) {}
}

/// Audio that the codec makes no payload of. It is a frame too long or too short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the codec makes no payload of {samples} samples")]
pub struct Unencodable {
    /// How many it was given.
    pub samples: usize,
}

/// A codec's sending end, as the speaker needs it.
pub trait Encoder {
    /// Samples of all channels that a payload holds: 10 ms or a multiple.
    fn frame_samples(&self) -> usize;

    /// Makes a payload of [`Self::frame_samples`] interleaved samples, −1.0 to 1.0, in
    /// `payload`, which is emptied first.
    ///
    /// # Errors
    /// If it is another number of samples.
    fn encode(&mut self, samples: &[f32], payload: &mut Vec<u8>) -> Result<(), Unencodable>;

    /// By how much decoded audio is behind what was encoded, both ends together.
    fn look_ahead(&self) -> Duration {
        Duration::ZERO
    }

    /// Whether `payload` only says that nobody speaks: after the first, it need not be
    /// sent.
    fn is_silence(&self, payload: &[u8]) -> bool {
        let _ = payload;
        false
    }

    /// From now on so many bits a second, as near as the codec can.
    fn set_bitrate(&mut self, bitrate: Bitrate) {
        let _ = bitrate;
    }

    /// Of packets, how many are expected to be lost from now on, 0 to 1.
    fn set_expected_loss(&mut self, ratio: f64) {
        let _ = ratio;
    }
}

/// The longest packet, in milliseconds (Opus: 120).
pub(crate) const FRAMES_MS_MAX: f64 = 200.0;

/// Linear samples of 16 bits in network order (RFC 3551 §4.5.11): no compression, no
/// state. Serves tests and measurements, and lines with bandwidth to spare.
#[derive(Clone, Copy, Debug)]
pub struct L16 {
    format: Format,
}

impl L16 {
    /// Samples of `format`.
    pub const fn new(format: Format) -> Self {
        Self { format }
    }

    /// `samples` as a payload.
    pub fn encode(samples: &[f32]) -> Vec<u8> {
        let bytes = samples.iter().flat_map(|sample| {
            let value = (sample * 32_767.0).round().clamp(-32_768.0, 32_767.0);
            (value as i16).to_be_bytes()
        });
        bytes.collect()
    }
}

/// In payloads of 10 ms.
impl Encoder for L16 {
    fn frame_samples(&self) -> usize {
        self.format.frames(10.0) * self.format.channels
    }

    fn encode(&mut self, samples: &[f32], payload: &mut Vec<u8>) -> Result<(), Unencodable> {
        let is_frame = samples.len() == self.frame_samples();
        payload.clear();
        payload.extend(Self::encode(samples));
        is_frame.then_some(()).ok_or(Unencodable {
            samples: samples.len(),
        })
    }
}

impl Decoder for L16 {
    fn format(&self) -> Format {
        self.format
    }

    fn frames(&self, payload: &[u8]) -> Option<usize> {
        let bytes = 2 * self.format.channels;
        (!payload.is_empty() && payload.len().is_multiple_of(bytes))
            .then_some(payload.len() / bytes)
    }

    fn decode(&mut self, payload: &[u8], out: &mut Vec<f32>) -> Result<(), Undecodable> {
        self.frames(payload).ok_or(Undecodable)?;
        let samples = payload.as_chunks::<2>().0.iter();
        out.extend(samples.map(|bytes| f32::from(i16::from_be_bytes(*bytes)) / 32_768.0));
        Ok(())
    }

    fn is_stateless(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_those_of_voice() {
        assert!(Format::new(8_000, 1).is_some() && Format::new(48_000, 2).is_some());
        for (rate, channels) in [(7_999, 1), (96_000, 1), (48_000, 0), (48_000, 3)] {
            assert_eq!(Format::new(rate, channels), None);
        }
        let format = Format::new(48_000, 2).expect("stereo");
        assert_eq!((format.frames(2.5), format.ms(480)), (120, 10.0));
    }

    #[test]
    fn linear_samples_survive() {
        let mut codec = L16::new(Format::new(16_000, 2).expect("stereo"));
        let samples = [0.0, 0.5, -0.5, 1.0, -1.0, 2.0];
        let payload = L16::encode(&samples);
        assert_eq!(codec.frames(&payload), Some(3));
        let mut out = Vec::new();
        codec.decode(&payload, &mut out).expect("ours");
        for (got, want) in out.iter().zip(samples) {
            assert!((got - want.clamp(-1.0, 1.0)).abs() < 1e-4, "{got} {want}");
        }
        assert_eq!(codec.frames(&payload[..6]), None);
        assert_eq!(codec.decode(&[1], &mut out), Err(Undecodable));
    }
}
