//! The receiving half of an association: tracks TSNs, writes SACKs, reassembles messages,
//! and bounds the memory for them.
//!
//! ```text
//!  DATA, I-DATA ─► DataTracker ─► ReassemblyQueue ─► ReassemblyStreams ─► ready ─► poll_event
//!                     │ new?          whole?              in order?
//!                     └─► SackSchedule ─► SACK            ReceiveWindow ◄── data received
//! ```

mod data_tracker;
mod reassembly_queue;
mod reassembly_streams;
mod sack_schedule;
mod window;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::chunk::{Data, DataFlags, ForwardTsn, IData, IForwardTsn, Sack};
use crate::packet::PacketBuilder;
use crate::sequence::{Tsn, narrow, widen, widen_first};
use crate::{Config, Event, Report};

use data_tracker::{DataTracker, TsnStatus};
use reassembly_queue::{Fragment, MessageInfo, ReassembledMessage};
pub(crate) use reassembly_streams::ReassemblyError;
use reassembly_streams::ReassemblyStreams;
use sack_schedule::SackSchedule;
use window::ReceiveWindow;

/// Memory that a message costs beyond its bytes, as an estimate, in bytes.
const OVERHEAD: u64 = 128;

/// Bytes of a SACK chunk without gap ack blocks (RFC 9260 §3.3.4).
const SACK_HEADER_BYTES: usize = 16;
/// Bytes of a gap ack block (RFC 9260 §3.3.4).
const GAP_BYTES: usize = 4;

/// The receiving half of an association.
#[derive(Debug)]
pub(crate) struct Receiver {
    /// Which TSNs have arrived.
    data_tracker: DataTracker,
    /// Incomplete messages, and complete ones that wait for earlier ones.
    streams: ReassemblyStreams,
    /// How much may be held.
    window: ReceiveWindow,
    /// Messages for the application to take, in order.
    ready: VecDeque<ReassembledMessage>,
    /// Payload of the messages in `ready`, in bytes.
    ready_bytes: u64,
    /// Largest message that is allowed, in bytes.
    max_message_size: usize,
    /// When SACKs leave, and how many.
    sacks: SackSchedule,
    /// Window that the latest SACK announced less data that came since, in bytes.
    announced: u64,
    /// Counters for the report.
    counts: Counts,
}

/// Counters for the report.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    /// Bytes of messages that the application took.
    data: u64,
    /// Number of SACKs sent.
    sacks: u64,
}

/// The outcome of a data chunk at the receiving half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataOutcome {
    /// The chunk was accepted, or is a duplicate.
    Accepted,
    /// The chunk was refused: there is no room, or its TSN is too far ahead. The peer will
    /// retransmit it.
    Refused,
    /// The chunk violates the protocol or a limit, and the association cannot go on.
    Failed(ReassemblyError),
    /// Fragments fill all the room there is, and none of their messages can become
    /// complete.
    Stuck,
}

impl Receiver {
    /// Returns the receiving half of an association that is not established yet.
    pub(crate) fn new(config: &Config) -> Self {
        // The largest message must fit while the next one comes.
        let message = config.max_message_size as u64;
        let least = (message + message / 2).max(64 * 1024);
        let max = u64::from(config.receive_window_max).max(least);
        let min = u64::from(config.receive_window_min).clamp(least, max);
        Self {
            data_tracker: DataTracker::new(0),
            streams: ReassemblyStreams::default(),
            window: ReceiveWindow::new(min, max),
            ready: VecDeque::new(),
            ready_bytes: 0,
            max_message_size: config.max_message_size,
            sacks: SackSchedule::new(config.delayed_ack),
            announced: min,
            counts: Counts::default(),
        }
    }

    /// Starts with the peer's first TSN. Messages that wait to be read stay.
    pub(crate) fn establish(&mut self, initial_tsn: u32) {
        self.data_tracker = DataTracker::new(widen_first(initial_tsn) - 1);
        self.streams = self.streams.restarted();
        self.sacks.restart();
        self.announced = self.room();
    }

