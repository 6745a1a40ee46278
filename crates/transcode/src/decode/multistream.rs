//! Opus of several streams (RFC 7845 §5.1.1), mixed down to left and right.

use glassline_media::OpusStreams;
use opusic_c::SampleRate;
use opusic_c::multistream::{Config, Decoder};

use super::mixdown::Mixdown;
use super::{Format, Undecodable};
use crate::RATE;

/// Samples of each channel in the longest packet, 120 ms (RFC 6716 §3.4, R5).
const SAMPLES_MAX: usize = 5_760;

/// Decodes packets that hold several Opus streams.
#[derive(derive_more::Debug)]
#[debug("MultistreamDecoder {{ channels: {:?}, .. }}", self.mixdown.channels())]
pub(super) struct MultistreamDecoder {
    inner: Decoder,
    mixdown: Mixdown,
    /// Samples of all channels, kept for its capacity.
    decoded: Vec<f32>,
}

impl MultistreamDecoder {
    /// Creates a decoder of `streams`.
    ///
    /// # Errors
    /// Returns why libopus does not take them.
    pub(super) fn new(streams: OpusStreams) -> Result<Self, Undecodable> {
        let channels = streams.mapping().len();
        let mixdown = Mixdown::of_vorbis_order(channels);
        let mixdown = mixdown.ok_or_else(|| Undecodable(format!("Opus of {channels} channels")))?;
        Ok(Self {
            inner: decoder(streams)?,
            mixdown,
            decoded: vec![0.0; SAMPLES_MAX * channels],
        })
    }

    /// Decodes one packet. Appends its samples to `mixed`: left and right, interleaved.
    pub(super) fn decode(
        &mut self,
        packet: &[u8],
        mixed: &mut Vec<f32>,
    ) -> Result<Format, Undecodable> {
        if packet.is_empty() {
            // To libopus this is a lost packet, of any length.
            return Err(Undecodable("the packet is empty".to_owned()));
        }
        let decoded = (self.inner).decode_float_to_slice(packet, &mut self.decoded, false);
        let samples = decoded.map_err(|code| Undecodable(code.message().to_owned()))?;
        let channels = self.mixdown.channels();
        mixed.resize(2 * samples, 0.0);
        (self.mixdown).add(0, channels, &self.decoded[..samples * channels], mixed);
        Ok(Format {
            rate: RATE,
            channels: 2,
        })
    }
}

/// Creates the decoder of libopus, whose wrapper wants the number of channels as a constant.
fn decoder(streams: OpusStreams) -> Result<Decoder, Undecodable> {
    match streams.mapping().len() {
        1 => decoder_of::<1>(streams),
        2 => decoder_of::<2>(streams),
        3 => decoder_of::<3>(streams),
        4 => decoder_of::<4>(streams),
        5 => decoder_of::<5>(streams),
        6 => decoder_of::<6>(streams),
        7 => decoder_of::<7>(streams),
        _ => decoder_of::<8>(streams),
    }
}

fn decoder_of<const CHANNELS: usize>(streams: OpusStreams) -> Result<Decoder, Undecodable> {
    let mapping: Result<[u8; CHANNELS], _> = streams.mapping().try_into();
    let config = mapping
        .ok()
        .and_then(|mapping| Config::try_new(streams.streams(), streams.coupled(), mapping));
    let config = config.ok_or_else(|| Undecodable("an unusual mapping of channels".to_owned()))?;
    let decoder = Decoder::new(config, SampleRate::Hz48000);
    decoder.map_err(|code| Undecodable(code.message().to_owned()))
}

#[cfg(test)]
mod tests {
    use opusic_c::Application;
    use opusic_c::multistream::Encoder;

    use super::*;

