//! Rewrites packets so that a stream with seeks, loops and clock jumps seems continuous.

use std::collections::BTreeMap;

use super::packet::Packet;
use crate::system_clock::stamp::CLOCK_PER_STAMP;

/// State of the packets that were handed out.
#[derive(Debug, Default)]
pub(super) struct Rewriter {
    /// Ticks that are added to every clock reference, beside the correction of its place in the
    /// file; whole stamps, in 27 MHz.
    shift: i64,
    /// Time of the file up to which it was played.
    played_until: Option<i64>,
    counters: BTreeMap<u16, Counter>,
}

/// The continuity counter of one packet identifier.
#[derive(Clone, Copy, Debug, Default)]
struct Counter {
    /// Counter of the last packet in the file; `None` after a seek.
    file: Option<u8>,
    /// Counter of the last packet that was handed out.
    last: u8,
}

impl Rewriter {
    /// Prepares for a packet that is due at `time` of the file: clocks continue those of what
    /// was played, and counters show no gap.
    pub(super) fn go_on_at(&mut self, time: i64) {
        if let Some(until) = self.played_until.take() {
            let shift = self.shift + until - time;
            self.shift = shift - shift.rem_euclid(CLOCK_PER_STAMP);
        }
        for counter in self.counters.values_mut() {
            counter.file = None;
        }
    }

    pub(super) fn played_until(&mut self, time: i64) {
        self.played_until = Some(time);
    }

    /// Rewrites a packet of the file. `correction`: ticks that its place in the file requires.
    pub(super) fn rewrite(&mut self, packet: &mut Packet, correction: i64) {
        self.count(packet);
        let ticks = self.shift + correction;
        if ticks != 0 {
            packet.shift_clock(ticks);
            packet.shift_stamps(ticks.div_euclid(CLOCK_PER_STAMP));
        }
        packet.clear_discontinuity();
    }

    /// Numbers a packet that is inserted.
    pub(super) fn insert(&mut self, packet: &mut Packet) {
        let counter = self.counters.entry(packet.pid()).or_insert(Counter {
            file: None,
            last: packet.counter().wrapping_sub(1),
        });
        counter.last = counter.last.wrapping_add(1) & 0x0f;
        packet.set_counter(counter.last);
    }

    /// Numbers a packet of the file. Packets that the file lost remain lost, and repeated ones
    /// are repeated.
    fn count(&mut self, packet: &mut Packet) {
        let own = packet.counter();
        let Some(counter) = self.counters.get_mut(&packet.pid()) else {
            let (file, last) = (Some(own), own);
            self.counters.insert(packet.pid(), Counter { file, last });
            return;
        };
        let step = match counter.file {
            Some(file) if !packet.is_discontinuous() => own.wrapping_sub(file),
            _ => u8::from(packet.has_payload()),
        };
        counter.file = Some(own);
        counter.last = counter.last.wrapping_add(step) & 0x0f;
        packet.set_counter(counter.last);
    }
}
