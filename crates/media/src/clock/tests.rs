use super::*;
use proptest::prelude::*;

const STEP: Duration = Duration::from_millis(25);

/// Two hosts and the paths between them, in virtual time.
///
/// It has a loop of its own instead of `glassline_sim::Simulation`: the bound on the error
/// must hold for any delay at all, so paths are functions that a test writes. Hosts poll up
/// to 25 ms late, as they do in a call.
struct Pair {
    /// Start in true time, which our clock shows exactly.
    start: Instant,
    /// The time of the other host's clock at `start`.
    theirs: Instant,
    /// Speed of the other host's clock relative to ours.
    skew: f64,
    ends: [Exchange; 2],
}

/// Delay of a message by its sending time; `None` loses it.
type Path<'a> = &'a mut dyn FnMut(Duration) -> Option<Duration>;

impl Pair {
    fn new(skew_ppm: f64) -> Self {
        let start = Instant::now();
        let theirs = start + Duration::from_secs(86_400);
        // Records of a call count from its beginning, which is not the same for both.
        let ours = Exchange::new(start - Duration::from_secs(2));
        let ends = [ours, Exchange::new(theirs - Duration::from_secs(77))];
        Self {
            start,
            theirs,
            skew: 1.0 + skew_ppm / 1e6,
            ends,
        }
    }

    /// The time of the clock of host `end` at true time `at`.
    fn clock(&self, end: usize, at: Duration) -> Instant {
        match end {
            0 => self.start + at,
            _ => self.theirs + at.mul_f64(self.skew),
        }
    }

    /// Lets both ends exchange messages for `length`.
    fn run<'a>(&mut self, length: Duration, there: Path<'a>, back: Path<'a>) {
        let mut wire: Vec<(Duration, usize, Vec<u8>)> = Vec::new();
        let paths = [there, back];
        let mut at = Duration::ZERO;
        while at < length {
            wire.sort_by_key(|it| it.0);
            let due = wire.partition_point(|it| it.0 <= at);
            for (arrives, to, message) in wire.drain(..due) {
                let arrived = self.clock(to, arrives);
                // What a window has forgotten is refused; nothing else is.
                let taken = self.ends[to].receive(&message, arrived);
                assert!(
                    matches!(taken, Ok(()) | Err(Refused::Unrequested)),
                    "{taken:?}"
                );
            }
            for end in [0, 1] {
                let now = self.clock(end, at);
                while let Some(message) = self.ends[end].poll_transmit(now) {
                    assert!(message.len() <= MESSAGE_BYTES);
                    if let Some(delay) = paths[end](at) {
                        wire.push((at + delay, 1 - end, message));
                    }
                }
            }
            at += STEP;
        }
    }

    /// Actual error of our estimate for a stamp made at `at`, and its bound.
    fn error(&self, at: Duration) -> Option<(Duration, Duration)> {
        let stamped = self.ends[1].stamp(self.clock(1, at));
        let estimate = self.ends[0].estimate()?;
        let (found, truth) = (estimate.local(stamped)?, self.clock(0, at));
        let off = found.max(truth) - found.min(truth);
        Some((off, estimate.error(truth)))
    }
}

fn ms(ms: f64) -> Duration {
    Duration::from_secs_f64(ms / 1e3)
}

/// Pseudorandom numbers from 0 to 1, the same for equal seeds.
fn random(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Drift, jitter, asymmetry, losses: whatever the path does, the truth is within
    /// the bar.
    #[test]
    fn the_bar_holds_on_any_path(
        skew_ppm in -400.0..400.0f64,
        floors in (0.0..200.0f64, 0.0..200.0f64),
        jitter in 0.0..150.0f64,
        loss in 0.0..0.6f64,
        seed in 0u64..1000,
        seconds in 1u64..80,
    ) {
        let mut pair = Pair::new(skew_ppm);
        let length = Duration::from_secs(seconds);
        let mut noise = random(seed + 1);
        let mut other = random(seed + 2000);
        pair.run(
            length,
            &mut |_| (noise() >= loss).then(|| ms(floors.0 + jitter * noise())),
            &mut |_| (other() >= loss).then(|| ms(floors.1 + jitter * other().powi(4))),
        );
        // Also where the line ends: records are joined a little later.
        for share in [0.0, 0.3, 0.7, 1.0, 1.2] {
            if let Some((off, bound)) = pair.error(length.mul_f64(share)) {
                prop_assert!(off <= bound, "{off:?} off, bound {bound:?}, at {share}");
            }
        }
    }

    #[test]
    fn any_bytes_are_refused_or_harmless(messages in proptest::collection::vec(
        proptest::collection::vec(any::<u8>(), 0..40), 0..60
    )) {
        let now = Instant::now();
        let mut end = Exchange::new(now);
        for message in &messages {
            let taken = end.receive(message, now);
            let is_ours = message.first() == Some(&REQUEST) && message.len() == 13;
            prop_assert!(taken.is_err() || is_ours, "{message:?}");
        }
        prop_assert!(end.pending.len() <= PENDING_MAX);
        prop_assert!(end.estimate().is_none());
    }
}

