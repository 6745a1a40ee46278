//! RTCP packets, one file per packet type, named as in its RFC.
//!
//! [`parse`] iterates over a compound packet or a reduced-size packet (RFC 5506); it demands no
//! order and no particular packets. Types that are not implemented (XR of RFC 3611, APP, newer
//! feedback) become [`Unknown`] and do not affect the other packets. Each type has a `write`
//! method, which appends whole 32-bit words, so writing packets one after another makes a
//! compound packet.
//!
//! ```
//! use glassline_media::Ssrc;
//! use glassline_rtp::rtcp::{Nack, Packet, ReceiverReport, parse};
//!
//! let (ours, theirs) = (Ssrc(1), Ssrc(2));
//! let mut compound = Vec::new();
//! ReceiverReport { ssrc: ours, reports: Vec::new() }.write(&mut compound);
//! Nack::new(ours, theirs, [7, 9]).write(&mut compound);
//!
//! let packets: Vec<_> = parse(&compound).flatten().collect();
//! match &packets[..] {
//!     [Packet::ReceiverReport(_), Packet::Nack(nack)] => {
//!         assert_eq!(nack.lost().collect::<Vec<_>>(), [7, 9]);
//!     }
//!     other => panic!("not what was written: {other:?}"),
//! }
//! ```

mod bye;
mod full_intra_request;
mod nack;
mod picture_loss_indication;
mod remb;
mod report;
mod source_description;
mod transport_feedback;

pub use bye::Bye;
pub use full_intra_request::FullIntraRequest;
pub use nack::{Lost, Nack, NackItem};
pub use picture_loss_indication::PictureLossIndication;
pub use remb::Remb;
pub use report::{REPORTS_MAX, ReceiverReport, ReportBlock, SenderReport};
pub use source_description::{Chunk, SourceDescription};
pub use transport_feedback::{StatusRun, StatusRuns, TransportFeedback, TransportFeedbackBuilder};
pub(crate) use transport_feedback::{TICKS_PER_REFERENCE, TICKS_PER_SECOND};

use glassline_media::Ssrc;
use glassline_media::fields::{Truncated, need, u16_at, u32_at};

use crate::ParseError;

/// One packet of a compound RTCP packet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Packet<'a> {
    /// Sender report (RFC 3550 §6.4.1).
    SenderReport(SenderReport),
    /// Receiver report (RFC 3550 §6.4.2).
    ReceiverReport(ReceiverReport),
    /// Source description (RFC 3550 §6.5).
    SourceDescription(SourceDescription<'a>),
    /// Goodbye (RFC 3550 §6.6).
    Bye(Bye<'a>),
    /// Generic negative acknowledgment (RFC 4585 §6.2.1).
    Nack(Nack),
    /// Picture loss indication (RFC 4585 §6.3.1).
    PictureLossIndication(PictureLossIndication),
    /// Full intra request (RFC 5104 §4.3.1).
    FullIntraRequest(FullIntraRequest),
    /// Transport-wide congestion control feedback
    /// (draft-holmer-rmcat-transport-wide-cc-extensions-01 §3.1).
    TransportFeedback(TransportFeedback<'a>),
    /// Receiver estimated maximum bitrate (draft-alvestrand-rmcat-remb-03 §2.2).
    Remb(Remb),
    /// Any other type, which receivers ignore.
    Unknown(Unknown<'a>),
}

/// A packet of a type that is not implemented, such as XR (RFC 3611) or APP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unknown<'a> {
    /// RTCP packet type, as on the wire.
    pub packet_type: u8,
    /// The five bits behind the padding bit: a count, subtype or format.
    pub format: u8,
    /// Bytes behind the first four, without padding.
    pub body: &'a [u8],
}

impl Unknown<'_> {
    /// Appends the packet to `out`, with the body padded to whole words.
    pub fn write(&self, out: &mut Vec<u8>) {
        write_packet(out, self.format, self.packet_type, |out| {
            out.extend_from_slice(self.body);
        });
    }
}

impl Packet<'_> {
    /// Appends the packet to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::SenderReport(packet) => packet.write(out),
            Self::ReceiverReport(packet) => packet.write(out),
            Self::SourceDescription(packet) => packet.write(out),
            Self::Bye(packet) => packet.write(out),
            Self::Nack(packet) => packet.write(out),
            Self::PictureLossIndication(packet) => packet.write(out),
            Self::FullIntraRequest(packet) => packet.write(out),
            Self::TransportFeedback(packet) => packet.write(out),
            Self::Remb(packet) => packet.write(out),
            Self::Unknown(packet) => packet.write(out),
        }
    }
}

