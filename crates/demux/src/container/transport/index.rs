//! The index of a transport stream, built in one pass: when each byte is due, where decoders
//! can start, and which tables they need.

use std::collections::BTreeMap;
use std::io;

use super::entry_point::Probe;
use super::packet::Packet;
use super::packets::{Packets, SEARCH_BYTES_MAX};
use super::tables::{Coding, Tables};
use crate::error::{Fault, Reason, WarningReason, Warnings};
use crate::system_clock::stamp::{CLOCK_PER_STAMP, CLOCK_RATE, STAMP_MODULUS, ahead};
use crate::system_clock::{self, Clock, Segment};

/// Least distance of clock references in the index, in ticks of 27 MHz. A hundred references
/// per second time every byte well enough.
const TICK_DISTANCE_MIN: i64 = CLOCK_RATE / 100;

/// Most references of one file: 46 hours at a hundred per second, 256 MB.
const TICKS_MAX: usize = 1 << 24;

/// Most keyframes of one file: 6 days at 30 per second.
const ENTRIES_MAX: usize = 1 << 24;

/// Most changes of tables or clocks; a file with more is damaged.
const CHANGES_MAX: usize = 1 << 12;

/// Distance of entry points in streams without keyframes, in ticks of 27 MHz.
const BLIND_DISTANCE: i64 = CLOCK_RATE;

/// Most time by which stamps may be ahead of the clock (§2.4.2.6 allows 10 s for still
/// pictures).
const STAMP_AHEAD_MAX: i64 = 10 * CLOCK_RATE;

/// Longest frame of audio, in ticks of 27 MHz: AAC at 22.05 kHz has 46 ms.
const FRAME_OF_AUDIO_MAX: i64 = CLOCK_RATE / 20;

/// Most packets of tables before a keyframe: two tables of 1024 bytes.
const TABLE_PACKETS_MAX: usize = 12;

/// Locations and times (27 MHz since the start of the file) in a transport stream.
pub(super) struct Index {
    /// Times of bytes in the order of the file, never falling; at least two.
    ticks: Vec<FileTick>,
    /// Entry points in the order of the file.
    entries: Vec<Entry>,
    segments: Vec<Segment>,
    tables: Vec<Vec<u8>>,
    pub(super) start: u64,
}

/// A byte's offset and its time, in 16 bytes.
#[derive(Clone, Copy, Debug)]
struct FileTick {
    offset: u64,
    time: i64,
}

/// A place where decoders can start, in 16 bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// Offset of the packet in which the frame begins.
    pub(super) offset: u64,
    /// Bytes up to the packet in which the next frame begins, including packets of other
    /// streams.
    pub(super) length: u32,
    /// Index of the tables that a decoder needs.
    tables: u16,
}

impl Index {
    /// Returns when the byte at `offset` is due.
    pub(super) fn time_of(&self, offset: u64) -> i64 {
        let behind = self.ticks.partition_point(|tick| tick.offset <= offset);
        let (Some(from), Some(to)) = (behind.checked_sub(1), self.ticks.get(behind)) else {
            return if behind == 0 { 0 } else { self.length() };
        };
        let from = self.ticks[from];
        let bytes = i128::from(to.offset - from.offset).max(1);
        let passed = i128::from(to.time - from.time) * i128::from(offset - from.offset) / bytes;
        from.time + i64::try_from(passed).unwrap_or(0)
    }

    pub(super) fn length(&self) -> i64 {
        self.ticks.last().map_or(0, |tick| tick.time)
    }

    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub(super) fn tables_of(&self, entry: &Entry) -> &[u8] {
        let tables = self.tables.get(usize::from(entry.tables));
        tables.map_or(&[], Vec::as_slice)
    }

    /// Returns what must be added to clock references at `offset` so that they continue those
    /// at the start of the file.
    pub(super) fn correction_at(&self, offset: u64) -> i64 {
        let first = self.segments.first().map_or(0, |first| first.correction);
        system_clock::correction_at(&self.segments, offset) - first
    }
}

/// Builds the index while the file is read.
pub(super) struct Indexer<'w> {
    warnings: &'w mut Warnings,
    clock: Clock,
    ticks: Vec<FileTick>,
    entries: Vec<Entry>,
    /// Entry points for the case that the stream has no keyframes.
    blind: Vec<Entry>,
    blind_time: Option<i64>,
    followed: Tables,
    tables: Vec<Vec<u8>>,
    current_tables: u16,
    spans: BTreeMap<u16, Span>,
    frame: Option<Frame>,
    start: Option<u64>,
}

/// Decoding times of a stream: of its first and last unit, in ticks of 27 MHz.
#[derive(Clone, Copy, Debug)]
struct Span {
    first: i64,
    last: i64,
    /// Time from the last unit but one to the last one.
    step: i64,
    /// Bytes of the last PES packet, and of the one before.
    bytes: u64,
    bytes_before: u64,
    coding: Coding,
}

