use super::*;
use crate::Rng;

#[test]
fn mahimahi_text_is_read() {
    let trace = Schedule::parse("# uplink\n0\n5\n5\n\n10\r\n").expect("a trace");
    assert_eq!(trace.opportunities(), [0, 5, 5, 10]);
    assert_eq!(trace.period(), Duration::from_millis(10));
    // 4 · 1500 bytes in 10 ms.
    assert_eq!(trace.mean(), Bitrate::from_bps(4_800_000));
}

#[test]
fn what_is_no_trace_is_refused_with_its_line() {
    for (text, reason) in [
        ("5\nsoon\n", "line 2: `soon` is not a whole number"),
        ("1.5", "line 1: `1.5` is not a whole number"),
        ("4294967296", "line 1: `4294967296` is not"),
        ("7\n\n6", "line 3: 6 ms comes after 7 ms"),
        ("", "needs an opportunity after 0 ms"),
        ("0\n0\n", "needs an opportunity after 0 ms"),
    ] {
        let error = Schedule::parse(text).expect_err(text).to_string();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn opportunities_come_again_after_the_last() {
    let trace = Schedule::parse("0\n4\n10").expect("a trace");
    let mut cursor = Cursor::default();
    let mut times = Vec::new();
    for _ in 0..7 {
        times.push(cursor.next(&trace, Duration::ZERO, 0) / MILLISECOND);
        cursor.use_up(&trace);
    }
    assert_eq!(times, [0, 4, 10, 10, 14, 20, 20]);
    // Unused opportunities are gone, however many.
    let much_later = 1_000_003 * MILLISECOND;
    let next = cursor.next(&trace, Duration::ZERO, much_later);
    assert_eq!(next, 1_000_004 * MILLISECOND);
    // Both ends of a repetition are at the same time, and the earlier one is not skipped.
    let mut cursor = Cursor::default();
    let next: Vec<_> = (0..3)
        .map(|_| {
            let next = cursor.next(&trace, Duration::ZERO, 20 * MILLISECOND);
            cursor.use_up(&trace);
            next / MILLISECOND
        })
        .collect();
    assert_eq!(next, [20, 20, 24]);
    // An offset moves the start into the trace.
    let mut cursor = Cursor::default();
    let next = cursor.next(&trace, Duration::from_millis(23), 2 * MILLISECOND);
    assert_eq!(next, 7 * MILLISECOND);
}

#[test]
fn fading_keeps_its_mean_and_its_outages() {
    let fading = Fading {
        mean: Bitrate::from_bps(5_000_000),
        sigma: 0.5,
        correlation: 0.9,
        step: Duration::from_millis(200),
        outage: 0.0,
        outage_steps: 5..=5,
        outage_share: 0.0,
    };
    let period = Duration::from_secs(1800);
    let steady = Schedule::fading(&fading, period, &mut Rng::new(4));
    assert!((4.75..5.25).contains(&steady.mean().mbps()), "{steady:?}");
    assert_eq!(steady, Schedule::fading(&fading, period, &mut Rng::new(4)));
    assert_ne!(steady, Schedule::fading(&fading, period, &mut Rng::new(5)));
    let outages = Fading {
        outage: 0.01,
        ..fading
    };
    let broken = Schedule::fading(&outages, period, &mut Rng::new(4));
    let gap = |trace: &Schedule| {
        let pairs = trace.opportunities().windows(2);
        pairs.map(|pair| pair[1] - pair[0]).max()
    };
    assert!(gap(&steady) < Some(100));
    assert!(gap(&broken) >= Some(1000), "five steps of 200 ms");
}

#[test]
fn a_markov_chain_spends_its_time_in_all_states() {
    let state = |mbps: u64, seconds| State {
        rate: Bitrate::from_bps(mbps * 1_000_000),
        mean: Duration::from_secs(seconds),
    };
    let states = [state(8, 3), state(2, 3), state(0, 3)];
    let period = Duration::from_secs(3600);
    let trace = Schedule::markov(&states, period, &mut Rng::new(1));
    assert!((2.9..3.8).contains(&trace.mean().mbps()), "{trace:?}");
    let nothing = Schedule::markov(&[], Duration::from_secs(1), &mut Rng::new(1));
    assert_eq!(nothing.opportunities(), [1000]);
}

#[test]
fn steps_follow_each_other() {
    let second = Duration::from_secs(1);
    let [fast, slow] = [10_000_000, 200_000].map(Bitrate::from_bps);
    let trace = Schedule::steps(&[(fast, 2 * second), (slow, 3 * second)]);
    assert_eq!(trace.period(), 5 * second);
    let times = trace.opportunities();
    let in_fast = times.iter().filter(|&&at| at < 2000).count();
    // 20 Mbit and 0.6 Mbit in opportunities of 12 kbit.
    assert_eq!((in_fast, times.len() - in_fast), (1666, 50));
}
