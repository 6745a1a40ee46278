use super::*;

const TEST: constants::LossTest = constants::LossTest::DEFAULT;
const POLICED: constants::Policed = constants::Policed::DEFAULT;

/// Size of datagrams, in bytes.
const MTU: f64 = 1200.0;
/// Rate at which packets are sent before a test, in bytes/s: one packet each ms.
const RATE: f64 = 1_200_000.0;
const MS: Duration = Duration::from_millis(1);
/// Round trip without a queue.
const ROUND_TRIP: Duration = Duration::from_millis(40);

/// Packets that reach the model as a path acknowledges and loses them.
struct PacketPath {
    policer: Policer,
    now: Instant,
    /// Packets so far.
    packets: u64,
    /// When the latest round trip ended.
    round: Instant,
    /// Queueing delay that each packet meets.
    queue: Duration,
    /// Whether more data waits than leaves.
    is_backlogged: bool,
}

impl PacketPath {
    /// A path whose model needs a test: losses that come as regularly as these would need
    /// none.
    fn new() -> Self {
        let now = Instant::now();
        let mut constants = Constants::DEFAULT;
        constants.test.evidence = f64::INFINITY;
        constants.test.evidence_least = f64::NEG_INFINITY;
        Self {
            policer: Policer::new(&constants, now),
            now,
            packets: 0,
            round: now,
            queue: Duration::ZERO,
            is_backlogged: true,
        }
    }

    /// Sends the next packet as late as the model's pace wants; one in `lost_of` is lost,
    /// and none if that is zero.
    fn packet(&mut self, lost_of: u64) {
        let pace = self.policer.pacing(MTU).unwrap_or(RATE);
        self.now += Duration::from_secs_f64(MTU / pace);
        self.packets += 1;
        self.policer.on_sent(self.now, MTU);
        let of = PolicerInputs {
            now: self.now,
            smoothed: ROUND_TRIP,
            queue: self.queue,
            variation: Duration::ZERO,
            target: MS * 60,
            mtu: MTU,
            is_backlogged: self.is_backlogged,
        };
        let sent = self.now - ROUND_TRIP;
        if lost_of > 0 && self.packets.is_multiple_of(lost_of) {
            return self.policer.on_loss(MTU, sent, &of);
        }
        let round = self.now.saturating_duration_since(self.round) >= ROUND_TRIP;
        if round {
            self.round = self.now;
        }
        let packet = Acked {
            sent,
            bytes: 1200,
            delivered_before: 0,
        };
        self.policer.on_ack(&[packet], round, &of);
    }

    /// Sends packets until `is_reached`; returns after how long.
    fn until(&mut self, lost_of: u64, is_reached: impl Fn(&Policer) -> bool) -> Duration {
        let start = self.now;
        for _ in 0..100_000 {
            if is_reached(&self.policer) {
                return self.now - start;
            }
            self.packet(lost_of);
        }
        panic!("not within 100,000 packets: {:?}", self.policer.phase);
    }

    /// Sends packets for `time`.
    fn send(&mut self, lost_of: u64, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.packet(lost_of);
        }
    }

    /// Loses a tenth, then nothing from the trial on: what a policer does.
    fn held() -> Self {
        let mut path = Self::new();
        path.until(10, Policer::is_on_trial);
        path.until(0, |it| it.rate().is_some());
        path
    }
}

#[test]
fn loss_of_a_fiftieth_or_less_begins_no_trial() {
    let mut path = PacketPath::new();
    path.send(50, Duration::from_secs(20));
    assert!(!path.policer.is_on_trial());
    assert_eq!(path.policer.pacing(MTU), None);
    let floor = path.policer.floor();
    assert!((0.01..=0.02).contains(&floor), "{floor}");
}

#[test]
fn a_source_slower_than_the_path_has_no_trial_for_little_loss_and_one_for_much() {
    let mut path = PacketPath::new();
    path.is_backlogged = false;
    for _ in 0..200 {
        path.send(14, MS * 100);
        assert_eq!(path.policer.pacing(MTU), None, "{:?}", path.policer.phase);
    }
    let floor = path.policer.floor();
    assert!((0.06..0.08).contains(&floor), "{floor}");
    path.until(4, Policer::is_on_trial);
}

#[test]
fn a_trial_sends_nine_tenths_of_what_arrived() {
    let mut path = PacketPath::new();
    let after = path.until(10, Policer::is_on_trial);
    assert!(after >= TEST.rate_time_min && after < MS * 300, "{after:?}");
    let pace = path.policer.pacing(MTU).expect("a trial has a pace");
    let share = pace / RATE;
    assert!((0.79..0.83).contains(&share), "0.9 of 0.9: {share}");
    assert!(path.policer.is_testing());
    assert_eq!(path.policer.rate(), None, "nothing is known yet");
}

