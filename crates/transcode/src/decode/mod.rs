//! The decoders, and the only module that knows the crates that they come from.
//!
//! Why Symphonia: docs/decisions/0012. Its decoders contain no `unsafe` code.

pub(crate) mod aac;
mod mixdown;
mod multistream;

use std::fmt;

use glassline_media::{Bits, Codec};
use symphonia_bundle_mp3::MpaDecoder;
use symphonia_codec_aac::AacDecoder;
use symphonia_core::audio::Channels;
use symphonia_core::codecs::audio::well_known::{
    CODEC_ID_AAC, CODEC_ID_MP1, CODEC_ID_MP2, CODEC_ID_MP3,
};
use symphonia_core::codecs::audio::{AudioCodecParameters, AudioDecoder, AudioDecoderOptions};
use symphonia_core::packet::PacketRef;
use symphonia_core::units::{Duration, Timestamp};
use thiserror::Error;

use self::aac::SurroundDecoder;
use self::multistream::MultistreamDecoder;
use crate::g711::Companding;
use crate::source::{AudioSource, Layout};

/// Longest decoded frame in samples of each channel, which keeps memory bounded: PCM has as many
/// as a packet holds, Opus at most 5760, the other codecs at most 1152.
const SAMPLES_MAX: usize = 1 << 14;

/// Most elements of an AAC frame that are looked at to find its channels.
const ELEMENTS_MAX: usize = 4;

/// Sample rate and channels of decoded audio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Sample rate in Hz, 7,350 to 96,000.
    pub rate: u32,
    /// Number of channels, 1 or 2.
    pub channels: usize,
}

/// The reason why a frame could not be decoded, as a text for people.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Undecodable(pub(crate) String);

/// Decodes the frames of one source into samples.
pub struct Decoder {
    inner: Inner,
}

enum Inner {
    Surround(Box<SurroundDecoder>),
    Multistream(Box<MultistreamDecoder>),
    Aac {
        decoder: Box<AacDecoder>,
        format: Format,
    },
    /// The decoder of the layer of the latest frame; `None` before the first frame.
    MpegAudio(Option<(u8, Box<MpaDecoder>)>),
    Linear(Format),
    G711(Companding, Format),
}

impl Decoder {
    /// Creates a decoder of `source`.
    ///
    /// # Errors
    /// Returns the decoder's reason if it does not take the source.
    pub fn new(source: &AudioSource) -> Result<Self, Undecodable> {
        let format = Format {
            rate: source.rate,
            channels: usize::from(source.channels),
        };
        let inner = match (source.codec, source.layout) {
            (Codec::Aac, Layout::Program(program)) => {
                Inner::Surround(Box::new(SurroundDecoder::new(source.rate, program)))
            }
            (Codec::Aac, _) => Inner::Aac {
                decoder: Box::new(aac_of_one_element(format)?),
                format,
            },
            (_, Layout::Multistream(layout)) => {
                Inner::Multistream(Box::new(MultistreamDecoder::new(layout)?))
            }
            (Codec::L16, _) => Inner::Linear(format),
            (Codec::Pcmu, _) => Inner::G711(Companding::Mu, format),
            (Codec::Pcma, _) => Inner::G711(Companding::A, format),
            _ => Inner::MpegAudio(None),
        };
        Ok(Self { inner })
    }

    /// Decodes one frame. `samples` is replaced by its interleaved samples, −1.0 to 1.0.
    ///
    /// # Errors
    /// Returns the decoder's reason. The decoder goes on with the next frame.
    pub fn decode(&mut self, frame: &[u8], samples: &mut Vec<f32>) -> Result<Format, Undecodable> {
        samples.clear();
        let format = match &mut self.inner {
            Inner::Surround(decoder) => decoder.decode(frame, samples)?,
            Inner::Multistream(decoder) => decoder.decode(frame, samples)?,
            Inner::Aac { decoder, format } => {
                run(decoder.as_mut(), frame, samples)?;
                *format
            }
            Inner::MpegAudio(current) => run(mpeg_audio(current, frame)?, frame, samples)?,
            Inner::Linear(format) => linear(frame, *format, samples)?,
            Inner::G711(law, format) => g711(frame, *law, *format, samples)?,
        };
        if samples.len() > SAMPLES_MAX * format.channels {
            return Err(Undecodable(format!("a frame of {} samples", samples.len())));
        }
        for sample in samples.iter_mut() {
            // A damaged frame may decode to anything. What is no number would stay in every filter
            // behind this one.
            *sample = if sample.is_finite() {
                sample.clamp(-1.0, 1.0)
            } else {
                0.0
            };
        }
        Ok(format)
    }