    /// Encodes 5.1 with a tone in one channel and returns how loud it is on the left and right.
    fn heard(channel: usize) -> [f32; 2] {
        const FRAME: usize = 960;
        let mapping = [0, 4, 1, 2, 3, 5];
        let config = Config::<6>::new(4, 2, mapping);
        let encoder = Encoder::new(config, SampleRate::Hz48000, Application::Audio);
        let mut encoder = encoder.expect("5.1");
        let streams = OpusStreams::new(4, 2, &mapping).expect("5.1");
        let mut decoder = MultistreamDecoder::new(streams).expect("5.1");
        let mut energy = [0.0_f32; 2];
        for frame in 0..25 {
            let mut samples = vec![0.0; FRAME * 6];
            for (index, sample) in samples.chunks_exact_mut(6).enumerate() {
                let phase = std::f32::consts::TAU * 100.0 * (frame * FRAME + index) as f32 / 48e3;
                sample[channel] = 0.4 * phase.sin();
            }
            let mut packet = vec![0; 4_000];
            let length = encoder.encode_float_to_slice(&samples, &mut packet);
            let mut mixed = Vec::new();
            let format = decoder.decode(&packet[..length.expect("Opus")], &mut mixed);
            assert_eq!(format.expect("Opus").channels, 2);
            assert_eq!(mixed.len(), 2 * FRAME);
            if frame >= 5 {
                for sample in mixed.as_chunks::<2>().0 {
                    energy[0] += sample[0] * sample[0];
                    energy[1] += sample[1] * sample[1];
                }
            }
        }
        energy.map(|it| (2.0 * it / (20 * FRAME) as f32).sqrt() / 0.4)
    }

    /// RFC 7845, figure 7.
    #[test]
    fn each_channel_is_heard_with_its_share() {
        let shares = [
            [0.529_067, 0.0],
            [0.374_107, 0.374_107],
            [0.0, 0.529_067],
            [0.458_186, 0.264_534],
            [0.264_534, 0.458_186],
            [0.374_107, 0.374_107],
        ];
        for (channel, shares) in shares.into_iter().enumerate() {
            let heard = heard(channel);
            for (heard, share) in heard.into_iter().zip(shares) {
                assert!(
                    (heard - share).abs() < 0.03,
                    "{channel}: {heard} for {share}"
                );
            }
        }
    }

    #[test]
    fn bytes_that_are_no_packet_are_named() {
        let streams = OpusStreams::new(4, 2, &[0, 4, 1, 2, 3, 5]).expect("5.1");
        let mut decoder = MultistreamDecoder::new(streams).expect("5.1");
        for bytes in [&[][..], &[0xff], &[0xfc, 0xff, 0xff], &[3; 40]] {
            let error = decoder
                .decode(bytes, &mut Vec::new())
                .expect_err("no packet");
            assert!(!error.to_string().is_empty(), "{bytes:?}");
        }
    }

    #[test]
    fn one_to_eight_channels_are_decoded() {
        for channels in 1..=8u8 {
            let mapping: Vec<u8> = (0..channels).collect();
            let streams = OpusStreams::new(channels, 0, &mapping).expect("a stream each");
            let decoder = MultistreamDecoder::new(streams).expect("decoded");
            assert_eq!(decoder.mixdown.channels(), usize::from(channels));
            assert_eq!(decoder.decoded.len(), 5_760 * usize::from(channels));
        }
    }

    #[test]
    fn the_longest_packet_is_decoded() {
        let config = Config::<1>::new(1, 0, [0]);
        let encoder = Encoder::new(config, SampleRate::Hz48000, Application::Audio);
        let mut encoder = encoder.expect("mono");
        let streams = OpusStreams::new(1, 0, &[0]).expect("mono");
        let mut decoder = MultistreamDecoder::new(streams).expect("mono");
        for samples in [480, 2_880, 5_760] {
            let mut packet = vec![0; 4_000];
            let silence = vec![0.0; samples];
            let length = encoder.encode_float_to_slice(&silence, &mut packet);
            let mut mixed = Vec::new();
            let format = decoder.decode(&packet[..length.expect("Opus")], &mut mixed);
            let expected = Format {
                rate: 48_000,
                channels: 2,
            };
            assert_eq!(format, Ok(expected));
            assert_eq!(mixed.len(), 2 * samples);
        }
    }
}
