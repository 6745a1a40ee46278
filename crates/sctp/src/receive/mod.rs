//! The receiving half: TSNs, SACKs, messages, and how much room there is for them.
//!
//! ```text
//!  DATA, I-DATA ─► Arrivals (new?) ─► Assembly ─► Streams (order) ─► ready ─► poll_event
//!                     └─► SACK, one a batch          Window ◄── what the application took
//! ```

mod arrivals;
mod assembly;
mod streams;
mod window;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::chunk::{Data, DataFlags, ForwardTsn, IData, IForwardTsn, Sack};
use crate::packet::PacketBuilder;
use crate::sequence::{Tsn, narrow, widen, widen_first};
use crate::{Config, Event, Report};

use arrivals::{Arrival, Arrivals};
use assembly::{Fragment, Label, Whole};
pub(crate) use streams::Fault;
use streams::Streams;
use window::Window;

/// What keeping track of a message costs beside its bytes.
const OVERHEAD: u64 = 128;
/// Packets with data that may go without a SACK (RFC 9260 §6.2).
const PACKETS_UNANSWERED: u32 = 2;

/// A SACK without blocks, and a block (RFC 9260 §3.3.4).
const SACK_HEADER_BYTES: usize = 16;
const GAP_BYTES: usize = 4;

/// The receiving half of an association.
#[derive(Debug)]
pub(crate) struct Receiver {
    arrivals: Arrivals,
    streams: Streams,
    window: Window,
    /// In order, for the application to take.
    ready: VecDeque<Whole>,
    ready_bytes: u64,
    max_message_size: usize,
    delayed_ack: Duration,
    /// Packets with data since the last SACK.
    unanswered: u32,
    /// One had data in this batch.
    in_packet: bool,
    /// A SACK is due at the end of this batch.
    urgent: bool,
    sack_due: bool,
    sack_at: Option<Instant>,
    /// What the peer was told last, less what came since.
    announced: u64,
    counts: Counts,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    data: u64,
    sacks: u64,
}

/// What is to be done about a chunk of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Taken, or known already.
    Yes,
    /// No room, or out of reach; the peer will send it again.
    No,
    /// The association cannot go on.
    Fault(Fault),
    /// Fragments fill all that there is room for, and no message of them can become
    /// whole.
    Stuck,
}

impl Receiver {
    pub(crate) fn new(config: &Config) -> Self {
        // A message must fit while the next one comes.
        let message = config.max_message_size as u64;
        let least = (message + message / 2).max(64 * 1024);
        let max = u64::from(config.receive_window_max).max(least);
        let min = u64::from(config.receive_window_min).clamp(least, max);
        Self {
            arrivals: Arrivals::new(0),
            streams: Streams::default(),
            window: Window::new(min, max),
            ready: VecDeque::new(),
            ready_bytes: 0,
            max_message_size: config.max_message_size,
            delayed_ack: config.delayed_ack,
            unanswered: 0,
            in_packet: false,
            urgent: false,
            sack_due: false,
            sack_at: None,
            announced: min,
            counts: Counts::default(),
        }
    }

    /// The peer's first TSN is known. Messages that wait to be read stay.
    pub(crate) fn establish(&mut self, initial_tsn: u32) {
        self.arrivals = Arrivals::new(widen_first(initial_tsn) - 1);
        self.streams = Streams::default();
        self.unanswered = 0;
        self.sack_due = false;
        self.sack_at = None;
        self.announced = self.room();
    }

    /// Takes over from the association before a restart what nobody has read.
    pub(crate) fn inherit(&mut self, mut before: Self) {
        self.ready = std::mem::take(&mut before.ready);
        self.ready_bytes = before.ready_bytes;
        self.counts = before.counts;
    }

    /// Messages that nobody has read.
    pub(crate) fn unread(&self) -> u64 {
        self.ready.len() as u64
    }

    /// A chunk is acknowledged and thrown away.
    pub(crate) fn discard(&mut self, tsn: Tsn) {
        let tsn = self.widen(tsn);
        self.in_packet = true;
        if matches!(self.arrivals.judge(tsn), Arrival::Next | Arrival::Apart) {
            self.arrivals.insert(tsn);
        }
    }

    /// What INIT announces.
    pub(crate) fn first_window(&self) -> u32 {
        u32::try_from(self.window.limit()).unwrap_or(u32::MAX)
    }

