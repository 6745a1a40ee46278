use std::collections::VecDeque;

use super::{AccessUnit, Aggregated, F_NRI_BITS, FU_END, FU_START, nal, nal_type};

/// Reassembles access units from packets in sequence order.
///
/// A unit of which any part is missing or malformed is dropped and counted, and the next
/// complete unit is delivered with `after_loss`. Memory is bounded by one unit of at most
/// `unit_bytes_max` bytes, and by eight complete units that were not polled, of which the
/// oldest are dropped.
#[derive(Clone, Debug)]
pub struct Depacketizer {
    unit_bytes_max: usize,
    next_sequence: Option<u64>,
    /// Whether packets are missing before the next one, which then may be in the middle of its
    /// unit.
    gap: bool,
    state: State,
    /// Whether something was lost since the last unit that was delivered.
    loss: bool,
    /// Whether this source sends parameter sets in band. Then every keyframe has them.
    sets_in_band: bool,
    ready: VecDeque<AccessUnit>,
    counters: Counters,
}

/// Counts of packets and access units in a depacketizer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Units that were delivered.
    pub delivered: u64,
    /// Units dropped because packets were lost.
    pub damaged: u64,
    /// Units dropped because a payload was malformed or of an unsupported type.
    pub malformed: u64,
    /// Units dropped because they exceeded the size limit.
    pub oversized: u64,
    /// Packets of types that `packetization-mode=1` does not have (STAP-B, MTAP, FU-B,
    /// reserved).
    pub unsupported: u64,
    /// Packets with a sequence number that is not above the last one: duplicates, or too late.
    pub late: u64,
    /// Packets that never arrived.
    pub lost: u64,
    /// Units dropped because they were not polled.
    pub overrun: u64,
}

impl Default for Depacketizer {
    fn default() -> Self {
        Self::new(UNIT_BYTES_MAX)
    }
}

impl Depacketizer {
    /// Creates a depacketizer whose units may have up to `unit_bytes_max` bytes (8 MiB by
    /// default).
    pub fn new(unit_bytes_max: usize) -> Self {
        Self {
            unit_bytes_max: unit_bytes_max.min(u32::MAX as usize),
            next_sequence: None,
            gap: true,
            state: State::Idle,
            loss: false,
            sets_in_band: false,
            ready: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// Takes the next packet: extended sequence number, RTP timestamp, marker, payload.
    ///
    /// Skipped numbers count as lost packets; a number that is not above the last one is
    /// ignored. Reorder packets before, for example with [`ReorderBuffer`](crate::reorder::ReorderBuffer).
    pub fn push(&mut self, sequence: u64, timestamp: u32, marker: bool, payload: &[u8]) {
        match self.next_sequence {
            Some(next) if sequence < next => {
                self.counters.late += 1;
                return;
            }
            Some(next) if sequence > next => {
                self.counters.lost += sequence - next;
                self.gap = true;
                self.loss = true;
                self.drop_unit(DropReason::Loss);
            }
            _ => {}
        }
        self.next_sequence = Some(sequence + 1);
        if payload.is_empty() {
            // Padding of a bandwidth probe has a sequence number, but belongs to no unit.
            return;
        }
        if self.state.timestamp().is_some_and(|old| old != timestamp) {
            self.finish();
        }
        if matches!(self.state, State::Idle) {
            self.begin(sequence, timestamp, payload);
        }
        self.gap = false;
        self.take(sequence, payload);
        if marker {
            self.finish();
        }
    }

    /// Returns the next complete access unit. Call until `None` after each push.
    pub fn poll(&mut self) -> Option<AccessUnit> {
        self.ready.pop_front()
    }

    /// Returns the counts of packets and units so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    fn begin(&mut self, sequence: u64, timestamp: u32, payload: &[u8]) {
        if self.gap && !begins_access_unit(payload) {
            // Joining in the middle of a unit is not damage unless packets were lost.
            if self.loss {
                self.counters.damaged += 1;
            }
            self.loss = true;
            self.state = State::Dropping { timestamp };
            return;
        }
        self.state = State::Building(Building {
            unit: AccessUnit::begin(timestamp, sequence),
            fragmented: false,
            after_gap: self.gap,
        });
    }

    /// Adds a payload to the unit that is being received, if there is one.
    fn take(&mut self, sequence: u64, payload: &[u8]) {
        let State::Building(building) = &mut self.state else {
            return;
        };
        building.unit.last_sequence = sequence;
        // An aggregate of units of a single byte grows less than twofold by start codes.
        let grown = building.unit.data.len() + 2 * payload.len() + 4;
        let result = if grown > self.unit_bytes_max {
            Err(DropReason::Oversized)
        } else {
            building.take(payload)
        };
        match result {
            Ok(()) => {}
            Err(DropReason::Reserved) => self.counters.unsupported += 1,
            Err(reason) => self.drop_unit(reason),
        }
    }

    /// Completes the unit that is being received.
    fn finish(&mut self) {
        let State::Building(building) = std::mem::replace(&mut self.state, State::Idle) else {
            return;
        };
        if building.fragmented {
            self.count(DropReason::Malformed);
            return;
        }
        let mut unit = building.unit;
        if unit.is_empty() {
            return;
        }
        let has_sets = unit.find(nal::SPS).is_some();
        self.sets_in_band |= has_sets;
        if building.after_gap && unit.keyframe && self.sets_in_band && !has_sets {
            self.count(DropReason::Loss);
            return;
        }
        unit.after_loss = std::mem::take(&mut self.loss);
        self.counters.delivered += 1;
        self.ready.push_back(unit);
        if self.ready.len() > READY_MAX {
            self.ready.pop_front();
            self.counters.overrun += 1;
            if let Some(next) = self.ready.front_mut() {
                next.after_loss = true;
            }
        }
    }

    /// Drops the unit that is being received. Its further packets are ignored.
    fn drop_unit(&mut self, reason: DropReason) {
        if let State::Building(building) = &self.state {
            let timestamp = building.unit.timestamp;
            self.sets_in_band |= building.unit.find(nal::SPS).is_some();
            self.state = State::Dropping { timestamp };
            self.count(reason);
        }
    }

    fn count(&mut self, reason: DropReason) {
        self.loss = true;
        match reason {
            DropReason::Loss => self.counters.damaged += 1,
            DropReason::Malformed | DropReason::Reserved => self.counters.malformed += 1,
            DropReason::Oversized => self.counters.oversized += 1,
            DropReason::Unsupported => {
                self.counters.unsupported += 1;
                self.counters.malformed += 1;
            }
        }
    }
}

/// Default size limit of an access unit that is received, in bytes. Frames of 8 MiB at 30 frames/s
/// are 2 Gbit/s, which no camera sends, but an attacker may.
pub const UNIT_BYTES_MAX: usize = 8 << 20;
/// Most complete units that are kept until they are polled.
const READY_MAX: usize = 8;

/// State of the access unit that is being received.
#[derive(Clone, Debug)]
enum State {
    /// No unit has begun.
    Idle,
    /// A unit has begun, and nothing of it is missing so far.
    Building(Building),
    /// A unit has begun that is dropped.
    Dropping { timestamp: u32 },
}

impl State {
    fn timestamp(&self) -> Option<u32> {
        match self {
            Self::Idle => None,
            Self::Building(building) => Some(building.unit.timestamp),
            Self::Dropping { timestamp } => Some(*timestamp),
        }
    }
}

/// Why a unit is dropped; with `Reserved`, only a packet is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DropReason {
    Loss,
    Malformed,
    Oversized,
    Unsupported,
    Reserved,
}

