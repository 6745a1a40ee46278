//! Parses Opus: the identification header (RFC 7845 §5.1) and the first bytes of a packet (RFC
//! 6716 §3.1).

use glassline_media::OpusStreams;

use crate::error::Reason;

/// Sampling rate of decoded Opus in Hz, whatever the input had (RFC 7845 §4).
pub(crate) const RATE: u32 = 48_000;

/// Samples of the longest packet, 120 ms (RFC 6716 §3.4, R5).
const SAMPLES_MAX: u32 = 5760;

/// Fields of the identification header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Number of channels, 1 to 8.
    pub(crate) channels: u8,
    /// The streams that hold them; `None` for one stream of one or two channels.
    pub(crate) streams: Option<OpusStreams>,
    /// Samples at the start that only prime the decoder.
    pub(crate) pre_skip: u16,
    /// Output gain in dB, as Q7.8.
    pub(crate) gain: i16,
}

impl Head {
    pub(crate) const MAGIC: &'static [u8] = b"OpusHead";

    pub(crate) fn parse(packet: &[u8]) -> Result<Self, Reason> {
        let rest = packet
            .strip_prefix(Self::MAGIC)
            .ok_or(Reason::OpusHeader("it does not begin with OpusHead"))?;
        let &[version, channels, p0, p1, _, _, _, _, g0, g1, family, ..] = rest else {
            return Err(Reason::OpusHeader("it has fewer than 19 bytes"));
        };
        if version & 0xf0 != 0 {
            return Err(Reason::OpusHeader("its version is above 15"));
        }
        let streams = streams(family, channels, rest.get(11..).unwrap_or_default())?;
        Ok(Self {
            channels,
            streams,
            pre_skip: u16::from_le_bytes([p0, p1]),
            gain: i16::from_le_bytes([g0, g1]),
        })
    }
}

/// Returns the streams that hold the channels, by the mapping family and the table behind it (RFC
/// 7845 §5.1.1); `None` if one stream holds them as any decoder plays it.
pub(crate) fn streams(
    family: u8,
    channels: u8,
    table: &[u8],
) -> Result<Option<OpusStreams>, Reason> {
    match (family, channels) {
        (_, 0) => return Err(Reason::OpusHeader("it has no channels")),
        (0, 1 | 2) => return Ok(None),
        (0, _) => return Err(Reason::OpusHeader("mapping family 0 with over 2 channels")),
        (1, 1..=8) => {}
        // Ambisonics (RFC 8486), and channels without a meaning.
        _ => return Err(Reason::OpusMapping { family, channels }),
    }
    let [streams, coupled, mapping @ ..] = table else {
        return Err(Reason::OpusHeader("it has no channel mapping"));
    };
    let mapping = mapping.get(..usize::from(channels)).unwrap_or_default();
    let streams = OpusStreams::new(*streams, *coupled, mapping);
    let streams = streams.ok_or(Reason::OpusHeader("its channel mapping is impossible"))?;
    let is_usual = matches!(mapping, [0] | [0, 0 | 1]) && streams.streams() == 1;
    Ok((!is_usual).then_some(streams))
}

/// Returns the samples at 48 kHz that a packet plays: 120..=5760.
pub(crate) fn samples(packet: &[u8]) -> Result<u32, Reason> {
    let toc = *packet
        .first()
        .ok_or(Reason::OpusPacket("it has no bytes"))?;
    let frames = match toc & 3 {
        0 => 1,
        1 | 2 => 2,
        _ => {
            let count = packet.get(1);
            let count = count.ok_or(Reason::OpusPacket("it has no frame count"))?;
            u32::from(count & 0x3f)
        }
    };
    // Frame lengths in samples for each group of configurations: SILK, hybrid, CELT.
    let frame = match toc >> 3 {
        silk @ 0..=11 => [480, 960, 1920, 2880][usize::from(silk & 3)],
        hybrid @ 12..=15 => 480 << (hybrid & 1),
        celt => 120 << (celt & 3),
    };
    match frames * frame {
        0 => Err(Reason::OpusPacket("it has no frames")),
        total if total > SAMPLES_MAX => Err(Reason::OpusPacket("it is longer than 120 ms")),
        total => Ok(total),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_lengths_follow_the_table_of_rfc_6716() {
        let ms = |configuration: u8, code: u8, count: u8| {
            samples(&[configuration << 3 | code, count])
                .ok()
                .map(|samples| f64::from(samples) / 48.0)
        };
        for (configuration, expected) in [
            (0, 10.0),
            (1, 20.0),
            (2, 40.0),
            (3, 60.0),
            (11, 60.0),
            (12, 10.0),
            (13, 20.0),
            (14, 10.0),
            (15, 20.0),
            (16, 2.5),
            (17, 5.0),
            (18, 10.0),
            (19, 20.0),
            (31, 20.0),
        ] {
            assert_eq!(ms(configuration, 0, 0), Some(expected), "{configuration}");
        }
        assert_eq!(ms(31, 1, 0), Some(40.0));
        assert_eq!(ms(31, 2, 0), Some(40.0));
        assert_eq!(ms(31, 3, 6), Some(120.0));
        assert_eq!(ms(31, 3, 7), None);
        assert_eq!(ms(31, 3, 0), None);
        assert_eq!(ms(3, 3, 2), Some(120.0));
        assert!(samples(&[]).is_err() && samples(&[0xff]).is_err());
    }

    #[test]
    fn a_head_says_channels_and_pre_skip() {
        let mut head = b"OpusHead\x01\x02\x38\x01\x80\xbb\0\0\0\0\0".to_vec();
        let parsed = Head::parse(&head).expect("a head");
        assert_eq!((parsed.channels, parsed.pre_skip), (2, 312));
        assert!(Head::parse(&head[..18]).is_err());
        head[18] = 1;
        assert!(Head::parse(&head).is_err(), "family 1 needs a mapping");
        head.extend([1, 1, 0, 1]);
        assert_eq!(Head::parse(&head).map(|it| it.streams).ok(), Some(None));
        head.truncate(19);
        head.extend([4, 2, 0, 4, 1, 2, 3, 5]);
        assert!(Head::parse(&head).is_err(), "two channels in four streams");
        head[9] = 6;
        let surround = Head::parse(&head).expect("5.1");
        assert_eq!(surround.streams.map(|it| it.streams()), Some(4));
        head[18] = 255;
        assert!(matches!(
            Head::parse(&head),
            Err(Reason::OpusMapping {
                family: 255,
                channels: 6
            })
        ));
        head[8] = 16;
        assert!(Head::parse(&head).is_err());
    }
}
