use std::time::{Duration, Instant};

use super::ReceiveStatistics;
use crate::reorder::{self, ReceivedPacket, ReorderBuffer};
use crate::rtcp::{ReportBlock, SenderReport};
use crate::{Packet, SequenceExtender};
use glassline_media::Ssrc;

/// Bounds of reordering for packets by UDP. Networks of several links and radio networks reorder
/// packets by milliseconds, and viewers' jitter buffers hold about as much. Half a MiB is 80 Mbit/s
/// for that time.
const BY_DATAGRAMS: reorder::Config = reorder::Config {
    gap_timeout: Duration::from_millis(50),
    bytes_max: 512 << 10,
};

/// Bounds of reordering for packets by UDP that are requested again when they are lost. Half of the
/// requests are answered after one round trip, nearly all after three; beyond 250 ms a keyframe
/// costs viewers less than the wait. A MiB is 32 Mbit/s for that time.
const BY_DATAGRAMS_REPAIRED: reorder::Config = reorder::Config {
    gap_timeout: TrackPipeline::REPAIR_MAX,
    bytes_max: 1 << 20,
};

/// Bounds of reordering for packets within a connection, which arrive in order: a gap means that
/// the packet was lost before.
const BY_CONNECTION: reorder::Config = reorder::Config {
    gap_timeout: Duration::ZERO,
    bytes_max: 0,
};

/// Distance of sequence numbers from which on a packet is a stray. Two consecutive strays mean that
/// the source began anew (`MAX_DROPOUT` of RFC 3550 A.1).
const JUMP_MAX: u64 = 3000;

/// Receives one track of a source: puts its packets in order and keeps statistics for reports.
#[derive(Debug)]
pub struct TrackPipeline {
    clock_rate: u32,
    sequences: SequenceExtender,
    reorder: ReorderBuffer,
    /// Statistics of the present source (SSRC).
    statistics: Option<ReceiveStatistics>,
    /// The sequence number that would follow the latest stray packet.
    stray: Option<u64>,
    /// Number of late packets that [`Self::take_late`] has returned.
    late_told: u64,
}

impl TrackPipeline {
    /// Creates the state of a track with a clock of `clock_rate` Hz whose packets come within the
    /// connection.
    pub fn new(clock_rate: u32) -> Self {
        Self {
            clock_rate,
            sequences: SequenceExtender::new(),
            reorder: ReorderBuffer::new(BY_CONNECTION),
            statistics: None,
            stray: None,
            late_told: 0,
        }
    }

    /// Notes that the track's packets come by UDP.
    pub fn come_by_datagrams(&mut self) {
        self.reorder = ReorderBuffer::new(BY_DATAGRAMS);
    }

    /// Longest time for which a lost packet is waited for that can be requested again.
    pub const REPAIR_MAX: Duration = Duration::from_millis(250);

    /// Notes that the track's packets come by UDP, and that lost ones are requested again.
    pub fn come_by_repaired_datagrams(&mut self) {
        self.reorder = ReorderBuffer::new(BY_DATAGRAMS_REPAIRED);
    }

    /// Takes a packet, and hands `sink` the packets that are in order now.
    pub fn take(
        &mut self,
        packet: &Packet<'_>,
        now: Instant,
        mut sink: impl FnMut(ReceivedPacket<'_>),
    ) {
        let header = &packet.header;
        let source = self.statistics.as_ref().map(ReceiveStatistics::ssrc);
        if source.is_some_and(|source| source != header.ssrc) {
            self.begin_anew(&mut sink);
        }
        let expected = self.sequences.peek(header.sequence);
        if self.is_far(expected) {
            if self.stray != Some(expected) {
                self.stray = Some(expected + 1);
                return;
            }
            self.begin_anew(&mut sink);
        }
        self.stray = None;
        let sequence = self.sequences.extend(header.sequence);
        self.statistics
            .get_or_insert_with(|| ReceiveStatistics::new(header.ssrc, self.clock_rate))
            .on_packet(sequence, header.timestamp, packet.payload.len(), now);
        let packet = ReceivedPacket {
            sequence,
            timestamp: header.timestamp,
            marker: header.marker,
            payload: packet.payload,
            received: now,
        };
        self.reorder.push(packet, sink);
    }

    /// Gives up missing packets that are overdue.
    pub fn expire(&mut self, now: Instant, sink: impl FnMut(ReceivedPacket<'_>)) {
        self.reorder.expire(now, sink);
    }

    /// Returns when [`Self::expire`] must be called.
    pub fn deadline(&self) -> Option<Instant> {
        self.reorder.deadline()
    }

    /// Notes a sender report that arrived at `now`, for the next report block.
    pub fn on_sender_report(&mut self, report: &SenderReport, now: Instant) {
        let statistics = self.statistics.as_mut();
        if let Some(statistics) = statistics.filter(|it| it.ssrc() == report.ssrc) {
            statistics.on_sender_report(report.ntp, now);
        }
    }

    /// Returns the number of packets since the last call that were duplicates, or too late to be
    /// put in order.
    pub fn take_late(&mut self) -> u64 {
        let late = self.reorder.late();
        late - std::mem::replace(&mut self.late_told, late)
    }

    /// Returns the SSRC of the packets; `None` before the first.
    pub fn source(&self) -> Option<Ssrc> {
        self.statistics.as_ref().map(ReceiveStatistics::ssrc)
    }

    /// Returns the report block for the source; its loss fraction counts since the last call.
    pub fn report_block(&mut self, now: Instant) -> Option<ReportBlock> {
        self.statistics.as_mut()?.report_block(now)
    }

    fn is_far(&self, sequence: u64) -> bool {
        let highest = self.sequences.highest();
        highest.is_some_and(|highest| highest.abs_diff(sequence) > JUMP_MAX)
    }

    /// Makes the next packet the first of a new source, with extended numbers above all before.
    fn begin_anew(&mut self, sink: &mut impl FnMut(ReceivedPacket<'_>)) {
        self.reorder.restart(sink);
        let cycle = self.sequences.highest().map_or(1, |it| (it >> 16) + 2);
        self.sequences = SequenceExtender::from_cycle(cycle);
        self.statistics = None;
        self.stray = None;
    }
}
