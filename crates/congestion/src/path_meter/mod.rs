//! Signs of what a path carries, by the spacing, the delay and the loss of packets.
//!
//! ```text
//! sent    ││││        │   │   │       packets of a frame leave together, others apart
//! arrived │  │  │  │  │   │   │       a packet that queued behind another arrives as much later
//!         └──┴──┴──┘                  as the path needs for it: a train
//! ```
//!
//! A packet that was sent before the one in front of it had arrived stood behind that one in the
//! queue, so the time between the two arrivals is the time that the narrowest link took for the later
//! one. Every frame of several packets measures the path so, without any additional byte, and also
//! where a stream uses only a small part of the path.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use glassline_media::Bitrate;

use crate::flow::bitrate;

/// Longest time that feedback is kept.
const KEPT: Duration = Duration::from_secs(3);
/// Most reports that are kept.
const REPORTS_MAX: usize = 128;
/// Time over which trains are counted together, once they have [`TRAIN_BYTES_MIN`].
const TRAINS: Duration = Duration::from_millis(500);
/// Fewest bytes of trains that say anything.
pub const TRAIN_BYTES_MIN: u64 = 1_200;
/// Bytes of trains from which on older ones are not counted.
const TRAIN_BYTES_ENOUGH: u64 = 24_000;
/// Time that trains take from which on older ones are not counted, in µs.
const TRAIN_US_ENOUGH: i64 = 250_000;
/// Resolution of arrival times, in µs.
const TICK_US: i64 = 250;
/// Longest time between two packets that leave together, in µs.
const TOGETHER_US: i64 = 1_000;
/// Queueing delay by which a packet that left later must have overlapped with the one in front of it,
/// in µs: less may be jitter.
const OVERLAP_US: i64 = 5_000;
/// Time over which the carried rate is measured.
const CARRIED: Duration = Duration::from_millis(600);
/// Time over which losses are counted.
const LOSSES: Duration = Duration::from_millis(500);
/// Time over which the least queueing delay is taken.
const STANDING: Duration = Duration::from_millis(150);
/// Time after missing feedback for which the carried rate is a lower bound.
const GAP: Duration = Duration::from_millis(1_500);
/// The least delay counts for one to two such windows.
const FLOOR_WINDOW: Duration = Duration::from_secs(10);

/// A packet that feedback describes.
#[derive(Clone, Copy, Debug)]
pub struct Passage {
    /// Number of the packet; numbers rise by one.
    pub number: u64,
    /// Instant at which the packet was sent.
    pub sent: Instant,
    /// Arrival in µs by the receiver's clock, of which only differences have a meaning; `None` if the
    /// packet is lost.
    pub arrived_us: Option<i64>,
    /// Size of the packet, in bytes.
    pub bytes: u64,
}

/// The rate at which packets arrived that queued behind each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrainRate {
    /// Rate of the narrowest link, or what other flows leave of it.
    pub rate: Bitrate,
    /// The best rate of a single feedback. Jitter makes most trains seem slower, and a few faster.
    pub best: Bitrate,
    /// Bytes that the measurement rests on.
    pub bytes: u64,
}

/// Signs of what a path carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathSigns {
    /// Number of the newest packet that feedback has described.
    pub newest: u64,
    /// Rate of recent trains; `None` if too little arrived behind each other.
    pub train: Option<TrainRate>,
    /// Rate of those that left together: beside another flow's queue, only these say what the link carries,
    /// because packets that leave apart have that flow's between them.
    pub burst: Option<TrainRate>,
    /// Rate at which packets arrived in the last 600 ms; a lower bound if `has_gap`.
    pub carried: Bitrate,
    /// Whether feedback of the last 1.5 s is missing.
    pub has_gap: bool,
    /// Least queueing delay of the last 150 ms.
    pub standing: Duration,
    /// Mean queueing delay of the latest feedback.
    pub queue: Duration,
    /// Packets that the last 500 ms of feedback describe.
    pub packets: u64,
    /// Lost ones among these.
    pub lost: u64,
    /// Runs of consecutive packets that are lost: a radio loses all packets of a moment, a queue or a
    /// policer some here and there.
    pub lost_runs: u64,
    /// Mean queueing delay of the packets that arrived between the lost ones: a queue that lost packets may be
    /// empty by now.
    pub queue_at_losses: Duration,
}

/// Measures a path by feedback on each packet.
#[derive(Debug, Default)]
pub struct PathMeter {
    epoch: Option<Instant>,
    floor: Floor,
    /// The packet with the highest number that arrived.
    latest: Option<Latest>,
    /// Reports of feedback, the oldest first.
    reports: VecDeque<Report>,
    newest: u64,
    /// When feedback came before which feedback is missing.
    missed: Option<Instant>,
}

