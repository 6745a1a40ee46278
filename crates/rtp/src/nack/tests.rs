use super::*;
use proptest::prelude::*;

const MS: Duration = Duration::from_millis(1);

fn after(numbers: &[u64], start: Instant) -> NackGenerator {
    let mut generator = NackGenerator::default();
    for &number in numbers {
        generator.on_packet(number, start);
    }
    generator
}

#[test]
fn a_gap_is_asked_for_after_the_reorder_wait() {
    let start = Instant::now();
    let mut generator = after(&[65_535, 65_538], start);
    assert_eq!(generator.poll_timeout(), Some(start + 3 * MS));
    assert!(generator.poll(start + 2 * MS).is_empty());
    assert_eq!(generator.poll(start + 3 * MS), [0, 1]);
}

#[test]
fn a_reordered_packet_is_not_asked_for() {
    let start = Instant::now();
    let mut generator = after(&[10, 12], start);
    assert_eq!(
        generator.on_packet(11, start + MS),
        Arrival::Recovered {
            requests: 0,
            after: MS
        }
    );
    assert!(generator.poll(start + 100 * MS).is_empty());
    assert_eq!(generator.poll_timeout(), None);
}

#[test]
fn requests_repeat_with_the_round_trip_until_the_budget() {
    let start = Instant::now();
    let mut generator = after(&[10, 12], start);
    generator.set_rtt(100 * MS);
    let mut asked = Vec::new();
    while let Some(due) = generator.poll_timeout() {
        if !generator.poll(due).is_empty() {
            asked.push((due - start).as_millis());
        }
    }
    assert_eq!(asked, [3, 128, 253, 378, 503, 628, 753, 878]);
    assert_eq!(generator.take_given_up(), 1);
    assert_eq!(generator.take_given_up(), 0);
    assert_eq!(generator.on_packet(11, start), Arrival::Old);
}

#[test]
fn the_round_trip_is_learned_from_requests_that_were_answered() {
    let start = Instant::now();
    let mut generator = after(&[10, 12], start);
    assert_eq!(generator.poll(start + 3 * MS), [11]);
    generator.on_packet(11, start + 43 * MS);
    generator.on_packet(14, start + 50 * MS);
    assert_eq!(generator.poll(start + 53 * MS), [13]);
    assert_eq!(
        generator.poll_timeout(),
        Some(start + 103 * MS),
        "40 ms and a quarter"
    );
    // A packet that was requested twice tells nothing.
    assert_eq!(generator.poll(start + 103 * MS), [13]);
    generator.on_packet(13, start + 104 * MS);
    generator.on_packet(16, start + 110 * MS);
    assert_eq!(generator.poll(start + 113 * MS), [15]);
    assert_eq!(generator.poll_timeout(), Some(start + 163 * MS));
}

#[test]
fn the_first_request_may_be_repeated_soon() {
    let start = Instant::now();
    let mut generator = NackGenerator::new(Config {
        repeats: true,
        ..Config::default()
    });
    generator.set_rtt(80 * MS);
    generator.on_packet(10, start);
    generator.on_packet(12, start);
    let mut asked = Vec::new();
    while let Some(due) = generator
        .poll_timeout()
        .filter(|due| *due < start + 300 * MS)
    {
        assert_eq!(generator.poll(due), [11]);
        asked.push((due - start).as_millis());
    }
    assert_eq!(asked, [3, 23, 103, 203]);
}

#[test]
fn requests_are_counted_and_bounded() {
    let start = Instant::now();
    let mut generator = after(&[10, 12], start);
    generator.set_rtt(MS);
    let mut requests = 0;
    while let Some(due) = generator.poll_timeout() {
        requests += generator.poll(due).len();
    }
    assert_eq!(requests, 10);
}

#[test]
fn many_losses_take_several_requests_of_bounded_size() {
    let start = Instant::now();
    let mut generator = after(&[0, 1001], start);
    let now = start + 3 * MS;
    let sizes: Vec<usize> = std::iter::from_fn(|| {
        let lost = generator.poll(now);
        (!lost.is_empty()).then_some(lost.len())
    })
    .collect();
    assert_eq!(sizes, [250; 4]);
}

#[test]
fn a_gap_too_large_is_given_up_at_once() {
    let start = Instant::now();
    let mut generator = after(&[0, 2, 1004], start);
    assert_eq!(generator.missing(), 0);
    assert_eq!(generator.poll_timeout(), None);
    assert_eq!(generator.take_given_up(), 1002);
}

