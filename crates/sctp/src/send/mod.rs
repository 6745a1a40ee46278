//! The sending half of an association: queued messages, outstanding data, loss recovery,
//! and congestion control.
//!
//! ```text
//!  push ─► SendQueue ─ fragment ─► Outstanding ring ─► packet
//!                                     ▲   ▲
//!  SACK ── newly acked ranges ────────┘   └── Recovery: lost ─► retransmitted, lowest TSN first
//!   └───── packets ─► Flow ─► window, pacing
//! ```

mod active_streams;
mod outstanding;
mod partial;
mod recovery;
mod report;
mod send_queue;
mod timers;
mod writing;

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use bytes::Bytes;
use glassline_congestion::{Flow, Pacer};

use crate::chunk::{List, Sack};
use crate::packet::HEADER_BYTES;
use crate::sequence::{Tsn, widen, widen_first};
use crate::{Config, Reliability, SendOptions};

use outstanding::{ChunkState, Outstanding, OutstandingChunk};
use partial::ForwardTsnState;
use recovery::{Recovery, RtoBounds};
use send_queue::{QueuedMessage, RetransmitLimits, SendQueue};
use writing::SendAllowance;

/// A SACK with fewer gap ack blocks than this reports everything that has arrived; with
/// more, its packet may have been too small for the rest.
const GAPS_CERTAIN: usize = 100;

/// The sending half of an association.
#[derive(Debug)]
pub(crate) struct Sender {
    /// Messages that wait to be sent.
    pub(crate) send_queue: SendQueue,
    /// Data that was sent and not cumulatively acknowledged.
    outstanding: Outstanding,
    /// Loss detection and retransmission timers.
    recovery: Recovery,
    /// How far the peer is told to skip abandoned messages.
    forward: ForwardTsnState,
    /// Congestion control and round-trip times.
    flow: Flow,
    /// Spreads packets over time.
    pacer: Pacer,
    /// Bytes that windows and pacing allow at the present instant.
    allowance: Option<SendAllowance>,
    /// Present size of a full packet, in bytes.
    mtu: usize,
    /// Packet size that is sure to pass, whatever becomes of larger ones, in bytes.
    mtu_sure: usize,
    /// Whether messages are interleaved (RFC 8260).
    interleaving: bool,
    /// Whether the peer knows FORWARD TSN, so that messages can be abandoned.
    partial_reliability: bool,
    /// Number of the next packet, for congestion control and loss detection.
    next_packet: u64,
    /// The peer's receive window.
    peer: PeerWindow,
    /// Highest TSN that the latest SACK could report: many gaps do not fit one SACK.
    sack_coverage_end: u64,
    /// Chunks to be retransmitted, lowest TSN first.
    lost: BTreeSet<u64>,
    /// State of the tail-loss probe.
    probe: TailProbe,
    /// Counters for the report.
    counts: Counts,
    /// Buffer for ranges that a SACK newly acknowledges; kept for its allocation.
    newly_acked: Vec<RangeInclusive<u64>>,
    /// Buffer for packets that a SACK acknowledges; kept for its allocation.
    acked: Vec<u64>,
    /// Buffer for chunks found lost; kept for its allocation.
    found: Vec<u64>,
}

/// The receive window that the peer announces, in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct PeerWindow {
    /// Window in the latest SACK.
    a_rwnd: u64,
    /// Largest window that the peer ever announced.
    largest: u64,
}

impl PeerWindow {
    /// Records an announced window.
    fn announce(&mut self, a_rwnd: u32) {
        self.a_rwnd = a_rwnd.into();
        self.largest = self.largest.max(self.a_rwnd);
    }
}

/// A tail-loss probe: one packet that leaves whatever the windows say (RFC 8985 §7).
#[derive(Clone, Copy, Debug, Default)]
struct TailProbe {
    /// Whether a probe has to be sent now.
    is_due: bool,
    /// TSN that the latest probe retransmitted. A duplicate of it does not mean a spurious
    /// retransmission.
    tsn: Option<u64>,
}

/// Counters for the report; see [`Report`](crate::Report) for their meaning.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    data_sent: u64,
    retransmitted: u64,
    lost: u64,
    spurious: u64,
    timeouts: u64,
    probes: u64,
    abandoned: u64,
    sacks: u64,
}

/// A SACK is invalid, because it acknowledges a TSN that was never sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unsent;