    /// Takes over unread messages and counters from the association before a restart.
    pub(crate) fn adopt_unread(&mut self, mut before: Self) {
        self.ready = std::mem::take(&mut before.ready);
        if before.streams.are_opened() {
            self.streams.require_opening();
        }
        self.ready_bytes = before.ready_bytes;
        self.counts = before.counts;
    }

    /// Returns the number of unread messages.
    pub(crate) fn unread(&self) -> u64 {
        self.ready.len() as u64
    }

    /// Acknowledges a chunk without delivering it.
    pub(crate) fn discard(&mut self, tsn: Tsn) {
        let tsn = self.widen(tsn);
        self.sacks.note_data();
        if matches!(
            self.data_tracker.status(tsn),
            TsnStatus::Next | TsnStatus::BeyondGap
        ) {
            self.data_tracker.insert(tsn);
        }
    }

    /// Returns the window that INIT and INIT ACK announce, in bytes.
    pub(crate) fn first_window(&self) -> u32 {
        u32::try_from(self.window.limit()).unwrap_or(u32::MAX)
    }

    /// Returns the highest TSN without a gap before it.
    pub(crate) const fn cumulative(&self) -> u64 {
        self.data_tracker.cumulative()
    }

    /// Returns the 64-bit form of a TSN.
    pub(crate) fn widen(&self, tsn: Tsn) -> u64 {
        widen(tsn.0, self.data_tracker.cumulative())
    }

    /// Returns the memory that unread and incomplete messages take, in bytes.
    fn used(&self) -> u64 {
        let ready = self.ready_bytes + self.ready.len() as u64 * OVERHEAD;
        ready + self.streams.held(OVERHEAD as usize) as u64
    }

    /// Returns what is left of the receive window, in bytes.
    fn room(&self) -> u64 {
        self.window.limit().saturating_sub(self.used())
    }

    /// Handles a DATA chunk.
    pub(crate) fn on_data(&mut self, data: &Data<'_>) -> DataOutcome {
        let at = self.widen(data.tsn);
        let fragment = Fragment {
            number: at,
            begins: data.flags.has(DataFlags::BEGIN),
            ends: data.flags.has(DataFlags::END),
            info: MessageInfo {
                stream: data.stream,
                number: data.ssn.0.into(),
                ppid: data.ppid,
                unordered: data.flags.has(DataFlags::UNORDERED),
            },
            payload: data.payload,
        };
        self.accept(at, data.flags, &fragment, false)
    }

    /// Handles an I-DATA chunk.
    pub(crate) fn on_i_data(&mut self, data: &IData<'_>) -> DataOutcome {
        let fragment = Fragment {
            number: data.fsn.into(),
            begins: data.flags.has(DataFlags::BEGIN),
            ends: data.flags.has(DataFlags::END),
            info: MessageInfo {
                stream: data.stream,
                number: data.mid.0,
                ppid: data.ppid,
                unordered: data.flags.has(DataFlags::UNORDERED),
            },
            payload: data.payload,
        };
        self.accept(self.widen(data.tsn), data.flags, &fragment, true)
    }

