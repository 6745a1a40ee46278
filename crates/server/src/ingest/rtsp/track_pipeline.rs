use std::time::{Duration, Instant};

use glassline_media::Ssrc;
use glassline_rtp::order::{self, InOrder, Part};
use glassline_rtp::receive::ReceiveStatistics;
use glassline_rtp::rtcp::{ReportBlock, SenderReport};
use glassline_rtp::{Packet as Rtp, SequenceExtender};

/// Packets by UDP that came early wait for those before them: networks of several
/// links and radio put packets out of order by milliseconds, and what viewers keep
/// against jitter is about as much. Half a MiB is 80 Mbit/s for that long.
const BY_DATAGRAMS: order::Config = order::Config {
    patience: Duration::from_millis(50),
    bytes_max: 512 << 10,
};

/// What comes in a connection comes in order: a gap is a loss before it.
const BY_CONNECTION: order::Config = order::Config {
    patience: Duration::ZERO,
    bytes_max: 0,
};

/// A number further off than this is a stray, and two in a row are of a source that
/// began anew (`MAX_DROPOUT` of RFC 3550 A.1).
const JUMP_MAX: u64 = 3000;

/// How one track of a publisher arrives: its packets in order, and what there is to
/// report of them.
#[derive(Debug)]
pub(super) struct TrackPipeline {
    clock_rate: u32,
    sequences: SequenceExtender,
    order: InOrder,
    /// Of the source that sends now.
    statistics: Option<ReceiveStatistics>,
    /// The number behind one that was far off.
    stray: Option<u64>,
    /// Of the late packets, those that were told of.
    late_told: u64,
}

impl TrackPipeline {
    /// For packets of a clock of `clock_rate` Hz that come within the connection.
    pub(super) fn new(clock_rate: u32) -> Self {
        Self {
            clock_rate,
            sequences: SequenceExtender::new(),
            order: InOrder::new(BY_CONNECTION),
            statistics: None,
            stray: None,
            late_told: 0,
        }
    }

    /// They come by UDP instead.
    pub(super) fn come_by_datagrams(&mut self) {
        self.order = InOrder::new(BY_DATAGRAMS);
    }

    /// Takes a packet; `sink` gets what is in order by that.
    pub(super) fn take(&mut self, packet: &Rtp<'_>, now: Instant, mut sink: impl FnMut(Part<'_>)) {
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
        let part = Part {
            sequence,
            timestamp: header.timestamp,
            marker: header.marker,
            payload: packet.payload,
            received: now,
        };
        self.order.push(part, sink);
    }

    /// Gives up the gaps that will not be filled.
    pub(super) fn expire(&mut self, now: Instant, sink: impl FnMut(Part<'_>)) {
        self.order.expire(now, sink);
    }

    /// When [`Self::expire`] will have something to do.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.order.deadline()
    }

    pub(super) fn on_sender_report(&mut self, report: &SenderReport, now: Instant) {
        let statistics = self.statistics.as_mut();
        if let Some(statistics) = statistics.filter(|it| it.ssrc() == report.ssrc) {
            statistics.on_sender_report(report.ntp, now);
        }
    }

    /// Packets since the last call that came again, or too late to be put in order.
    pub(super) fn take_late(&mut self) -> u64 {
        let late = self.order.late();
        late - std::mem::replace(&mut self.late_told, late)
    }

    /// Whose packets come; `None` before the first.
    pub(super) fn source(&self) -> Option<Ssrc> {
        self.statistics.as_ref().map(ReceiveStatistics::ssrc)
    }

    /// What the publisher is told; loss counts since the last call.
    pub(super) fn report_block(&mut self, now: Instant) -> Option<ReportBlock> {
        self.statistics.as_mut()?.report_block(now)
    }

    fn is_far(&self, sequence: u64) -> bool {
        let highest = self.sequences.highest();
        highest.is_some_and(|highest| highest.abs_diff(sequence) > JUMP_MAX)
    }

    /// The next packet is the first, numbered above all before.
    fn begin_anew(&mut self, sink: &mut impl FnMut(Part<'_>)) {
        self.order.restart(sink);
        let cycle = self.sequences.highest().map_or(1, |it| (it >> 16) + 2);
        self.sequences = SequenceExtender::from_cycle(cycle);
        self.statistics = None;
        self.stray = None;
    }
}