impl Span {
    /// Returns when the last unit ends. It is as long as the one before, except for audio with
    /// several frames in each PES packet, where the last packet may have fewer.
    fn end(&self) -> i64 {
        if self.coding.is_video() || self.step <= FRAME_OF_AUDIO_MAX {
            return self.last + self.step;
        }
        let part = i128::from(self.bytes.min(self.bytes_before));
        let step = i128::from(self.step) * part / i128::from(self.bytes_before.max(1));
        self.last + i64::try_from(step).unwrap_or(self.step)
    }
}

/// A frame that may be an entry point.
struct Frame {
    pid: u16,
    entry: Entry,
    verdict: Option<bool>,
    probe: Probe,
}

impl<'w> Indexer<'w> {
    pub(super) fn new(warnings: &'w mut Warnings) -> Self {
        Self {
            warnings,
            clock: Clock::default(),
            ticks: Vec::new(),
            entries: Vec::new(),
            blind: Vec::new(),
            blind_time: None,
            followed: Tables::default(),
            tables: Vec::new(),
            current_tables: 0,
            spans: BTreeMap::new(),
            frame: None,
            start: None,
        }
    }

    pub(super) fn run(mut self, packets: &mut Packets) -> Result<Index, Fault> {
        loop {
            let at = packets.offset();
            let read = |error: io::Error| Fault::at(at, Reason::Read(error));
            let taken = packets.take().map_err(read)?;
            if let Some((offset, bytes)) = packets.skipped() {
                if bytes > SEARCH_BYTES_MAX {
                    let searched = SEARCH_BYTES_MAX;
                    return Err(Fault::at(offset, super::no_packets(searched)));
                }
                self.warnings
                    .add(Some(offset), WarningReason::Skipped(bytes));
            }
            let Some((offset, packet)) = taken else {
                break;
            };
            self.take(offset, &packet)?;
        }
        self.finish(packets.offset())
    }

    fn take(&mut self, offset: u64, packet: &Packet) -> Result<(), Fault> {
        self.start.get_or_insert(offset);
        if self.followed.push(packet) {
            self.take_tables(offset)?;
        }
        let Some(program) = self.followed.program() else {
            return Ok(());
        };
        let pid = packet.pid();
        let leading = program.leading();
        let is_clock = program.clock_pid == pid;
        let mut streams = program.streams.iter().copied();
        let stream = streams.find(|(stream, coding)| *stream == pid && *coding != Coding::Other);
        if is_clock && let Some(raw) = packet.clock() {
            self.take_clock(offset, raw, packet.is_discontinuous())?;
        }
        if let Some((_, coding)) = stream {
            if let Some(stamp) = packet.decode_stamp() {
                self.take_stamp(pid, coding, stamp);
            }
            if let Some(span) = self.spans.get_mut(&pid) {
                span.bytes += packet.payload().len() as u64;
            }
        }
        match leading {
            Some((leading, coding)) if leading == pid => self.take_frame(offset, packet, coding),
            _ => Ok(()),
        }
    }

    fn take_tables(&mut self, offset: u64) -> Result<(), Fault> {
        let Some(tables) = self.followed.packets() else {
            return Ok(());
        };
        if tables.len() > TABLE_PACKETS_MAX * super::packet::PACKET_BYTES {
            // Such sections have much padding; the tables in the file must suffice.
            return Ok(());
        }
        let known = self.tables.iter().position(|known| *known == tables);
        let place = known.unwrap_or_else(|| {
            self.tables.push(tables);
            self.tables.len() - 1
        });
        if place >= CHANGES_MAX {
            return Err(too_many(offset, "the number of program maps", CHANGES_MAX));
        }
        self.current_tables = u16::try_from(place).expect("CHANGES_MAX fits");
        Ok(())
    }

    fn take_clock(&mut self, offset: u64, raw: i64, announced: bool) -> Result<(), Fault> {
        let tick = self.clock.push(offset, raw, announced);
        if tick.jumped {
            self.warnings.add(Some(offset), WarningReason::ClockJump);
        }
        if self.clock.segments().len() > CHANGES_MAX {
            return Err(too_many(offset, "the number of clock jumps", CHANGES_MAX));
        }
        let last = self.ticks.last();
        if last.is_none_or(|last| tick.time - last.time >= TICK_DISTANCE_MIN) {
            if self.ticks.len() == TICKS_MAX {
                return Err(too_many(
                    offset,
                    "the number of clock references",
                    TICKS_MAX,
                ));
            }
            let time = tick.time;
            self.ticks.push(FileTick { offset, time });
        }
        Ok(())
    }