    /// Returns the number of channels that the frame has, if the decoder was made for another one.
    pub(crate) fn contradicted_channels(&self, frame: &[u8]) -> Option<u8> {
        let Inner::Aac { format, .. } = &self.inner else {
            return None;
        };
        let channels = channels_of(frame)?;
        (usize::from(channels) != format.channels).then_some(channels)
    }
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.inner {
            Inner::Aac { .. } => "Decoder(AAC)",
            Inner::Surround(_) => "Decoder(AAC of several channels)",
            Inner::Multistream(_) => "Decoder(Opus of several streams)",
            Inner::MpegAudio(_) => "Decoder(MPEG audio)",
            Inner::Linear(_) => "Decoder(L16)",
            Inner::G711(..) => "Decoder(G.711)",
        })
    }
}

/// Creates a decoder of frames with a single channel or a pair.
fn aac_of_one_element(format: Format) -> Result<AacDecoder, Undecodable> {
    let mut parameters = AudioCodecParameters::new();
    // Rate and channels stand for the configuration, which `AudioSource` has checked: the decoder
    // refuses configurations of HE-AAC, whose core it decodes.
    parameters
        .for_codec(CODEC_ID_AAC)
        .with_sample_rate(format.rate)
        .with_channels(Channels::Discrete(format.channels as u16));
    AacDecoder::try_new(&parameters, &AudioDecoderOptions::default()).map_err(reason)
}

/// Returns the number of channels of the first element of an AAC frame that has any: a single
/// channel or a pair (ISO/IEC 14496-3, table 4.85).
fn channels_of(frame: &[u8]) -> Option<u8> {
    let mut bits = Bits::new(frame);
    for _ in 0..ELEMENTS_MAX {
        match bits.take(3)? {
            0 => return Some(1),
            1 => return Some(2),
            // Encoders put their name into fill elements before the first one.
            6 => {
                let count = match bits.take(4)? {
                    15 => 14 + bits.take(8)?,
                    count => count,
                };
                bits.skip(count as usize * 8);
            }
            _ => return None,
        }
    }
    None
}

/// Returns the decoder for the layer that the frame's header states, a new one if the layer changed.
fn mpeg_audio<'a>(
    current: &'a mut Option<(u8, Box<MpaDecoder>)>,
    frame: &[u8],
) -> Result<&'a mut MpaDecoder, Undecodable> {
    let header = frame.get(1).copied().unwrap_or_default();
    let layer = 4 - (header >> 1 & 3);
    let codec = match layer {
        1 => CODEC_ID_MP1,
        2 => CODEC_ID_MP2,
        3 => CODEC_ID_MP3,
        _ => return Err(Undecodable("no MPEG audio header".to_owned())),
    };
    if current
        .as_ref()
        .is_none_or(|(present, _)| *present != layer)
    {
        let mut parameters = AudioCodecParameters::new();
        parameters.for_codec(codec);
        let decoder = MpaDecoder::try_new(&parameters, &AudioDecoderOptions::default());
        *current = Some((layer, Box::new(decoder.map_err(reason)?)));
    }
    let decoder = current.as_mut().map(|(_, decoder)| decoder.as_mut());
    decoder.ok_or_else(|| Undecodable("no decoder".to_owned()))
}

