//! Packets that wait to be sent by RTP, and those that were sent lately.
//!
//! ```text
//! unit ─► packets wait ─ budget of the carrier ─► carrier ─► network
//!            └ packets of the last two seconds ◄─ NACK ─┘
//! ```
//!
//! A [`PacketCarrier`] says when a packet may leave: by WebRTC, by RTSP within its connection, or by
//! RTSP's datagrams.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_media::MediaUnit;

/// Age at which a packet is not sent again: a viewer shows the frame no more.
const SENT_AGE_MAX: Duration = Duration::from_secs(2);
/// Most bytes that are kept to be sent again: two seconds at 30 Mbit/s.
const SENT_BYTES_MAX: usize = 8 << 20;
/// Bytes of headers, extensions and authentication tag of a packet, about.
const OVERHEAD: u64 = 50;

/// Sends RTP packets, and says when.
pub(super) trait PacketCarrier {
    /// Returns the bytes that may leave at `now`; `None` if nothing limits them.
    fn budget(&mut self, now: Instant) -> Option<u64>;

    /// Returns when `bytes` may leave, if that is known; feedback may allow it earlier.
    fn budget_at(&mut self, bytes: u64, now: Instant) -> Option<Instant>;

    /// Numbers and sends a packet. Returns its extended sequence number, or `None` if the carrier
    /// takes no packet now.
    fn send(&mut self, packet: &OutgoingPacket<'_>, now: Instant) -> Option<u64>;

    /// Sends a packet again that left as number `sequence`.
    fn send_again(&mut self, sequence: u64, packet: &OutgoingPacket<'_>, now: Instant);

    /// States that nothing waits although more might leave.
    fn on_app_limited(&mut self);
}

/// A packet of a unit, without its header.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutgoingPacket<'a> {
    /// Index of the sender of the packet's track.
    pub(super) sender: usize,
    /// RTP timestamp on the wire.
    pub(super) timestamp: u32,
    pub(super) marker: bool,
    pub(super) payload: &'a [u8],
}

/// A queue of media in front of a carrier, and the packets that the peer may request again.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    waiting: VecDeque<WaitingUnit>,
    waiting_bytes: u64,
    sent: VecDeque<SentPacket>,
    sent_bytes: usize,
    /// Whether packets are kept after they were sent.
    is_repaired: bool,
}

/// An access unit of which packets wait.
#[derive(Debug)]
struct WaitingUnit {
    sender: usize,
    timestamp: u32,
    unit: Arc<MediaUnit>,
    /// Index of the next packet.
    next: usize,
}

#[derive(Debug)]
struct SentPacket {
    sender: usize,
    sequence: u64,
    timestamp: u32,
    unit: Arc<MediaUnit>,
    packet: usize,
    at: Instant,
}

impl SentPacket {
    fn bytes(&self) -> usize {
        self.unit.payload(self.packet).map_or(0, <[u8]>::len)
    }
}

impl Outgoing {
    /// Returns a queue that keeps packets after they were sent, for a peer that requests lost ones.
    pub(super) fn repaired() -> Self {
        Self {
            is_repaired: true,
            ..Self::default()
        }
    }

    /// Appends the packets of `unit`. `timestamp`: RTP timestamp on the wire.
    pub(super) fn push(&mut self, sender: usize, timestamp: u32, unit: MediaUnit) {
        self.waiting_bytes += unit.payload_bytes() as u64;
        self.waiting.push_back(WaitingUnit {
            sender,
            timestamp,
            unit: Arc::new(unit),
            next: 0,
        });
    }

    /// Returns the bytes that wait.
    pub(super) const fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes
    }

    /// Sends what the budget of `carrier` allows.
    pub(super) fn send(&mut self, carrier: &mut impl PacketCarrier, now: Instant) {
        self.forget(now);
        while let Some(first) = self.waiting.front_mut() {
            let Some(payload) = first.unit.payload(first.next) else {
                self.waiting.pop_front();
                continue;
            };
            let bytes = payload.len() as u64;
            let budget = carrier.budget(now);
            if budget.is_some_and(|budget| budget < bytes + OVERHEAD) {
                return;
            }
            let packet = OutgoingPacket {
                sender: first.sender,
                timestamp: first.timestamp,
                marker: first.unit.marker(first.next),
                payload,
            };
            let Some(sequence) = carrier.send(&packet, now) else {
                return;
            };
            if self.is_repaired {
                let packet = SentPacket {
                    sender: first.sender,
                    sequence,
                    timestamp: first.timestamp,
                    unit: Arc::clone(&first.unit),
                    packet: first.next,
                    at: now,
                };
                self.sent_bytes += packet.bytes();
                self.sent.push_back(packet);
            }
            first.next += 1;
            self.waiting_bytes -= bytes;
        }
        carrier.on_app_limited();
    }

    /// Returns when [`Self::send`] may send the next packet, unless feedback allows it earlier.
    pub(super) fn due(&self, carrier: &mut impl PacketCarrier, now: Instant) -> Option<Instant> {
        let first = self.waiting.front()?;
        let bytes = first.unit.payload(first.next)?.len() as u64;
        carrier.budget_at(bytes + OVERHEAD, now)
    }

    /// Sends the packets of `sender` with these sequence numbers again, as far as they are kept.
    pub(super) fn send_again(
        &self,
        carrier: &mut impl PacketCarrier,
        sender: usize,
        lost: &[u64],
        now: Instant,
    ) {
        for sequence in lost {
            let is_it = |it: &&SentPacket| it.sender == sender && it.sequence == *sequence;
            let Some(sent) = self.sent.iter().rev().find(is_it) else {
                continue;
            };
            let Some(payload) = sent.unit.payload(sent.packet) else {
                continue;
            };
            let packet = OutgoingPacket {
                sender,
                timestamp: sent.timestamp,
                marker: sent.unit.marker(sent.packet),
                payload,
            };
            carrier.send_again(*sequence, &packet, now);
        }
    }

    /// Forgets packets that are too old, or too many.
    fn forget(&mut self, now: Instant) {
        while let Some(oldest) = self.sent.front() {
            let is_old = now.saturating_duration_since(oldest.at) > SENT_AGE_MAX;
            if !is_old && self.sent_bytes <= SENT_BYTES_MAX {
                return;
            }
            self.sent_bytes -= oldest.bytes();
            self.sent.pop_front();
        }
    }
}