/// The sender chooses the numbers: a gap must cost what its packet costs, not what it skips.
#[test]
fn gaps_cost_an_entry_each_however_long_they_are() {
    let start = Instant::now();
    let mut generator = NackGenerator::default();
    for packet in 0..1_000u64 {
        generator.on_packet(packet * 900, start);
        assert!(generator.missing() <= 1_000);
        assert!(generator.runs.len() <= 2, "{}", generator.runs.len());
    }
    let asked = generator.poll(start + 3 * MS);
    assert_eq!((asked.len(), generator.runs.len()), (REQUEST_MAX, 3));
    // A packet in the middle of a run leaves both its ends.
    let within = 899 * 1_000 - 3;
    assert!(matches!(
        generator.on_packet(within, start + 4 * MS),
        Arrival::Recovered { requests: 0, .. }
    ));
    assert_eq!((generator.missing(), generator.runs.len()), (999, 4));
    assert_eq!(generator.on_packet(within, start + 4 * MS), Arrival::Old);
}

#[test]
fn the_oldest_are_given_up_when_too_many_are_missing() {
    let start = Instant::now();
    let mut generator = after(&[0, 601, 1202], start);
    assert_eq!(generator.missing(), 1000);
    assert_eq!(generator.take_given_up(), 200);
    assert_eq!(generator.on_packet(1, start), Arrival::Old);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Packets every millisecond over a path of 50 ms round trip; media,
    /// requests and retransmissions are lost alike at 5 %.
    #[test]
    fn five_percent_loss_is_repaired(seed: u64) {
        let start = Instant::now();
        let mut state = seed;
        let mut lost = move || {
            // Knuth's MMIX generator; its upper bits are even enough for a coin.
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 32) % 20 == 0
        };
        let mut generator = NackGenerator::default();
        generator.set_rtt(50 * MS);
        let (mut sent_lost, mut recovered) = (0u32, 0u32);
        let mut answers: Vec<(u32, u64)> = Vec::new();
        for at in 0..3000u32 {
            let now = start + at * MS;
            if at < 2000 {
                if at > 0 && at < 1999 && lost() {
                    sent_lost += 1;
                } else {
                    generator.on_packet(u64::from(at), now);
                }
            }
            for number in generator.poll(now) {
                if !lost() && !lost() {
                    answers.push((at + 50, u64::from(number)));
                }
            }
            answers.retain(|&(due, number)| {
                if due == at {
                    let arrival = generator.on_packet(number, now);
                    recovered += u32::from(matches!(arrival, Arrival::Recovered { .. }));
                }
                due > at
            });
        }
        prop_assert_eq!(recovered, sent_lost);
    }

    /// Runs are an encoding: what is missing is what a set of numbers would say.
    #[test]
    fn runs_hold_what_a_set_would(
        arrivals in prop::collection::vec((0u64..60, 0u32..4), 1..120),
    ) {
        let mut now = Instant::now();
        let mut generator = NackGenerator::new(Config { missing_max: 50, ..Config::default() });
        let (mut at, mut highest) = (10_000u64, None);
        let mut expected = std::collections::BTreeSet::new();
        for (step, wait) in arrivals {
            at = at + step - 25;
            now += wait * MS;
            match highest {
                Some(last) if at > last => {
                    if at - last - 1 > 50 {
                        expected.clear();
                    } else {
                        expected.extend(last + 1..at);
                    }
                    while expected.len() > 50 {
                        expected.pop_first();
                    }
                }
                Some(_) => {
                    let was_missing = expected.remove(&at);
                    let arrival = generator.clone().on_packet(at, now);
                    prop_assert_eq!(was_missing, arrival != Arrival::Old);
                }
                None => {}
            }
            highest = highest.max(Some(at));
            generator.on_packet(at, now);
            let missing = generator.runs.iter().flat_map(|(first, run)| *first..run.end);
            prop_assert_eq!(missing.collect::<Vec<_>>(), expected.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(generator.missing(), expected.len());
            generator.poll(now);
        }
    }

    #[test]
    fn memory_stays_bounded(steps in prop::collection::vec((0u64..3000, 0u32..50), 1..200)) {
        let mut now = Instant::now();
        let mut generator = NackGenerator::default();
        let mut at = 5000;
        for (step, wait) in steps {
            at = (at + step).saturating_sub(500);
            now += wait * MS;
            generator.on_packet(at, now);
            prop_assert!(generator.poll(now).len() <= REQUEST_MAX);
            prop_assert!(generator.missing() <= 1000);
            prop_assert_eq!(generator.missing() > 0, generator.poll_timeout().is_some());
        }
    }
}
