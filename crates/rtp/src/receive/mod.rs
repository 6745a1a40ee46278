//! Receiving: statistics of one stream (RFC 3550 §6.4.1, A.1, A.3, A.8), and the packets of a
//! source's tracks in order.

mod payload_types;
mod source_receiver;
mod track_pipeline;

use std::time::{Duration, Instant};

use glassline_media::{NtpTime, Ssrc};

use crate::rtcp::ReportBlock;

pub use source_receiver::{Received, SourceReceiver};
pub use track_pipeline::TrackPipeline;

/// Statistics of one received source, from which its report blocks are made.
#[derive(Clone, Debug)]
pub struct ReceiveStatistics {
    ssrc: Ssrc,
    clock_rate: u32,
    epoch: Option<Instant>,
    range: Option<Range>,
    totals: Totals,
    /// Packets expected and received when the last report block was made.
    reported: (u64, u64),
    /// Arrival of the last packet, and the same in ticks since the epoch, wrapping.
    arrival: Option<(Instant, u32)>,
    /// Arrival minus RTP timestamp of the last packet, in ticks, wrapping.
    transit: Option<u32>,
    /// Sixteen times the interarrival jitter in ticks (RFC 3550 A.8).
    jitter_16: u32,
    last_sr: Option<(u32, Instant)>,
}

/// Packet counts of a source since its first packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Packets that were sent by their sequence numbers, lost ones included.
    pub expected: u64,
    /// Packets that arrived, without retransmissions and duplicates.
    pub received: u64,
    /// Packets that arrived as retransmissions only, each counted once.
    pub recovered: u64,
    /// Packets that arrived more than once, counted once per repetition.
    pub duplicates: u64,
    /// Payload bytes received, without duplicates.
    pub payload_bytes: u64,
}

impl Totals {
    /// Number of packets lost on the path, whether or not they were recovered later.
    pub fn lost(&self) -> u64 {
        self.expected.saturating_sub(self.received)
    }

    /// Number of packets that neither arrived nor were recovered.
    pub fn missing(&self) -> u64 {
        self.expected.saturating_sub(self.received + self.recovered)
    }
}

impl ReceiveStatistics {
    /// Creates statistics of the source `ssrc`, whose RTP clock has `clock_rate` Hz.
    pub fn new(ssrc: Ssrc, clock_rate: u32) -> Self {
        Self {
            ssrc,
            clock_rate,
            epoch: None,
            range: None,
            totals: Totals::default(),
            reported: (0, 0),
            arrival: None,
            transit: None,
            jitter_16: 0,
            last_sr: None,
        }
    }

    /// Counts an original packet: extended sequence number, RTP timestamp, payload bytes.
    pub fn on_packet(&mut self, sequence: u64, timestamp: u32, bytes: usize, now: Instant) {
        if !self.record(sequence) {
            self.totals.duplicates += 1;
            return;
        }
        self.totals.received += 1;
        self.totals.payload_bytes += bytes as u64;
        self.update_jitter(timestamp, now);
    }

    /// Counts a packet that arrived as a retransmission (RFC 4588). It has no effect on report
    /// blocks, which describe the original stream.
    pub fn on_recovered(&mut self, sequence: u64, bytes: usize) {
        if self.record(sequence) {
            self.totals.recovered += 1;
            self.totals.payload_bytes += bytes as u64;
        } else {
            self.totals.duplicates += 1;
        }
    }

    /// Records the arrival of the source's sender report; the next report block refers to it,
    /// and the source measures the round trip from that.
    pub fn on_sender_report(&mut self, ntp: NtpTime, now: Instant) {
        self.last_sr = Some((ntp.compact(), now));
    }

    /// Creates a report block. Its fraction lost covers the time since the previous block.
    /// `None` before the first packet.
    pub fn report_block(&mut self, now: Instant) -> Option<ReportBlock> {
        let range = self.range.as_ref()?;
        let highest = range.highest.wrapping_sub(range.cycle_base);
        let Totals {
            expected, received, ..
        } = self.totals;
        let expected_interval = expected - self.reported.0;
        let received_interval = received - self.reported.1;
        self.reported = (expected, received);
        let lost = expected_interval.saturating_sub(received_interval);
        let fraction_lost = (lost << 8)
            .checked_div(expected_interval)
            .map_or(0, |fraction| fraction.min(255) as u8);
        let (last_sr, delay_since_last_sr) = match self.last_sr {
            Some((compact, at)) => (compact, units_65536(now.saturating_duration_since(at))),
            None => (0, 0),
        };
        Some(ReportBlock {
            ssrc: self.ssrc,
            fraction_lost,
            cumulative_lost: i32::try_from(self.totals.lost()).unwrap_or(i32::MAX),
            highest_sequence: highest as u32,
            jitter: self.jitter_16 >> 4,
            last_sr,
            delay_since_last_sr,
        })
    }

