//! Reads duration and channels from an Opus packet without decoding it (RFC 6716 §3.1). An RTP
//! payload is exactly one Opus packet (RFC 7587 §4.2).

use std::time::Duration;

use glassline_media::fields::Truncated;
use glassline_media::{OpusStreams, Track};

use crate::ParseError;
use crate::payload::parameter;

/// RTP clock rate of Opus in Hz, whatever rate the audio was sampled at (RFC 7587 §4.1).
pub const CLOCK_RATE: u32 = 48_000;

/// Returns the duration of a packet in samples at 48 kHz, which are RTP ticks, from its table
/// of contents byte.
///
/// The result is 120..=5760, that is 2.5 to 120 ms.
///
/// # Errors
/// [`ParseError`] if the packet is empty, has no frames, or is longer than the allowed 120 ms
/// (RFC 6716 §3.4, R1, R5, R6).
pub fn samples(packet: &[u8]) -> Result<u32, ParseError> {
    let toc = *packet.first().ok_or(truncated(0))?;
    let frames = match toc & 0x03 {
        0 => 1,
        1 | 2 => 2,
        _ => u32::from(*packet.get(1).ok_or(truncated(1))? & 0x3f),
    };
    let samples = frames * frame_samples(toc >> 3);
    if samples == 0 || samples > SAMPLES_MAX {
        return Err(ParseError::Value {
            what: "Opus frame count",
            offset: 1,
            value: frames,
        });
    }
    Ok(samples)
}

/// Returns the duration of a packet. Errors are those of [`samples`].
pub fn duration(packet: &[u8]) -> Result<Duration, ParseError> {
    let samples = samples(packet)?;
    Ok(Duration::from_nanos(
        u64::from(samples) * 1_000_000_000 / u64::from(CLOCK_RATE),
    ))
}

/// Returns the number of coded channels, 1 or 2; `None` for an empty packet. A decoder may play
/// either as stereo.
pub fn channels(packet: &[u8]) -> Option<u8> {
    packet.first().map(|toc| 1 + (toc >> 2 & 1))
}

/// Returns the streams of a track of [`Codec::MultiOpus`](glassline_media::Codec::MultiOpus) by its
/// format parameters; `None` if they are missing or contradict the number of channels.
pub fn streams(track: &Track) -> Option<OpusStreams> {
    let value = |name| parameter(&track.format_parameters, name);
    let number = |name| value(name).and_then(|it| it.parse().ok());
    let mapping = value("channel_mapping")?.split(',');
    let mapping: Result<Vec<u8>, _> = mapping.map(|it| it.trim().parse()).collect();
    let mapping = mapping
        .ok()
        .filter(|it| it.len() == usize::from(track.channels))?;
    OpusStreams::new(number("num_streams")?, number("coupled_streams")?, &mapping)
}

/// Longest duration of a packet: 120 ms at 48 kHz.
const SAMPLES_MAX: u32 = 5760;

/// Number of samples at 48 kHz in one frame of configuration 0..=31 (RFC 6716, table 2).
fn frame_samples(configuration: u8) -> u32 {
    let low = configuration & 3;
    match configuration {
        // SILK: 10, 20, 40, 60 ms.
        0..=11 => [480, 960, 1920, 2880][usize::from(low)],
        // Hybrid: 10, 20 ms.
        12..=15 => [480, 960][usize::from(low & 1)],
        // CELT: 2.5, 5, 10, 20 ms.
        _ => 120 << low,
    }
}

fn truncated(offset: usize) -> ParseError {
    ParseError::Truncated(Truncated {
        what: "Opus packet",
        offset,
        needed: 1,
        available: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(configuration: u8, code: u8, count: u8) -> Option<f64> {
        duration(&[configuration << 3 | code, count])
            .ok()
            .map(|duration| duration.as_secs_f64() * 1000.0)
    }

    #[test]
    fn durations_follow_table_2_of_rfc_6716() {
        let frame_ms = [
            10.0, 20.0, 40.0, 60.0, 10.0, 20.0, 40.0, 60.0, 10.0, 20.0, 40.0, 60.0, 10.0, 20.0,
            10.0, 20.0, 2.5, 5.0, 10.0, 20.0, 2.5, 5.0, 10.0, 20.0, 2.5, 5.0, 10.0, 20.0, 2.5, 5.0,
            10.0, 20.0,
        ];
        for (configuration, one) in (0u8..).zip(frame_ms) {
            assert_eq!(ms(configuration, 0, 0), Some(one), "{configuration}");
            assert_eq!(ms(configuration, 1, 0), Some(2.0 * one), "{configuration}");
            assert_eq!(ms(configuration, 2, 0), Some(2.0 * one), "{configuration}");
        }
        assert_eq!(ms(31, 3, 6), Some(120.0));
        assert_eq!(ms(28, 3, 48), Some(120.0));
    }

    #[test]
    fn more_than_120_ms_and_no_frames_are_refused() {
        assert_eq!(ms(31, 3, 7), None);
        assert_eq!(ms(28, 3, 49), None);
        assert_eq!(ms(3, 3, 3), None);
        assert_eq!(ms(0, 3, 0), None);
        assert!(samples(&[]).is_err());
        assert!(samples(&[3]).is_err(), "code 3 without its count");
    }

    #[test]
    fn streams_are_read_as_they_are_written() {
        let surround = OpusStreams::new(4, 2, &[0, 4, 1, 2, 3, 5]).expect("5.1");
        let track = |channels, parameters: &str| {
            Track::audio(glassline_media::Codec::MultiOpus, channels)
                .with_format_parameters(parameters)
        };
        assert_eq!(streams(&track(6, &surround.to_string())), Some(surround));
        let spaced = "channel_mapping=0, 4, 1, 2, 3, 5; num_streams=4; coupled_streams=2";
        assert_eq!(streams(&track(6, spaced)), Some(surround));
        assert_eq!(streams(&track(2, spaced)), None);
        assert_eq!(streams(&track(6, "num_streams=4;coupled_streams=2")), None);
        assert_eq!(streams(&track(2, "channel_mapping=0,x")), None);
    }

    #[test]
    fn the_stereo_bit_is_the_third() {
        assert_eq!(channels(&[0b0000_0100]), Some(2));
        assert_eq!(channels(&[0b1111_1011]), Some(1));
        assert_eq!(channels(&[]), None);
    }
}
