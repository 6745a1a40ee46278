//! One track that is sent: its headers, sequence numbers, sender reports and retransmissions.
//!
//! # Why no nonce seals two packets
//! A nonce consists of SSRC and packet index (rollover counter and sequence number), under a key
//! and salt. The keys belong to one session and one direction; only [`Outbound`] holds them, which
//! moves with its session from thread to thread and cannot be copied. It counts the index of each
//! SSRC upwards only, increments it before anything is sealed, and returns `None` instead of
//! wrapping after 2⁴⁸.
//!
//! Media and retransmissions (RFC 4588) have different SSRCs, so a retransmission is a new packet
//! with its own nonce, whatever is requested again and how often. Without RTX a packet is sent
//! again under its first nonce, which is safe because it is the same packet: it keeps its
//! transport-wide number, the only part that would change between sendings, and
//! [`Outbound::reseal`] returns bytes only if their tag equals the first one. The tests in
//! `tests/nonces.rs` inspect the key stream itself.

use std::time::{Duration, Instant};

use glassline_media::{Codec, Ssrc, TrackIndex, WallClock};
use glassline_rtp as rtp;
use glassline_rtp::rtcp;

use super::anchor::Anchor;
use super::config::TrackSecrets;
use super::counts::Counts;
use super::fec_stream::FecStream;
use super::repairs::Requests;
use super::reseal::{FirstSending, ResealRing};
pub(super) use super::template::Outgoing;
use super::template::{LayerElements, Template};
use crate::sdp::NegotiatedTrack;
use crate::srtp::{DuplicateSsrc, Outbound, SealedRtp, StreamIndex};

/// One track that is sent to the peer.
#[derive(Debug)]
pub struct Sender {
    /// Index into the tracks that were passed to [`Session::accept`](super::Session::accept) or
    /// [`Session::dial`](super::Session::dial).
    pub track: TrackIndex,
    /// Identification tag of the `m=` line.
    pub mid: String,
    /// Codec of the track.
    pub codec: Codec,
    /// Payload type of the media.
    pub payload_type: u8,
    /// SSRC of the media.
    pub ssrc: Ssrc,
    /// Payload type of packets with redundancy (RFC 2198); `None` if it is not negotiated. See
    /// [`Session::set_redundant`](super::Session::set_redundant).
    pub red_payload_type: Option<u8>,
    /// Whether an end prefers redundancy to the codec itself.
    pub prefers_red: bool,
    /// Format parameters that the peer asks for: its `a=fmtp`.
    pub parameters: Box<str>,
    /// Payload type and SSRC of retransmissions (RFC 4588); `None` if RTX is not negotiated.
    pub rtx: Option<Rtx>,
    /// RTP clock rate in Hz.
    pub clock_rate: u32,
    /// Whether the peer sends NACKs.
    pub nack: bool,
    /// Random offset that the caller may add to its timestamps.
    pub timestamp_start: u32,
    pub(super) header: Template,
    rtx_header: Template,
    /// The stream of FEC packets; `None` if FlexFEC is not negotiated.
    pub(super) fec: Option<Box<FecStream>>,
    /// Id of the extension with the transport-wide number; `None` if it is not negotiated.
    transport: Option<u8>,
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

/// Payload type and SSRC of a sender's retransmissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rtx {
    /// Payload type of the retransmissions.
    pub payload_type: u8,
    /// SSRC of the retransmissions.
    pub ssrc: Ssrc,
}

/// SRTP streams of a sender, once there are keys.
#[derive(Clone, Copy, Debug)]
struct Streams {
    media: StreamIndex,
    rtx: Option<StreamIndex>,
    /// Index of the next media packet.
    next: u64,
}

/// A retransmission that was sealed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retransmission {
    /// Length of the packet in bytes.
    pub(super) bytes: usize,
    /// Transport-wide number of the first sending, which a packet without RTX repeats; `None` for
    /// a new packet, of RTX.
    pub(super) repeats: Option<u64>,
}

/// Padding of a packet that only probes the path: as much as one byte can state (RFC 3550 §5.1).
const PADDING_BYTES: usize = 255;

/// Interval of sender reports. RFC 3550 §6.2 allows more of them for few participants; one per
/// second is what browsers send, and enough for lip sync.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