fn run(
    decoder: &mut dyn AudioDecoder,
    frame: &[u8],
    samples: &mut Vec<f32>,
) -> Result<Format, Undecodable> {
    let packet = PacketRef::new(0, Timestamp::new(0), Duration::new(0), frame);
    let decoded = decoder.decode_ref(&packet).map_err(reason)?;
    let format = Format {
        rate: decoded.spec().rate(),
        channels: decoded.spec().channels().count(),
    };
    if !matches!(format.channels, 1 | 2) || !(7_350..=96_000).contains(&format.rate) {
        return Err(Undecodable(format!(
            "{} channels at {} Hz",
            format.channels, format.rate
        )));
    }
    decoded.copy_to_vec_interleaved(samples);
    Ok(format)
}

/// Reads 16-bit samples in network order (RFC 3551 §4.5.11).
fn linear(frame: &[u8], format: Format, samples: &mut Vec<f32>) -> Result<Format, Undecodable> {
    check_whole(frame, 2 * format.channels, format)?;
    let (values, _) = frame.as_chunks::<2>();
    let values = values.iter().map(|bytes| i16::from_be_bytes(*bytes));
    samples.extend(values.map(|value| f32::from(value) / 32_768.0));
    Ok(format)
}

/// Reads samples of one byte each (RFC 3551 §4.5.14).
fn g711(
    frame: &[u8],
    law: Companding,
    format: Format,
    samples: &mut Vec<f32>,
) -> Result<Format, Undecodable> {
    check_whole(frame, format.channels, format)?;
    samples.extend(frame.iter().map(|byte| law.decode(*byte)));
    Ok(format)
}

