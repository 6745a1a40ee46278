//! One track on its way to the peer: its headers, numbers, reports and repairs.
//!
//! # Why no nonce seals two packets
//! A nonce is SSRC and index (rollover counter and sequence number) under a key
//! and salt. The keys are a session's own, from its handshake, for one direction,
//! and [`Outbound`] alone holds them; it moves with its session from shard to
//! shard and cannot be copied. It gives each SSRC one count, upwards only, moved
//! on before anything is sealed, and `None` instead of a rollover after 2⁴⁸.
//! Media and retransmissions (RFC 4588) have an SSRC each, which differ, so a
//! retransmission is a new packet with a nonce of its own, whatever is asked for
//! again and how often. Without RTX a packet is sent again under its first nonce,
//! which is safe because it is the same packet: such senders carry no extension
//! that changes between sendings, and [`Outbound::reseal`] gives bytes out only if
//! their tag is that of the first time. The tests in `tests/nonces.rs` look at the
//! key stream itself.

use std::time::{Duration, Instant};

use glassline_media::{Codec, Ssrc, WallClock};
use glassline_rtp as rtp;
use glassline_rtp::rtcp;

use super::anchor::Anchor;
use super::config::TrackSecrets;
use super::repairs::Requests;
use super::reseal::ResealRing;
pub(super) use super::template::Outgoing;
use super::template::Template;
use crate::sdp::NegotiatedTrack;
use crate::srtp::{DuplicateSsrc, Outbound, SealedRtp, StreamId};

/// One track on its way to the peer.
#[derive(Debug)]
pub struct Sender {
    /// Index into the tracks that were given to [`Session::accept`](super::Session::accept)
    /// or [`Session::dial`](super::Session::dial).
    pub track: usize,
    /// The `m=` line's tag.
    pub mid: String,
    /// The coding.
    pub codec: Codec,
    /// Payload type of the media.
    pub payload_type: u8,
    /// Source of the media.
    pub ssrc: Ssrc,
    /// Payload type of packets that repeat those before (RFC 2198); `None` if not
    /// negotiated. See [`Session::set_redundant`](super::Session::set_redundant).
    pub red_payload_type: Option<u8>,
    /// What the peer says of how it wants the coding: its `a=fmtp`.
    pub parameters: Box<str>,
    /// How retransmissions are told apart (RFC 4588); `None` if not negotiated.
    pub rtx: Option<Rtx>,
    /// RTP ticks per second.
    pub clock_rate: u32,
    /// The peer asks for lost packets.
    pub nack: bool,
    /// A random offset that the caller may add to its timestamps.
    pub timestamp_start: u32,
    header: Template,
    rtx_header: Template,
    first: u16,
    rtx_first: u16,
    streams: Option<Streams>,
    reseal: Option<Box<ResealRing>>,
    counts: Counts,
    requests: Requests,
    anchor: Option<Anchor>,
    anchored: bool,
    report_at: Option<Instant>,
}

/// Payload type and source of a sender's retransmissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rtx {
    /// Payload type.
    pub payload_type: u8,
    /// Source.
    pub ssrc: Ssrc,
}

/// What a sender has sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Media packets, retransmissions not counted.
    pub packets: u64,
    /// Their payload bytes, before sealing.
    pub payload_bytes: u64,
    /// Packets sent again.
    pub retransmitted: u64,
    /// Packets asked for again once the peer had asked for too many: see
    /// [`REPAIRS_MAX`](super::REPAIRS_MAX).
    pub refused: u64,
}

#[derive(Clone, Copy, Debug)]
struct Streams {
    media: StreamId,
    rtx: Option<StreamId>,
    /// Index of the next media packet.
    next: u64,
}

/// A sender reports this often (RFC 3550 §6.2 allows more for a few peers; one a
/// second is what browsers do and plenty for lip sync).
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

