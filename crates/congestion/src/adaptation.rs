//! Bitrate adaptation of a live encoder: how much it may make, decided twice a
//! second from what the path took of what it made before.
//!
//! ```text
//! encoder ──made──► send queue ──written──► transport ──acknowledged──►
//!    ▲              └───────────── backlog ─────────────┘
//!    └── target ── Adaptation ◄── backlog, written, deliverable rate
//! ```
//!
//! Two rules. [`Rule::Study`] only sees the backlog, as the application of the
//! study of live uploads did (the controller below it is a black box there);
//! [`Rule::Coupled`] asks the controller what the path carries, and keeps below it.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use glassline_media::Bitrate;

use crate::filter::{Least, Windowed};

/// Between two decisions (the study tells of no period; twice a second is what our
/// calibration on its CUBIC figures used, and mobile encoders follow that).
pub const PERIOD: Duration = Duration::from_millis(500);

/// Which way the bitrate follows the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// By the backlog alone, against a knee.
    Study,
    /// By the controller's deliverable rate, less what drains the backlog.
    Coupled,
}

impl Rule {
    /// Every one.
    pub const ALL: [Self; 2] = [Self::Study, Self::Coupled];

    /// Its name on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Study => "study",
            Self::Coupled => "coupled",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Rule {
    type Err = UnknownRule;

    fn from_str(name: &str) -> Result<Self, UnknownRule> {
        let found = Self::ALL.into_iter().find(|rule| rule.as_str() == name);
        found.ok_or_else(|| UnknownRule(name.to_owned()))
    }
}

/// No rule is called that. The user's fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownRule(String);

impl fmt::Display for UnknownRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = Rule::ALL.map(Rule::as_str).join(", ");
        let name = &self.0;
        write!(f, "no bitrate rule is called '{name}': there are {known}")
    }
}

impl std::error::Error for UnknownRule {}

/// The bounds of an encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Never below this, whatever the path.
    pub min: Bitrate,
    /// Never above this; raised to `min` if that is larger.
    pub max: Bitrate,
    /// How much unacknowledged media [`Rule::Study`] takes for a good path: it grows
    /// below half of it, cuts above it, and cuts hard above twice. Not used by
    /// [`Rule::Coupled`].
    pub knee: Duration,
    /// Where to start.
    pub start: Bitrate,
}

impl Default for Config {
    /// The study's encoder: at most 3 Mbit/s. Its floor and knee are not told; 500
    /// kbit/s and 3 s brought the sketch of this laboratory closest to the study's
    /// CUBIC figures, and `study2019` sets its own.
    fn default() -> Self {
        Self {
            min: Bitrate::from_bps(500_000),
            max: Bitrate::from_bps(3_000_000),
            knee: Duration::from_secs(3),
            start: Bitrate::from_bps(1_000_000),
        }
    }
}

/// What an encoder's sender knows at a decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signals {
    /// Made by the encoder and not acknowledged yet: waiting here or on its way.
    /// What was dropped on purpose counts no longer.
    pub backlog_bytes: u64,
    /// Media that the transport has taken since the stream began; repeats not
    /// counted.
    pub written_bytes_total: u64,
    /// [`Flow::deliverable_rate`](crate::Flow::deliverable_rate).
    pub deliverable: Option<Bitrate>,
    /// [`Flow::is_app_limited`](crate::Flow::is_app_limited): the deliverable rate
    /// is a lower bound, since the encoder left some of the path unused.
    pub app_limited: bool,
}

/// The bitrate that an encoder should aim at.
#[derive(Clone, Debug)]
pub struct Adaptation {
    rule: Rule,
    config: Config,
    /// Bits a second.
    target: f64,
    decided: Option<Decided>,
    throughput: Throughput,
    coupling: Coupling,
}

/// The latest decision, from which the next period is counted.
#[derive(Clone, Copy, Debug)]
struct Decided {
    at: Instant,
    written: u64,
}

