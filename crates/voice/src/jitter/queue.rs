use std::collections::BTreeMap;
use std::time::Instant;

use bytes::Bytes;

/// More packets than 5 s of the shortest ones; a device that does not pull, or a
/// sender that does not stop, goes no further.
pub(super) const PACKETS_MAX: usize = 2_000;
/// 5 s at 800 kbit/s: more than linear samples in stereo at 24 kHz.
pub(super) const BYTES_MAX: usize = 1 << 20;

/// Packets that wait, by media time, each once.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    entries: BTreeMap<i64, Entry>,
    bytes: usize,
}

/// A packet that waits.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) payload: Bytes,
    /// Wide; `None` for a redundant copy, which has no number of its own.
    pub(super) sequence: Option<u64>,
    /// RTP timestamp, wide.
    pub(super) ticks: i64,
    pub(super) arrival: Instant,
    /// Frames that it holds.
    pub(super) frames: usize,
}

impl Queue {
    /// Takes a packet whose first frame is `at`; false if one is there that is as good.
    pub(super) fn insert(&mut self, at: i64, entry: Entry) -> bool {
        let is_better = match self.entries.get(&at) {
            Some(there) => there.sequence.is_none() && entry.sequence.is_some(),
            None => true,
        };
        if is_better {
            self.bytes += entry.payload.len();
            if let Some(old) = self.entries.insert(at, entry) {
                self.bytes -= old.payload.len();
            }
        }
        is_better
    }

    /// The earliest in media time.
    pub(super) fn first(&self) -> Option<(i64, &Entry)> {
        self.entries.first_key_value().map(|(at, it)| (*at, it))
    }

    /// The last frame's end of the latest.
    pub(super) fn end(&self) -> Option<i64> {
        let (at, last) = self.entries.last_key_value()?;
        Some(at + last.frames as i64)
    }

    pub(super) fn take_first(&mut self) -> Option<(i64, Entry)> {
        let (at, entry) = self.entries.pop_first()?;
        self.bytes -= entry.payload.len();
        Some((at, entry))
    }

    pub(super) fn is_over(&self) -> bool {
        self.entries.len() > PACKETS_MAX || self.bytes > BYTES_MAX
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.bytes = 0;
    }
}