impl Sender {
    pub(super) fn new(negotiated: &NegotiatedTrack, secrets: &TrackSecrets) -> Self {
        let transport = negotiated
            .feedback
            .transport_cc
            .then_some(negotiated.extensions.transport_cc)
            .flatten();
        let rtx = negotiated.rtx_payload_type.map(|payload_type| Rtx {
            payload_type,
            ssrc: secrets.rtx_ssrc,
        });
        let without_rtx = negotiated.feedback.nack && rtx.is_none();
        // Re-sealing needs byte-identical headers; `sdp` agrees to no numbering then.
        let transport = transport.filter(|_| !without_rtx);
        Self {
            track: negotiated.track,
            mid: negotiated.mid.clone(),
            codec: negotiated.codec,
            payload_type: negotiated.payload_type,
            red_payload_type: negotiated.red_payload_type,
            parameters: negotiated.parameters.as_str().into(),
            ssrc: secrets.ssrc,
            rtx,
            clock_rate: negotiated.codec.clock_rate(),
            nack: negotiated.feedback.nack,
            timestamp_start: secrets.timestamp,
            header: Template::new(negotiated.payload_type, transport),
            rtx_header: Template::new(negotiated.rtx_payload_type.unwrap_or(0), transport),
            first: secrets.sequence,
            rtx_first: secrets.rtx_sequence,
            streams: None,
            reseal: without_rtx.then(Box::default),
            counts: Counts::default(),
            requests: Requests::default(),
            anchor: None,
            anchored: false,
            report_at: None,
        }
    }

    /// Packets may be padded: not where a retransmission must be the same bytes
    /// again, because what is asked for again is the payload.
    pub fn may_pad(&self) -> bool {
        self.reseal.is_none()
    }

    /// What was sent so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Bytes that header and tag add to a payload, retransmission number not counted.
    pub fn header_bytes(&self) -> usize {
        self.header.len
    }

    /// The extended sequence number that the next packet gets; `None` before keys.
    pub fn next_sequence(&self) -> Option<u64> {
        Some(self.streams?.next)
    }

    /// Claims the SSRCs under the new keys.
    pub(super) fn connect(&mut self, outbound: &mut Outbound) -> Result<(), DuplicateSsrc> {
        let media = outbound.add_stream(self.ssrc, self.first)?;
        let rtx = match self.rtx {
            Some(rtx) => Some(outbound.add_stream(rtx.ssrc, self.rtx_first)?),
            None => None,
        };
        self.streams = Some(Streams {
            media,
            rtx,
            next: u64::from(self.first),
        });
        Ok(())
    }

    /// Seals one packet; the transport number is used if this sender carries one.
    #[inline]
    pub(super) fn seal(
        &mut self,
        outbound: &mut Outbound,
        transport: u16,
        packet: Outgoing<'_>,
        now: Instant,
        out: &mut [u8],
    ) -> Option<SealedRtp> {
        let streams = self.streams.as_mut()?;
        let padding = usize::from(packet.padding);
        if out.len() < self.header.len + packet.payload.len() + padding + outbound.overhead() {
            return None;
        }
        self.header.write(out, &packet, transport);
        let sealed = outbound.seal(
            streams.media,
            self.header.len,
            packet.payload,
            packet.padding,
            out,
        )?;
        streams.next = sealed.index + 1;
        if let Some(ring) = &mut self.reseal {
            ring.remember(sealed.index, sealed.tag);
        }
        self.counts.packets += 1;
        self.counts.payload_bytes += packet.payload.len() as u64;
        if !self.anchored {
            self.anchor = Some(Anchor {
                timestamp: packet.timestamp,
                at: now,
            });
        }
        if self.report_at.is_none() {
            self.report_at = Some(now);
        }
        Some(sealed)
    }

    /// See [`Session::skip`](super::Session::skip).
    pub(super) fn skip(&mut self, outbound: &mut Outbound, count: u16) -> Option<()> {
        let streams = self.streams.as_mut()?;
        streams.next = outbound.skip(streams.media, count)?;
        Some(())
    }