    /// Handles a data chunk of either kind.
    fn accept(
        &mut self,
        tsn: u64,
        flags: DataFlags,
        fragment: &Fragment<'_>,
        interleaved: bool,
    ) -> DataOutcome {
        self.sacks.note_data();
        let tsn_status = self.data_tracker.status(tsn);
        if tsn_status == TsnStatus::Duplicate {
            self.data_tracker.note_duplicate(tsn);
            self.sacks.urge();
            return DataOutcome::Accepted;
        }
        let len = fragment.payload.len() as u64;
        if tsn_status == TsnStatus::OutOfRange || !self.has_room(tsn, len) {
            self.sacks.urge();
            return if tsn_status == TsnStatus::Next && self.is_stuck() {
                DataOutcome::Stuck
            } else {
                DataOutcome::Refused
            };
        }
        let has_gaps_before = self.data_tracker.has_gaps();
        self.data_tracker.insert(tsn);
        self.announced = self.announced.saturating_sub(len);
        // Only an application that keeps up gets a larger window.
        if self.ready_bytes < self.window.limit() / 2 {
            self.window.on_received(len);
        }
        if flags.has(DataFlags::IMMEDIATE) || tsn_status == TsnStatus::BeyondGap || has_gaps_before
        {
            self.sacks.urge();
        }
        let before = self.ready.len();
        let max = self.max_message_size;
        let inserted = if interleaved {
            self.streams
                .insert_interleaved(fragment, max, &mut self.ready)
        } else {
            let cumulative = self.data_tracker.cumulative();
            self.streams
                .insert_data(fragment, max, cumulative, &mut self.ready)
        };
        self.count_ready(before);
        match inserted {
            Ok(()) => DataOutcome::Accepted,
            Err(fault) => DataOutcome::Failed(fault),
        }
    }

    /// Adds the messages of `ready` from index `before` on to `ready_bytes`.
    #[inline]
    fn count_ready(&mut self, before: usize) {
        if self.ready.len() == before {
            return;
        }
        let new = self.ready.range(before..).map(|message| message.data.len());
        self.ready_bytes += new.sum::<usize>() as u64;
    }

    /// Whether a chunk of `len` bytes may be accepted. Data within the announced window
    /// always is, unless messages are so small that keeping track of them takes another
    /// window's worth of memory.
    fn has_room(&mut self, tsn: u64, len: u64) -> bool {
        let used = self.used();
        if used + len <= self.window.limit() {
            return true;
        }
        // The reader is not slow: messages are long, or wait for a gap to be filled.
        if self.ready_bytes < self.window.limit() / 4 && !self.window.is_full_grown() {
            self.window.double();
            return true;
        }
        let fills_gap = tsn < self.data_tracker.highest();
        (fills_gap || len <= self.announced) && used + len <= 2 * self.window.limit()
    }

    /// Whether no message can become complete because the window is full of fragments.
    fn is_stuck(&self) -> bool {
        self.ready.is_empty() && self.window.is_full_grown() && !self.data_tracker.has_gaps()
    }

    /// Ends a packet, whose chunks were all handled.
    pub(crate) fn end_packet(&mut self) {
        self.sacks.end_packet();
    }

    /// Ends a batch of packets that came together, and decides on SACKs. Returns whether
    /// unacknowledged data was among them.
    pub(crate) fn end_batch(&mut self, now: Instant, round_trip: Option<Duration>) -> bool {
        self.window.adjust(now, round_trip);
        self.sacks.end_batch(now, self.data_tracker.has_gaps())
    }

    /// Whether a SACK should leave now.
    pub(crate) const fn is_sack_due(&self) -> bool {
        self.sacks.is_due()
    }

    /// Whether there is something to acknowledge, so that a SACK may travel with a packet
    /// that leaves anyway.
    pub(crate) const fn has_sack(&self) -> bool {
        self.sacks.has_any()
    }

    /// Requests a SACK at once.
    pub(crate) fn acknowledge(&mut self) {
        self.sacks.request();
    }

    /// Returns when a delayed SACK is due.
    pub(crate) const fn deadline(&self) -> Option<Instant> {
        self.sacks.deadline()
    }

