//! Insertion of packets into the jitter buffer.

use std::time::{Duration, Instant};

use bytes::Bytes;

use super::Buffer;
use super::order::{Order, PacketClass};
use super::packet::{Packet, Refused};
use super::queue::QueuedPacket;
use crate::codec::{Decoder, FRAMES_MS_MAX};

/// Largest distance of a timestamp from the stream's; a timestamp further away belongs to
/// another stream.
const DISTANCE_MAX: Duration = Duration::from_secs(10);

impl<D: Decoder> Buffer<D> {
    /// Inserts a packet that arrived at `now`.
    ///
    /// # Errors
    /// [`Refused`] says why the packet will not be played; the stream continues.
    pub fn insert(&mut self, packet: Packet, now: Instant) -> Result<(), Refused> {
        self.take(packet, &[], now)
    }

    /// Inserts a packet and the earlier payloads that it repeats: (ticks before its
    /// timestamp, payload). For RED, see [`red::blocks`](glassline_rtp::red::blocks).
    ///
    /// # Errors
    /// As [`Self::insert`], for the packet itself.
    pub fn insert_with(
        &mut self,
        packet: Packet,
        earlier: &[(u32, Bytes)],
        now: Instant,
    ) -> Result<(), Refused> {
        self.take(packet, earlier, now)
    }

    /// Classifies a packet by its numbers, updates the delay statistics and queues it.
    fn take(
        &mut self,
        packet: Packet,
        earlier: &[(u32, Bytes)],
        now: Instant,
    ) -> Result<(), Refused> {
        let distance_max = self.clock_rate() as i64 * DISTANCE_MAX.as_secs() as i64;
        let mut class = self
            .order
            .classify(packet.sequence, packet.timestamp, distance_max);
        if class == PacketClass::Restart {
            self.counts.restarts += 1;
            self.restart();
            class = self
                .order
                .classify(packet.sequence, packet.timestamp, distance_max);
        }
        let (sequence, ticks) = match class {
            PacketClass::New(sequence, ticks) => (sequence, ticks),
            PacketClass::Seen => {
                self.counts.duplicates += 1;
                return Err(Refused::Duplicate);
            }
            PacketClass::Stray | PacketClass::Restart => {
                self.counts.strays += 1;
                return Err(Refused::Stray);
            }
        };
        if packet.payload.is_empty() {
            // Only padding (RFC 3550 §5.1): Chromium probes the path with such packets, and
            // they consume sequence numbers of the stream.
            self.order.mark_empty(sequence);
            self.counts.empty += 1;
            return Ok(());
        }
        self.counts.packets += 1;
        let Some(frames) = self.frames_of(&packet.payload) else {
            self.counts.undecodable += 1;
            return Err(Refused::Undecodable);
        };
        let at = self.media(ticks);
        self.epoch.get_or_insert(now);
        let came = self.since(now);
        let delay = came - at as f64 * self.frame_ms();
        self.target.arrived(came, delay);
        self.skew.arrived(came, delay);
        for (offset, payload) in earlier {
            self.take_copy(Order::before(ticks, *offset), payload, now);
        }
        let queued = QueuedPacket {
            payload: packet.payload,
            sequence: Some(sequence),
            ticks,
            arrival: now,
            frames,
        };
        self.admit(at, queued)
    }

    /// Queues a packet whose first frame is `at`, unless its time has passed.
    fn admit(&mut self, at: i64, queued: QueuedPacket) -> Result<(), Refused> {
        let end = at + queued.frames as i64;
        if !self.is_begun {
            // The earliest of those that came before the first pull begins.
            self.next = match self.queue.first() {
                Some((first, _)) => first.min(at),
                None => at,
            };
        } else if end <= self.next && !self.is_expanding() {
            self.was_concealed(at, end);
            self.counts.late += 1;
            return Err(Refused::Late);
        }
        if !self.queue.insert(at, queued) {
            self.counts.duplicates += 1;
            return Err(Refused::Duplicate);
        }
        while self.queue.is_over() {
            self.discard_first();
            self.counts.overflowed += 1;
        }
        Ok(())
    }

    /// Queues a redundant copy, if its packet is missing and its time has not passed.
    fn take_copy(&mut self, ticks: i64, payload: &Bytes, now: Instant) {
        let at = self.media(ticks);
        let Some(frames) = self.frames_of(payload) else {
            return;
        };
        if !self.is_begun || at < self.next {
            return;
        }
        let queued = QueuedPacket {
            payload: payload.clone(),
            sequence: None,
            ticks,
            arrival: now,
            frames,
        };
        if self.queue.insert(at, queued) {
            // The original is lost or comes even later, so the copy's arrival is its
            // audio's delay.
            let came = self.since(now);
            self.target
                .arrived(came, came - at as f64 * self.frame_ms());
        }
    }

    /// Number of frames in `payload`; `None` if the codec refuses it or it is too long.
    pub(super) fn frames_of(&self, payload: &[u8]) -> Option<usize> {
        let longest = self.format().frames(FRAMES_MS_MAX);
        let frames = self.decoder.frames(payload)?;
        (1..=longest).contains(&frames).then_some(frames)
    }

    /// RTP clock rate, in Hz.
    pub(super) fn clock_rate(&self) -> u32 {
        self.config
            .clock_rate
            .unwrap_or(self.format().rate())
            .max(1)
    }

    /// Converts a wide RTP timestamp to media time, in frames.
    pub(super) fn media(&self, ticks: i64) -> i64 {
        let (rate, clock) = (self.format().rate(), self.clock_rate());
        match rate == clock {
            true => ticks,
            false => {
                let frames = i128::from(ticks) * i128::from(rate) / i128::from(clock);
                i64::try_from(frames).unwrap_or(0)
            }
        }
    }
}