/// Checks that a frame of uncoded audio holds whole samples, of `bytes` for all channels.
fn check_whole(frame: &[u8], bytes: usize, format: Format) -> Result<(), Undecodable> {
    if frame.len().is_multiple_of(bytes) {
        return Ok(());
    }
    Err(Undecodable(format!(
        "{} bytes are no whole samples of {} channels",
        frame.len(),
        format.channels
    )))
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn reason(error: symphonia_core::errors::Error) -> Undecodable {
    Undecodable(error.to_string())
}

#[cfg(test)]
mod tests {
    use glassline_media::Track;

    use super::*;

    fn linear_decoder(channels: u8) -> Decoder {
        let track = Track::audio(Codec::L16, channels).with_clock_rate(48_000);
        Decoder::new(&AudioSource::of(&track).expect("L16")).expect("a decoder")
    }

    #[test]
    fn linear_samples_are_fractions_of_full_scale() {
        let mut samples = vec![9.0];
        let frame = [0x80, 0, 0x7f, 0xff, 0, 1, 0xff, 0xff, 0x40, 0, 0, 0];
        let format = linear_decoder(2).decode(&frame, &mut samples);
        let expected = Format {
            rate: 48_000,
            channels: 2,
        };
        assert_eq!(format, Ok(expected));
        let values = [-32_768.0, 32_767.0, 1.0, -1.0, 16_384.0, 0.0_f32];
        assert_eq!(samples, values.map(|value| value / 32_768.0));
    }

    #[test]
    fn linear_frames_hold_whole_samples_and_not_too_many() {
        for (channels, bytes, is_decoded) in [
            (1, 0, true),
            (1, 2, true),
            (1, 3, false),
            (2, 4, true),
            (2, 6, false),
            (2, 5, false),
            (2, 7, false),
            (1, 2 * 16_384, true),
            (1, 2 * 16_385, false),
            (2, 4 * 16_384, true),
            (2, 4 * 16_385, false),
        ] {
            let mut samples = Vec::new();
            let decoded = linear_decoder(channels).decode(&vec![0; bytes], &mut samples);
            assert_eq!(decoded.is_ok(), is_decoded, "{channels} channels, {bytes}");
        }
    }

    #[test]
    fn g711_of_two_channels_is_one_byte_for_each_sample() {
        let track = Track::audio(Codec::Pcma, 2).with_clock_rate(16_000);
        let mut decoder = Decoder::new(&AudioSource::of(&track).expect("G.711")).expect("it");
        let mut samples = Vec::new();
        let format = decoder.decode(&[0xd5, 0x55, 0xaa, 0x2a], &mut samples);
        let expected = Format {
            rate: 16_000,
            channels: 2,
        };
        assert_eq!(format, Ok(expected));
        // The smallest and the largest magnitudes of A-law, of both signs.
        let values = [8.0, -8.0, 32_256.0, -32_256.0_f32];
        assert_eq!(samples, values.map(|value| value / 32_768.0));
        assert!(decoder.decode(&[0; 3], &mut samples).is_err());
    }

    #[test]
    fn the_first_element_of_aac_says_how_many_channels() {
        // Bits behind 110 are a fill element of so many bytes; of 15, the next byte adds its value.
        for (frame, channels) in [
            (&[0b0000_0000][..], Some(1)),
            (&[0b0010_0000], Some(2)),
            (&[0b0100_0000], None),
            (&[0b1110_0000], None),
            (&[0b1100_0000, 0b0100_0000], Some(2)),
            (&[0b1100_0010, 0, 0b0100_0000], Some(2)),
            (&[0b1100_0101, 0xff, 0xff, 0b0000_0000], None),
            (&[0b1100_0101, 0xff, 0xfe, 0b0000_0000], Some(1)),
            (&[], None),
            (&[0b1101_1110], None),
        ] {
            assert_eq!(channels_of(frame), channels, "{frame:?}");
        }
        for extra in [0u8, 1, 3] {
            // 110 1111, eight bits of the count, and 14 bytes and more.
            let mut frame = vec![0b1101_1110 | extra >> 7, extra << 1];
            frame.extend([0; 14]);
            frame.resize(frame.len() + usize::from(extra), 0);
            // The last bit of a byte and two of the next are the identifier of a pair.
            frame.push(0b0100_0000);
            assert_eq!(channels_of(&frame), Some(2), "{extra}");
        }
        // Four elements are looked at.
        let fills = |count: usize| {
            let bits = "1100000".repeat(count) + "000";
            let bits = bits.as_bytes().chunks(8);
            let byte = |bits: &[u8]| {
                let bits = bits.iter().enumerate();
                bits.fold(0, |byte, (at, bit)| byte | (bit - b'0') << (7 - at))
            };
            bits.map(byte).collect::<Vec<u8>>()
        };
        assert_eq!(channels_of(&fills(3)), Some(1));
        assert_eq!(channels_of(&fills(4)), None);
    }

    #[test]
    fn another_number_of_channels_is_a_contradiction() {
        for (channels, pair, single) in [(1, Some(2), None), (2, None, Some(1))] {
            let track = Track::audio(Codec::Aac, channels).with_clock_rate(48_000);
            let source = AudioSource::of(&track).expect("AAC");
            let decoder = Decoder::new(&source).expect("a decoder");
            assert_eq!(decoder.contradicted_channels(&[0b0010_0000]), pair);
            assert_eq!(decoder.contradicted_channels(&[0]), single);
            assert_eq!(decoder.contradicted_channels(&[0xff]), None);
        }
        assert_eq!(linear_decoder(2).contradicted_channels(&[0]), None);
    }

    #[test]
    fn layers_have_decoders_of_their_own() {
        let mut current = None;
        for (header, layer) in [(0xff, 1), (0xfd, 2), (0xfb, 3), (0xf3, 3), (0xf6, 1)] {
            mpeg_audio(&mut current, &[0xff, header]).expect("a layer");
            assert_eq!(current.as_ref().map(|(layer, _)| *layer), Some(layer));
        }
        let place = |current: &Option<(u8, Box<MpaDecoder>)>| {
            current
                .as_ref()
                .map(|(_, it)| std::ptr::from_ref(it.as_ref()))
        };
        let before = place(&current);
        mpeg_audio(&mut current, &[0xff, 0xff]).expect("the same layer");
        assert_eq!(place(&current), before, "the decoder is kept");
        for none in [&[0xff, 0xf9][..], &[0xff], &[]] {
            assert!(mpeg_audio(&mut current, none).is_err(), "{none:?}");
        }
    }
}
