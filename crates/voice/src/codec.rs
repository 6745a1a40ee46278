use std::time::Duration;

use glassline_media::Bitrate;
use thiserror::Error;

/// Sample format: sample rate and number of channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Format {
    rate: u32,
    channels: usize,
}

impl Format {
    /// Makes a format of `rate` 8,000 to 48,000 Hz and `channels` 1 or 2; `None` outside
    /// these ranges.
    pub const fn new(rate: u32, channels: usize) -> Option<Self> {
        if rate < 8_000 || rate > 48_000 || channels < 1 || channels > 2 {
            return None;
        }
        Some(Self { rate, channels })
    }

    /// Sample rate, in Hz per channel.
    pub const fn rate(self) -> u32 {
        self.rate
    }

    /// Number of channels, 1 or 2; samples of the channels are interleaved.
    pub const fn channels(self) -> usize {
        self.channels
    }

    /// Number of frames (one sample per channel each) in `ms` milliseconds, at least 1.
    pub(crate) fn frames(self, ms: f64) -> usize {
        (f64::from(self.rate) * ms / 1e3).round().max(1.0) as usize
    }

    /// Length of `frames` frames, in ms.
    pub(crate) fn ms(self, frames: usize) -> f64 {
        frames as f64 * 1e3 / f64::from(self.rate)
    }
}

/// Error: the codec cannot decode this payload. The stream continues; the payload is
/// concealed like a lost one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the codec makes no audio of this payload")]
pub struct Undecodable;

/// A codec's decoder, as the jitter buffer needs it.
///
/// All methods append interleaved samples, −1.0 to 1.0, to `out`. Only [`Self::format`],
/// [`Self::frames`] and [`Self::decode`] are required; the others are for codecs that do it
/// better than the buffer.
#[expect(unused_variables, reason = "a codec may leave that to the buffer")]
pub trait Decoder {
    /// Format of decoded audio. It may change with [`Self::reset`] only.
    fn format(&self) -> Format;

    /// Number of frames (samples per channel) in `payload`; `None` if it is no payload of
    /// this codec. The buffer accepts at most `FRAMES_MS_MAX` (200 ms).
    fn frames(&self, payload: &[u8]) -> Option<usize>;

    /// Decodes `payload`.
    ///
    /// # Errors
    /// If it is no payload of this codec.
    fn decode(&mut self, payload: &[u8], out: &mut Vec<f32>) -> Result<(), Undecodable>;

    /// Recovers the `frames` frames right before `following` from redundancy in it (Opus:
    /// LBRR, RFC 6716 §2.1.7). Returns false, and appends nothing, if there is none.
    fn recover(&mut self, following: &[u8], frames: usize, out: &mut Vec<f32>) -> bool {
        false
    }

    /// Conceals `frames` frames after a loss. Returns false, and appends nothing, if the
    /// codec leaves concealment to the buffer.
    fn conceal(&mut self, frames: usize, out: &mut Vec<f32>) -> bool {
        false
    }

    /// Generates `frames` frames of comfort noise while the sender is silent. Returns false,
    /// and appends nothing, if the codec has none: the buffer then fades the last audio.
    fn comfort(&mut self, frames: usize, out: &mut Vec<f32>) -> bool {
        false
    }

    /// Whether the sender announces silence with `payload`, so that packets missing after it
    /// are not lost (Opus DTX: at most two bytes).
    fn begins_silence(&self, payload: &[u8]) -> bool {
        false
    }

    /// Whether decoding a payload depends on no other payload, so that a loss damages nothing
    /// that follows.
    fn is_stateless(&self) -> bool {
        false
    }

    /// Forgets the stream, because the next payload belongs to another one.
    fn reset(&mut self) {}
}

/// Error: the codec cannot encode this many samples at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the codec makes no payload of {samples} samples")]
pub struct Unencodable {
    /// Number of samples passed in.
    pub samples: usize,
}

/// A codec's encoder, as the speaker needs it.
#[expect(unused_variables, reason = "a codec may have nothing to set")]
pub trait Encoder {
    /// Samples of all channels in a payload: 10 ms or a multiple.
    fn frame_samples(&self) -> usize;

    /// Encodes [`Self::frame_samples`] interleaved samples, −1.0 to 1.0, into `payload`,
    /// which is cleared first.
    ///
    /// # Errors
    /// If the number of samples is another one.
    fn encode(&mut self, samples: &[f32], payload: &mut Vec<u8>) -> Result<(), Unencodable>;

    /// Delay of decoded audio behind the encoder's input, encoder and decoder together.
    fn look_ahead(&self) -> Duration {
        Duration::ZERO
    }

    /// Whether `payload` only announces silence: after the first of these, they need not be
    /// sent.
    fn is_silence(&self, payload: &[u8]) -> bool {
        false
    }