    /// Seals a packet again: under RTX (RFC 4588), else byte for byte.
    pub(super) fn seal_retransmission(
        &mut self,
        outbound: &mut Outbound,
        transport: u16,
        original: u64,
        packet: &Outgoing<'_>,
        out: &mut [u8],
    ) -> Option<usize> {
        let streams = self.streams?;
        if original >= streams.next || original < u64::from(self.first) {
            return None;
        }
        let bytes = match streams.rtx {
            Some(stream) => {
                let header = self.rtx_header.len;
                let payload_bytes = rtp::rtx::OVERHEAD_BYTES + packet.payload.len();
                if out.len() < header + payload_bytes + outbound.overhead() {
                    return None;
                }
                self.rtx_header.write(out, packet, transport);
                rtp::rtx::wrap(wire(original), packet.payload, &mut out[header..]);
                outbound
                    .seal_in_place(stream, header, payload_bytes, out)?
                    .bytes
            }
            None => {
                let tag = self.reseal.as_ref()?.find(original)?;
                if out.len() < self.header.len + packet.payload.len() + outbound.overhead() {
                    return None;
                }
                self.header.write(out, packet, transport);
                outbound.reseal(
                    streams.media,
                    original,
                    tag,
                    self.header.len,
                    packet.payload,
                    out,
                )?
            }
        };
        self.counts.retransmitted += 1;
        Some(bytes)
    }

    /// See [`Session::touch`](super::Session::touch).
    pub(super) fn touch(&self) -> u64 {
        let next = self.streams.map_or(0, |streams| streams.next);
        let anchor = self.anchor.map_or(0, |anchor| anchor.timestamp);
        next ^ self.counts.packets ^ u64::from(anchor) ^ u64::from(self.header.bytes[0])
    }

    /// True if packets carry a transport-wide sequence number.
    pub(super) fn is_numbered(&self) -> bool {
        self.header.transport.is_some()
    }

    /// See [`Session::set_redundant`](super::Session::set_redundant).
    pub(super) fn set_redundant(&mut self, redundant: bool) -> bool {
        let payload_type = match (redundant, self.red_payload_type) {
            (true, None) => return false,
            (true, Some(payload_type)) => payload_type,
            (false, _) => self.payload_type,
        };
        self.header.set_payload_type(payload_type);
        true
    }

    pub(super) fn set_anchor(&mut self, timestamp: u32, at: Instant) {
        self.anchor = Some(Anchor { timestamp, at });
        self.anchored = true;
    }

    /// The packets a NACK names, widened; numbers never sent are left out, and so
    /// is what the peer's allowance does not cover.
    pub(super) fn widen(
        &mut self,
        lost: impl Iterator<Item = u16>,
        into: &mut Vec<u64>,
        max: usize,
    ) {
        let Some(last) = self.streams.and_then(|streams| streams.next.checked_sub(1)) else {
            return;
        };
        for sequence in lost {
            let wide = rtp::SequenceExtender::near(last, sequence);
            let sent = (u64::from(self.first)..=last).contains(&wide);
            if into.len() >= max {
                return;
            }
            if !sent || into.contains(&wide) {
                continue;
            }
            if self.requests.take_repair(self.counts.packets) {
                into.push(wide);
            } else {
                self.counts.refused += 1;
            }
        }
    }

    /// A FIR command is new if its number is (RFC 5104 §4.3.1.2).
    pub(super) fn is_new_full_intra(&mut self, number: u8) -> bool {
        self.requests.is_new_full_intra(number)
    }

    pub(super) fn report_at(&self) -> Option<Instant> {
        self.report_at
    }

    /// The sender report due, with the RTP time extrapolated to `now`.
    pub(super) fn poll_report(
        &mut self,
        now: Instant,
        wall: &WallClock,
    ) -> Option<rtcp::SenderReport> {
        if self.report_at.is_none_or(|at| now < at) {
            return None;
        }
        self.report_at = Some(now + REPORT_INTERVAL);
        let anchor = self.anchor?;
        Some(rtcp::SenderReport {
            ssrc: self.ssrc,
            ntp: wall.ntp(now),
            rtp_timestamp: anchor.extrapolate(now, self.clock_rate),
            packet_count: low_32(self.counts.packets),
            octet_count: low_32(self.counts.payload_bytes),
            reports: Vec::new(),
        })
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "report counters wrap at 32 bits (RFC 3550 §6.4.1)"
)]
fn low_32(count: u64) -> u32 {
    count as u32
}

/// The sequence number on the wire.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the wire carries the low 16 bits"
)]
pub(super) fn wire(sequence: u64) -> u16 {
    sequence as u16
}