impl Sender {
    /// Creates the sender of a track, or of the simulcast layer `rid` of one.
    pub(super) fn new(
        negotiated: &NegotiatedTrack,
        secrets: &TrackSecrets,
        rid: Option<&str>,
    ) -> Self {
        let ids = negotiated.extensions;
        let of_layer = |id: Option<u8>| {
            let rid = rid?;
            let elements = [(ids.mid, &negotiated.mid[..]), (id, rid)];
            Some(Box::new(LayerElements::new(elements)))
        };
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
        Self {
            track: negotiated.track,
            mid: negotiated.mid.clone(),
            codec: negotiated.codec,
            payload_type: negotiated.payload_type,
            red_payload_type: negotiated.red_payload_type,
            prefers_red: negotiated.prefers_red,
            parameters: negotiated.parameters.as_str().into(),
            ssrc: secrets.ssrc,
            rtx,
            clock_rate: negotiated.codec.clock_rate(),
            nack: negotiated.feedback.nack,
            timestamp_start: secrets.timestamp,
            header: Template::new(negotiated.payload_type, None, of_layer(ids.rid)),
            rtx_header: Template::new(
                negotiated.rtx_payload_type.unwrap_or(0),
                None,
                of_layer(ids.repaired_rid.or(ids.rid)),
            ),
            fec: FecStream::of(negotiated, secrets),
            transport,
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

    /// Returns whether packets may be padded. They may not if a retransmission must repeat the
    /// same bytes, because only the payload is available then.
    pub fn may_pad(&self) -> bool {
        self.reseal.is_none()
    }

    /// Returns the counts of packets sent so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the length of the RTP header in bytes, extensions included.
    pub fn header_bytes(&self) -> usize {
        self.header.len
    }

    /// Returns the extended sequence number of the next packet; `None` before the handshake
    /// finished.
    pub fn next_sequence(&self) -> Option<u64> {
        Some(self.streams?.next)
    }

    /// Returns the SRTP stream of the media, or of its retransmissions.
    #[cfg(any(test, fuzzing))]
    pub(super) fn srtp_stream(&self, rtx: bool) -> Option<StreamIndex> {
        let streams = self.streams?;
        if rtx {
            streams.rtx
        } else {
            Some(streams.media)
        }
    }

    /// Registers the SSRCs with the new keys.
    pub(super) fn connect(&mut self, outbound: &mut Outbound) -> Result<(), DuplicateSsrc> {
        let media = outbound.add_stream(self.ssrc, self.first)?;
        let rtx = match self.rtx {
            Some(rtx) => Some(outbound.add_stream(rtx.ssrc, self.rtx_first)?),
            None => None,
        };
        if let Some(fec) = &mut self.fec {
            fec.connect(outbound)?;
        }
        self.streams = Some(Streams {
            media,
            rtx,
            next: u64::from(self.first),
        });
        Ok(())
    }

    /// Seals one packet. The transport-wide number `transport` is used if this sender is numbered.
    #[inline]
    pub(super) fn seal(
        &mut self,
        outbound: &mut Outbound,
        transport: u64,
        packet: Outgoing<'_>,
        now: Instant,
        out: &mut [u8],
    ) -> Option<SealedRtp> {
        let streams = self.streams.as_mut()?;
        let padding = usize::from(packet.padding);
        if out.len() < self.header.len + packet.payload.len() + padding + outbound.overhead() {
            return None;
        }
        self.header.write(out, &packet, wire(transport));
        let sealed = outbound.seal(
            streams.media,
            self.header.len,
            packet.payload,
            packet.padding,
            out,
        )?;
        streams.next = sealed.index + 1;
        if let Some(ring) = &mut self.reseal {
            ring.remember(FirstSending {
                index: sealed.index,
                tag: sealed.tag,
                transport,
            });
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

    /// Seals a packet that stands in `out`, whatever its header says, see
    /// [`Session::queue_unchecked_rtp`](super::Session::queue_unchecked_rtp).
    pub(super) fn seal_unchecked(
        &mut self,
        outbound: &mut Outbound,
        header_bytes: usize,
        payload_bytes: usize,
        out: &mut [u8],
    ) -> Option<()> {
        let streams = self.streams.as_mut()?;
        let sealed = outbound.seal_in_place(streams.media, header_bytes, payload_bytes, out)?;
        streams.next = sealed.index + 1;
        Some(())
    }

    /// Skips sequence numbers, see [`Session::skip`](super::Session::skip).
    pub(super) fn skip(&mut self, outbound: &mut Outbound, count: u16) -> Option<()> {
        let streams = self.streams.as_mut()?;
        streams.next = outbound.skip(streams.media, count)?;
        Some(())
    }

    /// Seals a retransmission: with RTX (RFC 4588) as a new packet, otherwise byte for byte.
    pub(super) fn seal_retransmission(
        &mut self,
        outbound: &mut Outbound,
        transport: u64,
        original: u64,
        packet: &Outgoing<'_>,
        out: &mut [u8],
    ) -> Option<Retransmission> {
        let streams = self.streams?;
        if original >= streams.next || original < u64::from(self.first) {
            return None;
        }
        let sealed = match streams.rtx {
            Some(stream) => {
                let header = self.rtx_header.len;
                let payload_bytes = rtp::rtx::OVERHEAD_BYTES + packet.payload.len();
                if out.len() < header + payload_bytes + outbound.overhead() {
                    return None;
                }
                self.rtx_header.write(out, packet, wire(transport));
                rtp::rtx::wrap(wire(original), packet.payload, &mut out[header..]);
                let sealed = outbound.seal_in_place(stream, header, payload_bytes, out)?;
                Retransmission {
                    bytes: sealed.bytes,
                    repeats: None,
                }
            }
            None => {
                let first = self.reseal.as_ref()?.find(original)?;
                if out.len() < self.header.len + packet.payload.len() + outbound.overhead() {
                    return None;
                }
                self.header.write(out, packet, wire(first.transport));
                let bytes = outbound.reseal(
                    streams.media,
                    original,
                    first.tag,
                    self.header.len,
                    packet.payload,
                    out,
                )?;
                Retransmission {
                    bytes,
                    repeats: Some(first.transport),
                }
            }
        };
        self.counts.retransmitted += 1;
        Some(sealed)
    }

    /// Seals a packet of padding on the stream of retransmissions; `None` without such a stream, or if
    /// packets have no transport-wide number.
    pub(super) fn seal_probe(
        &mut self,
        outbound: &mut Outbound,
        transport: u64,
        now: Instant,
        out: &mut [u8],
    ) -> Option<usize> {
        let stream = self.streams?.rtx?;
        let header = self.rtx_header.len;
        if !self.is_numbered() || out.len() < header + PADDING_BYTES + outbound.overhead() {
            return None;
        }
        let anchor = self.anchor.as_ref();
        let packet = Outgoing {
            timestamp: anchor.map_or(0, |it| it.extrapolate(now, self.clock_rate)),
            marker: false,
            payload: &[],
            padding: u8::MAX,
        };
        self.rtx_header.write(out, &packet, wire(transport));
        let padding = &mut out[header..header + PADDING_BYTES];
        padding.fill(0);
        padding[PADDING_BYTES - 1] = u8::MAX;
        let sealed = outbound.seal_in_place(stream, header, PADDING_BYTES, out)?;
        Some(sealed.bytes)
    }

    /// Returns whether padding may probe the path.
    pub fn may_probe(&self) -> bool {
        self.rtx.is_some() && self.is_numbered()
    }

    /// Reads what sealing needs, see [`Session::prefetch`](super::Session::prefetch).
    pub(super) fn prefetch(&self) -> u64 {
        let next = self.streams.map_or(0, |streams| streams.next);
        let anchor = self.anchor.map_or(0, |anchor| anchor.timestamp);
        next ^ self.counts.packets ^ u64::from(anchor) ^ u64::from(self.header.bytes[0])
    }

    /// Returns whether packets may carry a transport-wide sequence number.
    pub(super) fn may_number(&self) -> bool {
        self.transport.is_some()
    }

    /// Has packets carry a transport-wide sequence number from now on, if that is negotiated. The
    /// peer answers with feedback ten times a second or more, so nobody numbers without a use for
    /// feedback.
    pub(super) fn number(&mut self) {
        self.header.set_transport(self.transport);
        self.rtx_header.set_transport(self.transport);
        if let Some(fec) = &mut self.fec {
            fec.header.set_transport(self.transport);
        }
    }

    /// Returns whether packets carry a transport-wide sequence number.
    pub(super) fn is_numbered(&self) -> bool {
        self.header.transport.is_some()
    }

    /// Selects the payload type, see [`Session::set_redundant`](super::Session::set_redundant).
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

    /// Appends the extended numbers of the packets in a NACK to `into`. Numbers that were never
    /// sent are omitted, and so are those beyond the retransmissions that the peer may request.
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

    /// Returns whether a FIR command is new, which it is if its number differs from the last
    /// (RFC 5104 §4.3.1.2).
    pub(super) fn is_new_full_intra(&mut self, number: u8) -> bool {
        self.requests.is_new_full_intra(number)
    }

    pub(super) fn report_at(&self) -> Option<Instant> {
        self.report_at
    }

    /// Returns the sender report if one is due at `until`, with the RTP timestamp extrapolated to
    /// `now`.
    pub(super) fn poll_report(
        &mut self,
        now: Instant,
        until: Instant,
        wall: &WallClock,
    ) -> Option<rtcp::SenderReport> {
        if self.report_at.is_none_or(|at| until < at) {
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

/// Returns the sequence number as on the wire.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the wire carries the low 16 bits"
)]
pub(super) fn wire(sequence: u64) -> u16 {
    sequence as u16
}