    /// Makes a delayed SACK due if its time has come.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        self.sacks.handle_timeout(now);
    }

    /// Appends a SACK to the packet; it stays due if there is no room.
    pub(crate) fn write_sack(&mut self, packet: &mut PacketBuilder<'_>) {
        let room = u32::try_from(self.room()).unwrap_or(u32::MAX);
        let count = packet.room().saturating_sub(SACK_HEADER_BYTES) / GAP_BYTES;
        let written = Sack::write_fitting(
            Tsn(narrow(self.data_tracker.cumulative())),
            room,
            self.data_tracker.gaps(count),
            self.data_tracker.duplicates().iter().copied(),
            packet,
        );
        if written.is_ok() {
            self.data_tracker.clear_duplicates();
            self.announced = room.into();
            self.sacks.on_sent();
            self.counts.sacks += 1;
        }
    }

    /// Moves the cumulative TSN to `tsn`; `None` if it was there already.
    fn skip_to(&mut self, tsn: Tsn) -> Option<u64> {
        let tsn = self.widen(tsn);
        self.sacks.note_data();
        self.sacks.urge();
        let is_new = tsn > self.data_tracker.cumulative();
        is_new.then(|| {
            self.data_tracker.skip_to(tsn);
            tsn
        })
    }

    /// Handles a FORWARD TSN: missing data up to its TSN will not come.
    pub(crate) fn on_forward(&mut self, forward: &ForwardTsn<'_>) {
        let Some(tsn) = self.skip_to(forward.new_cumulative_tsn) else {
            return;
        };
        let before = self.ready.len();
        let skipped = forward.skipped.map(|it| (it.stream, it.ssn.0));
        let cumulative = self.data_tracker.cumulative();
        self.streams
            .skip_data(tsn, cumulative, skipped, &mut self.ready);
        self.count_ready(before);
    }

    /// Handles an I-FORWARD-TSN: missing data up to its TSN will not come.
    pub(crate) fn on_i_forward(&mut self, forward: &IForwardTsn<'_>) {
        if self.skip_to(forward.new_cumulative_tsn).is_none() {
            return;
        }
        let before = self.ready.len();
        for it in forward.skipped {
            self.streams
                .skip_interleaved(it.stream, it.unordered, it.mid.0, &mut self.ready);
        }
        self.count_ready(before);
    }

    /// Requires that streams are opened to have a lasting state.
    pub(crate) fn require_opening(&mut self) {
        self.streams.require_opening();
    }

    /// Opens a stream: it has a state until it is closed.
    pub(crate) fn open_stream(&mut self, stream: u16) {
        self.streams.open(stream);
    }

    /// Returns the number of streams that have a state.
    #[cfg(test)]
    pub(crate) fn stream_states(&mut self) -> usize {
        self.streams.states()
    }

    /// Closes a stream, which then has no lasting state.
    pub(crate) fn close_stream(&mut self, stream: u16) {
        self.streams.close(stream);
    }

    /// Forgets a stream that is not open, with everything that waits on it.
    pub(crate) fn forget_stream(&mut self, stream: u16) {
        self.streams.forget(stream);
    }

    /// Resets incoming streams; an empty list means all.
    pub(crate) fn reset(&mut self, streams: &[u16]) {
        self.streams.reset(streams);
    }

    /// Removes and returns the next message for the application.
    pub(crate) fn next_message(&mut self) -> Option<Event> {
        let message = self.ready.pop_front()?;
        let bytes = message.data.len() as u64;
        self.ready_bytes -= bytes;
        self.counts.data += bytes;
        // A peer that believes that there is little room must learn that there is more.
        let limit = self.window.limit();
        if self.announced < limit / 4 && !self.sacks.is_due() && self.room() >= limit / 2 {
            self.sacks.request();
        }
        let info = message.info;
        Some(Event::Message {
            stream: info.stream,
            ppid: info.ppid,
            unordered: info.unordered,
            data: message.data,
        })
    }

    /// Adds windows and counters to a report.
    pub(crate) fn fill_report(&self, report: &mut Report) {
        report.own_window = self.announced;
        report.own_window_limit = self.window.limit();
        report.unread = self.ready_bytes;
        report.unassembled = self.streams.bytes() as u64;
        report.data_received = self.counts.data;
        report.duplicates = self.data_tracker.duplicates_total();
        report.sacks_sent = self.counts.sacks;
    }
}
