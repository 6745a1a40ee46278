//! Media that is sent: packets are sealed, skipped and retransmitted.

use std::time::Instant;

use super::sender::Outgoing;
use super::{Sealed, Sender, SenderIndex, Session, State};

/// Most sequence numbers that [`Session::skip`] skips: far fewer than the 2¹⁵ from which on a
/// peer would take them for a step back (RFC 3711 §3.3.1).
pub const SKIP_MAX: u16 = 1000;

impl Session {
    /// Seals one payload as a datagram for [`peer`](Self::peer) into `out`.
    ///
    /// `timestamp` is the RTP timestamp on the wire. Returns `None` before
    /// [`Event::Connected`](super::Event::Connected), after the end, for an unknown sender, or if `out` has no room for
    /// the header (12 bytes, 20 with congestion control), the payload and 16 bytes of tag. All
    /// datagrams of a sender have the same overhead.
    #[inline]
    pub fn seal(
        &mut self,
        sender: SenderIndex,
        timestamp: u32,
        marker: bool,
        payload: &[u8],
        now: Instant,
        out: &mut [u8],
    ) -> Option<Sealed> {
        self.seal_padded(sender, timestamp, marker, payload, 0, now, out)
    }

    /// Like [`seal`](Self::seal), with `padding` bytes of RTP padding (RFC 3550 §5.1), at most
    /// 16. Returns `None` also for more padding, and if the sender may not pad
    /// ([`Sender::may_pad`]).
    #[inline]
    #[expect(
        clippy::too_many_arguments,
        reason = "a packet's fields, once; a struct would be built for this call only"
    )]
    pub fn seal_padded(
        &mut self,
        sender: SenderIndex,
        timestamp: u32,
        marker: bool,
        payload: &[u8],
        padding: u8,
        now: Instant,
        out: &mut [u8],
    ) -> Option<Sealed> {
        if self.state != State::Connected {
            return None;
        }
        let sender = self.senders.get_mut(sender.0)?;
        if padding > 0 && !sender.may_pad() {
            return None;
        }
        let keys = self.keys.as_mut()?;
        let packet = Outgoing {
            timestamp,
            marker,
            payload,
            padding,
        };
        if sender.report_at().is_none() {
            // The sender's first report becomes due with its first packet.
            self.timeout = None;
        }
        let transport = self.transport_sequence;
        let sealed = sender.seal(&mut keys.outbound, transport, packet, now, out)?;
        if sender.is_numbered() {
            self.on_sent(sealed.bytes, now);
        }
        Some(Sealed {
            len: sealed.bytes,
            sequence: sealed.index,
        })
    }

    /// Skips the next `count` sequence numbers of a sender: packets that were lost before they
    /// came here, so that the peer detects a loss and does not take it for silence. Returns
    /// false if nothing can be sealed, or if `count` exceeds [`SKIP_MAX`].
    pub fn skip(&mut self, sender: SenderIndex, count: u16) -> bool {
        let (Some(sender), Some(keys)) = (self.senders.get_mut(sender.0), self.keys.as_mut())
        else {
            return false;
        };
        count <= SKIP_MAX && sender.skip(&mut keys.outbound, count).is_some()
    }

    /// Seals again the packet to which [`seal`](Self::seal) gave `original_sequence`, from the
    /// same timestamp, marker and payload. Returns the length of the datagram in bytes.
    ///
    /// With RTX (RFC 4588) the retransmission has its own SSRC and sequence number. Without
    /// RTX, the first datagram is produced again byte by byte. Its nonce is then safe to use
    /// again because it seals the same bytes, which is checked (see [`Outbound::reseal`](crate::srtp::Outbound::reseal));
    /// the datagram keeps its transport-wide number, whose feedback then counts as that of a loss.
    /// Returns `None` if the packet was never sent, was sent too long ago (without RTX: 512
    /// packets), NACK is not negotiated, or the bytes differ.
    #[expect(
        clippy::too_many_arguments,
        reason = "a packet's fields, once; a struct would be built for this call only"
    )]
    pub fn seal_retransmission(
        &mut self,
        sender: SenderIndex,
        original_sequence: u64,
        timestamp: u32,
        marker: bool,
        payload: &[u8],
        now: Instant,
        out: &mut [u8],
    ) -> Option<usize> {
        if self.state != State::Connected {
            return None;
        }
        let sender = self.senders.get_mut(sender.0)?;
        let keys = self.keys.as_mut()?;
        let packet = Outgoing {
            timestamp,
            marker,
            payload,
            padding: 0,
        };
        let sealed = sender.seal_retransmission(
            &mut keys.outbound,
            self.transport_sequence,
            original_sequence,
            &packet,
            out,
        )?;
        if sender.is_numbered() {
            match sealed.repeats {
                Some(first) => self.history.sent_again(first),
                None => self.on_sent(sealed.bytes, now),
            }
            if let Some(congestion) = self.congestion.control_mut() {
                congestion.on_repair(sealed.bytes);
            }
        }
        Some(sealed.bytes)
    }

    /// Seals a packet of 255 bytes of padding on a sender's stream of retransmissions. The
    /// receiver reports its arrival and drops the packet (RFC 4588 §4), so that it shows what the path
    /// carries beyond the media. Returns `None` without RTX, without congestion control, or before the
    /// session is connected.
    pub fn seal_probe(
        &mut self,
        sender: SenderIndex,
        now: Instant,
        out: &mut [u8],
    ) -> Option<usize> {
        if self.state != State::Connected {
            return None;
        }
        let sender = self.senders.get_mut(sender.0)?;
        let keys = self.keys.as_mut()?;
        let bytes = sender.seal_probe(&mut keys.outbound, self.transport_sequence, now, out)?;
        self.on_sent(bytes, now);
        Some(bytes)
    }

    /// Records that a packet with a transport-wide number was sent.
    #[inline]
    pub(super) fn on_sent(&mut self, bytes: usize, now: Instant) {
        self.history.sent(self.transport_sequence, now, bytes);
        if let Some(congestion) = self.congestion.control_mut() {
            congestion.on_sent(self.transport_sequence, bytes, now);
        }
        self.transport_sequence += 1;
    }

    /// Reads a part of everything that [`seal`](Self::seal) and transport feedback read, to load it into the
    /// processor's cache. The returned number has no meaning.
    ///
    /// A server with many sessions finds each one evicted from the nearer caches when it seals
    /// for it. Sealing would wait for those cache misses one after another; here they overlap.
    /// Call it for the session after the one that is served.
    pub fn prefetch(&self) -> u64 {
        let senders = self.senders.iter().map(Sender::prefetch).sum::<u64>();
        let keys = self
            .keys
            .as_ref()
            .map_or(0, |keys| keys.outbound.prefetch());
        let own = self.transport_sequence + u64::from(self.timeout.is_some());
        let path = u64::from(self.ice.path().is_some());
        let control = self.congestion.control();
        let control = control.map_or(0, |it| it.prefetch() ^ self.history.prefetch());
        senders ^ keys ^ own ^ path ^ control
    }

    /// Selects whether a sender's packets have the payload type of its redundancy (RFC 2198),
    /// whose payloads the caller then builds, or its own. Returns false, without effect, if the
    /// peer accepts no redundancy.
    pub fn set_redundant(&mut self, sender: SenderIndex, redundant: bool) -> bool {
        let sender = self.senders.get_mut(sender.0);
        sender.is_some_and(|sender| sender.set_redundant(redundant))
    }

    /// States that RTP timestamp `timestamp` of a sender belongs to the instant `at`; sender
    /// reports extrapolate from it. Without this call they extrapolate from the first packet
    /// sealed.
    pub fn anchor(&mut self, sender: SenderIndex, timestamp: u32, at: Instant) {
        if let Some(sender) = self.senders.get_mut(sender.0) {
            sender.set_anchor(timestamp, at);
        }
    }
}
