//! A controller that knows the path, as a bound for those that must find out.
//!
//! It knows the conditions of the link from publisher to server at all times, also the coming
//! ones; the propagation delay of both directions; how evenly either carries; and when competing
//! flows begin and end. It does not look at the link's state: what waits in the queue, which
//! datagram will be lost, and how fast a competing flow sends are unknown to it.

#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "bytes and rates are positive and far below 2^52"
)]

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_congestion::{Ack, Controller, Loss, PathModel};
use glassline_media::Bitrate;
use glassline_sim::{Conditions, Policer};

use super::session::{Change, Competitor, HEADER_BYTES, Scenario};

/// Time for which a receiver may delay an acknowledgement (RFC 9000 §18.2), with some
/// milliseconds for timers.
const ACK_DELAY: Duration = Duration::from_millis(30);
/// Step of the search for the time of the next acknowledgement.
const SEARCH_STEP: Duration = Duration::from_millis(10);
/// Longest time that is searched for the next acknowledgement.
const SEARCH_MAX: Duration = Duration::from_secs(5);
/// Coming time whose mean rate an encoder is told to follow: two of its decisions.
const DELIVERABLE_AHEAD: Duration = Duration::from_secs(1);
/// Coming time whose mean rate is paced.
const PACED_AHEAD: Duration = Duration::from_millis(100);
/// Pacing rate, relative to the link's: the window is what limits.
const PACING_GAIN: f64 = 2.0;
/// Share of a policer's rate that is used, so that rounding drops nothing.
const POLICED_SHARE: f64 = 0.98;
/// Datagrams of the smallest window: with less, one loss would stop the flow.
const LEAST_SEGMENTS: f64 = 2.0;
/// Rate of a link without a limit, in bytes/s: far more than any encoder's.
const UNLIMITED: f64 = 1.25e8;

/// The future of a path.
#[derive(Clone, Debug)]
pub struct Foresight(Arc<Path>);

#[derive(Debug)]
struct Path {
    /// Start of the session, from which all times count.
    start: Instant,
    /// Conditions from publisher to server with the times at which they begin.
    up: Vec<(Duration, Conditions)>,
    /// Longest time from a departure at the link to the acknowledgement's arrival: delay,
    /// jitter and batches of both directions.
    round_trip: Duration,
    /// Flows that share the link.
    competitors: Vec<Competitor>,
}

impl Foresight {
    /// The future of the paths in a session of `scenario` that begins at `start`. Changes of the
    /// conditions from publisher to server are foreseen, those of the way back are not.
    pub fn new(scenario: &Scenario, start: Instant) -> Self {
        let mut up = vec![(Duration::ZERO, scenario.up.clone())];
        for (at, change) in &scenario.changes {
            if let Change::Up(conditions) = change {
                up.push((*at, conditions.clone()));
            }
        }
        let delay = |way: &Conditions| way.delay + way.jitter + way.batch;
        let longest = up.iter().map(|(_, way)| delay(way)).max();
        Self(Arc::new(Path {
            start,
            up,
            round_trip: longest.unwrap_or_default() + delay(&scenario.down),
            competitors: scenario.competitors.clone(),
        }))
    }

    /// Time of the session.
    fn elapsed(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.0.start)
    }

    /// Bytes that the link carries in these times of the session.
    fn carried(&self, times: Range<Duration>) -> f64 {
        let ends = self.0.up.iter().skip(1).map(|(at, _)| *at);
        let ends = ends.chain([Duration::MAX]);
        let parts = self.0.up.iter().zip(ends).map(|((start, way), end)| {
            let part = times.start.max(*start)..times.end.min(end);
            if part.start >= part.end {
                return 0.0;
            }
            let unlimited = UNLIMITED * (part.end - part.start).as_secs_f64();
            way.carried_within(part)
                .map_or(unlimited, |bytes| bytes as f64)
        });
        parts.sum()
    }

    /// Conditions at a time of the session.
    fn conditions(&self, at: Duration) -> &Conditions {
        let begun = self.0.up.iter().rev().find(|(start, _)| *start <= at);
        &begun.unwrap_or(&self.0.up[0]).1
    }

    /// Number of flows that share the link at a time of the session, the upload included.
    fn flows(&self, at: Duration) -> f64 {
        let others = self.0.competitors.iter();
        let others = others.filter(|other| other.start <= at && at < other.end);
        1.0 + others.count() as f64
    }

    /// Time by which the next acknowledgement has surely come, if the link was busy: that of
    /// two datagrams which leave the link after those that are acknowledged at `at`.
    fn next_ack(&self, at: Duration, datagram: f64) -> Duration {
        let from = at.saturating_sub(self.0.round_trip);
        let mut until = from + SEARCH_STEP;
        while self.carried(from..until) < 2.0 * datagram && until < from + SEARCH_MAX {
            until += SEARCH_STEP;
        }
        until + self.0.round_trip + ACK_DELAY
    }
}

