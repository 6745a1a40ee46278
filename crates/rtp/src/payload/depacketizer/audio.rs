use glassline_media::Temporal;

use super::super::assembly::{AudioFormat, DropReason};
use super::{Output, SequenceStep};

/// Depacketizer of formats with one or more units per packet, or more packets of one timestamp per
/// unit. The units say where they end, and markers nothing.
#[derive(Debug)]
pub(super) struct AudioUnits {
    format: Box<dyn AudioFormat>,
    unit_bytes_max: usize,
    units: Vec<(u32, Vec<u8>)>,
    /// Timestamp of the latest payload, which an incomplete unit has.
    timestamp: Option<u32>,
    pub(super) out: Output,
}

/// Most units that are kept until they are polled. A packet of audio has up to some dozens.
const READY_MAX: usize = 64;

impl AudioUnits {
    pub(super) fn new(format: Box<dyn AudioFormat>, unit_bytes_max: usize) -> Self {
        Self {
            format,
            unit_bytes_max,
            units: Vec::new(),
            timestamp: None,
            out: Output::new(READY_MAX),
        }
    }

    pub(super) fn push(&mut self, sequence: u64, timestamp: u32, payload: &[u8]) {
        match self.out.step(sequence) {
            SequenceStep::Late => return,
            SequenceStep::Gap if self.format.on_loss() => self.out.count(DropReason::Loss),
            SequenceStep::Gap | SequenceStep::First | SequenceStep::Next => {}
        }
        if payload.is_empty() {
            return;
        }
        if self.timestamp.replace(timestamp) != Some(timestamp) && self.format.on_loss() {
            self.out.count(DropReason::Malformed);
        }
        let mut units = std::mem::take(&mut self.units);
        let taken = self.format.take(payload, &mut units);
        for (distance, data) in units.drain(..) {
            if data.len() > self.unit_bytes_max {
                self.out.count(DropReason::Oversized);
            } else {
                let timestamp = timestamp.wrapping_add(distance);
                let keyframe = self.format.is_keyframe(&data);
                let temporal = Temporal::default();
                self.out.deliver(timestamp, keyframe.into(), temporal, data);
            }
        }
        self.units = units;
        if let Err(reason) = taken {
            self.format.on_loss();
            self.out.count(reason);
        }
        if self.format.pending_bytes() > self.unit_bytes_max {
            self.format.on_loss();
            self.out.count(DropReason::Oversized);
        }
    }
}
