//! The queue of a voice on its way to a camera: bounded in time, and the oldest is dropped.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Longest time between the oldest and the newest packet that wait. Who speaks is heard later than
/// that only by the delays of the network.
const SPAN_MAX: Duration = Duration::from_millis(500);

/// Most packets that wait, whatever their timestamps say: with the longest payload, 120 kB.
const PACKETS_MAX: usize = 100;

/// A packet of a voice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VoicePacket {
    /// RTP sequence number, extended beyond 16 bits.
    pub(crate) sequence: u64,
    /// RTP timestamp in ticks of the codec's clock.
    pub(crate) timestamp: u32,
    /// Payload, at most [`PAYLOAD_BYTES_MAX`](glassline_media::PAYLOAD_BYTES_MAX) bytes.
    pub(crate) payload: Box<[u8]>,
}

/// The end of the queue that the talker's packets go into.
#[derive(Debug)]
pub(crate) struct VoiceSender(Arc<Shared>);

/// The end of the queue that packets come out of.
#[derive(Debug)]
pub(crate) struct VoiceReceiver(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Notify,
    /// Most ticks of the RTP clock between the oldest packet and the newest.
    span_max: u32,
}

#[derive(Debug, Default)]
struct State {
    packets: VecDeque<VoicePacket>,
    is_closed: bool,
}

/// Creates a queue of packets whose RTP clock has this rate, in Hz.
pub(crate) fn voice_queue(clock_rate: u32) -> (VoiceSender, VoiceReceiver) {
    let shared = Arc::new(Shared {
        state: Mutex::default(),
        changed: Notify::new(),
        span_max: (SPAN_MAX.as_secs_f64() * f64::from(clock_rate)) as u32,
    });
    (VoiceSender(Arc::clone(&shared)), VoiceReceiver(shared))
}

impl Shared {
    fn close(&self) {
        self.state.lock().is_closed = true;
        self.changed.notify_one();
    }
}

impl VoiceSender {
    /// Appends a packet. Returns how many older ones were dropped for it; `None` if nobody receives
    /// any more, and the packet is dropped.
    pub(crate) fn send(&self, packet: VoicePacket) -> Option<u64> {
        let mut state = self.0.state.lock();
        if state.is_closed {
            return None;
        }
        let newest = packet.timestamp;
        // A timestamp before the oldest one is that of a source that began anew.
        let is_old = |oldest: &VoicePacket| {
            let span = newest.wrapping_sub(oldest.timestamp) as i32;
            span.unsigned_abs() > self.0.span_max
        };
        let mut dropped = 0;
        while state.packets.front().is_some_and(is_old) || state.packets.len() == PACKETS_MAX {
            state.packets.pop_front();
            dropped += 1;
        }
        state.packets.push_back(packet);
        drop(state);
        self.0.changed.notify_one();
        Some(dropped)
    }
}

impl VoiceReceiver {
    /// Waits for the next packet; `None` once the voice has ended. May be dropped while it waits.
    pub(crate) async fn recv(&mut self) -> Option<VoicePacket> {
        loop {
            {
                let mut state = self.0.state.lock();
                if let Some(packet) = state.packets.pop_front() {
                    return Some(packet);
                }
                if state.is_closed {
                    return None;
                }
            }
            // A packet that came meanwhile has left a permit.
            self.0.changed.notified().await;
        }
    }
}

impl Drop for VoiceSender {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Drop for VoiceReceiver {
    fn drop(&mut self) {
        self.0.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(timestamp: u32) -> VoicePacket {
        VoicePacket {
            sequence: u64::from(timestamp),
            timestamp,
            payload: Box::new([7]),
        }
    }

    #[tokio::test]
    async fn the_oldest_packets_beyond_half_a_second_are_dropped() {
        let (sender, mut receiver) = voice_queue(8_000);
        let first = u32::MAX - 500;
        for number in 0..26 {
            assert_eq!(
                sender.send(packet(first.wrapping_add(160 * number))),
                Some(0)
            );
        }
        assert_eq!(sender.send(packet(first.wrapping_add(160 * 26))), Some(1));
        // A pause drops what waited before it.
        assert_eq!(sender.send(packet(first.wrapping_add(160 * 60))), Some(26));
        assert_eq!(
            receiver.recv().await,
            Some(packet(first.wrapping_add(160 * 60)))
        );
        drop(sender);
        assert_eq!(receiver.recv().await, None);
    }

    #[tokio::test]
    async fn packets_of_one_time_are_bounded_by_their_number() {
        let (sender, mut receiver) = voice_queue(48_000);
        let dropped: u64 = (0..150).filter_map(|_| sender.send(packet(9))).sum();
        assert_eq!(dropped, 50);
        drop(sender);
        let mut left = 0;
        while receiver.recv().await.is_some() {
            left += 1;
        }
        assert_eq!(left, PACKETS_MAX);
    }

    #[tokio::test]
    async fn a_voice_that_nobody_receives_is_dropped() {
        let (sender, receiver) = voice_queue(8_000);
        assert_eq!(sender.send(packet(0)), Some(0));
        drop(receiver);
        assert_eq!(sender.send(packet(160)), None);
    }
}
