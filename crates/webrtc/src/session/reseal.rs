//! What a sender without RTX keeps of its packets, to retransmit exactly the same ones.

use crate::srtp::Tag;

/// A sender's last packets, see [`Outbound::reseal`](crate::srtp::Outbound::reseal).
#[derive(Debug)]
pub(super) struct ResealRing {
    packets: [FirstSending; RESEAL_MAX],
}

/// The numbers of the first sending of a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct FirstSending {
    /// Packet index: rollover counter and sequence number.
    pub(super) index: u64,
    /// Tag that authenticates the packet.
    pub(super) tag: Tag,
    /// Transport-wide number, which the packet has in its header if its sender is numbered.
    pub(super) transport: u64,
}

/// Number of packets: about a second of 3 Mbit/s.
const RESEAL_MAX: usize = 512;

impl Default for ResealRing {
    fn default() -> Self {
        Self {
            packets: [FirstSending {
                index: u64::MAX,
                tag: Tag::default(),
                transport: 0,
            }; RESEAL_MAX],
        }
    }
}

impl ResealRing {
    #[inline]
    pub(super) fn remember(&mut self, packet: FirstSending) {
        self.packets[Self::slot(packet.index)] = packet;
    }

    #[inline]
    pub(super) fn find(&self, index: u64) -> Option<FirstSending> {
        let packet = self.packets[Self::slot(index)];
        (packet.index == index).then_some(packet)
    }

    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the remainder is below 512"
    )]
    fn slot(index: u64) -> usize {
        (index % RESEAL_MAX as u64) as usize
    }
}
