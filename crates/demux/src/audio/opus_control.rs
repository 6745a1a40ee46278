//! Opus in an MPEG transport stream: each packet is behind a control header, which has its length
//! (draft "Opus in MPEG-2 Transport Streams" of Xiph.Org, <https://wiki.xiph.org/OpusTS>).

use glassline_media::{Codec, Track};

use super::frames::{FrameHeader, StreamFormat, Syntax};
use super::opus;

/// Prefix of a control header in its first eleven bits, and the flags behind it.
const PREFIX: u16 = 0x3ff << 5;
const PREFIX_MASK: u16 = 0x7ff << 5;
const START_TRIM: u16 = 1 << 4;
const END_TRIM: u16 = 1 << 3;
const EXTENSION: u16 = 1 << 2;

/// Bytes of a control header and its packet that are needed to read the header: enough for a
/// packet of 3 KiB with both trims.
const HEAD_BYTES: usize = 20;

/// Packets of one or two channels behind their control headers.
pub(crate) struct OpusControl;

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
        HEAD_BYTES
    }

    fn frame(&self, head: &[u8]) -> Option<FrameHeader> {
        let (header, packet) = lengths(head)?;
        let samples = opus::samples(head.get(header..)?).ok()?;
        Some(FrameHeader {
            header_bytes: header.try_into().ok()?,
            bytes: (header + packet).try_into().ok()?,
            format: StreamFormat::new(opus::RATE, samples, 2),
        })
        .filter(|_| packet > 0)
    }

    fn track(&self, _format: &StreamFormat) -> Track {
        Track::audio(Codec::Opus, 2)
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
            let frame = OpusControl.frame(head);
            let lengths = frame.map(|it| (it.header_bytes, it.bytes));
            assert_eq!(lengths, expected, "{head:?}");
            assert!(frame.is_none_or(|it| it.format.samples == 960));
        }
    }
}