#[test]
fn jitter_on_both_ways_is_filtered_out_and_the_skew_is_found() {
    let mut pair = Pair::new(-37.0);
    let (mut there, mut back) = (random(7), random(8));
    pair.run(
        Duration::from_secs(90),
        &mut |_| Some(ms(20.0 - 10.0 * (1.0 - there()).ln())),
        &mut |_| Some(ms(20.0 - 10.0 * (1.0 - back()).ln())),
    );
    let (off, bound) = pair.error(Duration::from_secs(89)).expect("answered");
    assert!(off < ms(1.5), "{off:?}");
    assert!(bound > ms(20.0) && bound < ms(30.0), "{bound:?}");
    let skew = pair.ends[0].estimate().expect("answered").skew_ppm();
    assert!((skew + 37.0).abs() < 30.0, "{skew}");
    let skew = pair.ends[1].estimate().expect("answered").skew_ppm();
    assert!((skew - 37.0).abs() < 30.0, "{skew}");
}

/// An error that no exchange can see: half of the difference is in every offset. The bar has it.
#[test]
fn one_way_that_is_always_slower_shifts_the_offset_by_half_and_stays_within_the_bar() {
    let mut pair = Pair::new(0.0);
    pair.run(
        Duration::from_secs(30),
        &mut |_| Some(ms(35.0)),
        &mut |_| Some(ms(5.0)),
    );
    let (off, bound) = pair.error(Duration::from_secs(15)).expect("answered");
    assert!((off.as_secs_f64() * 1e3 - 15.0).abs() < 0.1, "{off:?}");
    assert!(bound >= off && bound < ms(33.0), "{bound:?}");
    let round_trip = pair.ends[0].estimate().expect("answered").round_trip_min;
    // Answers leave at the next step.
    assert!(
        (ms(39.9)..=ms(40.1)).contains(&round_trip),
        "{round_trip:?}"
    );
}

#[test]
fn the_bar_grows_while_nobody_answers() {
    let mut pair = Pair::new(0.0);
    let quick = &mut |at: Duration| (at < Duration::from_secs(10)).then_some(ms(1.0));
    pair.run(Duration::from_secs(40), quick, &mut |_| Some(ms(1.0)));
    let bound = |s| pair.error(Duration::from_secs(s)).expect("answered").1;
    assert!(bound(9) < ms(1.3), "{:?}", bound(9));
    assert!(bound(20) > bound(12) && bound(40) > bound(20));
    assert!(bound(40) < ms(31.0 * 1.1), "{:?}", bound(40));
}

#[test]
fn what_was_not_asked_is_not_believed() {
    let now = Instant::now();
    let mut end = Exchange::new(now);
    let request = end.poll_transmit(now).expect("the first request");
    assert_eq!(end.poll_transmit(now), None);
    assert_eq!(end.poll_timeout(), Some(now + INTERVAL));
    let at = |ms: u64| now + Duration::from_millis(ms);
    for (sequence, times) in [(1, [0, 1, 2]), (0, [1, 1, 2])] {
        let other = message(RESPONSE, sequence, &times);
        assert_eq!(end.receive(&other, at(9)), Err(Refused::Unrequested));
    }
    // Held for longer than it was away.
    let held = message(RESPONSE, 0, &[0, 0, 60_000_000]);
    assert_eq!(end.receive(&held, at(9)), Err(Refused::Impossible));
    let good = message(RESPONSE, 0, &[0, 1_000, 2_000]);
    assert_eq!(
        end.receive(&good, at(9)),
        Err(Refused::Unrequested),
        "answered once"
    );
    for bytes in [&request[..12], &[], &[3; 13], &[RESPONSE; 13]] {
        let bytes_len = bytes.len();
        let refused = Refused::Malformed { bytes: bytes_len };
        assert_eq!(end.receive(bytes, now), Err(refused));
    }
    assert_eq!(end.estimate(), None);
}