/// Distinguishes RTCP from RTP on a shared port by the second byte (RFC 5761 §4).
pub fn is_rtcp(bytes: &[u8]) -> bool {
    matches!(bytes.get(1), Some(192..=223))
}

/// Iterates over the packets of a decrypted compound packet, in order.
///
/// A packet with malformed content yields an error, and the iteration continues with the next;
/// a packet with a malformed header or length yields an error and ends it. Offsets in errors
/// count from the start of `bytes`.
pub fn parse(bytes: &[u8]) -> Compound<'_> {
    Compound { bytes, offset: 0 }
}

/// Iterator over the packets of a compound packet; see [`parse`].
#[derive(Clone, Debug)]
pub struct Compound<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Iterator for Compound<'a> {
    type Item = Result<Packet<'a>, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.offset >= self.bytes.len() {
            return None;
        }
        match RawPacket::parse(self.bytes, self.offset) {
            Ok((raw, next)) => {
                self.offset = next;
                Some(raw.and_then(RawPacket::packet))
            }
            Err(error) => {
                self.offset = self.bytes.len();
                Some(Err(error))
            }
        }
    }
}

/// Length of the header that all RTCP packets share, in bytes.
const HEADER_BYTES: usize = 4;

/// RTCP packet types (RFC 3550 §12.1, RFC 4585 §6.1).
mod packet_type {
    pub(super) const SENDER_REPORT: u8 = 200;
    pub(super) const RECEIVER_REPORT: u8 = 201;
    pub(super) const SOURCE_DESCRIPTION: u8 = 202;
    pub(super) const BYE: u8 = 203;
    /// Generic RTP feedback (RFC 4585 §6.2).
    pub(super) const TRANSPORT_FEEDBACK: u8 = 205;
    /// Payload-specific feedback (RFC 4585 §6.3).
    pub(super) const PAYLOAD_FEEDBACK: u8 = 206;
}

/// Formats of feedback packets, in the bits of the count (RFC 4585 §6.2, §6.3).
mod feedback_format {
    pub(super) const NACK: u8 = 1;
    pub(super) const TRANSPORT_WIDE: u8 = 15;
    pub(super) const PICTURE_LOSS: u8 = 1;
    pub(super) const FULL_INTRA: u8 = 4;
    pub(super) const APPLICATION: u8 = 15;
}

/// One RTCP packet of a compound packet, with its content not parsed yet.
#[derive(Clone, Copy, Debug)]
struct RawPacket<'a> {
    format: u8,
    packet_type: u8,
    /// Bytes behind the first four, without padding.
    body: &'a [u8],
    /// Offset of `body` in the compound packet, for errors.
    offset: usize,
}

impl<'a> RawPacket<'a> {
    /// Parses the header of the packet at `offset`. Returns the packet and the offset of the
    /// next. The outer error ends the compound packet, the inner one concerns only this packet.
    fn parse(
        bytes: &'a [u8],
        offset: usize,
    ) -> Result<(Result<Self, ParseError>, usize), ParseError> {
        need("RTCP header", bytes.len(), offset, HEADER_BYTES)?;
        let first = bytes[offset];
        if first >> 6 != 2 {
            return Err(ParseError::Version {
                offset,
                version: first >> 6,
            });
        }
        let len = usize::from(u16_at(bytes, offset + 2)) * 4;
        let start = offset + HEADER_BYTES;
        need("RTCP packet", bytes.len(), start, len)?;
        let end = start + len;
        let raw = Self {
            format: first & 0x1f,
            packet_type: bytes[offset + 1],
            body: &bytes[start..end],
            offset: start,
        };
        let padded = first & 0x20 != 0;
        Ok((
            if padded {
                raw.without_padding()
            } else {
                Ok(raw)
            },
            end,
        ))
    }

