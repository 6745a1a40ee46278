//! Congestion control that starts once the path is seen to be congested.
//!
//! ```text
//! NACKs, otherwise receiver reports ─► a tenth is missing, here and there ─ twice within 2 s ─► control
//!                                     └► a third ────────────────────────────────────────────► control
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

/// Longest time between two signs that belong together. One burst that overran a buffer is repaired, and
/// is no reason to slow down.
const TOGETHER: Duration = Duration::from_secs(2);

/// Watches over the losses of a session without congestion control.
#[derive(Debug)]
pub(super) struct Standby {
    /// Algorithm of the congestion control that begins.
    pub(super) algorithm: Algorithm,
    /// When the present count began.
    began: Instant,
    /// Packets sent by then.
    sent_before: u64,
    /// Packets that the peer has reported missing since.
    lost: u64,
    /// Bursts of these packets.
    bursts: u64,
    /// Newest sequence number that was reported missing, by sender: a peer reports packets again.
    newest: SmallVec<[u64; 2]>,
    /// Time of the latest sign of congestion.
    sign: Option<Instant>,
}

impl Standby {
    pub(super) fn new(algorithm: Algorithm, now: Instant) -> Self {
        Self {
            algorithm,
            began: now,
            sent_before: 0,
            lost: 0,
            bursts: 0,
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
                self.lost += 1;
                self.bursts += u64::from(sequence > *newest + 1);
                *newest = sequence;
            }
        }
        if now.saturating_duration_since(self.began) < WINDOW {
            return false;
        }
        let fresh = sent.saturating_sub(self.sent_before);
        let is_sign = self.bursts >= BURSTS_MIN && self.lost * ONE_IN >= fresh;
        let is_heavy = is_sign && self.lost * HEAVY_ONE_IN >= fresh;
        (self.began, self.sent_before) = (now, sent);
        (self.lost, self.bursts) = (0, 0);
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