#[derive(Clone, Debug)]
/// The access unit that is being received.
struct Building {
    unit: AccessUnit,
    /// Whether a fragmented NAL unit has begun and not ended.
    fragmented: bool,
    /// Whether packets before this unit are missing.
    after_gap: bool,
}

impl Building {
    fn take(&mut self, payload: &[u8]) -> Result<(), DropReason> {
        let (&first, rest) = payload.split_first().ok_or(DropReason::Malformed)?;
        let kind = nal_type(first);
        if self.fragmented && kind != nal::FU_A {
            return Err(DropReason::Malformed);
        }
        match kind {
            1..=23 => self.unit.push_nal(payload),
            nal::STAP_A => return self.take_aggregate(rest),
            nal::FU_A => return self.take_fragment(first, rest),
            // Receivers ignore reserved types (RFC 6184 §5.4).
            0 | 30 | 31 => return Err(DropReason::Reserved),
            _ => return Err(DropReason::Unsupported),
        }
        Ok(())
    }

    fn take_aggregate(&mut self, rest: &[u8]) -> Result<(), DropReason> {
        for unit in (Aggregated { rest }) {
            let unit = unit.map_err(|_| DropReason::Malformed)?;
            if !(1..=23).contains(&nal_type(unit[0])) {
                return Err(DropReason::Malformed);
            }
            self.unit.push_nal(unit);
        }
        Ok(())
    }

    fn take_fragment(&mut self, indicator: u8, rest: &[u8]) -> Result<(), DropReason> {
        let (&header, fragment) = rest.split_first().ok_or(DropReason::Malformed)?;
        let starts = header & FU_START != 0;
        if starts == self.fragmented || !(1..=23).contains(&nal_type(header)) {
            return Err(DropReason::Malformed);
        }
        if starts {
            self.unit.begin_nal();
            self.unit
                .extend(&[indicator & F_NRI_BITS | nal_type(header)]);
            self.fragmented = true;
        }
        self.unit.extend(fragment);
        if header & FU_END != 0 {
            self.unit.end_nal();
            self.fragmented = false;
        }
        Ok(())
    }
}

/// Returns whether a payload after a gap certainly begins an access unit, as a delimiter, a
/// sequence parameter set, SEI and the slice of a picture's first macroblock do (H.264
/// §7.4.1.2.3). A picture parameter set does not: the SPS before it may be lost.
fn begins_access_unit(payload: &[u8]) -> bool {
    let begins = |first: u8, slice: Option<&u8>| match nal_type(first) {
        nal::AUD | nal::SPS | nal::SEI => true,
        // `first_mb_in_slice` is zero if its Exp-Golomb code is the single bit 1.
        nal::SLICE | nal::IDR => slice.is_some_and(|&byte| byte & 0x80 != 0),
        _ => false,
    };
    match payload {
        [first, header, rest @ ..] if nal_type(*first) == nal::FU_A => {
            header & FU_START != 0 && begins(*header, rest.first())
        }
        [first, rest @ ..] if nal_type(*first) == nal::STAP_A => (Aggregated { rest })
            .next()
            .and_then(Result::ok)
            .is_some_and(|unit| begins(unit[0], unit.get(1))),
        [first, rest @ ..] => begins(*first, rest.first()),
        [] => false,
    }
}
