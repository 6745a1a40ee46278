//! An MPEG transport stream (ISO/IEC 13818-1 §2.4), played as a whole: what is in
//! it is not taken apart, as RFC 2250 §2 has it.
//!
//! ```text
//! file ─ packets ─► index: clock references, keyframes, tables (once)
//!          │
//!          └──────► tables before keyframes, clocks and counters that run on ─► Unit
//! ```
//!
//! Whoever joins or seeks gets both tables right before the keyframe, so that its
//! first byte counts. Over loops and seeks, and where the file's clock jumps,
//! clock references, time stamps and continuity counters are rewritten so that
//! the stream never seems to be interrupted: that is what players take without a
//! stir. To announce a discontinuity instead would be less work, but players
//! that show it by the stamps alone (FFmpeg, and what is built on it) jump or wait
//! then.

mod entry_point;
mod index;
mod packet;
mod packets;
mod rewrite;
mod tables;
#[cfg(test)]
mod tests;

use std::io::{self, Read as _};
use std::sync::Arc;

use glassline_media::{Codec, Track};

use crate::Data;
use crate::error::{Fault, Reason, Warnings};
use crate::reader::{Reader, Unit};
use crate::system_clock::stamp::clock_ns;

use index::{Index, Indexer};
use packet::{PACKET_BYTES, Packet};
use packets::{Layout, Packets};
use rewrite::Rewriter;

/// Packets of a unit: as many as fit an RTP packet.
const UNIT_PACKETS: usize = 6;

/// Bytes in which the layout of the packets is looked for.
const START_BYTES: u64 = 64 * 1024;

/// The packets of a transport stream, up to six at a time, as often as asked.
pub(crate) struct Transport {
    packets: Packets,
    index: Arc<Index>,
    tracks: [Track; 1],
    /// Place of the next entry.
    entry: usize,
    /// Tables that go before the next packet of the file.
    tables: Vec<u8>,
    rewriter: Rewriter,
}

impl Transport {
    /// Reads the file through once: finds its tables, clock and keyframes.
    pub(crate) fn open(mut data: Box<dyn Data>, warnings: &mut Warnings) -> Result<Self, Fault> {
        let layout = find_layout(&mut data)?;
        let mut packets = Packets::new(data, layout);
        let index = Indexer::new(warnings).run(&mut packets)?;
        let mut transport = Self {
            packets,
            index: Arc::new(index),
            tracks: [Track::new(Codec::MpegTs)],
            entry: 0,
            tables: Vec::new(),
            rewriter: Rewriter::default(),
        };
        transport.seek(0)?;
        Ok(transport)
    }

    fn failed(&self, error: io::Error) -> Fault {
        Fault::at(self.packets.offset(), Reason::Read(error))
    }

    fn peek(&mut self) -> Result<Option<u64>, Fault> {
        let peeked = self.packets.peek();
        peeked.map_err(|error| self.failed(error))
    }

    fn next_entry(&self) -> Option<u64> {
        self.index.entries().get(self.entry).map(|it| it.offset)
    }

    /// Puts the tables of the entry at `offset` in front, if one is there.
    fn enter(&mut self, offset: u64) -> bool {
        while let Some(entry) = self.index.entries().get(self.entry) {
            if entry.offset > offset {
                break;
            }
            self.entry += 1;
            if entry.offset == offset {
                self.index.tables_of(entry).clone_into(&mut self.tables);
                return true;
            }
        }
        false
    }

    fn take_tables(&mut self, unit: &mut Vec<u8>) {
        let count = (self.tables.len() / PACKET_BYTES).min(UNIT_PACKETS);
        let tables: Vec<u8> = self.tables.drain(..count * PACKET_BYTES).collect();
        for bytes in tables.chunks_exact(PACKET_BYTES) {
            let Ok(bytes) = bytes.try_into() else {
                continue;
            };
            let mut packet = Packet(bytes);
            self.rewriter.insert(&mut packet);
            unit.extend(packet.0);
        }
    }
}