#[test]
fn loss_that_abates_but_stays_is_tried_three_times_and_no_more() {
    let mut path = PacketPath::new();
    path.until(10, Policer::is_on_trial);
    let mut paces = vec![path.policer.pacing(MTU).expect("a pace")];
    for _ in 0..5_000 {
        path.packet(20);
        let Some(pace) = path.policer.pacing(MTU) else {
            break;
        };
        if paces.last() != Some(&pace) {
            paces.push(pace);
        }
    }
    assert_eq!(paces.len(), 3, "{paces:?}");
    assert!(
        paces.is_sorted_by(|a, b| a > b),
        "each is slower: {paces:?}"
    );
    assert_eq!(path.policer.pacing(MTU), None, "it passes for random loss");
}

#[test]
fn loss_that_stays_is_random_and_is_not_tested_for_ten_seconds() {
    let random = || {
        let mut path = PacketPath::new();
        path.until(20, Policer::is_on_trial);
        path.until(20, |it| !it.is_on_trial());
        assert_eq!(path.policer.rate(), None);
        path
    };
    let pause = random().until(6, Policer::is_on_trial);
    assert!(
        pause >= TEST.quiet && pause < TEST.quiet + MS * 2500,
        "{pause:?}"
    );
    // More than a radio link can lose is tested at once.
    let pause = random().until(3, Policer::is_on_trial);
    assert!(pause < MS * 500, "{pause:?}");
}

#[test]
fn loss_that_vanishes_shows_the_rate_and_a_probe_confirms_the_policer() {
    let mut path = PacketPath::held();
    let rate = path.policer.rate().expect("it is held");
    assert!((0.85..0.95).contains(&(rate / RATE)), "{rate}");
    let pause = path.until(0, Policer::is_testing);
    assert!(pause >= POLICED.rest_first && pause < MS * 550, "{pause:?}");
    let probing = path.policer.pacing(MTU).expect("a pace");
    assert!(
        (probing / rate - POLICED.probe_gain).abs() < 1e-9,
        "{probing}"
    );
    // A tenth on an empty path is plain already; the probe keeps it so.
    assert!(path.policer.is_policed());
    path.until(6, |it| !it.is_testing());
    assert!(path.policer.is_policed());
    let first = path.until(0, Policer::is_testing);
    path.until(6, |it| !it.is_testing());
    let second = path.until(0, Policer::is_testing);
    let times = second.as_secs_f64() / first.as_secs_f64();
    assert!((1.9..2.1).contains(&times), "{first:?}, {second:?}");
}

#[test]
fn a_trial_lasts_until_random_loss_would_have_shown_in_six_bursts() {
    let mut path = PacketPath::new();
    path.until(25, Policer::is_on_trial);
    let before = path.packets;
    path.until(0, |it| it.rate().is_some());
    // Bursts of one packet in 25 or a little less, after a round trip in which a queue drains.
    let packets = path.packets - before;
    assert!((170..260).contains(&packets), "{packets}");
}

#[test]
fn two_lost_packets_do_not_lower_a_rate_that_is_held_and_three_do() {
    let lowered_after = |losses: u64| {
        let mut path = PacketPath::held();
        let before = path.policer.rate();
        while path.packets % 60 != 1 {
            path.packet(0);
        }
        for _ in 0..losses * 60 - 1 {
            path.packet(60);
        }
        path.policer.rate() < before
    };
    assert!(!lowered_after(2));
    assert!(lowered_after(3));
}

#[test]
fn little_loss_that_vanished_is_no_policer_until_a_probe_lost_too() {
    let mut path = PacketPath::new();
    path.until(25, Policer::is_on_trial);
    path.until(0, |it| it.rate().is_some());
    assert!(!path.policer.is_policed());
    path.until(0, Policer::is_testing);
    assert!(!path.policer.is_policed());
    path.until(6, |it| !it.is_testing());
    assert!(path.policer.is_policed());
}

#[test]
fn a_probe_without_loss_raises_the_rate() {
    let mut path = PacketPath::held();
    let before = path.policer.rate().expect("it is held");
    path.until(0, Policer::is_testing);
    let time = path.until(0, |it| it.rate().is_none_or(|rate| rate > before));
    assert!(
        time < POLICED.probe_time_max,
        "the bucket is empty sooner: {time:?}"
    );
    let after = path.policer.rate().expect("it probes on");
    assert!(
        (after / before - POLICED.probe_gain).abs() < 1e-9,
        "{after}"
    );
    assert!(path.policer.is_testing(), "and a faster probe follows");
}

