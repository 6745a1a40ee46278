//! Packets that wait to be sent, and those that were sent lately.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_media::{MediaUnit, PAYLOAD_BYTES_MAX};
use glassline_webrtc::{SenderIndex, Session};

/// Age at which a packet is not sent again: a viewer shows the frame no more.
const SENT_AGE_MAX: Duration = Duration::from_secs(2);
/// Most bytes that are kept to be sent again: two seconds at 30 Mbit/s.
const SENT_BYTES_MAX: usize = 8 << 20;
/// Header, extensions and authentication tag of a packet, about.
const OVERHEAD: u64 = 50;

/// A queue of media in front of a session, and the packets that the peer may request again.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    waiting: VecDeque<WaitingUnit>,
    waiting_bytes: u64,
    sent: VecDeque<SentPacket>,
    sent_bytes: usize,
}

/// An access unit of which packets wait.
#[derive(Debug)]
struct WaitingUnit {
    sender: SenderIndex,
    timestamp: u32,
    unit: Arc<MediaUnit>,
    /// Index of the next packet.
    next: usize,
}

#[derive(Debug)]
struct SentPacket {
    sender: SenderIndex,
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
    /// Appends the packets of `unit`. `timestamp`: RTP timestamp on the wire.
    pub(super) fn push(&mut self, sender: SenderIndex, timestamp: u32, unit: MediaUnit) {
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

    /// Seals what the budget of `session` allows, and hands each datagram to `send`.
    pub(super) fn send(
        &mut self,
        session: &mut Session,
        now: Instant,
        mut send: impl FnMut(&[u8]),
    ) {
        self.forget(now);
        let mut out = [0; PAYLOAD_BYTES_MAX + 128];
        while let Some(first) = self.waiting.front_mut() {
            let Some(payload) = first.unit.payload(first.next) else {
                self.waiting.pop_front();
                continue;
            };
            let bytes = payload.len() as u64;
            if session
                .budget(now)
                .is_some_and(|budget| budget < bytes + OVERHEAD)
            {
                return;
            }
            let (sender, timestamp) = (first.sender, first.timestamp);
            let marker = first.unit.marker(first.next);
            let sealed = session.seal(sender, timestamp, marker, payload, now, &mut out);
            let Some(sealed) = sealed else { return };
            send(&out[..sealed.len]);
            let packet = SentPacket {
                sender,
                sequence: sealed.sequence,
                timestamp,
                unit: Arc::clone(&first.unit),
                packet: first.next,
                at: now,
            };
            first.next += 1;
            self.waiting_bytes -= bytes;
            self.sent_bytes += packet.bytes();
            self.sent.push_back(packet);
        }
        session.set_app_limited();
    }

    /// Returns when [`Self::send`] may send the next packet, unless feedback allows it earlier.
    pub(super) fn due(&self, session: &mut Session, now: Instant) -> Option<Instant> {
        let first = self.waiting.front()?;
        let bytes = first.unit.payload(first.next)?.len() as u64;
        session.budget_at(bytes + OVERHEAD, now)
    }

    /// Sends the packets of `sender` with these sequence numbers again, as far as they are kept.
    pub(super) fn send_again(
        &self,
        session: &mut Session,
        (sender, lost): (SenderIndex, &[u64]),
        now: Instant,
        mut send: impl FnMut(&[u8]),
    ) {
        let mut out = [0; PAYLOAD_BYTES_MAX + 128];
        for sequence in lost {
            let is_it = |it: &&SentPacket| it.sender == sender && it.sequence == *sequence;
            let Some(packet) = self.sent.iter().rev().find(is_it) else {
                continue;
            };
            let Some(payload) = packet.unit.payload(packet.packet) else {
                continue;
            };
            let marker = packet.unit.marker(packet.packet);
            let bytes = session.seal_retransmission(
                sender,
                *sequence,
                packet.timestamp,
                marker,
                payload,
                now,
                &mut out,
            );
            if let Some(bytes) = bytes {
                send(&out[..bytes]);
            }
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