/// What the transport took lately, in bits a second.
#[derive(Clone, Copy, Debug, Default)]
struct Throughput(Option<f64>);

/// What [`Rule::Coupled`] remembers.
#[derive(Clone, Debug)]
struct Coupling {
    /// The least backlog since the last decision, in seconds of media.
    backlog: Option<f64>,
    /// The encoder left the path unused at some time since the last decision.
    app_limited: bool,
    /// The least backlog lately: what a path without a queue has on its way.
    pipe: Windowed<f64, Least>,
    /// When the path, not the encoder, last was the limit.
    limited: Option<Instant>,
    /// A queue that is being drained.
    draining: Option<Draining>,
}

/// A queue for which the encoder makes less.
#[derive(Clone, Copy, Debug)]
struct Draining {
    since: Instant,
    /// How long it was then, in seconds of media.
    queued: f64,
}

impl Adaptation {
    /// An encoder that starts at `config.start`.
    #[expect(clippy::cast_precision_loss, reason = "rates stay far below 2^52")]
    pub fn new(rule: Rule, config: Config) -> Self {
        let config = Config {
            max: config.max.max(config.min),
            ..config
        };
        Self {
            rule,
            config,
            target: config.start.clamp(config.min, config.max).bps() as f64,
            decided: None,
            throughput: Throughput::default(),
            coupling: Coupling {
                backlog: None,
                app_limited: false,
                pipe: Windowed::new(PIPE_WINDOW),
                limited: None,
                draining: None,
            },
        }
    }

    /// What to aim at from `now` on, within the bounds.
    ///
    /// Call it at least twice a second, or with every frame: it decides once a
    /// [`PERIOD`] and only looks in between, so that the burst of a keyframe is not
    /// taken for a queue. The first call starts the clock.
    #[expect(
        clippy::cast_precision_loss,
        reason = "bytes and rates stay far below 2^52"
    )]
    pub fn decide(&mut self, now: Instant, signals: Signals) -> Bitrate {
        let backlog = signals.backlog_bytes as f64 * 8.0 / self.target.max(1.0);
        self.coupling.observe(backlog, signals.app_limited, now);
        let written = signals.written_bytes_total;
        let decided = *self.decided.get_or_insert(Decided { at: now, written });
        let elapsed = now.saturating_duration_since(decided.at);
        if elapsed < PERIOD {
            return self.target();
        }
        self.decided = Some(Decided { at: now, written });
        let taken = written.saturating_sub(decided.written) as f64 * 8.0;
        self.throughput.record(taken / elapsed.as_secs_f64());
        let target = match self.rule {
            Rule::Study => self.follow_backlog(backlog),
            Rule::Coupled => self.coupling.follow(self.target, &signals, now),
        };
        let (min, max) = (self.config.min.bps(), self.config.max.bps());
        self.target = target.clamp(min as f64, max as f64);
        self.target()
    }

    /// The latest decision.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between the bounds, which are rates"
    )]
    pub fn target(&self) -> Bitrate {
        Bitrate::from_bps(self.target as u64)
    }

    /// How it follows the path.
    pub const fn rule(&self) -> Rule {
        self.rule
    }

    /// The study's rule; `backlog` in seconds of media.
    ///
    /// The study says that the application changes the bitrate by goodput and queue
    /// size and nothing more; the steps are those of the sketch with which its
    /// relative figures came out (research of this project, section 4).
    fn follow_backlog(&self, backlog: f64) -> f64 {
        let knee = self.config.knee.as_secs_f64();
        let taken = self.throughput.0.unwrap_or(self.target);
        if backlog > 2.0 * knee {
            (self.target * CUT_HARD).min(taken * CUT_HARD)
        } else if backlog > knee {
            self.target.min(taken * CUT)
        } else if backlog < knee / 2.0 {
            self.target * GROWTH
        } else {
            self.target
        }
    }
}

/// Above twice the knee: so much less than before, and than what is taken, so that
/// the backlog shrinks.
const CUT_HARD: f64 = 0.85;
/// Above the knee: a little less than what is taken.
const CUT: f64 = 0.95;
/// Below half the knee: doubles in 9 s.
const GROWTH: f64 = 1.04;