    /// Returns the packet counts since the first packet.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Returns the interarrival jitter (RFC 3550 §6.4.1).
    pub fn jitter(&self) -> Duration {
        let ticks = u64::from(self.jitter_16 >> 4);
        Duration::from_nanos(ticks * 1_000_000_000 / u64::from(self.clock_rate.max(1)))
    }

    /// Returns the source of these statistics.
    pub fn ssrc(&self) -> Ssrc {
        self.ssrc
    }

    /// Counts a number as expected and seen. Returns false if it was seen before.
    fn record(&mut self, sequence: u64) -> bool {
        let Some(range) = &mut self.range else {
            self.range = Some(Range::new(sequence));
            self.totals.expected += 1;
            return true;
        };
        match range.record(sequence) {
            SequenceChange::Ahead(by) => self.totals.expected += by,
            SequenceChange::Behind => {}
            // The packet is from before the first one: the range grows backwards.
            SequenceChange::BeforeFirst(by) => self.totals.expected += by,
            SequenceChange::Restart => self.totals.expected += 1,
            SequenceChange::Duplicate => return false,
        }
        true
    }

    /// Updates the jitter estimate (RFC 3550 A.8, in its integer form).
    fn update_jitter(&mut self, timestamp: u32, now: Instant) {
        let arrival = match self.arrival {
            // Packets that are read together arrive together.
            Some((last, ticks)) if last == now => ticks,
            _ => self.ticks(now),
        };
        self.arrival = Some((now, arrival));
        let transit = arrival.wrapping_sub(timestamp);
        if let Some(last) = self.transit.replace(transit) {
            let distance = (transit.wrapping_sub(last) as i32).unsigned_abs();
            // A publisher chooses the timestamps, so the sum may reach the end of its range.
            let faded = self.jitter_16.saturating_add(8) >> 4;
            self.jitter_16 = self
                .jitter_16
                .saturating_sub(faded)
                .saturating_add(distance);
        }
    }

    /// Returns the ticks from the first packet to `now`, wrapping.
    fn ticks(&mut self, now: Instant) -> u32 {
        let epoch = *self.epoch.get_or_insert(now);
        let since = now.saturating_duration_since(epoch);
        let rate = u64::from(self.clock_rate);
        let whole = since.as_secs().wrapping_mul(rate);
        let part = u64::from(since.subsec_nanos()) * rate / 1_000_000_000;
        whole.wrapping_add(part) as u32
    }
}

/// The range of sequence numbers seen, with a bit for each of the most recent.
#[derive(Clone, Debug)]
struct Range {
    /// Multiple of 65,536 at or below the first number: reports count wrap cycles from here.
    cycle_base: u64,
    base: u64,
    highest: u64,
    /// Bit `n % 64` of word `n / 64 % SEEN_WORDS` stands for number n.
    seen: Box<[u64; SEEN_WORDS]>,
    /// The number that must follow for the last far jump to be a restart of the source.
    suspect: Option<u64>,
}

/// How a sequence number relates to the range of numbers seen.
enum SequenceChange {
    Ahead(u64),
    Behind,
    BeforeFirst(u64),
    Restart,
    Duplicate,
}

impl Range {
    fn new(first: u64) -> Self {
        let mut this = Self {
            cycle_base: first & !0xffff,
            base: first,
            highest: first,
            seen: Box::new([0; SEEN_WORDS]),
            suspect: None,
        };
        this.mark(first);
        this
    }

    fn record(&mut self, sequence: u64) -> SequenceChange {
        if sequence == self.highest.wrapping_add(1) {
            self.suspect = None;
            self.highest = sequence;
            self.mark(sequence);
            return SequenceChange::Ahead(1);
        }
        if sequence.abs_diff(self.highest) > JUMP_MAX {
            return self.record_far(sequence);
        }
        self.suspect = None;
        if sequence > self.highest {
            let ahead = sequence - self.highest;
            self.clear(self.highest + 1, sequence);
            self.highest = sequence;
            self.mark(sequence);
            return SequenceChange::Ahead(ahead);
        }
        if self.is_marked(sequence) {
            return SequenceChange::Duplicate;
        }
        self.mark(sequence);
        if sequence < self.base {
            let by = self.base - sequence;
            self.base = sequence;
            return SequenceChange::BeforeFirst(by);
        }
        SequenceChange::Behind
    }

