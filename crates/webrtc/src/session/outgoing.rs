//! Media on its way out: packets sealed, skipped and sealed again.

use std::time::Instant;

use super::sender::{self, Outgoing};
use super::{Sealed, Sender, SenderIndex, Session, State};

/// Sequence numbers that [`Session::skip`] leaves out at most: far fewer than the 2¹⁵ from
/// which on a peer would take them for a step back (RFC 3711 §3.3.1).
pub const SKIP_MAX: u16 = 1000;

impl Session {
    /// Seals one payload as a datagram for [`peer`](Self::peer) into `out`.
    ///
    /// `timestamp` goes on the wire as it is. `None` before
    /// [`Event::Connected`], after the end, for an unknown sender, or if `out`
    /// has no room for 20 bytes of header, the payload and 16 of tag. All
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

    /// Like [`seal`](Self::seal), made longer by `padding` bytes (RFC 3550 §5.1), at
    /// most 16. `None`, too, for more or if the sender may not ([`Sender::may_pad`]).
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
        let transport = sender::wire(self.transport_sequence);
        if sender.report_at().is_none() {
            // Its first report becomes due with its first packet.
            self.timeout = None;
        }
        let sealed = sender.seal(&mut keys.outbound, transport, packet, now, out)?;
        if sender.is_numbered() {
            self.note_sent(sealed.bytes, now);
        }
        Some(Sealed {
            len: sealed.bytes,
            sequence: sealed.index,
        })
    }

    /// Leaves out the next `count` sequence numbers of a sender: packets that were lost
    /// before they came here, so that the peer sees a loss for what it is, and not for
    /// silence. False if nothing can be sealed, or for more than [`SKIP_MAX`].
    pub fn skip(&mut self, sender: SenderIndex, count: u16) -> bool {
        let (Some(sender), Some(keys)) = (self.senders.get_mut(sender.0), self.keys.as_mut())
        else {
            return false;
        };
        count <= SKIP_MAX && sender.skip(&mut keys.outbound, count).is_some()
    }

    /// Seals again the packet that [`seal`](Self::seal) gave `original_sequence`,
    /// from the same timestamp, marker and payload; returns the bytes written.
    ///
    /// With RTX (RFC 4588) it goes out under its own SSRC and number. Without,
    /// the very datagram of the first time is made again: the same nonce is then
    /// audio, because it seals the same bytes, and this is checked (see
    /// [`Outbound::reseal`]); senders without RTX carry nothing that changes
    /// between sendings. `None` if it cannot be: never sent, too long ago
    /// (without RTX: 512 packets), NACK not negotiated, other bytes.
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
        let bytes = sender.seal_retransmission(
            &mut keys.outbound,
            sender::wire(self.transport_sequence),
            original_sequence,
            &packet,
            out,
        )?;
        if sender.is_numbered() {
            self.note_sent(bytes, now);
        }
        Some(bytes)
    }

    /// A packet with a transport-wide number left.
    #[inline]
    fn note_sent(&mut self, bytes: usize, now: Instant) {
        self.history.sent(self.transport_sequence, now, bytes);
        if let Some(steering) = &mut self.steering {
            steering.on_sent(self.transport_sequence, bytes, now);
        }
        self.transport_sequence += 1;
    }

    /// Reads a little of everything that [`seal`](Self::seal) reads, and returns a
    /// number of no meaning.
    ///
    /// A server with many sessions finds each one gone from the nearer caches
    /// whenever its turn comes. Sealing meets those misses one after the other;
    /// here they overlap. Call it for the session after the one being sealed.
    pub fn touch(&self) -> u64 {
        let senders = self.senders.iter().map(Sender::touch).sum::<u64>();
        let keys = self.keys.as_ref().map_or(0, |keys| keys.outbound.touch());
        let own = self.transport_sequence + u64::from(self.timeout.is_some());
        let path = u64::from(self.ice.path().is_some());
        senders ^ keys ^ own ^ path ^ self.history.len() as u64
    }

    /// Sends a sender's packets under the payload type of its redundancy (RFC 2198), whose
    /// payloads the caller then makes, or under its own. False, and nothing changes, if
    /// the peer takes no redundancy.
    pub fn set_redundant(&mut self, sender: SenderIndex, redundant: bool) -> bool {
        let sender = self.senders.get_mut(sender.0);
        sender.is_some_and(|sender| sender.set_redundant(redundant))
    }

    /// States that RTP timestamp `timestamp` of a sender is the instant `at`;
    /// sender reports extrapolate from it. Without, from the first packet sealed.
    pub fn anchor(&mut self, sender: SenderIndex, timestamp: u32, at: Instant) {
        if let Some(sender) = self.senders.get_mut(sender.0) {
            sender.set_anchor(timestamp, at);
        }
    }
}