fn find_layout(data: &mut Box<dyn Data>) -> Result<Layout, Fault> {
    let mut start = Vec::new();
    let read = data.take(START_BYTES).read_to_end(&mut start);
    read.and_then(|_| data.rewind())
        .map_err(|error| Fault::at(0, Reason::Read(error)))?;
    let found = packets::layout(&start);
    let searched = start.len() as u64;
    let (_, layout) = found.ok_or_else(|| Fault::at(0, no_packets(searched)))?;
    Ok(layout)
}

fn no_packets(searched: u64) -> Reason {
    Reason::NoFrame {
        expected: "MPEG transport stream packet",
        searched,
    }
}

impl Reader for Transport {
    fn tracks(&self) -> &[Track] {
        &self.tracks
    }

    fn length_ns(&self) -> i64 {
        clock_ns(self.index.length())
    }

    fn next_unit(&mut self) -> Result<Option<Unit>, Fault> {
        let Some(first) = self.peek()? else {
            return Ok(None);
        };
        let mut unit = Vec::with_capacity(UNIT_PACKETS * PACKET_BYTES);
        let keyframe = self.tables.is_empty() && self.enter(first);
        self.take_tables(&mut unit);
        // A keyframe begins a unit.
        let limit = self.next_entry();
        while unit.len() < UNIT_PACKETS * PACKET_BYTES && self.tables.is_empty() {
            let next = self.peek()?;
            if limit.is_some_and(|limit| next.is_some_and(|next| next >= limit)) {
                break;
            }
            let taken = self.packets.take();
            let Some((offset, mut packet)) = taken.map_err(|error| self.failed(error))? else {
                break;
            };
            let correction = self.index.correction_at(offset);
            self.rewriter.rewrite(&mut packet, correction);
            unit.extend(packet.0);
        }
        let start = self.index.time_of(first);
        let end = match self.peek()? {
            Some(next) => self.index.time_of(next),
            None => self.index.length(),
        };
        self.rewriter.played_until(end);
        let (start_ns, end_ns) = (clock_ns(start), clock_ns(end).max(clock_ns(start) + 1));
        Ok(Some(Unit::in_turn(start_ns..end_ns, keyframe, unit)))
    }

    fn seek(&mut self, to_ns: i64) -> Result<(), Fault> {
        let behind = match to_ns {
            ..=0 => 0,
            _ => entries_until(&self.index, to_ns),
        };
        let entry = behind.checked_sub(1);
        self.entry = entry.unwrap_or(0);
        self.tables.clear();
        let offset = entry.map_or(self.index.start, |at| self.index.entries()[at].offset);
        let gone = self.packets.go_to(offset);
        gone.map_err(|error| self.failed(error))?;
        self.rewriter.go_on_at(self.index.time_of(offset));
        Ok(())
    }

    fn keyframe_at_or_before(&self, at_ns: i64) -> Option<i64> {
        let behind = entries_until(&self.index, at_ns);
        entry_ns(&self.index, behind.checked_sub(1)?)
    }

    fn keyframe_after(&self, at_ns: i64) -> Option<i64> {
        entry_ns(&self.index, entries_until(&self.index, at_ns))
    }

    fn fork(&self) -> Box<dyn Reader> {
        let mut packets = self.packets.fork();
        // Only reading can fail, and it does when it is due.
        let _ = packets.go_to(self.index.start);
        Box::new(Self {
            packets,
            index: Arc::clone(&self.index),
            tracks: self.tracks.clone(),
            entry: 0,
            tables: Vec::new(),
            rewriter: Rewriter::default(),
        })
    }
}

/// How many entries are due at or before `at_ns`.
fn entries_until(index: &Index, at_ns: i64) -> usize {
    let entries = index.entries();
    entries.partition_point(|entry| clock_ns(index.time_of(entry.offset)) <= at_ns)
}

fn entry_ns(index: &Index, place: usize) -> Option<i64> {
    let entry = index.entries().get(place)?;
    Some(clock_ns(index.time_of(entry.offset)))
}