    /// Handles a number far from the range. One such number is a stray packet; two consecutive
    /// ones are a restart of the source (RFC 3550 A.1).
    fn record_far(&mut self, sequence: u64) -> SequenceChange {
        if self.suspect != Some(sequence) {
            self.suspect = Some(sequence + 1);
            return SequenceChange::Duplicate;
        }
        *self = Self::new(sequence);
        SequenceChange::Restart
    }

    fn mark(&mut self, number: u64) {
        self.seen[word(number)] |= 1 << (number % 64);
    }

    /// Clears the bits of the numbers `first..end`, a word at a time: the sender of the packets
    /// decides how many they are.
    fn clear(&mut self, first: u64, end: u64) {
        let mut at = first;
        while at < end {
            let next = (at / 64 + 1) * 64;
            let below = (1 << (at % 64)) - 1;
            let above = if end < next {
                u64::MAX << (end % 64)
            } else {
                0
            };
            self.seen[word(at)] &= below | above;
            at = next;
        }
    }

    fn is_marked(&self, number: u64) -> bool {
        self.seen[word(number)] >> (number % 64) & 1 == 1
    }
}

/// Number of words in `seen`: duplicates are recognized among the last 4096 numbers.
const SEEN_WORDS: usize = 64;
/// A jump farther than this is neither loss nor reordering (`MAX_DROPOUT` of RFC 3550 A.1). It
/// is smaller than the number of bits in `seen`.
const JUMP_MAX: u64 = 3000;

fn word(number: u64) -> usize {
    (number / 64 % SEEN_WORDS as u64) as usize
}