#[test]
fn who_asks_too_fast_is_not_answered_too_often() {
    let now = Instant::now();
    let mut end = Exchange::new(now);
    for sequence in 0..PENDING_MAX as u32 {
        assert_eq!(end.receive(&message(REQUEST, sequence, &[0]), now), Ok(()));
    }
    let more = end.receive(&message(REQUEST, 99, &[0]), now);
    assert_eq!(more, Err(Refused::TooMany));
    assert_eq!(end.poll_timeout(), None);
    let sent = std::iter::from_fn(|| end.poll_transmit(now)).count();
    assert_eq!(sent, PENDING_MAX + 1, "and a request of our own");
}

/// A pair of messages: a request at `ours` ms that is away for `trip` ms, answered in the
/// middle by a clock that is `ahead` ms ahead.
fn exchanged(end: &mut Exchange, start: Instant, ours: u64, trip: u64, ahead: u64) {
    let at = |ms: u64| start + Duration::from_millis(ms);
    let request = end.poll_transmit(at(ours)).expect("it is due");
    let sequence = u32::from_be_bytes(request[1..5].try_into().expect("four bytes"));
    let stamp = |ms: u64| nanoseconds(Duration::from_millis(ms));
    let theirs = stamp(ours + trip / 2 + ahead);
    let response = message(RESPONSE, sequence, &[stamp(ours), theirs, theirs]);
    end.receive(&response, at(ours + trip)).expect("asked");
}

#[test]
fn the_quickest_of_a_round_counts_and_rounds_are_forgotten_after_a_minute() {
    let start = Instant::now();
    let mut end = Exchange::new(start);
    // The second is the quickest; the third is as quick and comes later.
    for (number, trip) in (0u64..).zip([30, 10, 10, 50, 20, 40, 60, 80]) {
        exchanged(&mut end, start, 1_000 * number, trip, 500);
        let estimate = end.estimate().expect("answered");
        let wanted = if number == 0 { 30 } else { 10 };
        assert_eq!(estimate.round_trip_min, ms(wanted as f64), "{number}");
        let is_round = (u64::from(ROUND) - 1) == number % u64::from(ROUND);
        assert_eq!(end.round.is_none(), is_round, "{number}");
    }
    let kept: Vec<_> = end.measured.iter().map(|it| it.at / 1_000_000).collect();
    assert_eq!(kept.first(), Some(&1_005), "the first of the quickest");
    let at = |ms: u64| start + Duration::from_millis(ms);
    let estimate = end.estimate().expect("answered");
    // The other clock is half a second ahead, whatever the time.
    for second in [0, 5, 100] {
        let offset = estimate.offset_s(at(1_000 * second));
        assert!((offset - 0.5).abs() < 1e-3, "{second}: {offset}");
    }
    let window = WINDOW.as_millis() as u64;
    // Exactly a minute after the first round's middle it still counts.
    let measured = end.measured.len();
    exchanged(&mut end, start, 1_005 + window - 90, 90, 500);
    assert_eq!(end.measured.len(), measured);
    exchanged(&mut end, start, 1_005 + window + 1_000, 90, 500);
    assert!(end.measured.len() < measured);
}

#[test]
fn a_request_leaves_each_interval_and_not_before() {
    let now = Instant::now();
    let mut end = Exchange::new(now);
    assert_eq!(end.poll_timeout(), None, "at once");
    assert!(end.poll_transmit(now).is_some());
    let due = now + INTERVAL;
    assert!(end.poll_transmit(due - Duration::from_nanos(1)).is_none());
    assert!(end.poll_transmit(due).is_some());
    assert_eq!(end.poll_timeout(), Some(due + INTERVAL));
    for number in 2..2 * OUTSTANDING_MAX as u32 {
        assert!(end.poll_transmit(now + INTERVAL * number).is_some());
        let all = (number as usize + 1).min(OUTSTANDING_MAX);
        assert_eq!(end.outstanding.len(), all);
    }
    // A response to what was forgotten is none of ours.
    let late = message(RESPONSE, 0, &[0, 1, 1]);
    assert_eq!(end.receive(&late, now + ms(1.0)), Err(Refused::Unrequested));
}

#[test]
fn stamps_before_the_epoch_are_0_and_no_time() {
    let epoch = Instant::now() + Duration::from_secs(100);
    let mut end = Exchange::new(epoch);
    assert_eq!(end.stamp(epoch - ms(1.0)), 0);
    assert_eq!(end.stamp(epoch + ms(1.0)), 1_000_000);
    exchanged(&mut end, epoch, 0, 2, 500);
    let estimate = end.estimate().expect("answered");
    assert_eq!(estimate.local(500_000_000), Some(epoch));
    assert_eq!(estimate.local(499_000_000), None);
    let a_second = estimate.local(1_500_000_000);
    assert_eq!(a_second, Some(epoch + Duration::from_secs(1)));
}
