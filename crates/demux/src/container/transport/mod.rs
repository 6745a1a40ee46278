//! An MPEG transport stream (ISO/IEC 13818-1 §2.4). Its video and its audio are taken [`apart`],
//! so that every receiver plays them. What cannot be taken apart is sent as a whole (RFC 2250 §2):
//!
//! ```text
//! file ─ packets ─► index: clock references, keyframes, tables (once)
//!          │
//!          └──────► tables before keyframes, clocks and counters that run on ─► Unit
//! ```
//!
//! A viewer who joins or seeks gets both tables right before the keyframe, so that the first
//! byte is useful. Over loops and seeks, and where the file's clock jumps, clock references,
//! time stamps and continuity counters are rewritten, so that the stream seems continuous.
//! Every player handles that. Announcing a discontinuity would be less work, but players that
//! rely on stamps alone (FFmpeg and its users) then jump or stall.

mod apart;
mod content;
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
use crate::error::{Fault, Reason, WarningReason, Warnings};
use crate::length::Length;
use crate::reader::{Reader, Unit};
use crate::system_clock::stamp::clock_ns;

use index::{Index, Indexer};
use packet::{PACKET_BYTES, Packet};
use packets::{Layout, Packets};
use rewrite::Rewriter;

/// Packets in a unit: as many as fit an RTP packet.
const UNIT_PACKETS: usize = 6;

/// Bytes in which the layout of the packets is searched.
const START_BYTES: u64 = 64 * 1024;

pub(crate) use apart::{PushedTransport, TransportPipe};

/// Reads and indexes a file: its video and audio apart, or all packets as they are.
pub(crate) fn open(
    mut data: Box<dyn Data>,
    warnings: &mut Warnings,
) -> Result<Box<dyn Reader>, Fault> {
    let layout = find_layout(&mut data)?;
    let packets = Packets::new(data.fork(), layout);
    let reason = match apart::open(packets, warnings)? {
        Ok(container) => return Ok(Box::new(container)),
        Err(reason) => reason,
    };
    let whole = Transport::open(data, warnings)?;
    warnings.add(None, WarningReason::SentWhole(reason));
    Ok(Box::new(whole))
}

/// A reader of the packets of a transport stream, up to six at a time.
pub(crate) struct Transport {
    packets: Packets,
    index: Arc<Index>,
    tracks: [Track; 1],
    /// Index of the next entry point.
    entry: usize,
    /// Tables to be sent before the next packet of the file.
    tables: Vec<u8>,
    rewriter: Rewriter,
}

impl Transport {
    /// Reads and indexes a file: finds tables, clock references and keyframes.
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

    /// Inserts the tables of the entry point at `offset`. Returns false if there is none.
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

    fn length(&self) -> Length {
        Length::from_nanos(clock_ns(self.index.length()))
    }

    fn next_unit(&mut self) -> Result<Option<Unit>, Fault> {
        let Some(first) = self.peek()? else {
            return Ok(None);
        };
        let mut unit = Vec::with_capacity(UNIT_PACKETS * PACKET_BYTES);
        let keyframe = self.tables.is_empty() && self.enter(first);
        self.take_tables(&mut unit);
        // Every keyframe begins a unit.
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
        // An error here occurs again at the first read, which reports it.
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

/// Returns the number of entry points that are due at or before `at_ns`.
fn entries_until(index: &Index, at_ns: i64) -> usize {
    let entries = index.entries();
    entries.partition_point(|entry| clock_ns(index.time_of(entry.offset)) <= at_ns)
}

fn entry_ns(index: &Index, place: usize) -> Option<i64> {
    let entry = index.entries().get(place)?;
    Some(clock_ns(index.time_of(entry.offset)))
}
