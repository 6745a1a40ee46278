//! How much of what a viewer gets is protected: by what it reports of loss and round trip.

use std::time::{Duration, Instant};

/// Round trip from which on a retransmission comes too late for a player: browsers hold about so much.
const ROUND_TRIP_MIN: Duration = Duration::from_millis(150);
/// Round trip below which protection ends.
const ROUND_TRIP_OFF: Duration = Duration::from_millis(120);
/// Share of packets whose loss begins protection.
const LOSS_MIN: f64 = 0.005;
/// Share of packets below whose loss protection ends.
const LOSS_OFF: f64 = 0.002;
/// Share of packets whose loss is no radio's any more. More packets would lose more.
const LOSS_MAX: f64 = 0.1;
/// Reports, of a second each, over which the loss is averaged.
const REPORTS: f64 = 8.0;
/// Fewest reports whose average says anything.
const REPORTS_MIN: u32 = 3;
/// Growth of the round trip over its least one that is a queue: the larger of a time and a part.
const QUEUE: Duration = Duration::from_millis(60);
const QUEUE_ONE_IN: u32 = 4;
/// Reports in a row with such a round trip.
const QUEUED_REPORTS: u32 = 2;
/// Time for which the least round trip counts once or twice.
const LEAST_WINDOW: Duration = Duration::from_secs(30);
/// Growth of the loss since protection began that the protection itself may have caused.
const WORSE_FACTOR: f64 = 1.5;
const WORSE: f64 = 0.02;
/// Time without protection after signs of a full path; it doubles with each such end, three times.
const PAUSE: Duration = Duration::from_secs(20);
const DOUBLINGS_MAX: u32 = 3;
/// Time of protection after which earlier ends do not count.
const PROVEN: Duration = Duration::from_secs(60);

/// Least and greatest size of protection, in percent of the bytes of the media.
const PERCENT_MIN: u32 = 8;
const PERCENT_MAX: u32 = 20;
/// Loss from which on each audio packet carries two earlier ones.
const LOSS_TWO_COPIES: f64 = 0.03;

/// Reports of a viewer on about a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Reception {
    /// Share of packets that were lost in this time, 0 to 1.
    pub(crate) lost: f64,
    /// Shortest round-trip time that these reports state.
    pub(crate) round_trip: Duration,
    /// Whether other signs say that the path is full.
    pub(crate) is_full: bool,
}

/// Returns whether a round trip is long enough for the beginning of protection.
pub(crate) fn is_far(round_trip: Duration) -> bool {
    round_trip >= ROUND_TRIP_MIN
}

/// Chooses the size of one viewer's protection.
#[derive(Debug, Default)]
pub(crate) struct ProtectionChoice {
    /// Average loss, and the reports that it rests on.
    loss: f64,
    reports: u32,
    /// Least round trip of this window and of the one before.
    least: Option<Duration>,
    least_before: Option<Duration>,
    window: Option<Instant>,
    /// Reports in a row that show a queue.
    queued: u32,
    /// When the present protection began, and the loss at that time.
    on: Option<(Instant, f64)>,
    /// Until when there is none.
    paused: Option<Instant>,
    pauses: u32,
}

