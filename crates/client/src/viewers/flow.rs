use std::time::{Duration, Instant};

use glassline_media::Histogram;
use glassline_rtp::{Header, TimestampExtender};

/// Packet counts of one kind of media, as one viewer received it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Sequence numbers from the first received to the highest.
    pub expected: u64,
    /// Packets received as first sent.
    pub received: u64,
    /// Packets received only as a retransmission, or rebuilt from FEC packets.
    pub recovered: u64,
    /// Bytes of datagrams received, retransmissions included.
    pub bytes: u64,
    /// Advance of the RTP timestamps.
    pub media_time: Duration,
}

impl Flow {
    /// Packets missing, including those whose retransmission is still requested.
    pub const fn lost(&self) -> u64 {
        self.expected.saturating_sub(self.received + self.recovered)
    }

    /// Sum of the counts before and after the source changed.
    #[must_use]
    pub(super) fn then(self, later: Self) -> Self {
        Self {
            media_time: self.media_time + later.media_time,
            ..self.and(later)
        }
    }

    /// Sum of both kinds, for a viewer's totals; media time is the longer one.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            expected: self.expected + other.expected,
            received: self.received + other.received,
            recovered: self.recovered + other.recovered,
            bytes: self.bytes + other.bytes,
            media_time: self.media_time.max(other.media_time),
        }
    }
}

/// Counts the packets of one RTP source.
#[derive(Debug, Default)]
pub(super) struct PacketCounter {
    clock_rate: u32,
    span: Option<(u64, u64)>,
    timestamps: TimestampExtender,
    first_timestamp: i64,
    flow: Flow,
}

impl PacketCounter {
    pub(super) fn new(clock_rate: u32) -> Self {
        Self {
            clock_rate,
            ..Self::default()
        }
    }

    /// Counts a packet; call it once for each sequence number.
    pub(super) fn count(&mut self, sequence: u64, repaired: bool, header: &Header, bytes: usize) {
        let timestamp = self.timestamps.extend(header.timestamp);
        if self.span.is_none() {
            self.first_timestamp = timestamp;
        }
        let (first, highest) = self.span.unwrap_or((sequence, sequence));
        let (first, highest) = (first.min(sequence), highest.max(sequence));
        self.span = Some((first, highest));
        self.flow.expected = highest - first + 1;
        self.flow.bytes += bytes as u64;
        if repaired {
            self.flow.recovered += 1;
        } else {
            self.flow.received += 1;
        }
        let ticks = self.timestamps.highest().unwrap_or(0) - self.first_timestamp;
        let ticks = u64::try_from(ticks).unwrap_or(0);
        let rate = u64::from(self.clock_rate.max(1));
        let rest = Duration::from_nanos(ticks % rate * 1_000_000_000 / rate);
        self.flow.media_time = Duration::from_secs(ticks / rate) + rest;
    }

    pub(super) const fn flow(&self) -> Flow {
        self.flow
    }
}

/// Durations since the last query, in microseconds.
///
/// It is a list because it stays short: a thousand histograms of ten kilobytes would have to
/// be read and cleared for each query.
#[derive(Debug, Default)]
pub(super) struct Recent(Vec<u32>);

/// Most durations that are kept: a minute of 60 frames a second. More accumulate only if
/// nobody queries.
const RECENT_MAX: usize = 3600;

impl Recent {
    pub(super) fn push(&mut self, duration: Duration) {
        if self.0.len() < RECENT_MAX {
            self.0
                .push(u32::try_from(duration.as_micros()).unwrap_or(u32::MAX));
        }
    }

    /// Moves the durations into a histogram.
    pub(super) fn take(&mut self, into: &mut Histogram) {
        for micros in self.0.drain(..) {
            into.record(Duration::from_micros(micros.into()));
        }
    }
}

/// Times between the frames (for audio: packets) that a viewer received whole.
#[derive(Debug, Default)]
pub(super) struct FrameGaps {
    last: Option<Instant>,
    gaps: Histogram,
    recent: Recent,
}

impl FrameGaps {
    pub(super) fn on_frame(&mut self, now: Instant) {
        if let Some(last) = self.last.replace(now) {
            let gap = now.saturating_duration_since(last);
            self.gaps.record(gap);
            self.recent.push(gap);
        }
    }

    /// Moves the gaps since the last query into a histogram.
    pub(super) fn take_recent(&mut self, into: &mut Histogram) {
        self.recent.take(into);
    }

    pub(super) const fn gaps(&self) -> &Histogram {
        &self.gaps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_media::Ssrc;

    fn header(timestamp: u32) -> Header {
        Header {
            marker: false,
            payload_type: 96,
            sequence: 0,
            timestamp,
            ssrc: Ssrc(1),
        }
    }

    #[test]
    fn losses_and_repairs_are_told_apart() {
        let mut counter = PacketCounter::new(90_000);
        for (sequence, repaired) in [(10, false), (11, false), (14, false), (12, true)] {
            counter.count(sequence, repaired, &header(0), 100);
        }
        let flow = counter.flow();
        assert_eq!((flow.expected, flow.received), (5, 3));
        assert_eq!((flow.recovered, flow.lost(), flow.bytes), (1, 1, 400));
        // One that came before the first is one more, not a wrap.
        counter.count(9, false, &header(0), 100);
        assert_eq!((counter.flow().expected, counter.flow().lost()), (6, 1));
    }

    #[test]
    fn media_time_goes_on_across_a_wrap_and_not_back() {
        let mut counter = PacketCounter::new(90_000);
        let start = u32::MAX - 44_999;
        counter.count(1, false, &header(start), 1);
        counter.count(2, false, &header(start.wrapping_add(135_000)), 1);
        assert_eq!(counter.flow().media_time, Duration::from_millis(1500));
        counter.count(3, false, &header(start.wrapping_add(90_000)), 1);
        assert_eq!(counter.flow().media_time, Duration::from_millis(1500));
    }

    #[test]
    fn totals_add_up() {
        let video = Flow {
            expected: 10,
            received: 8,
            recovered: 1,
            bytes: 1000,
            media_time: Duration::from_secs(2),
        };
        let total = video.and(Flow {
            expected: 5,
            received: 5,
            ..Flow::default()
        });
        assert_eq!((total.expected, total.lost()), (15, 1));
        assert_eq!(total.media_time, Duration::from_secs(2));
    }

    #[test]
    fn gaps_are_between_frames() {
        let start = Instant::now();
        let mut gaps = FrameGaps::default();
        for millis in [0, 33, 66, 200] {
            gaps.on_frame(start + Duration::from_millis(millis));
        }
        let summary = gaps.gaps().summary();
        assert_eq!(summary.count, 3);
        assert!(summary.max >= Duration::from_millis(134));
        let mut taken = Histogram::new();
        gaps.take_recent(&mut taken);
        assert_eq!(taken.summary().max, summary.max);
        gaps.take_recent(&mut taken);
        assert_eq!(taken.count(), 3, "each is taken once");
    }
}