impl Throughput {
    /// Smoothed over about three periods, so that one keyframe does not lead.
    fn record(&mut self, bits_per_second: f64) {
        const WEIGHT: f64 = 0.3;
        self.0 = Some(match self.0 {
            None => bits_per_second,
            Some(before) => before * (1.0 - WEIGHT) + bits_per_second * WEIGHT,
        });
    }
}

/// Of the deliverable rate the encoder takes so much: the rest is for headers,
/// repairs, sound and for the queue to drain.
const SHARE: f64 = 0.9;
/// The backlog is to be gone after so long. Shorter cuts deeper than a fade of LTE
/// lasts; longer is what a viewer feels as delay.
const DRAIN: f64 = 1.5;
/// Grows by at most this a period: doubles in 6 s. Faster, a step would make more
/// queue than the next decision sees ...
const GROWTH_COUPLED: f64 = 1.06;
/// ... unless the path was seen to carry twice as much: then it doubles in 2.5 s.
const GROWTH_FAR: f64 = 1.15;
/// A backlog this much above the pipe's, in seconds of media, is a queue. Two or
/// three frames: less is where in a frame the decision falls.
const QUEUE: f64 = 0.1;
/// After the path was the limit the encoder does not probe for so long: its queue
/// should empty first, or every probe would find it full.
const PROBE_PAUSE: Duration = Duration::from_secs(2);
/// The least backlog of so long is the pipe's, as the least round trip of ten
/// seconds is the path's.
const PIPE_WINDOW: Duration = Duration::from_secs(10);
/// A queue of ours is gone by now, or nearly, since the encoder made less for it.
const DRAIN_PATIENCE: Duration = Duration::from_secs(2);
/// One that is as long as before, within this share, is kept by somebody else ...
const UNMOVED: f64 = 0.3;
/// ... unless it is longer than a home's, in seconds: then the path has stopped.
const OTHERS_QUEUE_MAX: f64 = 1.0;

impl Coupling {
    /// `backlog` in seconds of media.
    fn observe(&mut self, backlog: f64, app_limited: bool, now: Instant) {
        self.app_limited |= app_limited;
        self.backlog = Some(self.backlog.map_or(backlog, |least| least.min(backlog)));
        self.pipe.record(backlog, now);
    }

    /// The next target after `target`, in bits a second.
    #[expect(clippy::cast_precision_loss, reason = "rates stay far below 2^52")]
    fn follow(&mut self, target: f64, signals: &Signals, now: Instant) -> f64 {
        let backlog = self.backlog.take().unwrap_or(0.0);
        // What is on its way on an empty path is no backlog: it would be deducted for
        // ever where round trips are long.
        let mut queued = backlog - self.pipe.get().unwrap_or(0.0).min(backlog);
        if self.is_others(queued, now) {
            self.pipe = Windowed::new(PIPE_WINDOW);
            self.pipe.record(backlog, now);
            queued = 0.0;
        }
        let app_limited = std::mem::take(&mut self.app_limited);
        let path_limited = !app_limited || queued > QUEUE;
        if path_limited {
            self.limited = Some(now);
        }
        let Some(deliverable) = signals.deliverable else {
            return target;
        };
        let carried = SHARE * deliverable.bps() as f64 - queued * target / DRAIN;
        if queued > QUEUE {
            return carried.min(target);
        }
        if carried >= target {
            let far = carried >= 2.0 * target;
            let growth = if far { GROWTH_FAR } else { GROWTH_COUPLED };
            return carried.min(target * growth);
        }
        if path_limited {
            return carried;
        }
        // Nothing waits, and the rate is only what the encoder made: the path may
        // carry more. Small steps find out.
        let rest = |at: Instant| now.saturating_duration_since(at) < PROBE_PAUSE;
        if self.limited.is_some_and(rest) {
            target
        } else {
            target * GROWTH_COUPLED
        }
    }