    fn take_stamp(&mut self, pid: u16, coding: Coding, stamp: i64) {
        let Some((raw, now)) = self.clock.last() else {
            return;
        };
        let ahead = ahead(raw / CLOCK_PER_STAMP, stamp, STAMP_MODULUS) * CLOCK_PER_STAMP;
        if ahead.abs() > STAMP_AHEAD_MAX {
            return;
        }
        let time = now + ahead;
        let span = self.spans.entry(pid).or_insert(Span {
            first: time,
            last: time,
            step: 0,
            bytes: 0,
            bytes_before: 0,
            coding,
        });
        span.bytes_before = std::mem::take(&mut span.bytes);
        if time > span.last {
            span.step = (time - span.last).min(CLOCK_RATE);
            span.last = time;
        }
    }

    fn take_frame(&mut self, offset: u64, packet: &Packet, coding: Coding) -> Result<(), Fault> {
        if packet.begins_unit() {
            self.close_frame(offset)?;
            self.frame = Some(Frame {
                pid: packet.pid(),
                entry: Entry {
                    offset,
                    length: 0,
                    tables: self.current_tables,
                },
                verdict: packet.allows_access().then_some(coding.is_video()),
                probe: Probe::new(coding),
            });
        }
        if let Some(frame) = &mut self.frame
            && frame.verdict.is_none()
            && frame.pid == packet.pid()
        {
            frame.verdict = frame.probe.push(packet.elementary());
        }
        Ok(())
    }

    /// Ends the current frame where the next one begins.
    fn close_frame(&mut self, end: u64) -> Result<(), Fault> {
        let Some(frame) = self.frame.take() else {
            return Ok(());
        };
        let mut entry = frame.entry;
        entry.length = u32::try_from(end - entry.offset).unwrap_or(u32::MAX);
        if frame.verdict == Some(true) {
            if self.entries.len() == ENTRIES_MAX {
                return Err(too_many(end, "the number of keyframes", ENTRIES_MAX));
            }
            self.entries.push(entry);
            self.blind = Vec::new();
        } else if self.entries.is_empty() {
            let now = self.clock.last().map_or(0, |(_, now)| now);
            let due = |last: i64| now >= last.saturating_add(BLIND_DISTANCE);
            if self.blind_time.is_none_or(due) {
                self.blind_time = Some(now);
                self.blind.push(entry);
            }
        }
        Ok(())
    }

    fn finish(mut self, end: u64) -> Result<Index, Fault> {
        self.close_frame(end)?;
        let missing = |what: &str| Err(Fault::whole(Reason::NothingToPlay(what.to_owned())));
        let Some(program) = self.followed.program() else {
            return missing("no program map (PAT and PMT)");
        };
        let has_video = program
            .leading()
            .is_some_and(|(_, coding)| coding.is_video());
        let (Some(start), Some(last)) = (self.start, self.ticks.last().copied()) else {
            return missing("no clock reference (PCR) that says when it is to be sent");
        };
        self.ticks.push(FileTick {
            offset: end.max(last.offset + 1),
            time: self.end_time(last, end),
        });
        if self.entries.is_empty() {
            self.entries = self.blind;
            if has_video {
                self.warnings.add(None, WarningReason::NoEntryPoint);
            }
        }
        Ok(Index {
            ticks: self.ticks,
            entries: self.entries,
            segments: self.clock.segments().to_vec(),
            tables: self.tables,
            start,
        })
    }

    /// Returns when a pass ends: with the longest stream, so that no stream overlaps itself
    /// when the file begins again.
    fn end_time(&self, last: FileTick, end: u64) -> i64 {
        let lengths = self.spans.values().map(|span| span.end() - span.first);
        let length = lengths.max().unwrap_or(0);
        // The length is a whole number of stamps, so that loops add whole stamps.
        let length = length / CLOCK_PER_STAMP * CLOCK_PER_STAMP;
        if length > last.time {
            return length;
        }
        let rest = self.clock.estimate(end.saturating_sub(last.offset));
        let rest = rest.clamp(CLOCK_PER_STAMP, CLOCK_RATE);
        (last.time + rest) / CLOCK_PER_STAMP * CLOCK_PER_STAMP + CLOCK_PER_STAMP
    }
}

fn too_many(offset: u64, what: &'static str, limit: usize) -> Fault {
    Fault::too_large(offset, "an MPEG transport stream", what, limit as u64, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_unit_is_as_long_as_the_one_before_and_a_short_packet_of_audio_shorter() {
        let span = |coding, step, bytes| Span {
            first: 0,
            last: 1_000,
            step,
            bytes,
            bytes_before: 400,
            coding,
        };
        let long = 4 * FRAME_OF_AUDIO_MAX;
        assert_eq!(span(Coding::H264, long, 100).end(), 1_000 + long);
        assert_eq!(span(Coding::Audio, 500, 100).end(), 1_500);
        assert_eq!(span(Coding::Audio, long, 100).end(), 1_000 + long / 4);
        assert_eq!(span(Coding::Audio, long, 800).end(), 1_000 + long);
    }
}