    /// The highest TSN without a hole before it.
    pub(crate) const fn cumulative(&self) -> u64 {
        self.arrivals.cumulative()
    }

    pub(crate) fn widen(&self, tsn: Tsn) -> u64 {
        widen(tsn.0, self.arrivals.cumulative())
    }

    fn used(&self) -> u64 {
        let buffers = (self.ready.len() + self.streams.buffers()) as u64;
        self.ready_bytes + self.streams.bytes() as u64 + buffers * OVERHEAD
    }

    fn room(&self) -> u64 {
        self.window.limit().saturating_sub(self.used())
    }

    /// A DATA chunk.
    pub(crate) fn on_data(&mut self, data: &Data<'_>) -> Taken {
        let at = self.widen(data.tsn);
        let fragment = Fragment {
            at,
            begins: data.flags.has(DataFlags::BEGIN),
            ends: data.flags.has(DataFlags::END),
            label: Label {
                stream: data.stream,
                number: data.ssn.0.into(),
                ppid: data.ppid,
                unordered: data.flags.has(DataFlags::UNORDERED),
            },
            payload: data.payload,
        };
        self.take(at, data.flags, &fragment, false)
    }

    /// An I-DATA chunk.
    pub(crate) fn on_i_data(&mut self, data: &IData<'_>) -> Taken {
        let fragment = Fragment {
            at: data.fsn.into(),
            begins: data.flags.has(DataFlags::BEGIN),
            ends: data.flags.has(DataFlags::END),
            label: Label {
                stream: data.stream,
                number: data.mid.0,
                ppid: data.ppid,
                unordered: data.flags.has(DataFlags::UNORDERED),
            },
            payload: data.payload,
        };
        self.take(self.widen(data.tsn), data.flags, &fragment, true)
    }

    fn take(
        &mut self,
        tsn: u64,
        flags: DataFlags,
        fragment: &Fragment<'_>,
        interleaved: bool,
    ) -> Taken {
        self.in_packet = true;
        let arrival = self.arrivals.judge(tsn);
        if arrival == Arrival::Duplicate {
            self.arrivals.note_duplicate(tsn);
            self.urgent = true;
            return Taken::Yes;
        }
        let len = fragment.payload.len() as u64;
        if arrival == Arrival::OutOfReach || !self.has_room(tsn, len) {
            self.urgent = true;
            return if arrival == Arrival::Next && self.is_stuck() {
                Taken::Stuck
            } else {
                Taken::No
            };
        }
        let holes = self.arrivals.has_holes();
        self.arrivals.insert(tsn);
        self.announced = self.announced.saturating_sub(len);
        // A reader that does not keep up gets no larger window for it.
        if self.ready_bytes < self.window.limit() / 2 {
            self.window.on_taken(len);
        }
        if flags.has(DataFlags::IMMEDIATE) || arrival == Arrival::Apart || holes {
            self.urgent = true;
        }
        let before = self.ready.len();
        let max = self.max_message_size;
        let inserted = if interleaved {
            self.streams
                .insert_interleaved(fragment, max, &mut self.ready)
        } else {
            self.streams.insert_data(fragment, max, &mut self.ready)
        };
        self.count_ready(before);
        match inserted {
            Ok(()) => Taken::Yes,
            Err(fault) => Taken::Fault(fault),
        }
    }

    #[inline]
    fn count_ready(&mut self, before: usize) {
        if self.ready.len() == before {
            return;
        }
        let new = self.ready.range(before..).map(|whole| whole.data.len());
        self.ready_bytes += new.sum::<usize>() as u64;
    }

    /// What is within the announced window is always taken, unless messages are so small
    /// that keeping track of them takes another window's worth.
    fn has_room(&mut self, tsn: u64, len: u64) -> bool {
        let used = self.used();
        if used + len <= self.window.limit() {
            return true;
        }
        // Not the reader is slow, but messages are long, or wait for a hole to be filled.
        if self.ready_bytes < self.window.limit() / 4 && !self.window.is_full_grown() {
            self.window.double();
            return true;
        }
        let fills_hole = tsn < self.arrivals.highest();
        (fills_hole || len <= self.announced) && used + len <= 2 * self.window.limit()
    }

    fn is_stuck(&self) -> bool {
        self.ready.is_empty() && self.window.is_full_grown() && !self.arrivals.has_holes()
    }