#[test]
fn probes_become_faster_from_the_second_that_passes_on() {
    let mut path = PacketPath::held();
    path.until(0, Policer::is_testing);
    let gain = |policer: &Policer| {
        let pace = policer.pacing(MTU).expect("it probes");
        pace / policer.rate().expect("it is held")
    };
    let mut gains = Vec::new();
    for _ in 0..4 {
        let before = path.policer.rate().expect("it is held");
        gains.push(gain(&path.policer));
        path.until(0, |it| it.rate().is_none_or(|rate| rate > before));
    }
    // A bucket that is larger than assumed may pass one of them.
    let once = POLICED.probe_gain;
    let expected = [once, once, once.powi(2), POLICED.probe_gain_max];
    for (found, expected) in gains.iter().zip(expected) {
        assert!((found - expected).abs() < 1e-9, "{gains:?}");
    }
    path.until(10, |it| !matches!(it.phase, Phase::Probing(_)));
    path.until(0, Policer::is_testing);
    assert!((gain(&path.policer) - once).abs() < 1e-9, "it begins anew");
}

#[test]
fn a_rate_that_still_loses_is_lowered() {
    let mut path = PacketPath::held();
    let before = path.policer.rate().expect("it is held");
    path.until(25, |it| it.rate().is_none_or(|rate| rate < before));
    let after = path.policer.rate().expect("it is held");
    assert!((0.7..=0.97).contains(&(after / before)), "{after}");
}

#[test]
fn loss_at_the_end_of_a_queue_shortens_the_queue_and_slows_nothing() {
    let mut path = PacketPath::new();
    path.queue = MS * 50;
    path.until(10, Policer::is_on_trial);
    path.queue = Duration::ZERO;
    path.until(0, |it| !it.is_on_trial());
    assert_eq!(path.policer.pacing(MTU), None);
    assert_eq!(path.policer.queue_limit(), Some(MS * 20), "0.4 of 50 ms");
    // A longer queue is tried after 8 s, and again until it is not short any more.
    path.send(0, POLICED.rest_short);
    assert_eq!(path.policer.queue_limit(), Some(MS * 30));
    path.send(0, POLICED.rest_short * 7);
    assert_eq!(path.policer.queue_limit(), None);
}

#[test]
fn a_queue_longer_than_ours_is_no_case_for_a_trial() {
    let mut path = PacketPath::new();
    path.queue = MS * 151;
    path.send(10, Duration::from_secs(5));
    assert!(!path.policer.is_on_trial(), "2.5 of 60 ms are ours");
    assert!(path.policer.is_losing() || path.policer.floor() > 0.0);
    path.queue = MS * 150;
    let mut path = PacketPath {
        policer: Policer::new(&Constants::DEFAULT, path.now),
        ..path
    };
    path.until(10, Policer::is_on_trial);
}

#[test]
fn what_others_caused_is_forgotten() {
    let mut path = PacketPath::held();
    let now = path.now;
    path.policer.forget(now);
    assert_eq!(
        (path.policer.rate(), path.policer.pacing(MTU)),
        (None, None)
    );
    assert!(!path.policer.is_policed());
    assert!(path.policer.spare().abs() < f64::EPSILON);
}

/// A count with these bytes, from `began` on.
fn count(began: Instant, delivered: f64, lost: f64, bursts: u32) -> LossCount {
    LossCount {
        delivered,
        lost,
        bursts,
        ..LossCount::new(began)
    }
}

#[test]
fn holding_is_doubtful_if_the_loss_stays_or_the_rate_falls_far() {
    let now = Instant::now();
    let mut policer = Policer::new(&Constants::DEFAULT, now);
    assert!(!policer.is_doubtful(0.0), "there was no trial");
    policer.before = Some(TrialBaseline {
        rate: 100.0,
        count: count(now, 900.0, 100.0, 9),
    });
    let mut doubtful = |lost: f64, bursts, rate| {
        policer.held = count(now, 1_000.0 - lost, lost, bursts);
        policer.is_doubtful(rate)
    };
    assert!(doubtful(50.0, 6, 100.0), "half of the loss stayed");
    assert!(!doubtful(30.0, 6, 100.0), "most of it vanished");
    assert!(!doubtful(50.0, 5, 100.0), "too few bursts to tell");
    assert!(doubtful(0.0, 6, 59.0) && !doubtful(0.0, 6, 61.0));
}

