//! Tests of live sources over a bottleneck: an encoder that follows the flow's estimate.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "small positive numbers"
)]

use std::time::Duration;

use glassline_media::Bitrate;
use glassline_sim::Case;

use crate::adaptation::{Adaptation, Config, Rule, Signals};
use crate::bottleneck::{Bottleneck, PLAIN, Path, Policer, Sender};
use crate::{Algorithm, Flow};

/// Time from one frame to the next.
const FRAME: Duration = Duration::from_micros(33_250);
const PATH: Bottleneck = Bottleneck {
    mbps: 10.0,
    round_trip: Duration::from_millis(40),
    queue_bytes: 125_000,
    loss: 0.0,
    policer: None,
    ..PLAIN
};

/// A camera whose encoder adapts.
pub(crate) struct Stream {
    pub(crate) path: Path,
    pub(crate) senders: Vec<Sender>,
    adaptation: Adaptation,
    frame: u64,
    made: f64,
    /// Largest backlog since `film` was last called, in seconds.
    pub(crate) worst: f64,
}

impl Stream {
    pub(crate) fn new(algorithm: Algorithm, rule: Rule, bottleneck: Bottleneck) -> Self {
        let config = Config {
            min: Bitrate::from_bps(150_000),
            max: Bitrate::from_bps(6_000_000),
            knee: Duration::from_secs(1),
            start: Bitrate::from_bps(1_000_000),
        };
        Self {
            path: Path::new(bottleneck, 1),
            senders: vec![Sender::live(algorithm, 0.0)],
            adaptation: Adaptation::new(rule, config),
            frame: 0,
            made: 0.0,
            worst: 0.0,
        }
    }

    fn flow(&self) -> &Flow {
        &self.senders[0].flow
    }

    /// Runs for `seconds`; returns the target in Mbit/s.
    pub(crate) fn film(&mut self, seconds: f64) -> f64 {
        self.worst = 0.0;
        let end = self.path.now() + Duration::from_secs_f64(seconds);
        while self.path.now() < end {
            let target = self.adaptation.target().mbps();
            let weight = if self.frame.is_multiple_of(60) {
                5.0
            } else {
                55.0 / 59.0
            };
            let bytes = target * 125_000.0 * FRAME.as_secs_f64() * weight;
            self.frame += 1;
            self.made += bytes;
            self.senders[0].make(bytes);
            self.path.run(&mut self.senders, FRAME);
            let backlog = (self.made - self.flow().totals().delivered as f64).max(0.0);
            self.worst = self.worst.max(backlog / 125_000.0 / target);
            let signals = Signals {
                backlog_bytes: backlog as u64,
                written_bytes_total: self.flow().totals().sent,
                deliverable: self.flow().deliverable_rate(),
                app_limited: self.flow().is_app_limited(),
                policed: self.flow().controller().path_model().policed,
            };
            self.adaptation.decide(self.path.now(), signals);
        }
        self.adaptation.target().mbps()
    }
}

#[test]
fn an_encoder_finds_that_a_wide_path_carries_all_it_can_make() {
    for algorithm in Algorithm::ALL {
        let mut stream = Stream::new(algorithm, Rule::Coupled, PATH);
        let reached = stream.film(20.0);
        assert!(reached > 5.9, "{algorithm}: {reached}");
        stream.film(20.0);
        // BBR stops for 200 ms once in ten seconds.
        assert!(stream.worst < 0.45, "{algorithm}: {} s late", stream.worst);
        let wide = stream.flow().deliverable_rate().expect("measured").mbps();
        assert!((6.0..12.0).contains(&wide), "{algorithm}: {wide}");
    }
}

#[test]
fn a_path_that_narrows_is_seen_within_a_second_and_one_that_widens_is_used() {
    for algorithm in Algorithm::ALL {
        let mut stream = Stream::new(algorithm, Rule::Coupled, PATH);
        stream.film(25.0);
        stream.path.bottleneck.mbps = 1.0;
        let cut = stream.film(1.2);
        let seen = stream.flow().deliverable_rate().expect("measured").mbps();
        assert!((0.5..1.4).contains(&seen), "{algorithm}: {seen}");
        assert!(cut < 1.0, "{algorithm}: {cut}");
        stream.film(10.0);
        let rate = stream.film(1.0);
        let late = stream.worst * rate;
        assert!(late < 0.3, "{algorithm}: {late} s of the path wait");
        stream.path.bottleneck.mbps = 10.0;
        let back = stream.film(18.0);
        assert!(back > 4.0, "{algorithm}: {back}");
    }
}