/// The packet in front of the next one.
#[derive(Clone, Copy, Debug)]
struct Latest {
    /// Number of this packet, or of a later one that is lost.
    number: u64,
    sent_us: i64,
    arrived_us: i64,
}

/// Summary of one feedback.
#[derive(Clone, Copy, Debug)]
struct Report {
    at: Instant,
    /// Arrival of the latest packet, in µs by the receiver's clock.
    arrived_us: i64,
    bytes: u64,
    packets: u64,
    lost: u64,
    lost_runs: u64,
    /// Least queueing delay, and the sum of the delays.
    queue_us: i64,
    queues_us: i64,
    /// Packets that queued behind each other, and those of them that left together.
    train: Train,
    burst: Train,
}

/// Packets that queued behind others, and the time by which they arrived behind these.
#[derive(Clone, Copy, Debug, Default)]
struct Train {
    bytes: u64,
    us: i64,
}

impl Train {
    const fn add(&mut self, bytes: u64, us: i64) {
        self.bytes += bytes;
        self.us = self.us.saturating_add(us);
    }

    /// Returns the rate, where the time is at least `us_min`.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    fn rate(self, us_min: i64) -> Bitrate {
        bitrate(self.bytes as f64 / self.us.max(us_min) as f64 * 1e6)
    }
}

/// Least delay of the path, in µs, with an unknown difference of the clocks.
#[derive(Clone, Copy, Debug, Default)]
struct Floor {
    present_us: Option<i64>,
    before_us: Option<i64>,
    since: Option<Instant>,
}

impl Floor {
    fn record(&mut self, delay_us: i64, now: Instant) {
        let since = *self.since.get_or_insert(now);
        if now.saturating_duration_since(since) >= FLOOR_WINDOW {
            self.since = Some(now);
            self.before_us = self.present_us.take();
        }
        let present = self.present_us.map_or(delay_us, |it| it.min(delay_us));
        self.present_us = Some(present);
    }

    fn get(&self) -> i64 {
        let least = [self.present_us, self.before_us].into_iter().flatten();
        least.min().unwrap_or_default()
    }
}

impl PathMeter {
    /// Takes what one feedback newly describes, in the order of the numbers.
    pub fn on_feedback(&mut self, now: Instant, passages: impl IntoIterator<Item = Passage>) {
        let mut report = Report {
            at: now,
            arrived_us: i64::MIN,
            bytes: 0,
            packets: 0,
            lost: 0,
            lost_runs: 0,
            queue_us: i64::MAX,
            queues_us: 0,
            train: Train::default(),
            burst: Train::default(),
        };
        let mut is_lost = false;
        for passage in passages {
            if report.packets == 0 && passage.number > self.newest + 1 {
                self.missed = Some(now);
            }
            self.newest = self.newest.max(passage.number);
            report.packets += 1;
            let was_lost = std::mem::replace(&mut is_lost, passage.arrived_us.is_none());
            report.lost_runs += u64::from(is_lost && !was_lost);
            match passage.arrived_us {
                Some(arrived_us) => self.take(&passage, arrived_us, &mut report),
                None => {
                    report.lost += 1;
                    // The link was busy with others meanwhile.
                    if let Some(latest) = &mut self.latest
                        && latest.number + 1 == passage.number
                    {
                        latest.number = passage.number;
                    }
                }
            }
        }
        if report.packets == 0 {
            return;
        }
        let is_old = |it: &Report| now.saturating_duration_since(it.at) > KEPT;
        while self.reports.len() >= REPORTS_MAX || self.reports.front().is_some_and(is_old) {
            self.reports.pop_front();
        }
        self.reports.push_back(report);
    }

    /// Takes a packet that arrived.
    fn take(&mut self, passage: &Passage, arrived_us: i64, report: &mut Report) {
        let epoch = *self.epoch.get_or_insert(passage.sent);
        let sent_us = microseconds_between(epoch, passage.sent);
        let delay_us = arrived_us.saturating_sub(sent_us);
        self.floor.record(delay_us, report.at);
        let floor_us = self.floor.get();
        report.bytes += passage.bytes;
        report.arrived_us = report.arrived_us.max(arrived_us);
        let queue_us = delay_us.saturating_sub(floor_us);
        report.queue_us = report.queue_us.min(queue_us);
        report.queues_us = report.queues_us.saturating_add(queue_us);
        if let Some(latest) = self.latest {
            let apart_us = sent_us.saturating_sub(latest.sent_us);
            let behind_us = arrived_us.saturating_sub(latest.arrived_us);
            let delay_us = latest.arrived_us.saturating_sub(latest.sent_us);
            let queue_us = delay_us.saturating_sub(floor_us);
            let overlaps =
                apart_us <= TOGETHER_US || queue_us >= apart_us.saturating_add(OVERLAP_US);
            if latest.number + 1 == passage.number && apart_us >= 0 && behind_us >= 0 && overlaps {
                report.train.add(passage.bytes, behind_us);
                if apart_us <= TOGETHER_US {
                    report.burst.add(passage.bytes, behind_us);
                }
            }
        }
        if self.latest.is_none_or(|it| it.number < passage.number) {
            self.latest = Some(Latest {
                number: passage.number,
                sent_us,
                arrived_us,
            });
        }
    }

