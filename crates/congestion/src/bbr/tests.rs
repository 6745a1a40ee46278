//! Tests of BBR over a bottleneck in virtual time.

use glassline_sim::Case;

use super::cycle::{CYCLE, DRAINING_PHASE};
use super::*;
use crate::bottleneck::{
    Bottleneck, PACKET, PLAIN, Path, Policer, Sender, TrafficSource, goodput, queue_ms,
};

/// A path of 5 Mbit/s and 40 ms: 25 kB are in flight when it is full.
const PATH: Bottleneck = Bottleneck {
    mbps: 5.0,
    round_trip: Duration::from_millis(40),
    queue_bytes: 250_000,
    loss: 0.0,
    policer: None,
    ..PLAIN
};
const MS: Duration = Duration::from_millis(1);

/// One sender, whose BBR can be inspected through the copy that it returns.
struct Run {
    path: Path,
    senders: [Sender; 1],
}

impl Run {
    fn bulk(config: Config, bottleneck: Bottleneck) -> Self {
        Self {
            path: Path::new(bottleneck, 1),
            senders: [Sender::with(Box::new(Bbr::new(config, PACKET)))],
        }
    }

    fn live(mbps: f64) -> Self {
        let mut run = Self::bulk(Config::default(), PATH);
        run.senders[0].source = TrafficSource::Even(mbps);
        run
    }

    fn go(&mut self, ms: u32) {
        self.path.run(&mut self.senders, MS * ms);
    }

    fn window(&self) -> u64 {
        self.senders[0].flow.window()
    }

    fn pacing_mbps(&self) -> f64 {
        self.senders[0]
            .flow
            .pacing_rate()
            .map_or(0.0, Bitrate::mbps)
    }

    fn starting(&self) -> bool {
        self.senders[0].flow.controller().is_starting()
    }

    /// Returns the rate delivered in the next `ms`, in Mbit/s.
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    fn delivers(&mut self, ms: u32) -> f64 {
        let before = self.senders[0].flow.totals().delivered;
        self.go(ms);
        let delivered = self.senders[0].flow.totals().delivered - before;
        delivered as f64 * 8.0 / 1000.0 / f64::from(ms)
    }
}

#[test]
fn startup_doubles_the_rate_and_ends_three_rounds_after_the_pipe_is_full() {
    let mut run = Run::bulk(Config::default(), PATH);
    run.go(60);
    assert!(run.starting());
    let first = run.pacing_mbps();
    // 10 packets in 40 ms are 2.4 Mbit/s, sent at 2.885 times that.
    assert!((6.0..7.5).contains(&first), "{first}");
    run.go(600);
    assert!(!run.starting());
}

#[test]
fn drain_empties_the_queue_that_startup_made() {
    let mut run = Run::bulk(Config::default(), PATH);
    run.go(250);
    let during = run.senders[0].flow.in_flight();
    assert!(during > 50_000, "Startup queues: {during}");
    run.go(1000);
    let after = run.senders[0].flow.in_flight();
    assert!(after < 42_000, "{after}");
    let delivered = run.delivers(5000);
    assert!(delivered > 4.7, "{delivered}");
}

#[test]
fn the_gains_go_round_and_the_mean_rate_is_the_path_s() {
    let mut run = Run::bulk(Config::default(), PATH);
    run.go(2000);
    let mut rates = Vec::new();
    for _ in 0..400 {
        run.go(5);
        rates.push(run.pacing_mbps());
    }
    let most = rates.iter().copied().fold(0.0, f64::max);
    let least = rates.iter().copied().fold(f64::MAX, f64::min);
    assert!((5.8..6.6).contains(&most), "1.25 times: {most}");
    assert!((3.5..4.0).contains(&least), "0.75 times: {least}");
    let cruising = rates
        .iter()
        .filter(|rate| (4.7..5.2).contains(*rate))
        .count();
    assert!(cruising > 240, "{cruising} of 400");
}

