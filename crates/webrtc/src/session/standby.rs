//! Congestion control that starts once the path is seen to be congested.
//!
//! ```text
//! NACKs, otherwise receiver reports ─► a tenth is missing, here and there ─ twice within 2 s ─► control
//!                                     ├► a third ────────────────────────────────────────────► control
//!                                     └► a fifth of two seconds, again and again ────────────► control
//! ```
//!
//! Until then nothing is numbered, and no feedback is read: a viewer whose path has room costs nothing.

use std::time::{Duration, Instant};

use glassline_congestion::Algorithm;
use smallvec::SmallVec;

use super::SenderIndex;

/// Time over which losses are counted.
const WINDOW: Duration = Duration::from_millis(400);

/// Fewest bursts of loss in this time that say anything: consecutive packets are one burst. A queue that
/// is full drops packets here and there, while a viewer that stands still for a moment misses all in one.
const BURSTS_MIN: u64 = 6;

/// Share of what was sent whose loss is a sign of congestion: one in so many packets. Radio links lose
/// less by themselves.
const ONE_IN: u64 = 10;

/// Share whose loss is enough by itself: the path carries two thirds of what is sent, or less. Each moment
/// more would fill the path's queue with repairs.
const HEAVY_ONE_IN: u64 = 3;

/// Share of [`TOGETHER`] whose loss is enough, and fewest bursts in that time. A short queue loses the ends
/// of large frames, which are few bursts, and each keyframe that is to mend the picture.
const LONG_ONE_IN: u64 = 5;
const LONG_BURSTS_MIN: u64 = 10;

/// Longest time between two signs that belong together. One burst that overran a buffer is repaired, and
/// is no reason to slow down.
const TOGETHER: Duration = Duration::from_secs(2);

/// Watches over the losses of a session without congestion control.
#[derive(Debug)]
pub(super) struct Standby {
    /// Algorithm of the congestion control that begins.
    pub(super) algorithm: Algorithm,
    /// The packets of [`WINDOW`], and those of [`TOGETHER`].
    short: LossWindow,
    long: LossWindow,
    /// Newest sequence number that was reported missing, by sender: a peer reports packets again.
    newest: SmallVec<[u64; 2]>,
    /// Time of the latest sign of congestion.
    sign: Option<Instant>,
}

/// The packets of a time, as far as the peer reports them.
#[derive(Clone, Copy, Debug)]
struct LossWindow {
    began: Instant,
    /// Packets that had been sent when the window began.
    sent_before: u64,
    /// Packets that were reported missing.
    lost: u64,
    /// Bursts of these packets.
    bursts: u64,
}

impl LossWindow {
    const fn new(began: Instant, sent_before: u64) -> Self {
        Self {
            began,
            sent_before,
            lost: 0,
            bursts: 0,
        }
    }

    /// Returns the packets of a time that is over after `span`, and begins another one. `sent`: packets sent
    /// so far.
    fn end(&mut self, now: Instant, span: Duration, sent: u64) -> Option<Self> {
        let is_over = now.saturating_duration_since(self.began) >= span;
        is_over.then(|| std::mem::replace(self, Self::new(now, sent)))
    }

    /// Returns whether one packet in `one_in` was lost, in so many bursts. `sent`: packets sent so far.
    const fn loses(&self, one_in: u64, bursts: u64, sent: u64) -> bool {
        let fresh = sent.saturating_sub(self.sent_before);
        self.bursts >= bursts && self.lost * one_in >= fresh
    }
}

impl Standby {
    pub(super) fn new(algorithm: Algorithm, now: Instant) -> Self {
        Self {
            algorithm,
            short: LossWindow::new(now, 0),
            long: LossWindow::new(now, 0),
            newest: SmallVec::new(),
            sign: None,
        }
    }

    /// Takes the sequence numbers that the peer reports missing of a sender. `sent`: packets sent so far
    /// by all senders. Returns whether the path is congested.
    pub(super) fn on_nack(
        &mut self,
        now: Instant,
        sender: SenderIndex,
        lost: &[u64],
        sent: u64,
    ) -> bool {
        if self.newest.len() <= sender.0 {
            self.newest.resize(sender.0 + 1, 0);
        }
        let newest = &mut self.newest[sender.0];
        for &sequence in lost {
            if sequence > *newest {
                for window in [&mut self.short, &mut self.long] {
                    window.lost += 1;
                    window.bursts += u64::from(sequence > *newest + 1);
                }
                *newest = sequence;
            }
        }
        let long = self.long.end(now, TOGETHER, sent);
        if long.is_some_and(|it| it.loses(LONG_ONE_IN, LONG_BURSTS_MIN, sent)) {
            return true;
        }
        let Some(short) = self.short.end(now, WINDOW, sent) else {
            return false;
        };
        let is_heavy = short.loses(HEAVY_ONE_IN, BURSTS_MIN, sent);
        let is_sign = short.loses(ONE_IN, BURSTS_MIN, sent);
        is_heavy || is_sign && self.on_sign(now)
    }

