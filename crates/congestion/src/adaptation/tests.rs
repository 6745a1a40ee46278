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

/// An encoder of 30 frames per second before a path that takes `capacity` bit/s after
/// `delay`, and a transport that measures the path when it is used up.
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

    /// Returns the target after `seconds` more.
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
                    policed: false,
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
    assert_eq!(after(1.0), 1_000_000, "half the knee");
    assert_eq!(after(2.0), 1_000_000, "the knee");
    assert_eq!(after(4.0), 760_000, "twice the knee");
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
fn a_policer_s_rate_is_followed_more_closely_than_one_that_was_measured() {
    let target = |policed| {
        let mut adaptation = Adaptation::new(Rule::Coupled, config());
        let start = Instant::now();
        let signals = Signals {
            deliverable: Some(Bitrate::from_bps(2_000_000)),
            policed,
            ..Signals::default()
        };
        for period in 0..60 {
            adaptation.decide(start + PERIOD * period, signals);
        }
        adaptation.target().bps()
    };
    assert_eq!(target(false), 1_800_000);
    assert_eq!(target(true), 1_900_000);
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
            (0u64..2000, any::<[u64; 2]>(), any::<Option<u64>>(), any::<[bool; 2]>()),
            1..50,
        ),
    ) {
        let rule = if coupled { Rule::Coupled } else { Rule::Study };
        let mut adaptation = Adaptation::new(rule, config());
        let mut now = Instant::now();
        for (ms, [backlog_bytes, written_bytes_total], deliverable, flags) in steps {
            now += Duration::from_millis(ms);
            let target = adaptation.decide(now, Signals {
                backlog_bytes,
                written_bytes_total,
                deliverable: deliverable.map(Bitrate::from_bps),
                app_limited: flags[0],
                policed: flags[1],
            });
            prop_assert!(config().min <= target && target <= config().max);
        }
    }
}
