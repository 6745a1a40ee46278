//! Makes packets that were not neighbours in the file look as if they were.

use std::collections::BTreeMap;

use super::packet::Packet;
use crate::system_clock::stamp::CLOCK_PER_STAMP;

/// What rewriting knows of the packets that were handed out.
#[derive(Debug, Default)]
pub(super) struct Rewriter {
    /// Added to every clock, on top of what its place in the file asks for; whole
    /// stamps (27 MHz).
    shift: i64,
    /// Until when the file was played, on its own time.
    played_until: Option<i64>,
    counters: BTreeMap<u16, Counter>,
}

/// The continuity counter of one packet identifier.
#[derive(Clone, Copy, Debug, Default)]
struct Counter {
    /// Of the last packet in the file; `None` if the next one is no successor.
    file: Option<u8>,
    /// Of the last packet handed out.
    last: u8,
}

impl Rewriter {
    /// The next packet is due at `time` of the file: the clock runs on from what
    /// was played, and no counter tells of packets between.
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

    /// Takes a packet of the file; `correction` is what its place there asks for.
    pub(super) fn rewrite(&mut self, packet: &mut Packet, correction: i64) {
        self.count(packet);
        let ticks = self.shift + correction;
        if ticks != 0 {
            packet.shift_clock(ticks);
            packet.shift_stamps(ticks.div_euclid(CLOCK_PER_STAMP));
        }
        packet.clear_discontinuity();
    }

    /// Takes a packet that is not in the file here.
    pub(super) fn insert(&mut self, packet: &mut Packet) {
        let counter = self.counters.entry(packet.pid()).or_insert(Counter {
            file: None,
            last: packet.counter().wrapping_sub(1),
        });
        counter.last = counter.last.wrapping_add(1) & 0x0f;
        packet.set_counter(counter.last);
    }

    /// Packets that the file lost stay lost, and those it repeats are repeated.
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