    /// The queue does not care that the encoder made less for a while. To make ever less
    /// would leave the path to whoever fills it.
    fn is_others(&mut self, queued: f64, now: Instant) -> bool {
        if queued <= QUEUE {
            self.draining = None;
            return false;
        }
        let draining = *self.draining.get_or_insert(Draining { since: now, queued });
        if now.saturating_duration_since(draining.since) < DRAIN_PATIENCE {
            return false;
        }
        self.draining = None;
        let unmoved = (queued / draining.queued - 1.0).abs() <= UNMOVED;
        unmoved && queued <= OTHERS_QUEUE_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KBPS: f64 = 1000.0;

    fn config() -> Config {
        Config {
            min: Bitrate::from_bps(200_000),
            max: Bitrate::from_bps(3_000_000),
            knee: Duration::from_secs(2),
            start: Bitrate::from_bps(1_000_000),
        }
    }

    /// An encoder of 30 frames a second before a path that takes `capacity` bits a
    /// second after `delay`; a transport that measures it when it is used up.
    struct Camera {
        adaptation: Adaptation,
        now: Instant,
        frame: u64,
        queue: f64,
        delay: f64,
        written: f64,
        app_limited: bool,
    }

    impl Camera {
        fn new(rule: Rule, delay: f64) -> Self {
            Self {
                adaptation: Adaptation::new(rule, config()),
                now: Instant::now(),
                frame: 0,
                queue: 0.0,
                delay,
                written: 0.0,
                app_limited: true,
            }
        }

        /// The target after `seconds` more.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "small positive numbers"
        )]
        fn film(&mut self, capacity: f64, seconds: u64) -> f64 {
            for _ in 0..seconds * 30 {
                let target = self.adaptation.target().bps() as f64;
                // A keyframe of five frames every two seconds.
                let weight = if self.frame.is_multiple_of(60) {
                    5.0
                } else {
                    55.0 / 59.0
                };
                self.queue += target / 30.0 * weight;
                let taken = self.queue.min(capacity / 30.0);
                self.queue -= taken;
                self.written += taken;
                self.app_limited = self.queue <= 0.0;
                let found = if self.app_limited {
                    taken * 30.0
                } else {
                    capacity
                };
                self.frame += 1;
                self.now += Duration::from_secs(1) / 30;
                let on_its_way = self.delay * target.min(capacity);
                self.adaptation.decide(
                    self.now,
                    Signals {
                        backlog_bytes: ((self.queue + on_its_way) / 8.0) as u64,
                        written_bytes_total: (self.written / 8.0) as u64,
                        deliverable: Some(Bitrate::from_bps(found as u64)),
                        app_limited: self.app_limited,
                    },
                );
            }
            self.adaptation.target().bps() as f64
        }