    /// Returns the signs at `now`; `None` without feedback in the last three seconds.
    pub fn signs(&self, now: Instant) -> Option<PathSigns> {
        let since = |at: Instant| now.saturating_duration_since(at);
        let newest = self.reports.back().filter(|it| since(it.at) <= KEPT)?;
        // A report of lost packets alone says nothing of the queue.
        let has_arrivals = |it: &Report| it.lost < it.packets;
        let arrived = |packets: u64| i64::try_from(packets).unwrap_or(i64::MAX);
        let (mut packets, mut lost, mut lost_runs) = (0, 0, 0);
        let (mut standing_us, mut queues_us, mut between) = (None, 0_i64, 0);
        for report in self.reports.iter().rev() {
            let age = since(report.at);
            if age > LOSSES {
                break;
            }
            packets += report.packets;
            lost += report.lost;
            lost_runs += report.lost_runs;
            if age <= STANDING && has_arrivals(report) {
                let least: &mut i64 = standing_us.get_or_insert(report.queue_us);
                *least = report.queue_us.min(*least);
            }
            if (1..report.packets).contains(&report.lost) {
                queues_us = queues_us.saturating_add(report.queues_us);
                between += report.packets - report.lost;
            }
        }
        let latest = || self.reports.iter().rev().find(|it| has_arrivals(it));
        let standing_us = standing_us.or_else(|| latest().map(|it| it.queue_us));
        let queue_us = newest.queues_us / arrived(newest.packets - newest.lost).max(1);
        let queue_at_losses_us = match between {
            0 => queue_us,
            _ => queues_us / arrived(between),
        };
        let duration = |us: i64| Duration::from_micros(u64::try_from(us).unwrap_or_default());
        Some(PathSigns {
            newest: self.newest,
            train: self.rate_of(now, |it| it.train),
            burst: self.rate_of(now, |it| it.burst),
            carried: self.carried(now),
            has_gap: self.missed.is_some_and(|at| since(at) <= GAP),
            standing: duration(standing_us.unwrap_or_default()),
            queue: duration(queue_us),
            packets,
            lost,
            lost_runs,
            queue_at_losses: duration(queue_at_losses_us),
        })
    }

    fn rate_of(&self, now: Instant, of: impl Fn(&Report) -> Train) -> Option<TrainRate> {
        let (mut all, mut best) = (Train::default(), Bitrate::default());
        for report in self.reports.iter().rev() {
            let age = now.saturating_duration_since(report.at);
            let is_enough = all.bytes >= TRAIN_BYTES_ENOUGH || all.us >= TRAIN_US_ENOUGH;
            if is_enough || age > KEPT || all.bytes >= TRAIN_BYTES_MIN && age > TRAINS {
                break;
            }
            let train = of(report);
            all.add(train.bytes, train.us);
            if train.bytes >= TRAIN_BYTES_MIN / 2 {
                best = best.max(train.rate(TICK_US));
            }
        }
        let rate = all.rate(TOGETHER_US);
        (all.bytes >= TRAIN_BYTES_MIN).then(|| TrainRate {
            rate,
            best: best.max(rate),
            bytes: all.bytes,
        })
    }

    /// Returns the rate of arrivals, from the end of one report to the end of the latest.
    fn carried(&self, now: Instant) -> Bitrate {
        let is_recent = |it: &&Report| now.saturating_duration_since(it.at) <= CARRIED;
        let recent = self.reports.iter().rev().take_while(is_recent);
        let mut recent = recent.filter(|it| it.packets > it.lost).peekable();
        let (mut bytes, mut last_us) = (0, i64::MIN);
        let mut first_us = None;
        while let Some(report) = recent.next() {
            last_us = last_us.max(report.arrived_us);
            match recent.peek() {
                Some(_) => bytes += report.bytes,
                None => first_us = Some(report.arrived_us),
            }
        }
        let Some(first_us) = first_us else {
            return Bitrate::default();
        };
        let us = u64::try_from(last_us.saturating_sub(first_us)).unwrap_or_default();
        Bitrate::over(bytes, Duration::from_micros(us))
    }
}

fn microseconds_between(epoch: Instant, at: Instant) -> i64 {
    let micros = |it: Duration| i64::try_from(it.as_micros()).unwrap_or(i64::MAX);
    match at.checked_duration_since(epoch) {
        Some(after) => micros(after),
        None => -micros(epoch.saturating_duration_since(at)),
    }
}

#[cfg(test)]
mod tests;