impl Sender {
    /// Returns the sending half of an association that is not established yet.
    pub(crate) fn new(config: &Config, initial_tsn: u32) -> Self {
        let mtu = config.mtu as u64;
        let first = widen_first(initial_tsn);
        Self {
            send_queue: SendQueue::default(),
            outstanding: Outstanding::new(first),
            recovery: Recovery::new(RtoBounds {
                initial: config.rto_initial,
                min: config.rto_min,
                max: config.rto_max,
            }),
            forward: ForwardTsnState::new(first - 1),
            flow: Flow::new(config.congestion.start(mtu)),
            pacer: Pacer::new(mtu),
            allowance: None,
            mtu: config.mtu,
            mtu_sure: config.mtu,
            interleaving: false,
            partial_reliability: false,
            next_packet: 0,
            peer: PeerWindow::default(),
            sack_coverage_end: u64::MAX,
            lost: BTreeSet::new(),
            probe: TailProbe::default(),
            counts: Counts::default(),
            newly_acked: Vec::new(),
            acked: Vec::new(),
            found: Vec::new(),
        }
    }

    /// Adopts what the handshake negotiated. `a_rwnd`: the peer's window, in bytes.
    pub(crate) fn establish(&mut self, a_rwnd: u32, interleaving: bool, partial_reliability: bool) {
        self.peer = PeerWindow::default();
        self.peer.announce(a_rwnd);
        self.interleaving = interleaving;
        self.partial_reliability = partial_reliability;
        self.send_queue.set_interleaving(interleaving);
    }

    /// Sets the size of a full packet, in bytes.
    pub(crate) fn set_mtu(&mut self, mtu: usize) {
        self.mtu = mtu;
        self.flow.on_mtu(mtu as u64);
        self.pacer = Pacer::new(mtu as u64);
        self.allowance = None;
    }

    /// Returns the present size of a full packet, in bytes.
    pub(crate) const fn mtu(&self) -> usize {
        self.mtu
    }

    /// Returns the bytes of unsent and unacknowledged messages.
    pub(crate) const fn occupied(&self) -> usize {
        self.send_queue.buffered_total() + self.outstanding.held()
    }

    /// Queues a message. Limits of reliability apply only if the peer knows FORWARD TSN.
    pub(crate) fn push(
        &mut self,
        stream: u16,
        ppid: u32,
        data: Bytes,
        options: SendOptions,
        now: Instant,
    ) {
        let mut limits = RetransmitLimits::default();
        match options.reliability {
            Reliability::Reliable => {}
            _ if !self.partial_reliability => {}
            Reliability::Limited { retransmissions } => {
                limits.retransmissions = Some(retransmissions);
            }
            Reliability::Timed { lifetime } => limits.deadline = now.checked_add(lifetime),
        }
        self.send_queue.push(
            stream,
            QueuedMessage {
                data,
                ppid,
                unordered: options.unordered,
                limits,
            },
        );
    }

    /// Returns the last TSN that was sent.
    pub(crate) fn last_tsn(&self) -> u64 {
        self.outstanding.next_tsn() - 1
    }

    /// Returns the cumulative TSN: everything up to it is acknowledged.
    pub(crate) const fn cumulative(&self) -> u64 {
        self.outstanding.cumulative()
    }

    /// Returns the bound of the next packet, in bytes. A chunk that is to be retransmitted
    /// from before the path became narrower raises it, because chunks cannot be fragmented
    /// again.
    pub(crate) fn packet_limit(&self) -> usize {
        let first = self.lost.first().and_then(|tsn| self.outstanding.get(*tsn));
        let needed = first.map_or(0, |chunk| {
            let len = usize::from(chunk.len).next_multiple_of(4);
            HEADER_BYTES + self.header_bytes() + len
        });
        self.mtu.max(needed)
    }

    /// Whether nothing waits and all data was acknowledged or abandoned.
    pub(crate) fn is_drained(&self) -> bool {
        self.send_queue.is_empty() && self.outstanding.is_empty()
    }

    /// Returns the retransmission time-outs in a row.
    pub(crate) const fn timeouts(&self) -> u32 {
        self.recovery.timeouts()
    }

    /// Returns the retransmission time-out.
    pub(crate) fn rto(&self) -> Duration {
        self.recovery.rto(self.flow.round_trips())
    }