#[test]
fn flows_with_other_seeds_begin_their_cycles_elsewhere_and_never_draining() {
    let mut begun = [0; CYCLE.len()];
    for seed in 0..200 {
        let mut cycle = Cycle {
            phase: 0,
            began: None,
            random: seed,
        };
        cycle.begin(Instant::now());
        begun[cycle.phase] += 1;
    }
    assert_eq!(begun[DRAINING_PHASE], 0);
    let others = begun.iter().filter(|count| **count > 10).count();
    assert_eq!(others, 7, "{begun:?}");
}

#[test]
fn a_round_trip_that_is_not_seen_for_ten_seconds_is_looked_for_with_four_packets() {
    // Alone on the path, a flow empties the queue once per cycle and sees the round trip
    // again and again. A longer path does not.
    let mut run = Run::bulk(Config::default(), PATH);
    run.go(5000);
    run.path.bottleneck.round_trip = MS * 60;
    let mut dips = Vec::new();
    for ms in (0..12_000).step_by(10) {
        run.go(10);
        if run.window() <= 4 * PACKET {
            dips.push(ms);
        }
    }
    let (Some(first), Some(last)) = (dips.first(), dips.last()) else {
        panic!("it never looked");
    };
    assert!((4_000..10_100).contains(first), "{first}");
    assert!((190..500).contains(&(last - first)), "{first} to {last}");
    let delivered = run.delivers(5000);
    assert!(delivered > 4.5, "and knows the longer path: {delivered}");
}

#[test]
fn what_an_application_leaves_unused_does_not_lower_the_bandwidth() {
    let mut run = Run::bulk(Config::default(), PATH);
    run.go(3000);
    run.senders[0].source = TrafficSource::Even(0.5);
    run.senders[0].make(5e6);
    run.go(60_000);
    // The rest of the bulk was sent long ago: half a megabit per second for most of a
    // minute.
    let rate = run.pacing_mbps();
    assert!(rate > 3.5, "{rate}");
    assert!(run.window() < 100_000, "{}", run.window());
}

#[test]
fn a_live_source_gets_through_and_its_window_stays_small() {
    let mut run = Run::live(3.0);
    run.go(2000);
    let delivered = run.delivers(20_000);
    assert!((2.9..3.1).contains(&delivered), "{delivered}");
    assert!(run.window() < 150_000, "{}", run.window());
}

#[test]
fn random_loss_does_not_slow_it_and_a_long_queue_is_not_filled() {
    let lossy = Bottleneck { loss: 0.02, ..PATH };
    let mut run = Run::bulk(Config::default(), lossy);
    run.go(3000);
    let delivered = run.delivers(20_000);
    assert!(delivered > 4.4, "{delivered}");
    let bloated = Bottleneck {
        queue_bytes: 2_000_000,
        ..PATH
    };
    let mut senders = [Sender::with(Box::new(Bbr::new(Config::default(), PACKET)))];
    bloated.run(&mut senders, 30, 1);
    assert!(goodput(&senders[0], 30) > 4.6);
    let queue = queue_ms(&mut senders[0], 0.95);
    assert!(queue < 60, "{queue} ms of 3,200");
}

#[test]
fn in_recovery_no_more_leaves_than_arrives_and_the_window_comes_back() {
    let mut run = Run::bulk(Config::default(), PATH);
    run.go(3000);
    let before = run.window();
    run.path.bottleneck.loss = 1.0;
    run.go(8);
    run.path.bottleneck.loss = 0.0;
    let mut least = u64::MAX;
    for _ in 0..100 {
        run.go(2);
        least = least.min(run.window());
    }
    assert!(least < before * 3 / 4, "{least} of {before}");
    assert!(least >= PACKET, "{least}");
    run.go(500);
    assert!(
        run.window() > before * 9 / 10,
        "{} of {before}",
        run.window()
    );
}

#[test]
fn a_silence_of_the_whole_path_starts_over_and_recovers() {
    let mut run = Run::bulk(Config::default(), PATH);
    run.go(3000);
    run.path.bottleneck.loss = 1.0;
    run.go(3000);
    assert!(run.window() <= 5 * PACKET, "{}", run.window());
    run.path.bottleneck.loss = 0.0;
    run.go(3000);
    let delivered = run.delivers(3000);
    assert!(delivered > 4.5, "{delivered}");
}