    /// Takes the share of packets that a receiver report says are lost, in 256ths.
    pub(super) fn on_report(&mut self, now: Instant, fraction_lost: u8) -> bool {
        u64::from(fraction_lost) * ONE_IN >= 256 && self.on_sign(now)
    }

    /// Notes a sign of congestion; returns whether it is the second one.
    fn on_sign(&mut self, now: Instant) -> bool {
        let Some(before) = self.sign else {
            self.sign = Some(now);
            return false;
        };
        let apart = now.saturating_duration_since(before);
        if apart >= WINDOW {
            self.sign = Some(now);
        }
        (WINDOW..TOGETHER).contains(&apart)
    }
}

#[cfg(test)]
mod tests {
    use glassline_sim::Clock;

    use super::*;

    const VIDEO: SenderIndex = SenderIndex(0);

    fn at(start: Instant, ms: u64) -> Instant {
        start + Duration::from_millis(ms)
    }

    /// Returns after which time, in ms, congestion is seen where `lost_of(ms)` of the hundred packets of
    /// each 100 ms are lost, here and there.
    fn seen(lost_of: impl Fn(u64) -> u64) -> Option<u64> {
        let start = Clock::new().now();
        let mut standby = Standby::new(Algorithm::Glide, start);
        let mut times = (100..10_000).step_by(100);
        times.find(|ms| {
            let sent = ms;
            let share = lost_of(*ms);
            let lost = (0..100).filter(|place| place * share % 100 < share);
            let lost: Vec<u64> = lost.map(|place| sent - 100 + place).collect();
            !lost.is_empty() && standby.on_nack(at(start, *ms), VIDEO, &lost, *sent)
        })
    }

    #[test]
    fn heavy_loss_is_seen_within_a_second_and_the_loss_of_a_radio_link_never() {
        assert_eq!(seen(|_| 80), Some(400));
        assert_eq!(seen(|_| 40), Some(400));
        assert_eq!(seen(|_| 12), Some(800));
        assert_eq!(seen(|_| 8), None);
        assert_eq!(seen(|_| 2), None);
    }

    #[test]
    fn a_burst_is_no_congestion_and_two_far_apart_are_none() {
        assert_eq!(seen(|ms| if ms == 3_000 { 100 } else { 1 }), None);
        let far = |ms| u64::from(ms == 1_000 || ms == 5_000) * 99 + 1;
        assert_eq!(seen(far), None);
    }

    #[test]
    fn a_viewer_that_stands_still_now_and_then_has_no_congested_path() {
        let start = Clock::new().now();
        let mut standby = Standby::new(Algorithm::Glide, start);
        for ms in (500..20_000).step_by(500) {
            let lost: Vec<u64> = (ms - 250..ms).collect();
            assert!(!standby.on_nack(at(start, ms), VIDEO, &lost, ms), "{ms}");
        }
    }

    #[test]
    fn a_queue_that_loses_the_end_of_each_large_frame_is_seen_within_some_seconds() {
        let start = Clock::new().now();
        let mut standby = Standby::new(Algorithm::Glide, start);
        // 30 of each hundred packets, in two bursts each 200 ms.
        let mut times = (200..10_000).step_by(200);
        let seen = times.find(|ms| {
            let first = (ms - 200) / 2;
            let bursts = (first + 20..first + 35).chain(first + 60..first + 75);
            let lost: Vec<u64> = bursts.collect();
            standby.on_nack(at(start, *ms), VIDEO, &lost, ms / 2)
        });
        assert_eq!(seen, Some(2_000));
    }

    #[test]
    fn packets_that_are_asked_for_again_count_once() {
        let start = Clock::new().now();
        let mut standby = Standby::new(Algorithm::Glide, start);
        let lost: Vec<u64> = (100..140).collect();
        let mut sent = 140;
        for ms in (0..5_000).step_by(50) {
            sent += 5;
            assert!(!standby.on_nack(at(start, ms), VIDEO, &lost, sent), "{ms}");
        }
    }

    #[test]
    fn two_reports_of_a_tenth_are_a_sign() {
        let start = Clock::new().now();
        let reports = |reports: &[(u64, u8)]| {
            let mut standby = Standby::new(Algorithm::Glide, start);
            let mut reports = reports.iter();
            reports.any(|(ms, lost)| standby.on_report(at(start, *ms), *lost))
        };
        assert!(reports(&[(0, 30), (1_000, 30)]));
        assert!(!reports(&[(0, 30), (1_000, 5), (4_000, 30)]));
        assert!(!reports(&[(0, 25), (1_000, 25), (2_000, 25)]));
        // Reports of several senders come together.
        assert!(!reports(&[(0, 30), (0, 30)]));
    }
}