/// Controller that keeps a link just full, since it knows what the link is going to carry.
///
/// - Alone it has in flight what left the link during a round trip without a queue, and what the
///   link is going to carry until the next acknowledgement.
/// - Beside `n` other flows it has its share, one of `n + 1`, of that and of the link's queue,
///   which the others fill: in a drop-tail queue, shares of bytes are shares of the rate.
/// - Behind a policer it sends no more than the bucket has tokens for.
/// - It ignores losses and marks: none of them tells it anything.
/// - It tells an encoder the mean rate of the coming second.
#[derive(Clone, Debug)]
pub struct Oracle {
    foresight: Foresight,
    /// Size of datagrams, in bytes.
    mtu: f64,
    /// Congestion window, in bytes.
    window: f64,
    /// Pacing rate, in bytes/s.
    pace: f64,
    /// Rate to follow, in bytes/s.
    deliverable: f64,
    /// Tokens of the policer's bucket; `None` while there is no policer.
    bucket: Option<Bucket>,
}

/// A policer's bucket as it is at the sender, before the time that datagrams wait.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    policer: Policer,
    /// Bytes that may be sent at once.
    tokens: f64,
    /// Time at which they were counted.
    at: Instant,
}

impl Bucket {
    /// Rate that is used of the policer's, in bytes/s.
    fn rate(&self) -> f64 {
        POLICED_SHARE * bytes_per_second(self.policer.rate)
    }

    fn refill(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.at).as_secs_f64();
        let tokens = self.tokens + elapsed * self.rate();
        self.tokens = tokens.min(self.policer.burst_bytes as f64);
        self.at = now;
    }
}

fn bytes_per_second(rate: Bitrate) -> f64 {
    rate.bps() as f64 / 8.0
}

impl Oracle {
    /// A controller of a path that is going to be as `foresight` says. `mtu`: size of datagrams,
    /// in bytes.
    pub fn new(foresight: Foresight, mtu: u64) -> Self {
        let start = foresight.0.start;
        let mut oracle = Self {
            foresight,
            mtu: mtu as f64,
            window: 0.0,
            pace: 0.0,
            deliverable: 0.0,
            bucket: None,
        };
        oracle.look(start, 0);
        oracle
    }

    /// Share of a datagram on the link that the transport counts.
    fn counted(&self) -> f64 {
        self.mtu / (self.mtu + HEADER_BYTES as f64)
    }

    /// Sets everything from what is known at `now`.
    fn look(&mut self, now: Instant, in_flight: u64) {
        let (path, counted) = (&self.foresight, self.counted());
        let at = path.elapsed(now);
        let conditions = path.conditions(at);
        let flows = path.flows(at);
        let within = |times| path.carried(times) * counted;
        let travelling = within(at.saturating_sub(path.0.round_trip)..at);
        let ahead = within(at..path.next_ack(at, self.mtu));
        let queue = conditions.queue_bytes as f64 * counted;
        let waiting = if flows > 1.0 { queue } else { ahead.min(queue) };
        let mut window = (travelling + waiting) / flows;
        let rate = |time: Duration| within(at..at + time) / time.as_secs_f64() / flows;
        self.deliverable = rate(DELIVERABLE_AHEAD);
        let mut pace = PACING_GAIN * rate(PACED_AHEAD).max(self.deliverable);
        let policer = conditions.policer;
        if self.bucket.map(|bucket| bucket.policer) != policer {
            self.bucket = policer.map(|policer| Bucket {
                policer,
                tokens: policer.burst_bytes as f64,
                at: now,
            });
        }
        if let Some(bucket) = &mut self.bucket {
            bucket.refill(now);
            let limit = bucket.rate() * counted;
            window = window.min(in_flight as f64 + bucket.tokens * counted);
            pace = pace.min(limit);
            self.deliverable = self.deliverable.min(limit / flows);
        }
        self.window = window.max(LEAST_SEGMENTS * self.mtu);
        self.pace = pace.max(self.mtu);
    }
}

impl Controller for Oracle {
    fn on_sent(&mut self, now: Instant, bytes: u64, in_flight: u64) {
        if let Some(bucket) = &mut self.bucket {
            bucket.refill(now);
            bucket.tokens = (bucket.tokens - bytes as f64 - HEADER_BYTES as f64).max(0.0);
        }
        self.look(now, in_flight);
    }

    fn heeds_sending(&self) -> bool {
        true
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        self.look(ack.now, ack.in_flight);
    }

    fn on_loss(&mut self, loss: &Loss) {
        self.look(loss.now, loss.in_flight);
    }

    fn on_marked(&mut self, _: Instant, _: u64) {}

    fn on_mtu(&mut self, bytes: u64) {
        self.mtu = bytes as f64;
    }

    fn window(&self) -> u64 {
        self.window as u64
    }

    fn pacing_rate(&self) -> Option<Bitrate> {
        Some(Bitrate::from_bps((self.pace * 8.0) as u64))
    }

    fn deliverable_rate(&self) -> Option<Bitrate> {
        Some(Bitrate::from_bps((self.deliverable * 8.0) as u64))
    }

    fn is_starting(&self) -> bool {
        false
    }

    fn path_model(&self) -> PathModel {
        let mut model = PathModel::default();
        model.policed = self.bucket.is_some();
        model
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests;