        fn queue_seconds(&self, capacity: f64) -> f64 {
            self.queue / capacity
        }
    }

    #[test]
    fn it_decides_twice_a_second_only() {
        let mut adaptation = Adaptation::new(Rule::Study, config());
        let start = Instant::now();
        let mut targets = Vec::new();
        for step in 0..=20 {
            let now = start + Duration::from_millis(100) * step;
            targets.push(adaptation.decide(now, Signals::default()));
        }
        targets.dedup();
        let expected = [1_000_000, 1_040_000, 1_081_600, 1_124_864, 1_169_858];
        assert_eq!(targets, expected.map(Bitrate::from_bps));
    }

    #[test]
    fn the_study_s_rule_grows_holds_and_cuts_around_the_knee() {
        // Seconds of backlog at 1 Mbit/s, of which 800 kbit/s are taken.
        let after = |backlog_seconds: f64| {
            let mut adaptation = Adaptation::new(Rule::Study, config());
            let start = Instant::now();
            adaptation.decide(start, Signals::default());
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a few hundred kilobytes"
            )]
            let signals = Signals {
                backlog_bytes: (backlog_seconds * 125_000.0) as u64,
                written_bytes_total: 50_000,
                ..Signals::default()
            };
            adaptation.decide(start + PERIOD, signals).bps()
        };
        assert_eq!(after(0.9), 1_040_000);
        assert_eq!(after(1.5), 1_000_000);
        assert_eq!(after(2.1), 760_000, "95 % of what is taken");
        assert_eq!(after(4.1), 680_000, "85 % of what is taken");
    }

    #[test]
    fn both_rules_reach_the_encoder_s_best_on_a_wide_path() {
        for rule in Rule::ALL {
            let mut camera = Camera::new(rule, 0.04);
            let reached = camera.film(8e6, 30);
            assert!(reached > 2_999.0 * KBPS, "{rule}: {reached}");
        }
    }

    #[test]
    fn the_coupled_rule_stays_below_the_path_and_the_study_s_fills_the_knee() {
        let mut coupled = Camera::new(Rule::Coupled, 0.04);
        let mut study = Camera::new(Rule::Study, 0.04);
        let mut worst: (f64, f64) = (0.0, 0.0);
        for second in 0..120 {
            let rates = (coupled.film(1.5e6, 1), study.film(1.5e6, 1));
            if second >= 20 {
                assert!(rates.0 > 1_100.0 * KBPS, "second {second}: {rates:?}");
                worst.0 = worst.0.max(coupled.queue_seconds(1.5e6));
                worst.1 = worst.1.max(study.queue_seconds(1.5e6));
            }
        }
        assert!(worst.0 < 0.4, "{worst:?}");
        assert!((0.5..5.0).contains(&worst.1), "{worst:?}");
    }

    #[test]
    fn a_path_that_narrows_is_followed_within_two_seconds_and_drained() {
        let mut camera = Camera::new(Rule::Coupled, 0.04);
        camera.film(8e6, 30);
        let after = camera.film(800e3, 2);
        assert!(after < 800.0 * KBPS, "{after}");
        camera.film(800e3, 8);
        assert!(camera.queue_seconds(800e3) < 0.4, "{}", camera.queue);
        let back = camera.film(8e6, 30);
        assert!(back > 2_900.0 * KBPS, "{back}");
    }

    #[test]
    fn a_long_round_trip_is_no_backlog() {
        let mut camera = Camera::new(Rule::Coupled, 0.6);
        let reached = camera.film(8e6, 40);
        assert!(reached > 2_900.0 * KBPS, "{reached}");
    }

    #[test]
    fn a_path_that_stops_brings_the_least_bitrate() {
        for rule in Rule::ALL {
            let mut camera = Camera::new(rule, 0.04);
            camera.film(8e6, 20);
            let stopped = camera.film(1.0, 30);
            assert!(stopped < 201.0 * KBPS, "{rule}: {stopped}");
        }
    }

    #[test]
    fn names_round_trip_and_strangers_are_told_what_there_is() {
        for rule in Rule::ALL {
            assert_eq!(rule.as_str().parse(), Ok(rule));
        }
        let refused = "abr".parse::<Rule>().expect_err("unknown").to_string();
        assert!(refused.contains("study, coupled"), "{refused}");
    }

    proptest! {
        #[test]
        fn always_within_the_bounds(
            coupled in any::<bool>(),
            steps in prop::collection::vec(
                (0u64..2000, any::<u64>(), any::<u64>(), any::<Option<u64>>(), any::<bool>()),
                1..50,
            ),
        ) {
            let rule = if coupled { Rule::Coupled } else { Rule::Study };
            let mut adaptation = Adaptation::new(rule, config());
            let mut now = Instant::now();
            for (ms, backlog_bytes, written_bytes_total, deliverable, app_limited) in steps {
                now += Duration::from_millis(ms);
                let target = adaptation.decide(now, Signals {
                    backlog_bytes,
                    written_bytes_total,
                    deliverable: deliverable.map(Bitrate::from_bps),
                    app_limited,
                });
                prop_assert!(config().min <= target && target <= config().max);
            }
        }
    }
}