    /// Returns the smoothed round-trip time.
    pub(crate) fn round_trip(&self) -> Option<Duration> {
        self.flow.round_trips().smoothed()
    }

    /// Handles a SACK, or the cumulative TSN of a SHUTDOWN.
    ///
    /// # Errors
    /// [`Unsent`] if the SACK is invalid; it is ignored.
    pub(crate) fn on_sack(&mut self, sack: &Sack<'_>, now: Instant) -> Result<(), Unsent> {
        self.counts.sacks += 1;
        self.allowance = None;
        let before = self.outstanding.cumulative();
        let cumulative = widen(sack.cumulative_tsn.0, before);
        if cumulative >= self.outstanding.next_tsn() {
            return Err(Unsent);
        }
        if cumulative < before {
            // A later SACK overtook this one, whose window is old, too.
            return Ok(());
        }
        self.peer.announce(sack.a_rwnd);
        let highest_before = self.recovery.highest();
        let late = self.counts.spurious;
        self.acked.clear();
        let progress = self.take_cumulative(cumulative, now, highest_before);
        self.outstanding.trim();
        self.sack_coverage_end = match sack.gaps.last() {
            Some(last) if sack.gaps.len() >= GAPS_CERTAIN => cumulative + u64::from(last.end),
            _ => u64::MAX,
        };
        if !sack.gaps.is_empty() {
            let blocks = sack.gaps.map(|gap| {
                let at = |offset: u16| cumulative + u64::from(offset);
                (at(gap.start), at(gap.end))
            });
            let mut newly_acked = std::mem::take(&mut self.newly_acked);
            newly_acked.clear();
            self.outstanding.newly_acked(blocks, &mut newly_acked);
            for tsn in newly_acked.iter().cloned().flatten() {
                if let Some(chunk) = self.outstanding.mark_acked(tsn) {
                    self.on_chunk_acked(tsn, &chunk, now, highest_before);
                }
            }
            self.newly_acked = newly_acked;
        }
        self.on_reneging(now);
        self.on_duplicates(sack, late, now);
        self.acknowledge(now, progress);
        self.detect(now);
        if self.partial_reliability {
            self.forward.advance(&self.outstanding);
        }
        Ok(())
    }

    /// Handles the cumulative TSN of a SHUTDOWN, which says as much as a SACK except for
    /// the window.
    ///
    /// # Errors
    /// [`Unsent`] if the TSN was never sent; it is ignored.
    pub(crate) fn on_cumulative(&mut self, tsn: Tsn, now: Instant) -> Result<(), Unsent> {
        let sack = Sack {
            cumulative_tsn: tsn,
            a_rwnd: u32::try_from(self.peer.a_rwnd).unwrap_or(u32::MAX),
            gaps: List::EMPTY,
            duplicates: List::EMPTY,
        };
        self.on_sack(&sack, now)
    }

    /// Removes everything up to `cumulative`; returns whether there was anything.
    fn take_cumulative(&mut self, cumulative: u64, now: Instant, highest_before: u64) -> bool {
        let mut progress = false;
        while self.outstanding.cumulative() < cumulative
            && let Some(chunk) = self.outstanding.pop()
        {
            self.on_chunk_acked(self.outstanding.cumulative(), &chunk, now, highest_before);
            progress = true;
        }
        progress
    }

    /// Handles an acknowledgement of chunk `tsn`, which was as in `chunk` before.
    #[inline]
    fn on_chunk_acked(
        &mut self,
        tsn: u64,
        chunk: &OutstandingChunk,
        now: Instant,
        highest_before: u64,
    ) {
        let mut packet = chunk.packet;
        match chunk.state {
            ChunkState::Lost => {
                // The chunk was only late, and has not been retransmitted yet.
                self.lost.remove(&tsn);
                self.on_spurious_retransmit(now);
            }
            ChunkState::InFlight if chunk.times > 1 && self.is_too_soon(chunk.at, now) => {
                // The acknowledgement came too soon for the retransmission: the one before
                // arrived.
                self.on_spurious_retransmit(now);
                self.flow.on_discarded([packet]);
                packet = chunk.packet_before;
            }
            ChunkState::InFlight => {
                self.recovery
                    .on_arrived(now, packet, chunk.at, tsn, chunk.times, highest_before);
            }
            ChunkState::Abandoned => {}
            ChunkState::Acked => return,
        }
        if self.acked.last() != Some(&packet) {
            self.acked.push(packet);
        }
    }