    /// All chunks of a packet are in.
    pub(crate) fn end_packet(&mut self) {
        if std::mem::take(&mut self.in_packet) {
            self.unanswered += 1;
        }
    }

    /// All packets that came together are in; whether there was data among them.
    pub(crate) fn end_batch(&mut self, now: Instant, round_trip: Option<Duration>) -> bool {
        self.window.adjust(now, round_trip);
        if self.urgent || self.unanswered >= PACKETS_UNANSWERED {
            self.sack_due = true;
        } else if self.unanswered > 0 && self.sack_at.is_none() {
            self.sack_at = Some(now + self.delayed_ack);
        }
        self.urgent = false;
        self.unanswered > 0
    }

    /// A SACK should leave now.
    pub(crate) const fn is_sack_due(&self) -> bool {
        self.sack_due
    }

    /// There is something to acknowledge, so that it may travel with a packet that
    /// leaves anyway.
    pub(crate) const fn has_sack(&self) -> bool {
        self.sack_due || self.unanswered > 0
    }

    /// Acknowledge whatever there is.
    pub(crate) const fn acknowledge(&mut self) {
        self.sack_due = true;
    }

    pub(crate) const fn deadline(&self) -> Option<Instant> {
        self.sack_at
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if self.sack_at.is_some_and(|at| now >= at) {
            self.sack_at = None;
            self.sack_due = true;
        }
    }

    /// Appends a SACK.
    pub(crate) fn write_sack(&mut self, packet: &mut PacketBuilder<'_>) {
        let room = u32::try_from(self.room()).unwrap_or(u32::MAX);
        let count = packet.room().saturating_sub(SACK_HEADER_BYTES) / GAP_BYTES;
        let written = Sack::write_fitting(
            Tsn(narrow(self.arrivals.cumulative())),
            room,
            self.arrivals.gaps(count),
            self.arrivals.duplicates().iter().copied(),
            packet,
        );
        if written.is_ok() {
            self.arrivals.clear_duplicates();
            self.announced = room.into();
            self.unanswered = 0;
            self.sack_due = false;
            self.sack_at = None;
            self.counts.sacks += 1;
        }
    }

    /// Nothing up to there is waited for any more; `None` if nothing was.
    fn skip_to(&mut self, tsn: Tsn) -> Option<u64> {
        let tsn = self.widen(tsn);
        self.in_packet = true;
        self.urgent = true;
        let is_new = tsn > self.arrivals.cumulative();
        is_new.then(|| {
            self.arrivals.skip_to(tsn);
            tsn
        })
    }

    /// FORWARD-TSN: what is missing up to there will not come.
    pub(crate) fn on_forward(&mut self, forward: &ForwardTsn<'_>) {
        let Some(tsn) = self.skip_to(forward.new_cumulative_tsn) else {
            return;
        };
        let before = self.ready.len();
        let skipped = forward.skipped.map(|it| (it.stream, it.ssn.0));
        self.streams.skip_data(tsn, skipped, &mut self.ready);
        self.count_ready(before);
    }

    /// I-FORWARD-TSN.
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

    /// The peer begins streams again; none named means all.
    pub(crate) fn reset(&mut self, streams: &[u16]) {
        self.streams.reset(streams);
    }

    /// The next message for the application.
    pub(crate) fn read(&mut self) -> Option<Event> {
        let whole = self.ready.pop_front()?;
        let bytes = whole.data.len() as u64;
        self.ready_bytes -= bytes;
        self.counts.data += bytes;
        // A peer that thinks that there is little room waits to be told otherwise.
        let limit = self.window.limit();
        if self.announced < limit / 4 && !self.sack_due {
            self.sack_due = self.room() >= limit / 2;
        }
        let label = whole.label;
        Some(Event::Message {
            stream: label.stream,
            ppid: label.ppid,
            unordered: label.unordered,
            data: whole.data,
        })
    }

    pub(crate) fn fill_report(&self, report: &mut Report) {
        report.own_window = self.announced;
        report.own_window_limit = self.window.limit();
        report.unread = self.ready_bytes;
        report.unassembled = self.streams.bytes() as u64;
        report.data_received = self.counts.data;
        report.duplicates = self.arrivals.duplicates_total();
        report.sacks_sent = self.counts.sacks;
    }
}