    /// Removes padding, whose last byte is its length (RFC 3550 §6.4.1).
    fn without_padding(self) -> Result<Self, ParseError> {
        let count = self.body.last().copied().unwrap_or(0);
        match self.body.len().checked_sub(usize::from(count)) {
            Some(end) if count > 0 => Ok(Self {
                body: &self.body[..end],
                ..self
            }),
            _ => Err(ParseError::Value {
                what: "RTCP padding count",
                offset: self.offset + self.body.len().saturating_sub(1),
                value: u32::from(count),
            }),
        }
    }

    /// Parses the content by packet type and format.
    fn packet(self) -> Result<Packet<'a>, ParseError> {
        use feedback_format as format;
        use packet_type as kind;
        Ok(match (self.packet_type, self.format) {
            (kind::SENDER_REPORT, _) => Packet::SenderReport(SenderReport::parse(self)?),
            (kind::RECEIVER_REPORT, _) => Packet::ReceiverReport(ReceiverReport::parse(self)?),
            (kind::SOURCE_DESCRIPTION, _) => {
                Packet::SourceDescription(SourceDescription::parse(self)?)
            }
            (kind::BYE, _) => Packet::Bye(Bye::parse(self)?),
            (kind::TRANSPORT_FEEDBACK, format::NACK) => Packet::Nack(Nack::parse(self)?),
            (kind::TRANSPORT_FEEDBACK, format::TRANSPORT_WIDE) => {
                Packet::TransportFeedback(TransportFeedback::parse(self)?)
            }
            (kind::PAYLOAD_FEEDBACK, format::PICTURE_LOSS) => {
                Packet::PictureLossIndication(PictureLossIndication::parse(self)?)
            }
            (kind::PAYLOAD_FEEDBACK, format::FULL_INTRA) => {
                Packet::FullIntraRequest(FullIntraRequest::parse(self)?)
            }
            (kind::PAYLOAD_FEEDBACK, format::APPLICATION) if Remb::is(self) => {
                Packet::Remb(Remb::parse(self)?)
            }
            _ => Packet::Unknown(Unknown {
                packet_type: self.packet_type,
                format: self.format,
                body: self.body,
            }),
        })
    }

    /// Checks that `needed` bytes follow offset `at` in the body.
    fn need(&self, what: &'static str, at: usize, needed: usize) -> Result<(), Truncated> {
        need(
            what,
            self.offset + self.body.len(),
            self.offset + at,
            needed,
        )
    }

    fn u16(&self, at: usize) -> u16 {
        u16_at(self.body, at)
    }

    fn u32(&self, at: usize) -> u32 {
        u32_at(self.body, at)
    }

    fn ssrc(&self, at: usize) -> Ssrc {
        Ssrc(self.u32(at))
    }
}

/// Writes one packet: header, `body`, zeros up to a whole word, then the length.
fn write_packet(out: &mut Vec<u8>, format: u8, packet_type: u8, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[2 << 6 | format & 0x1f, packet_type, 0, 0]);
    body(out);
    let len = (out.len() - start).next_multiple_of(4);
    out.resize(start + len, 0);
    let words = u16::try_from(len / 4 - 1).expect("an RTCP packet stays below 256 KiB");
    out[start + 2..start + 4].copy_from_slice(&words.to_be_bytes());
}

fn put_u16(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_be_bytes());
}

fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_be_bytes());
}

#[cfg(test)]
mod tests;