#[test]
fn an_encoder_stays_near_what_a_narrow_path_carries() {
    for algorithm in Algorithm::ALL {
        let narrow = Bottleneck { mbps: 2.0, ..PATH };
        let mut stream = Stream::new(algorithm, Rule::Coupled, narrow);
        stream.film(20.0);
        let before = stream.flow().totals().delivered;
        stream.film(40.0);
        let carried = (stream.flow().totals().delivered - before) as f64 / 125_000.0 / 40.0;
        let late = stream.worst;
        println!("{algorithm}: {carried:.2} of 2 Mbit/s, {late:.2} s late at the worst");
        assert!(carried > 1.5, "{algorithm}: {carried}");
        assert!(late < 1.0, "{algorithm}: {late}");
    }
}

#[test]
fn a_competitor_s_queue_is_no_reason_to_send_less_and_less() {
    let shared = Bottleneck {
        mbps: 5.0,
        round_trip: Duration::from_millis(60),
        ..PATH
    };
    let case = |description, path, expected| Case {
        description,
        path,
        seed: 1,
        expected,
    };
    let cases = [
        case("on 10 Mbit/s and 40 ms", PATH, 0.8),
        case("on 5 Mbit/s and 60 ms", shared, 0.4),
    ];
    for algorithm in Algorithm::ALL {
        for case in &cases {
            let mut stream = Stream::new(algorithm, Rule::Coupled, case.path);
            stream.path = Path::new(case.path, case.seed);
            stream.senders.push(Sender::bulk(Algorithm::Cubic));
            stream.film(30.0);
            let before = stream.flow().totals().delivered;
            stream.film(60.0);
            let share = (stream.flow().totals().delivered - before) as f64 / 125_000.0 / 60.0;
            println!(
                "{algorithm} beside CUBIC {case}: {share:.2} of {} Mbit/s",
                case.path.mbps
            );
            // Reno grows by a packet per round trip, CUBIC by more once round trips get
            // long.
            let by_reno = algorithm == Algorithm::Rfc9260Reno;
            let floor = if by_reno {
                0.9 * case.expected
            } else {
                case.expected
            };
            assert!(share > floor, "{algorithm} {case}: {share}");
        }
    }
}

#[test]
fn a_policer_that_a_controller_does_not_see_is_seen_by_the_flow() {
    let policer = Some(Policer {
        mbps: 1.5,
        bucket_bytes: 30_000.0,
    });
    for algorithm in [Algorithm::Copa, Algorithm::Bbr, Algorithm::Cubic] {
        let mut stream = Stream::new(algorithm, Rule::Coupled, Bottleneck { policer, ..PATH });
        let reached = stream.film(40.0);
        let totals = stream.flow().totals();
        let lost = totals.lost as f64 / totals.delivered as f64;
        println!("{algorithm} behind a policer: {reached:.2} Mbit/s, {lost:.3} lost");
        assert!((0.15..2.5).contains(&reached), "{algorithm}: {reached}");
    }
}

#[test]
fn random_loss_does_not_talk_an_encoder_down() {
    let radio = Bottleneck {
        mbps: 4.0,
        loss: 0.02,
        ..PATH
    };
    for algorithm in Algorithm::ALL {
        // Every loss halves Reno's window and takes 30 % of CUBIC's, by their definition.
        if matches!(algorithm, Algorithm::Cubic | Algorithm::Rfc9260Reno) {
            continue;
        }
        let (mut worst, mut sum) = (f64::MAX, 0.0);
        for seed in 1..=4 {
            let mut stream = Stream::new(algorithm, Rule::Coupled, radio);
            stream.path = Path::new(radio, seed);
            stream.film(30.0);
            let reached = (0..15).map(|_| stream.film(1.0)).sum::<f64>() / 15.0;
            worst = worst.min(reached);
            sum += reached;
        }
        println!(
            "{algorithm} at 2 % loss on 4 Mbit/s: {:.2}, at the worst {worst:.2}",
            sum / 4.0
        );
        assert!(worst > 2.4, "{algorithm}: {worst}");
    }
}