impl ProtectionChoice {
    /// Returns the size of the FEC packets, in percent of the bytes of the media; 0 for none.
    pub(crate) fn percent(&self) -> u32 {
        if self.on.is_none() {
            return 0;
        }
        // Three lost packets in a hundred take all that is allowed.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of packets, 0 to 1, makes a small number"
        )]
        let wanted = 4 + (self.loss * 600.0) as u32;
        wanted.clamp(PERCENT_MIN, PERCENT_MAX)
    }

    /// Returns how many earlier packets each audio packet carries, 0 to 2.
    pub(crate) fn copies(&self) -> usize {
        match self.on {
            None => 0,
            Some(_) if self.loss < LOSS_TWO_COPIES => 1,
            Some(_) => 2,
        }
    }

    /// Ends the protection because the path is full.
    pub(crate) fn yield_to_media(&mut self, now: Instant) {
        let Some((since, _)) = self.on.take() else {
            return;
        };
        if now.saturating_duration_since(since) >= PROVEN {
            self.pauses = 0;
        }
        self.paused = Some(now + PAUSE * 2_u32.pow(self.pauses.min(DOUBLINGS_MAX)));
        self.pauses += 1;
    }

    /// Takes a report. [`percent`](Self::percent) and [`copies`](Self::copies) may differ afterwards.
    pub(crate) fn decide(&mut self, reception: Reception, now: Instant) {
        self.reports = self.reports.saturating_add(1);
        self.loss += (reception.lost - self.loss) / f64::from(self.reports).min(REPORTS);
        self.note_round_trip(reception.round_trip, now);
        let is_heavy = self.loss >= LOSS_MAX;
        let is_full = reception.is_full || self.queued >= QUEUED_REPORTS || is_heavy;
        let Some((_, before)) = self.on else {
            let is_paused = self.paused.is_some_and(|until| now < until);
            let is_known = self.reports >= REPORTS_MIN && self.queued == 0;
            let is_wanted = is_far(reception.round_trip) && self.loss >= LOSS_MIN;
            if is_wanted && is_known && !is_paused && !is_full {
                self.on = Some((now, self.loss));
            }
            return;
        };
        if is_full || self.loss > before * WORSE_FACTOR + WORSE {
            self.yield_to_media(now);
        } else if reception.round_trip < ROUND_TRIP_OFF || self.loss < LOSS_OFF {
            self.on = None;
        }
    }

    fn note_round_trip(&mut self, round_trip: Duration, now: Instant) {
        let window = *self.window.get_or_insert(now);
        if now.saturating_duration_since(window) >= LEAST_WINDOW {
            self.window = Some(now);
            self.least_before = self.least.take();
        }
        let least = self.least.map_or(round_trip, |it| it.min(round_trip));
        self.least = Some(least);
        let least = self.least_before.map_or(least, |it| it.min(least));
        let is_queued = round_trip >= least + QUEUE.max(least / QUEUE_ONE_IN);
        self.queued = if is_queued { self.queued + 1 } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A viewer that reports each second.
    struct Viewer {
        choice: ProtectionChoice,
        now: Instant,
    }

    impl Viewer {
        fn new() -> Self {
            Self {
                choice: ProtectionChoice::default(),
                now: Instant::now(),
            }
        }

        /// Reports the same for some seconds; returns the protection in percent.
        fn reports(&mut self, seconds: u32, round_trip_ms: u32, lost: f64) -> u32 {
            for _ in 0..seconds {
                self.now += 1_000 * MS;
                let reception = Reception {
                    lost,
                    round_trip: MS * round_trip_ms,
                    is_full: false,
                };
                self.choice.decide(reception, self.now);
            }
            self.choice.percent()
        }
    }

    #[test]
    fn a_far_viewer_that_loses_packets_is_protected_by_its_loss() {
        for (lost, percent, copies) in [
            (0.0, 0, 0),
            (0.004, 0, 0),
            (0.006, 8, 1),
            (0.02, 16, 1),
            (0.05, 20, 2),
            (0.09, 20, 2),
            (0.11, 0, 0),
            (0.5, 0, 0),
        ] {
            let mut viewer = Viewer::new();
            assert_eq!(viewer.reports(2, 300, lost), 0, "too soon");
            assert_eq!(viewer.reports(8, 300, lost), percent, "{lost}");
            assert_eq!(viewer.choice.copies(), copies, "{lost}");
        }
    }

    #[test]
    fn a_near_viewer_gets_its_packets_again_in_time() {
        assert_eq!(Viewer::new().reports(60, 149, 0.05), 0);
        assert_eq!(Viewer::new().reports(60, 150, 0.05), 20);
    }

    #[test]
    fn protection_stays_while_loss_and_round_trip_vary_about_their_limits() {
        let mut viewer = Viewer::new();
        assert_eq!(viewer.reports(10, 160, 0.006), 8);
        for _ in 0..10 {
            assert_eq!(viewer.reports(2, 130, 0.0), 8);
            assert_eq!(viewer.reports(2, 155, 0.008), 8);
        }
        assert_eq!(viewer.reports(1, 110, 0.02), 0, "the round trip is short");
        let mut viewer = Viewer::new();
        assert_eq!(viewer.reports(10, 300, 0.02), 16);
        assert_eq!(viewer.reports(30, 300, 0.0), 0, "the path is clean");
        assert_eq!(viewer.reports(5, 300, 0.02), 9, "and loses again");
    }

    #[test]
    fn a_full_path_ends_protection_for_longer_each_time() {
        let mut viewer = Viewer::new();
        let mut pauses = Vec::new();
        for _ in 0..5 {
            let percent = viewer.reports(1, 300, 0.02);
            let mut seconds = 1;
            while percent == 0 && viewer.reports(1, 300, 0.02) == 0 {
                seconds += 1;
            }
            pauses.push(seconds);
            viewer.choice.yield_to_media(viewer.now);
            assert_eq!(viewer.choice.percent(), 0);
        }
        assert_eq!(pauses, [2, 19, 39, 79, 159]);
        viewer.reports(160, 300, 0.02);
        assert_eq!(viewer.reports(60, 300, 0.02), 16);
        viewer.choice.yield_to_media(viewer.now);
        viewer.reports(19, 300, 0.02);
        assert_eq!(
            viewer.reports(1, 300, 0.02),
            16,
            "it was right for a minute"
        );
    }

    #[test]
    fn a_queue_is_no_reason_to_send_more() {
        let mut viewer = Viewer::new();
        viewer.reports(5, 100, 0.0);
        assert_eq!(viewer.reports(20, 260, 0.03), 0, "the queue takes 160 ms");
        let mut viewer = Viewer::new();
        assert_eq!(viewer.reports(10, 300, 0.02), 16);
        assert_eq!(viewer.reports(1, 380, 0.02), 16, "a single one is jitter");
        assert_eq!(viewer.reports(1, 380, 0.02), 0);
    }

    #[test]
    fn losses_that_protection_brings_about_end_it() {
        let mut viewer = Viewer::new();
        assert_eq!(viewer.reports(10, 300, 0.02), 16);
        assert_eq!(viewer.reports(20, 300, 0.045), 20);
        assert_eq!(viewer.reports(8, 300, 0.07), 0);
        assert_eq!(viewer.reports(22, 300, 0.07), 20, "they stay without it");
    }
}