#[test]
fn marks_are_not_answered() {
    let mut bbr = Bbr::new(Config::default(), PACKET);
    let before = (bbr.window(), bbr.pacing_rate());
    bbr.on_marked(Instant::now(), 10_000);
    assert_eq!((bbr.window(), bbr.pacing_rate()), before);
}

/// A path that loses a third above 1.5 Mbit/s, with a bucket of 200 ms.
const POLICED: Bottleneck = Bottleneck {
    policer: Some(Policer {
        mbps: 1.5,
        bucket_bytes: 37_500.0,
    }),
    ..PATH
};

#[test]
fn the_long_term_model_finds_a_policer_and_loses_less() {
    let run = |config| {
        let mut run = Run::bulk(config, POLICED);
        run.go(30_000);
        let totals = run.senders[0].flow.totals();
        (
            totals.lost * 1000 / totals.delivered,
            totals.delivered / 1000,
        )
    };
    let (without, with) = (run(Config::default()), run(Config::long_term()));
    println!("lost per thousand, kB delivered: {without:?} without the model, {with:?} with");
    assert!(with.0 * 3 < without.0 * 2, "{with:?} and {without:?}");
    assert!(with.1 * 10 > without.1 * 9, "{with:?} and {without:?}");
}

#[test]
fn the_policer_s_rate_is_what_an_encoder_is_told_and_it_is_tried_again() {
    let mut run = Run::bulk(Config::long_term(), POLICED);
    let mut rates = Vec::new();
    for ms in (0..30_000).step_by(20) {
        run.go(20);
        if let Some(rate) = run.senders[0].flow.controller().deliverable_rate() {
            rates.push((ms, rate.mbps()));
        }
    }
    let Some((first, _)) = rates.first() else {
        panic!("it was never found");
    };
    assert!(*first < 10_000, "{first}");
    assert!(
        rates.iter().all(|(_, rate)| (1.2..1.9).contains(rate)),
        "{rates:?}"
    );
    assert!(rates.len() < 1300, "never tried again");
}

#[test]
fn a_path_without_a_policer_is_never_taken_for_one() {
    let lossy = Bottleneck { loss: 0.04, ..PATH };
    let case = |description, path| Case {
        description,
        path,
        seed: 1,
        expected: None,
    };
    let cases = [case("nothing is lost", PATH), case("4 % are lost", lossy)];
    for case in cases {
        let mut run = Run::bulk(Config::long_term(), case.path);
        run.path = Path::new(case.path, case.seed);
        for _ in 0..300 {
            run.go(100);
            let rate = run.senders[0].flow.controller().deliverable_rate();
            assert_eq!(rate, case.expected, "{case}");
        }
    }
}

#[test]
fn clumps_of_acknowledgements_get_room_in_the_window() {
    let start = Instant::now();
    let mut aggregation = Aggregation::default();
    // 100 kB/s, acknowledged in clumps of 5 kB every 50 ms.
    for clump in 0..40 {
        let now = start + MS * 50 * clump;
        aggregation.observe(now, 5000.0, 100_000.0, 60_000.0, u64::from(clump));
    }
    let extra = aggregation.extra(100_000.0);
    assert!((4_999.0..=10_000.0).contains(&extra), "{extra}");
    assert!(aggregation.extra(10_000.0) <= 1_000.0, "100 ms at the most");
}

#[test]
fn the_study_s_keeps_a_queue_where_the_draft_s_does_not() {
    let bloated = Bottleneck {
        queue_bytes: 2_000_000,
        ..PATH
    };
    let median = |config| {
        let mut senders = [Sender::with(Box::new(Bbr::new(config, PACKET)))];
        bloated.run(&mut senders, 30, 1);
        assert!(goodput(&senders[0], 30) > 4.6);
        queue_ms(&mut senders[0], 0.5)
    };
    let (draft, study) = (median(Config::default()), median(Config::study()));
    println!("median queue: draft's {draft} ms, study's {study} ms, on 40 ms");
    assert!(study > 20 + draft, "{study} and {draft}");
    assert!(study < 120, "{study}");
}