    /// Sets the bitrate, as near as the codec can.
    fn set_bitrate(&mut self, bitrate: Bitrate) {}

    /// Sets the expected packet loss, 0 to 1.
    fn set_expected_loss(&mut self, ratio: f64) {}
}

/// Longest packet that is accepted, in ms (Opus allows 120).
pub(crate) const FRAMES_MS_MAX: f64 = 200.0;

/// Linear 16-bit samples in network order (RFC 3551 §4.5.11): uncompressed and stateless. For
/// tests, measurements and paths with bandwidth to spare.
#[derive(Clone, Copy, Debug)]
pub struct L16 {
    format: Format,
}

impl L16 {
    /// Makes a codec for samples of `format`.
    pub const fn new(format: Format) -> Self {
        Self { format }
    }

    /// Encodes `samples` as a payload.
    pub fn encode(samples: &[f32]) -> Vec<u8> {
        let bytes = samples.iter().flat_map(|sample| {
            let value = (sample * 32_767.0).round().clamp(-32_768.0, 32_767.0);
            (value as i16).to_be_bytes()
        });
        bytes.collect()
    }
}

/// Payloads hold 10 ms.
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

    #[test]
    fn lengths_are_rounded_to_whole_frames_and_are_never_empty() {
        let format = |rate| Format::new(rate, 1).expect("mono");
        // 44.1 kHz: 2.5 ms are 110.25 frames and 15 ms are 661.5.
        assert_eq!([2.5, 15.0].map(|ms| format(44_100).frames(ms)), [110, 662]);
        assert_eq!([0.0, 20.0].map(|ms| format(8_000).frames(ms)), [1, 160]);
        assert_eq!([160, 40].map(|it| format(8_000).ms(it)), [20.0, 5.0]);
        assert_eq!(Format::new(48_001, 1), None);
        let stereo = Format::new(8_000, 2).expect("the least rate");
        assert_eq!((stereo.rate(), stereo.channels()), (8_000, 2));
    }

    #[test]
    fn linear_samples_are_coded_by_the_half_word_and_a_payload_holds_10_ms() {
        // 0.5 × 32,767 is rounded away from zero; full scale is symmetric.
        let payload = L16::encode(&[0.5, -0.5, 1.0, -1.0, -2.0]);
        let words = [0x4000u16, 0xc000, 0x7fff, 0x8001, 0x8000];
        assert_eq!(payload, words.map(u16::to_be_bytes).concat());
        for (rate, channels, samples) in [(48_000, 2, 960), (8_000, 1, 80)] {
            let mut codec = L16::new(Format::new(rate, channels).expect("a voice's"));
            assert_eq!(codec.frame_samples(), samples);
            let mut payload = vec![7];
            let audio = vec![0.5; samples];
            assert_eq!(Encoder::encode(&mut codec, &audio, &mut payload), Ok(()));
            assert_eq!(payload, L16::encode(&audio));
            for wrong in [samples - 1, samples + 1] {
                let result = Encoder::encode(&mut codec, &vec![0.0; wrong], &mut payload);
                assert_eq!(result, Err(Unencodable { samples: wrong }));
            }
        }
        let codec = L16::new(Format::new(8_000, 2).expect("stereo"));
        // Four bytes are a frame of stereo.
        assert_eq!(codec.frames(&[0; 8]), Some(2));
        assert_eq!([codec.frames(&[]), codec.frames(&[0; 6])], [None, None]);
        assert!(codec.is_stateless());
    }

    #[test]
    fn a_codec_that_offers_nothing_more_leaves_that_to_the_engine() {
        struct Least;
        impl Decoder for Least {
            fn format(&self) -> Format {
                Format::new(8_000, 1).expect("mono")
            }
            fn frames(&self, _: &[u8]) -> Option<usize> {
                None
            }
            fn decode(&mut self, _: &[u8], _: &mut Vec<f32>) -> Result<(), Undecodable> {
                Err(Undecodable)
            }
        }
        impl Encoder for Least {
            fn frame_samples(&self) -> usize {
                80
            }
            fn encode(&mut self, _: &[f32], _: &mut Vec<u8>) -> Result<(), Unencodable> {
                Ok(())
            }
        }
        let mut out = Vec::new();
        assert!(!Least.recover(&[1], 80, &mut out));
        assert!(!Least.conceal(80, &mut out) && !Least.comfort(80, &mut out));
        assert!(out.is_empty());
        assert!(!Least.begins_silence(&[]) && !Least.is_stateless() && !Least.is_silence(&[]));
        assert_eq!(Least.look_ahead(), Duration::ZERO);
        Least.reset();
        Least.set_bitrate(Bitrate::from_bps(1));
        Least.set_expected_loss(1.0);
    }
}
