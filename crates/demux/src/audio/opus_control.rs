//! Opus in an MPEG transport stream: each packet is behind a control header, which has its length
//! (draft "Opus in MPEG-2 Transport Streams" of Xiph.Org, <https://wiki.xiph.org/OpusTS>).

use glassline_media::{Codec, OpusStreams, Track};

use super::frames::{FrameHeader, StreamFormat, Syntax};
use super::opus;

/// Prefix of a control header in its first eleven bits, and the flags behind it.
const PREFIX: u16 = 0x3ff << 5;
const PREFIX_MASK: u16 = 0x7ff << 5;
const START_TRIM: u16 = 1 << 4;
const END_TRIM: u16 = 1 << 3;
const EXTENSION: u16 = 1 << 2;

/// Bytes of a control header and its packet that are needed to read the header with both trims and
/// the packet's first bytes, besides those that state the packet's length.
const HEAD_BYTES: usize = 15;

/// Bytes that state the length of a stream's part of a packet: enough for 1,275 bytes, which is the
/// most in 20 ms.
const LENGTH_BYTES_OF_STREAM: usize = 5;

/// Flag of a channel configuration code: the channels are in the order of the streams.
const IN_ORDER: u8 = 0x80;

/// For 1 to 8 channels, how many streams hold two of them, and the place of each channel in the
/// streams.
const LAYOUTS: [(u8, &[u8]); 8] = [
    (0, &[0]),
    (1, &[0, 1]),
    (1, &[0, 2, 1]),
    (2, &[0, 1, 2, 3]),
    (2, &[0, 4, 1, 2, 3]),
    (2, &[0, 4, 1, 2, 3, 5]),
    (3, &[0, 4, 1, 2, 3, 5, 6]),
    (3, &[0, 6, 1, 2, 3, 4, 5, 7]),
];

/// How the packets hold the channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// One stream of one or two channels, which any decoder plays.
    One,
    /// Several streams in each packet, which hold the channels together.
    Several(OpusStreams),
}

impl Layout {
    /// Returns the layout of a channel configuration code; `None` for codes that describe their
    /// channels one by one, and for reserved ones.
    pub(crate) fn of(code: u8) -> Option<Self> {
        match code {
            // Two voices in one stream of two channels, and in one stream each.
            0..=2 => return Some(Self::One),
            // The channels are described one by one.
            0x81 => return None,
            IN_ORDER => return OpusStreams::new(2, 0, &[0, 1]).map(Self::Several),
            _ => {}
        }
        let channels = code & !IN_ORDER;
        let (coupled, mapping) = *LAYOUTS.get(usize::from(channels).checked_sub(1)?)?;
        let in_order: Vec<u8> = (0..channels).collect();
        let mapping = match code & IN_ORDER {
            0 => mapping,
            _ => &in_order,
        };
        OpusStreams::new(channels - coupled, coupled, mapping).map(Self::Several)
    }
}

/// Packets behind their control headers.
pub(crate) struct OpusControl(pub(crate) Layout);

/// Returns the length of the control header and of the packet behind it.
fn lengths(head: &[u8]) -> Option<(usize, usize)> {
    let (first, mut rest) = head.split_first_chunk()?;
    let flags = u16::from_be_bytes(*first);
    if flags & PREFIX_MASK != PREFIX {
        return None;
    }
    let (mut bytes, mut size) = (2, 0);
    loop {
        let (&part, after) = rest.split_first()?;
        (rest, bytes, size) = (after, bytes + 1, size + usize::from(part));
        if part != 0xff {
            break;
        }
    }
    for trim in [START_TRIM, END_TRIM] {
        bytes += if flags & trim != 0 { 2 } else { 0 };
    }
    if flags & EXTENSION != 0 {
        bytes += 1 + usize::from(*head.get(bytes)?);
    }
    Some((bytes, size))
}

impl Syntax for OpusControl {
    fn expected(&self) -> &'static str {
        "Opus"
    }

    fn frame_name(&self) -> &'static str {
        "Opus packet"
    }

    fn head_bytes(&self) -> usize {
        let streams = match self.0 {
            Layout::One => 1,
            Layout::Several(streams) => usize::from(streams.streams()),
        };
        HEAD_BYTES + LENGTH_BYTES_OF_STREAM * streams
    }

    fn frame(&self, head: &[u8]) -> Option<FrameHeader> {
        let (header, packet) = lengths(head)?;
        let samples = opus::samples(head.get(header..)?).ok()?;
        Some(FrameHeader {
            header_bytes: header.try_into().ok()?,
            bytes: (header + packet).try_into().ok()?,
            format: StreamFormat::new(opus::RATE, samples, self.channels()),
        })
        .filter(|_| packet > 0)
    }

    fn track(&self, _format: &StreamFormat) -> Track {
        match self.0 {
            Layout::One => Track::audio(Codec::Opus, 2),
            Layout::Several(streams) => Track::audio(Codec::MultiOpus, self.channels())
                .with_format_parameters(streams.to_string()),
        }
    }
}

impl OpusControl {
    fn channels(&self) -> u8 {
        match self.0 {
            Layout::One => 2,
            Layout::Several(streams) => streams.mapping().len() as u8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_a_packet_follows_its_control_header() {
        // Twenty milliseconds of CELT in one frame.
        let toc = 0xfc;
        for (head, expected) in [
            (&[0x7f, 0xe0, 3, toc][..], Some((3, 6))),
            (&[0x7f, 0xe0, 255, 1, toc], Some((4, 260))),
            (&[0x7f, 0xf8, 9, 0, 1, 0, 2, toc], Some((7, 16))),
            (&[0x7f, 0xe4, 9, 2, 0, 0, toc], Some((6, 15))),
            (&[0x7f, 0xe0, 0, toc], None),
            (&[0x7f, 0xc0, 3, toc], None),
            (&[0x7f, 0xe0, 255], None),
            (&[0x7f], None),
        ] {
            let frame = OpusControl(Layout::One).frame(head);
            let lengths = frame.map(|it| (it.header_bytes, it.bytes));
            assert_eq!(lengths, expected, "{head:?}");
            assert!(frame.is_none_or(|it| it.format.samples == 960));
        }
    }

    #[test]
    fn the_channels_of_a_packet_follow_their_code() {
        let streams = |code| match Layout::of(code) {
            Some(Layout::Several(streams)) => Some(streams.to_string()),
            Some(Layout::One) => Some("one".to_owned()),
            None => None,
        };
        for (code, expected) in [
            (0, Some("one")),
            (2, Some("one")),
            (
                3,
                Some("num_streams=2;coupled_streams=1;channel_mapping=0,2,1"),
            ),
            (
                6,
                Some("num_streams=4;coupled_streams=2;channel_mapping=0,4,1,2,3,5"),
            ),
            (
                0x86,
                Some("num_streams=4;coupled_streams=2;channel_mapping=0,1,2,3,4,5"),
            ),
            (
                8,
                Some("num_streams=5;coupled_streams=3;channel_mapping=0,6,1,2,3,4,5,7"),
            ),
            (
                0x80,
                Some("num_streams=2;coupled_streams=0;channel_mapping=0,1"),
            ),
            (0x81, None),
            (9, None),
            (0x89, None),
            (0xff, None),
        ] {
            assert_eq!(streams(code).as_deref(), expected, "{code:#x}");
        }
    }
}
