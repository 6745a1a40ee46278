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
//! which is sound because it is the same packet: such senders carry no extension
//! that changes between sendings, and [`Outbound::reseal`] gives bytes out only if
//! their tag is that of the first time. The tests in `tests/nonces.rs` look at the
//! key stream itself.

use std::time::{Duration, Instant};

use glassline_media::{Codec, Ssrc, WallClock};
use glassline_rtp as rtp;
use glassline_rtp::rtcp;

use super::TrackSecrets;
use crate::sdp::NegotiatedTrack;
use crate::srtp::{DuplicateSsrc, Outbound, SealedRtp, StreamId, Tag};

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
    allowance: Allowance,
    anchor: Option<Anchor>,
    anchored: bool,
    report_at: Option<Instant>,
    last_full_intra: Option<u8>,
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
    /// [`REPAIRS_MAX`].
    pub refused: u64,
}

/// Packets that a peer may ask for at once, some two seconds of 3 Mbit/s; every
/// new media packet allows one more. A few bytes ask for a full packet, so that
/// without a bound one viewer could keep a whole shard sending, to itself.
pub const REPAIRS_MAX: u64 = 1024;

/// How many packets may be sent again.
#[derive(Clone, Copy, Debug)]
struct Allowance {
    left: u64,
    /// Media packets that have been counted in.
    earned: u64,
}

impl Default for Allowance {
    fn default() -> Self {
        Self {
            left: REPAIRS_MAX,
            earned: 0,
        }
    }
}

impl Allowance {
    /// Takes one, after `packets` were sent; false if there is none.
    fn take(&mut self, packets: u64) -> bool {
        self.left = (self.left + packets - self.earned).min(REPAIRS_MAX);
        self.earned = packets;
        let some = self.left > 0;
        self.left -= u64::from(some);
        some
    }
}

#[derive(Clone, Copy, Debug)]
struct Streams {
    media: StreamId,
    rtx: Option<StreamId>,
    /// Index of the next media packet.
    next: u64,
}

/// "RTP timestamp X is instant Y."
#[derive(Clone, Copy, Debug)]
struct Anchor {
    timestamp: u32,
    at: Instant,
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
            allowance: Allowance::default(),
            anchor: None,
            anchored: false,
            report_at: None,
            last_full_intra: None,
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
            if self.allowance.take(self.counts.packets) {
                into.push(wide);
            } else {
                self.counts.refused += 1;
            }
        }
    }

    /// A FIR command is new if its number is (RFC 5104 §4.3.1.2).
    pub(super) fn is_new_full_intra(&mut self, number: u8) -> bool {
        self.last_full_intra.replace(number) != Some(number)
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

/// What the caller gives to be sealed.
#[derive(Clone, Copy)]
pub(super) struct Outgoing<'a> {
    pub(super) timestamp: u32,
    pub(super) marker: bool,
    pub(super) payload: &'a [u8],
    pub(super) padding: u8,
}

/// An RTP header whose constant part is written once.
///
/// The only extension written is the transport-wide number. MID is not: payload
/// types differ between our `m=` lines and the SSRCs stand in our answer, so the
/// receiver tells streams apart without it (RFC 9143 §9.2), and packets of a
/// burst stay equal in size from the first on, as segmentation offload needs.
#[derive(Debug)]
struct Template {
    bytes: [u8; TEMPLATE_BYTES],
    len: usize,
    /// Where the transport-wide number stands.
    transport: Option<usize>,
}

/// Fixed header, extension header, one element of two bytes, padding.
const TEMPLATE_BYTES: usize = 20;
/// The number follows the extension header of 4 bytes and the element's first byte.
const TRANSPORT_AT: usize = rtp::HEADER_BYTES + 5;

impl Template {
    fn new(payload_type: u8, transport: Option<u8>) -> Self {
        let header = rtp::Header {
            marker: false,
            payload_type,
            sequence: 0,
            timestamp: 0,
            ssrc: Ssrc(0),
        };
        // Two-byte elements would stand elsewhere; the negotiation gives 1–14.
        let transport = transport.filter(|id| (1..=14).contains(id));
        let mut bytes = [0; TEMPLATE_BYTES];
        let len = match transport {
            Some(id) => rtp::write_header(&mut bytes, &header, &[(id, &[0, 0])]),
            None => rtp::write_header(&mut bytes, &header, &[]),
        };
        Self {
            bytes,
            len,
            transport: transport.map(|_| TRANSPORT_AT),
        }
    }

    fn set_payload_type(&mut self, payload_type: u8) {
        self.bytes[1] = payload_type & 0x7f;
    }

    /// Sequence number and SSRC are filled in by [`Outbound`]. The caller has
    /// checked that `out` has room for header and tag; the whole template is
    /// copied, whatever its length, because a constant length needs no call.
    #[inline]
    fn write(&self, out: &mut [u8], packet: &Outgoing<'_>, transport: u16) {
        out[..TEMPLATE_BYTES].copy_from_slice(&self.bytes);
        out[0] |= u8::from(packet.padding > 0) << 5;
        out[1] |= u8::from(packet.marker) << 7;
        out[4..8].copy_from_slice(&packet.timestamp.to_be_bytes());
        if let Some(at) = self.transport {
            out[at..at + 2].copy_from_slice(&transport.to_be_bytes());
        }
    }
}

/// Tags of the last packets of a sender that re-seals: see [`Outbound::reseal`].
#[derive(Debug)]
struct ResealRing {
    tags: [(u64, Tag); RESEAL_MAX],
}

/// A second of 3 Mbit/s.
const RESEAL_MAX: usize = 512;

impl Default for ResealRing {
    fn default() -> Self {
        Self {
            tags: [(u64::MAX, Tag::default()); RESEAL_MAX],
        }
    }
}

impl ResealRing {
    fn remember(&mut self, index: u64, tag: Tag) {
        self.tags[Self::slot(index)] = (index, tag);
    }

    fn find(&self, index: u64) -> Option<Tag> {
        let (held, tag) = self.tags[Self::slot(index)];
        (held == index).then_some(tag)
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "the remainder is below 512"
    )]
    fn slot(index: u64) -> usize {
        (index % RESEAL_MAX as u64) as usize
    }
}

impl Anchor {
    /// The RTP time at `now`, before or after the anchor.
    #[expect(clippy::cast_possible_truncation, reason = "RTP time wraps at 32 bits")]
    fn extrapolate(&self, now: Instant, clock_rate: u32) -> u32 {
        let ticks = |elapsed: Duration| {
            ((elapsed.as_nanos() * u128::from(clock_rate) + 500_000_000) / 1_000_000_000) as u32
        };
        match now.checked_duration_since(self.at) {
            Some(later) => self.timestamp.wrapping_add(ticks(later)),
            None => self.timestamp.wrapping_sub(ticks(self.at - now)),
        }
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
