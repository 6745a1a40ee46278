use std::fmt;

use super::{Fault, Order, Out};

/// How one format's payloads come apart into units.
pub(in crate::payload) trait Sound: fmt::Debug + Send {
    /// Takes a payload, never empty; appends what became whole by it to `units`,
    /// each with its distance from `timestamp` in ticks.
    fn take(
        &mut self,
        payload: &[u8],
        timestamp: u32,
        marker: bool,
        units: &mut Vec<(u32, Vec<u8>)>,
    ) -> Result<(), Fault>;

    /// A decoder can start at this unit.
    fn is_keyframe(&self, unit: &[u8]) -> bool {
        let _ = unit;
        true
    }

    /// What is under way will not be whole, since packets are missing; whether
    /// there was anything.
    fn lose(&mut self) -> bool {
        false
    }

    /// Bytes kept of what is under way.
    fn pending_bytes(&self) -> usize {
        0
    }
}

/// One payload, one unit.
#[derive(Debug)]
pub(in crate::payload) struct Whole;

impl Sound for Whole {
    fn take(
        &mut self,
        payload: &[u8],
        _: u32,
        _: bool,
        units: &mut Vec<(u32, Vec<u8>)>,
    ) -> Result<(), Fault> {
        units.push((0, payload.to_vec()));
        Ok(())
    }
}

/// One or many units a packet, or many packets a unit, without regard to markers.
#[derive(Debug)]
pub(super) struct Sounds {
    format: Box<dyn Sound>,
    unit_bytes_max: usize,
    units: Vec<(u32, Vec<u8>)>,
    pub(super) out: Out,
}

/// A packet of sound has up to some dozens of units.
const READY_MAX: usize = 64;

impl Sounds {
    pub(super) fn new(format: Box<dyn Sound>, unit_bytes_max: usize) -> Self {
        Self {
            format,
            unit_bytes_max,
            units: Vec::new(),
            out: Out::new(READY_MAX),
        }
    }

    pub(super) fn push(&mut self, sequence: u64, timestamp: u32, marker: bool, payload: &[u8]) {
        match self.out.follow(sequence) {
            Order::Late => return,
            Order::Gap if self.format.lose() => self.out.count(Fault::Loss),
            Order::Gap | Order::First | Order::Next => {}
        }
        if payload.is_empty() {
            return;
        }
        let mut units = std::mem::take(&mut self.units);
        let taken = self.format.take(payload, timestamp, marker, &mut units);
        for (distance, data) in units.drain(..) {
            if data.len() > self.unit_bytes_max {
                self.out.count(Fault::Oversized);
            } else {
                let timestamp = timestamp.wrapping_add(distance);
                let keyframe = self.format.is_keyframe(&data);
                self.out.deliver(timestamp, keyframe, data);
            }
        }
        self.units = units;
        if let Err(fault) = taken {
            self.format.lose();
            self.out.count(fault);
        }
        if self.format.pending_bytes() > self.unit_bytes_max {
            self.format.lose();
            self.out.count(Fault::Oversized);
        }
    }
}