/// Converts to units of 1/65,536 s, as DLSR has them; saturates at about 18 hours.
fn units_65536(duration: Duration) -> u32 {
    u32::try_from((duration.as_nanos() << 16) / 1_000_000_000).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: Duration = Duration::from_millis(1);

    fn statistics() -> ReceiveStatistics {
        ReceiveStatistics::new(Ssrc(7), 90_000)
    }

    fn block_after(numbers: &[u64]) -> (ReportBlock, Totals) {
        let now = Instant::now();
        let mut statistics = statistics();
        for &number in numbers {
            statistics.on_packet(number, 0, 100, now);
        }
        let block = statistics.report_block(now).expect("packets came");
        (block, statistics.totals())
    }

    #[test]
    fn nothing_received_makes_no_block() {
        assert_eq!(statistics().report_block(Instant::now()), None);
    }

    #[test]
    fn losses_are_counted_by_numbers() {
        let (block, totals) = block_after(&[65_534, 65_535, 65_538, 65_541]);
        assert_eq!((totals.expected, totals.received, totals.lost()), (8, 4, 4));
        assert_eq!(block.fraction_lost, 128);
        assert_eq!(block.cumulative_lost, 4);
        assert_eq!(block.highest_sequence, 0x1_0005);
        assert_eq!(totals.payload_bytes, 400);
    }

    #[test]
    fn wrap_cycles_count_from_the_first_packet() {
        let (block, _) = block_after(&[0x1_0005, 0x1_0006]);
        assert_eq!(block.highest_sequence, 6);
    }

    #[test]
    fn absurd_timestamps_neither_overflow_the_jitter_nor_stay_in_it() {
        let now = Instant::now();
        let mut statistics = statistics();
        for number in 0..40 {
            let timestamp = (number as u32 % 2) << 31;
            statistics.on_packet(number, timestamp, 1, now);
        }
        assert!(statistics.jitter() > Duration::from_secs(1));
        for number in 40..640 {
            statistics.on_packet(number, 0, 1, now);
        }
        assert_eq!(statistics.jitter(), Duration::ZERO);
    }

    #[test]
    fn duplicates_are_no_packets_and_reordering_is_no_loss() {
        let (block, totals) = block_after(&[102, 100, 101, 101, 100, 103, 99]);
        assert_eq!((totals.expected, totals.received), (5, 5));
        assert_eq!(totals.duplicates, 2);
        assert_eq!((block.fraction_lost, block.cumulative_lost), (0, 0));
    }

    #[test]
    fn the_fraction_is_that_since_the_last_block() {
        let now = Instant::now();
        let mut statistics = statistics();
        (0..10).for_each(|number| statistics.on_packet(number * 2, 0, 1, now));
        assert_eq!(
            statistics.report_block(now).expect("one").fraction_lost,
            121 // 9 of 19
        );
        (20..30).for_each(|number| statistics.on_packet(number, 0, 1, now));
        let block = statistics.report_block(now).expect("one");
        assert_eq!(block.fraction_lost, 23);
        assert_eq!(block.cumulative_lost, 10);
        assert_eq!(statistics.report_block(now).expect("one").fraction_lost, 0);
    }

    #[test]
    fn retransmissions_repair_without_hiding_the_loss() {
        let now = Instant::now();
        let mut statistics = statistics();
        statistics.on_packet(0, 0, 1, now);
        statistics.on_packet(3, 0, 1, now);
        statistics.on_recovered(1, 1);
        statistics.on_recovered(1, 1);
        let totals = statistics.totals();
        assert_eq!((totals.lost(), totals.missing()), (2, 1));
        assert_eq!((totals.recovered, totals.duplicates), (1, 1));
        assert_eq!(
            statistics.report_block(now).expect("one").cumulative_lost,
            2
        );
    }

    #[test]
    fn a_stray_number_is_ignored_and_two_in_a_row_restart() {
        let (_, totals) = block_after(&[1, 2, 50_000, 3]);
        assert_eq!((totals.expected, totals.received), (3, 3));
        let (block, totals) = block_after(&[1, 2, 50_000, 50_001, 50_002]);
        assert_eq!((totals.expected, totals.received), (4, 4));
        assert_eq!(block.highest_sequence, 50_002);
    }

    #[test]
    fn jitter_follows_rfc_3550_a_8() {
        let start = Instant::now();
        let mut statistics = statistics();
        // Frames of 3000 ticks arrive every 33 1/3 ms, but for one 10 ms late.
        let arrival = |frame: u32| start + Duration::from_nanos(u64::from(frame) * 33_333_334);
        (0..5).for_each(|frame| {
            statistics.on_packet(u64::from(frame), frame * 3000, 1, arrival(frame));
        });
        assert_eq!(statistics.report_block(start).expect("one").jitter, 0);
        statistics.on_packet(5, 15_000, 1, arrival(5) + 10 * MS);
        let jitter = statistics.report_block(start).expect("one").jitter;
        assert_eq!(jitter, 900 / 16);
        statistics.on_packet(6, 18_000, 1, arrival(6));
        let jitter = statistics.report_block(start).expect("one").jitter;
        assert_eq!(jitter, (900 - 56 + 900) / 16);
        assert_eq!(
            statistics.jitter(),
            Duration::from_nanos(109 * 1_000_000_000 / 90_000)
        );
    }

    #[test]
    fn the_delay_since_the_sender_report_is_in_65536ths() {
        let start = Instant::now();
        let mut statistics = statistics();
        statistics.on_packet(0, 0, 1, start);
        assert_eq!(statistics.report_block(start).expect("one").last_sr, 0);
        statistics.on_sender_report(NtpTime(0x1122_3344_5566_7788), start);
        let block = statistics.report_block(start + 1500 * MS).expect("one");
        assert_eq!(block.last_sr, 0x3344_5566);
        assert_eq!(block.delay_since_last_sr, 0x1_8000);
    }

    proptest! {
        #[test]
        fn totals_are_those_of_the_set_of_numbers(
            steps in prop::collection::vec(-40i64..60, 1..400),
        ) {
            let now = Instant::now();
            let mut statistics = statistics();
            let mut seen = std::collections::BTreeSet::new();
            let mut at = 100_000u64;
            for step in &steps {
                at = at.saturating_add_signed(*step);
                statistics.on_packet(at, 0, 1, now);
                seen.insert(at);
            }
            let (first, last) = (*seen.first().expect("one"), *seen.last().expect("one"));
            let totals = statistics.totals();
            if last - first < JUMP_MAX {
                prop_assert_eq!(totals.expected, last - first + 1);
                prop_assert_eq!(totals.received, seen.len() as u64);
                prop_assert_eq!(totals.duplicates, (steps.len() - seen.len()) as u64);
            }
        }
    }
}