    /// Counts a spurious retransmission, or the false detection of a loss.
    fn on_spurious_retransmit(&mut self, now: Instant) {
        self.counts.spurious += 1;
        self.recovery
            .on_spurious_retransmit(now, self.flow.round_trips());
    }

    /// Whether an acknowledgement of what was sent `at` cannot be here yet.
    fn is_too_soon(&self, at: Instant, now: Instant) -> bool {
        let least = self.flow.round_trips().least().unwrap_or_default();
        now.saturating_duration_since(at) < least * 9 / 10
    }

    /// Handles reported duplicates. They mean a spurious retransmission, unless that is
    /// known already (`known`: the count before this SACK) or the duplicate was a probe.
    fn on_duplicates(&mut self, sack: &Sack<'_>, known: u64, now: Instant) {
        if self.counts.spurious != known {
            return;
        }
        let probed = self.probe.tsn.map(crate::sequence::narrow);
        let duplicates = sack.duplicates;
        if self.counts.retransmitted > 0 && duplicates.take(32).any(|tsn| Some(tsn.0) != probed) {
            self.recovery
                .on_spurious_retransmit(now, self.flow.round_trips());
        }
    }

    /// Handles reneging: the peer discarded data that it had acknowledged by gap ack
    /// blocks, which is to be retransmitted.
    fn on_reneging(&mut self, now: Instant) {
        for tsn in self.outstanding.renege() {
            self.mark_lost(tsn, now);
        }
    }

    /// Reports acknowledged packets to congestion control, and restarts the timers.
    fn acknowledge(&mut self, now: Instant, progress: bool) {
        if !self.acked.is_empty() {
            let acked = self.acked.iter().copied();
            self.flow.on_acked(now, acked, Duration::ZERO);
        }
        if progress || !self.acked.is_empty() {
            let waiting = !self.outstanding.is_empty();
            let alone = self.flow.in_flight() <= self.mtu as u64;
            let trips = self.flow.round_trips();
            self.recovery.on_progress(now, trips, waiting, alone);
            self.probe.is_due = false;
        }
        if self.outstanding.is_empty() {
            self.recovery.on_idle();
            self.probe.tsn = None;
        }
    }

    /// Detects losses and records them.
    fn detect(&mut self, now: Instant) {
        let mut found = std::mem::take(&mut self.found);
        found.clear();
        let trips = self.flow.round_trips();
        self.recovery.detect(
            now,
            &self.outstanding,
            trips,
            self.sack_coverage_end,
            &mut found,
        );
        self.on_lost_chunks(&found, false, now);
        self.found = found;
    }

    /// Records lost chunks and reports them to congestion control.
    fn on_lost_chunks(&mut self, tsns: &[u64], persistent: bool, now: Instant) {
        if tsns.is_empty() {
            return;
        }
        self.acked.clear();
        for &tsn in tsns {
            let Some(chunk) = self.outstanding.get(tsn) else {
                continue;
            };
            let packet = chunk.packet;
            self.counts.lost += u64::from(chunk.len);
            if self.acked.last() != Some(&packet) {
                self.acked.push(packet);
            }
            self.mark_lost(tsn, now);
        }
        let packets = self.acked.iter().copied();
        if self.peer.a_rwnd == 0 {
            // The packet probed a closed window, and says nothing about the path.
            self.flow.on_discarded(packets);
        } else {
            self.flow.on_lost(now, packets, persistent);
        }
    }

    /// Queues a chunk for retransmission, or abandons its message if that has reached its
    /// limits.
    fn mark_lost(&mut self, tsn: u64, now: Instant) {
        let Some(chunk) = self.outstanding.get_mut(tsn) else {
            return;
        };
        chunk.state = ChunkState::Lost;
        let (number, times) = (chunk.message, u32::from(chunk.times));
        self.lost.insert(tsn);
        let over = self.outstanding.message(number).is_none_or(|message| {
            let limits = &message.content.limits;
            let often = |limit: u32| times > limit;
            message.abandoned || limits.retransmissions.is_some_and(often) || limits.is_expired(now)
        });
        if over {
            self.abandon_message(number);
        }
    }

    /// Returns the payload that the peer's window has room for, in bytes.
    fn peer_room(&self) -> u64 {
        let outstanding = self.outstanding.bytes() as u64;
        self.peer.a_rwnd.saturating_sub(outstanding)
    }
}