#[test]
fn a_probe_goes_on_faster_once_more_passed_than_the_bucket_holds() {
    const RATE: f64 = 100_000.0;
    let start = Instant::now();
    // Returns the rate that is probed next, or `None` without a probe.
    let probed = |seconds: u64, delivered: f64, burst: f64, queue: Duration| {
        let bucket = Bucket::new(RATE, burst, start);
        let mut policer = Policer::new(&Constants::DEFAULT, start);
        let probe = Probe::new(bucket, start);
        policer.phase = Phase::Probing(probe);
        policer.count = count(start, delivered, 0.0, 0);
        let of = PolicerInputs {
            now: start + Duration::from_secs(seconds),
            smoothed: ROUND_TRIP,
            queue,
            variation: Duration::ZERO,
            target: MS * 60,
            mtu: MTU,
            is_backlogged: false,
        };
        policer.probe(&of, probe);
        match policer.phase {
            Phase::Probing(probe) => Ok(probe.bucket.rate),
            Phase::Holding { .. } => Err("holding"),
            Phase::Free => Err("free"),
            Phase::Trial { .. } => Err("trial"),
        }
    };
    let empty = Duration::ZERO;
    // The burst and eight packets are 29,600 bytes.
    assert_eq!(probed(1, 129_000.0, 20_000.0, empty), Ok(RATE));
    assert_eq!(
        probed(1, 130_000.0, 20_000.0, empty),
        Ok(RATE * POLICED.probe_gain)
    );
    assert_eq!(
        probed(1, 130_000.0, 20_000.0, MS * 31),
        Err("free"),
        "a queue"
    );
    assert_eq!(
        probed(1, 130_000.0, 20_000.0, MS * 30),
        Ok(RATE * POLICED.probe_gain)
    );
    // After 6 s, a tenth above the rate is enough, which is 60,000 bytes.
    assert_eq!(
        probed(6, 660_100.0, 200_000.0, empty),
        Ok(RATE * POLICED.probe_gain)
    );
    assert_eq!(probed(6, 659_900.0, 200_000.0, empty), Err("holding"));
}

#[test]
fn a_sender_with_pauses_finds_out_that_the_policer_is_gone() {
    // Bursts of a fifth of the time, as of keyframes where the frames behind are left out.
    let mut path = PacketPath::held();
    let before = path.policer.rate().expect("it is held");
    let start = path.now;
    while path.policer.rate().is_some_and(|rate| rate < 1.5 * before) {
        path.send(0, MS * 400);
        path.now += MS * 1_600;
        assert!(
            path.now - start < Duration::from_secs(60),
            "{:?} after a minute",
            path.policer.phase
        );
    }
}

#[test]
fn a_probe_that_is_used_little_becomes_faster_and_one_that_is_used_does_not() {
    let mut path = PacketPath::held();
    path.until(0, Policer::is_testing);
    let pace = |path: &PacketPath| path.policer.pacing(MTU).zip(path.policer.rate());
    let gain = |path: &PacketPath| pace(path).map_or(0.0, |(pace, rate)| pace / rate);
    // A bucket that such a probe does not empty.
    let large = Bucket::new(RATE, RATE, path.now);
    let probing = Phase::Probing(Probe::new(large, path.now));
    path.policer.enter(probing, path.now);
    path.send(0, POLICED.probe_unused + MS * 100);
    assert!((gain(&path) - POLICED.probe_gain).abs() < 1e-9);
    let mut path = PacketPath::held();
    path.until(0, Policer::is_testing);
    path.send(0, MS * 100);
    path.now += POLICED.probe_unused;
    path.packet(0);
    assert!((gain(&path) - POLICED.probe_gain.powi(2)).abs() < 1e-9);
}

#[test]
fn a_trial_at_the_rate_of_a_path_that_had_stopped_ends_within_seconds() {
    let mut path = PacketPath::new();
    let count = LossCount {
        delivered: 2.0 * MTU,
        lost: 130.0 * MTU,
        bursts: 6,
        ..LossCount::new(path.now)
    };
    // A packet each second: 132 of them would take two minutes.
    let before = TrialBaseline { rate: MTU, count };
    let trial = Phase::Trial { before, tries: 1 };
    path.policer.enter(trial, path.now);
    let took = path.until(0, |it| !it.is_on_trial());
    assert!(took < Duration::from_secs(4), "{took:?}");
    assert_eq!(path.policer.pacing(MTU), None);
}
