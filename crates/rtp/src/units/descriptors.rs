use std::collections::VecDeque;

use glassline_media::Temporal;
use smallvec::SmallVec;

use crate::dependency_descriptor::{DescriptorError, DescriptorReader, Mandatory};

/// Most descriptors that wait for their frames to be complete: those of 16 pictures of four layers.
const PENDING_MAX: usize = 64;

/// The dependency descriptors of one track. They are read in the order of their frames, whose packets may
/// arrive in another one.
#[derive(Debug, Default)]
pub(super) struct Descriptors {
    reader: DescriptorReader,
    pending: VecDeque<Pending>,
    fault: Option<DescriptorError>,
}

/// A descriptor whose frame is not complete yet.
#[derive(Debug)]
struct Pending {
    timestamp: u32,
    number: u16,
    /// Bytes of the descriptor; those of a keyframe are longer.
    bytes: SmallVec<[u8; 16]>,
}

impl Descriptors {
    /// Keeps the descriptor of a packet that arrived, if the packet is the first one of its frame.
    pub(super) fn push(&mut self, timestamp: u32, descriptor: &[u8]) {
        let Some(mandatory) = Mandatory::read(descriptor) else {
            let bytes = descriptor.len();
            self.fault = Some(DescriptorError::Short { bytes });
            return;
        };
        if !mandatory.starts_frame {
            return;
        }
        if self.pending.len() == PENDING_MAX {
            self.pending.pop_front();
        }
        self.pending.push_back(Pending {
            timestamp,
            number: mandatory.number,
            bytes: SmallVec::from_slice(descriptor),
        });
    }

    /// Returns the place among the temporal layers of the unit with `timestamp`, which is complete;
    /// `None` if no descriptor says it.
    pub(super) fn take(&mut self, timestamp: u32) -> Option<Temporal> {
        let of_unit = self.pending.iter().rev();
        let last = of_unit
            .filter(|it| it.timestamp == timestamp)
            .map(|it| it.number)
            .reduce(|one, other| match is_before(one, other) {
                true => other,
                false => one,
            })?;
        let pending = self.pending.make_contiguous();
        pending.sort_by_key(|it| it.number.wrapping_sub(last).cast_signed());
        let mut unit: Option<Temporal> = None;
        let due = pending.partition_point(|it| !is_before(last, it.number));
        for next in self.pending.drain(..due) {
            match self.reader.read(&next.bytes) {
                Ok(frame) if next.timestamp == timestamp => {
                    unit = Some(unit.map_or(frame, |it| it.with(frame)));
                }
                // A frame that is lost may have a structure.
                Ok(_) | Err(DescriptorError::NoStructure) => {}
                Err(fault) => self.fault = Some(fault),
            }
        }
        unit
    }

    /// Returns a fault of the sender since the last call.
    pub(super) fn take_fault(&mut self) -> Option<DescriptorError> {
        self.fault.take()
    }
}

/// Returns whether frame `one` comes before frame `other`.
const fn is_before(one: u16, other: u16) -> bool {
    other.wrapping_sub(one).cast_signed() > 0
}
