use glassline_media::Bitrate;
use proptest::prelude::*;

use super::*;
use crate::{Clock, Fading, Rng, Schedule, Trace};
use std::sync::Arc;

const MS: Duration = Duration::from_millis(1);

fn send(link: &mut Link<Vec<u8>>, now: Instant, datagram: Vec<u8>) -> SendOutcome {
    link.send(now, datagram.len(), datagram)
}

fn numbered(number: u32) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

/// Returns what arrives until the link is empty, with its time.
fn drain(link: &mut Link<Vec<u8>>, clock: &mut Clock) -> Vec<(Duration, u32)> {
    let mut arrived = Vec::new();
    while clock.advance_to_earliest([link.next_arrival()]) {
        while let Some(arrival) = link.poll(clock.now()) {
            let number = arrival.datagram[..4].try_into().expect("four bytes");
            arrived.push((clock.elapsed(), u32::from_be_bytes(number)));
        }
    }
    arrived
}

/// Sends `count` datagrams, one each millisecond, and lets all arrive.
fn run(conditions: Conditions, seed: u64, count: u32) -> (Vec<(Duration, u32)>, Counts) {
    let mut clock = Clock::new();
    let mut link = Link::new(conditions, seed);
    let mut arrived = Vec::new();
    let start = clock.now();
    for number in 0..count {
        send(&mut link, start + MS * number, numbered(number));
    }
    arrived.extend(drain(&mut link, &mut clock));
    (arrived, link.counts())
}

#[test]
fn delay_is_exact_and_early_polls_find_nothing() {
    let mut clock = Clock::new();
    let mut link = Link::new(Conditions::delayed(20 * MS), 0);
    send(&mut link, clock.now(), numbered(7));
    assert_eq!(
        link.poll(clock.now() + 20 * MS - Duration::from_nanos(1)),
        None
    );
    assert_eq!(drain(&mut link, &mut clock), [(20 * MS, 7)]);
    assert_eq!(link.next_arrival(), None);
}

#[test]
fn datagrams_leave_one_after_the_other_at_the_rate() {
    // 1000 bytes at 8 Mbit/s take 1 ms.
    let conditions = Conditions {
        capacity: Capacity::Rate(Bitrate::from_bps(8_000_000)),
        ..Conditions::delayed(10 * MS)
    };
    let mut clock = Clock::new();
    let mut link = Link::new(conditions, 0);
    for number in 0..3u32 {
        let mut datagram = numbered(number);
        datagram.resize(1000, 0);
        send(&mut link, clock.now(), datagram);
    }
    assert_eq!(link.queued_bytes(clock.now()), 3000);
    assert_eq!(link.queued_bytes(clock.now() + MS), 2000);
    assert_eq!(
        drain(&mut link, &mut clock),
        [(11 * MS, 0), (12 * MS, 1), (13 * MS, 2)]
    );
}

#[test]
fn a_full_queue_drops_what_comes_last() {
    let conditions = Conditions {
        capacity: Capacity::Rate(Bitrate::from_bps(8_000)),
        queue_bytes: 10,
        ..Conditions::default()
    };
    let mut clock = Clock::new();
    let mut link = Link::new(conditions, 0);
    for number in 0..5 {
        send(&mut link, clock.now(), numbered(number));
    }
    assert_eq!((link.counts().dropped, link.counts().sent), (3, 5));
    // 4 bytes at 1 byte per millisecond; then there is room again.
    send(&mut link, clock.now() + 4 * MS, numbered(9));
    let order: Vec<_> = drain(&mut link, &mut clock)
        .into_iter()
        .map(|(_, number)| number)
        .collect();
    assert_eq!(order, [0, 1, 9]);
}

#[test]
fn jitter_delays_but_never_reorders() {
    let conditions = Conditions {
        jitter: 30 * MS,
        ..Conditions::delayed(5 * MS)
    };
    let (arrived, _) = run(conditions, 3, 1000);
    assert!(arrived.is_sorted_by_key(|(_, number)| *number));
    let waits: Vec<_> = arrived
        .iter()
        .map(|(at, number)| *at - MS * *number)
        .collect();
    assert!(waits.iter().all(|wait| (5 * MS..=35 * MS).contains(wait)));
    assert!(waits.iter().max() > Some(&(30 * MS)));
}

#[test]
fn reordering_is_there_when_asked_for() {
    let conditions = Conditions {
        reorder: 0.1,
        ..Conditions::delayed(5 * MS)
    };
    let (arrived, counts) = run(conditions, 3, 1000);
    let overtaken = arrived
        .windows(2)
        .filter(|pair| pair[1].1 < pair[0].1)
        .count();
    assert!((70..130).contains(&overtaken), "{overtaken}");
    assert!((70..130).contains(&counts.reordered), "{counts:?}");
    assert_eq!(counts.delivered, 1000);
}

#[test]
fn random_loss_loses_its_share() {
    let lossy = Conditions::default().with_loss(Loss::Random(0.05));
    let (_, counts) = run(lossy, 11, 20_000);
    assert!((900..1100).contains(&counts.lost), "{counts:?}");
    assert_eq!(counts.delivered + counts.lost, 20_000);
}

#[test]
fn burst_loss_loses_its_share_in_bursts() {
    let lossy = Conditions::default().with_loss(Loss::bursts(0.05, 4.0));
    let (arrived, counts) = run(lossy, 12, 50_000);
    assert!((2000..3000).contains(&counts.lost), "{counts:?}");
    let bursts = arrived
        .windows(2)
        .filter(|pair| pair[1].1 > pair[0].1 + 1)
        .count();
    let mean = f64::from(u32::try_from(counts.lost).expect("few")) / bursts as f64;
    assert!((3.5..4.5).contains(&mean), "mean burst {mean}");
}

#[test]
fn conditions_can_change_on_the_way() {
    let mut clock = Clock::new();
    let mut link = Link::new(Conditions::delayed(10 * MS), 0);
    send(&mut link, clock.now(), numbered(0));
    link.set_conditions(Conditions::default().with_loss(Loss::Random(1.0)));
    send(&mut link, clock.now(), numbered(1));
    assert_eq!(drain(&mut link, &mut clock), [(10 * MS, 0)]);
}

fn digest(seed: u64) -> u64 {
    let conditions = Conditions {
        capacity: Capacity::Rate(Bitrate::from_bps(500_000)),
        jitter: 8 * MS,
        reorder: 0.02,
        queue_bytes: 2000,
        ..Conditions::delayed(10 * MS)
    };
    let (arrived, _) = run(conditions.with_loss(Loss::bursts(0.03, 3.0)), seed, 2000);
    let mut trace = Trace::new();
    for (at, number) in arrived {
        trace.record(at, "arrival", number.into());
    }
    trace.digest()
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    assert_eq!(digest(5), digest(5));
    assert_ne!(digest(5), digest(6));
}

fn mbps(rate: u64) -> Bitrate {
    Bitrate::from_bps(rate * 1_000_000)
}

fn traced(text: &str, offset: Duration) -> Conditions {
    Conditions {
        capacity: Capacity::Trace {
            schedule: Arc::new(Schedule::parse(text).expect("a trace")),
            offset,
        },
        ..Conditions::default()
    }
}

/// Returns when a datagram sent at `at` arrives.
fn arrival<T>(
    link: &mut Link<T>,
    start: Instant,
    at: Duration,
    bytes: usize,
    datagram: T,
) -> Duration {
    match link.send(start + at, bytes, datagram) {
        SendOutcome::Arrives(arrival) => arrival - start,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_trace_carries_1500_bytes_at_each_opportunity() {
    let start = Clock::new().now();
    let mut link = Link::new(traced("2\n4\n4\n10", Duration::ZERO), 0).starting_at(start);
    let mut send = |at: u32, bytes| arrival(&mut link, start, MS * at, bytes, ());
    // Two small ones share an opportunity, the third needs the next one's rest too.
    assert_eq!(send(0, 700), 2 * MS);
    assert_eq!(send(0, 700), 2 * MS);
    assert_eq!(send(1, 1500), 4 * MS);
    assert_eq!(send(1, 1500), 4 * MS);
    // What an opportunity has over is wasted once nothing waits.
    assert_eq!(send(11, 100), 12 * MS);
    assert_eq!(send(13, 1500), 14 * MS);
    // Those up to 20 ms passed unused. A datagram in the same millisecond uses the rest.
    assert_eq!(send(21, 2900), 24 * MS);
    assert_eq!([send(24, 100), send(24, 1500)], [24 * MS; 2]);
}

#[test]
fn a_trace_may_begin_in_its_middle() {
    let start = Clock::new().now();
    let mut link = Link::new(traced("2\n4\n10", 13 * MS), 0).starting_at(start);
    let mut send = |at: u32| arrival(&mut link, start, MS * at, 1500, ());
    assert_eq!([send(0), send(0), send(0)], [MS, 7 * MS, 9 * MS]);
}

#[test]
fn a_busy_link_passes_what_its_trace_holds_on_average() {
    let fading = Fading {
        mean: mbps(5),
        sigma: 0.5,
        correlation: 0.9,
        step: 200 * MS,
        outage: 0.01,
        outage_steps: 3..=15,
        outage_share: 0.05,
    };
    let schedule = Schedule::fading(&fading, Duration::from_secs(60), &mut Rng::new(3));
    let mean = schedule.mean().mbps();
    let mut link = Link::new(
        Conditions {
            capacity: Capacity::Trace {
                schedule: Arc::new(schedule),
                offset: 7 * MS,
            },
            queue_bytes: 100_000,
            ..Conditions::default()
        },
        0,
    );
    let clock = Clock::new();
    for ms in 0..300_000 {
        for _ in 0..2 {
            link.send(clock.now() + MS * ms, 1200, ());
        }
        while link.poll(clock.now() + MS * ms).is_some() {}
    }
    let passed = Bitrate::over(link.counts().delivered_bytes, Duration::from_secs(300)).mbps();
    assert!((passed / mean - 1.0).abs() < 0.005, "{passed} of {mean}");
}

#[test]
fn a_policer_passes_its_burst_and_then_its_rate() {
    // 100 bytes a millisecond, 30 of them in the bucket's 3000 bytes.
    let policer = Policer {
        rate: Bitrate::from_bps(800_000),
        burst_bytes: 3000,
    };
    let conditions = Conditions {
        policer: Some(policer),
        ..Conditions::default()
    };
    let mut link = Link::new(conditions.clone(), 0);
    let start = Clock::new().now();
    let fates: Vec<_> = (0..32).map(|_| link.send(start, 100, ())).collect();
    assert_eq!(
        fates
            .iter()
            .filter(|fate| **fate == SendOutcome::Policed)
            .count(),
        2
    );
    assert_eq!(fates[30..], [SendOutcome::Policed; 2]);
    // Ten times the rate for a second: exactly what the tokens allow gets through.
    for tenth in 1..=10_000 {
        link.send(start + MS / 10 * tenth, 100, ());
    }
    assert_eq!(link.counts().sent - link.counts().policed, 30 + 1000);
    // The same policer keeps its tokens when something else changes.
    link.set_conditions(Conditions {
        delay: MS,
        ..conditions
    });
    assert_eq!(link.send(start + 1000 * MS, 100, ()), SendOutcome::Policed);
}

#[test]
fn a_policer_counts_at_the_queues_end() {
    // The queue lets 1000 bytes a millisecond through, as many as the policer does:
    // nothing is dropped however much is sent at once.
    let conditions = Conditions {
        capacity: Capacity::Rate(mbps(8)),
        policer: Some(Policer {
            rate: mbps(8),
            burst_bytes: 1000,
        }),
        ..Conditions::default()
    };
    let mut link = Link::new(conditions, 0);
    let start = Clock::new().now();
    for _ in 0..100 {
        link.send(start, 1000, ());
    }
    assert_eq!(link.counts().policed, 0);
    assert_eq!(link.in_flight(), 100);
}

#[test]
fn nothing_leaves_in_an_outage_but_the_queue_fills() {
    let outages = vec![
        40 * MS..50 * MS,
        10 * MS..30 * MS,
        20 * MS..35 * MS,
        9 * MS..9 * MS,
    ];
    for capacity in [
        Capacity::Rate(mbps(8)),
        traced("1\n1\n2\n2", Duration::ZERO).capacity,
    ] {
        let start = Clock::new().now();
        let mut link = Link::new(
            Conditions {
                capacity,
                outages: outages.clone(),
                queue_bytes: 10_000,
                ..Conditions::default()
            },
            0,
        )
        .starting_at(start);
        let mut arrivals = Vec::new();
        for ms in 0..100 {
            link.send(start + MS * ms, 1000, ());
            assert!(link.queued_bytes(start + MS * ms) <= 10_000);
            while let Some(arrival) = link.poll(start + MS * ms) {
                arrivals.push(arrival.at - start);
            }
        }
        let during = |outage: std::ops::Range<Duration>| {
            arrivals
                .iter()
                .filter(|&&at| at > outage.start && at < outage.end)
                .count()
        };
        assert_eq!(during(10 * MS..35 * MS), 0, "{arrivals:?}");
        assert_eq!(during(40 * MS..50 * MS), 0, "{arrivals:?}");
        assert!(during(35 * MS..40 * MS) >= 4, "{arrivals:?}");
        assert!(link.counts().dropped >= 10);
    }
    // Without a rate, what waited comes at once.
    let unlimited = Conditions {
        outages,
        ..Conditions::default()
    };
    let start = Clock::new().now();
    let mut link = Link::new(unlimited, 0).starting_at(start);
    let mut send = |at: u32| arrival(&mut link, start, MS * at, 1000, ());
    assert_eq!(
        [send(9), send(12), send(34), send(36)],
        [9 * MS, 35 * MS, 35 * MS, 36 * MS]
    );
}

#[test]
fn work_and_opportunities_stand_still_in_an_outage() {
    let start = Clock::new().now();
    let cut = |capacity| {
        let conditions = Conditions {
            capacity,
            outages: vec![2 * MS..10 * MS, 12 * MS..20 * MS],
            ..Conditions::default()
        };
        Link::new(conditions, 0).starting_at(start)
    };
    // 5 ms of work: two before, two between, one after.
    let mut steady = cut(Capacity::Rate(mbps(8)));
    assert_eq!(
        arrival(&mut steady, start, Duration::ZERO, 5000, ()),
        21 * MS
    );
    // Opportunities within an outage are lost, not kept for its end.
    let mut trace = cut(traced("5\n6\n10\n11\n15", Duration::ZERO).capacity);
    let mut send = || arrival(&mut trace, start, Duration::ZERO, 1500, ());
    assert_eq!([send(), send(), send()], [10 * MS, 11 * MS, 20 * MS]);
}

#[test]
fn batches_arrive_together_at_multiples_of_their_interval() {
    let start = Clock::new().now();
    let conditions = Conditions {
        batch: 10 * MS,
        ..Conditions::delayed(25 * MS)
    };
    let mut link = Link::new(conditions, 0).starting_at(start);
    let mut send = |at: u32| arrival(&mut link, start, MS * at, 1000, ());
    assert_eq!(
        [send(0), send(5), send(6), send(15)],
        [30 * MS, 30 * MS, 40 * MS, 40 * MS]
    );
}

#[test]
fn a_long_queue_marks_and_tells_how_long_it_was() {
    let mut link = Link::new(
        Conditions {
            capacity: Capacity::Rate(mbps(8)),
            mark_above_bytes: Some(2500),
            ..Conditions::default()
        },
        0,
    );
    let start = Clock::new().now();
    for number in 0..5 {
        link.send(start, 1000, number);
    }
    assert_eq!(link.queue_delay(start + MS), 4 * MS);
    let seen: Vec<_> = std::iter::from_fn(|| link.poll(start + 10 * MS))
        .map(|arrival| {
            (
                arrival.datagram,
                arrival.queued.as_millis(),
                arrival.congested,
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            (0, 0, false),
            (1, 1, false),
            (2, 2, false),
            (3, 3, true),
            (4, 4, true)
        ]
    );
    assert_eq!(link.counts().marked, 2);
}

/// Returns what senders of one datagram every `pace` see for two seconds: per millisecond,
/// the outcome and delay of the first datagram that was sent in it.
fn luck_of(
    pace: Duration,
    loss: Loss,
    seed: u64,
) -> std::collections::BTreeMap<u128, Option<Duration>> {
    let start = Clock::new().now();
    let conditions = Conditions {
        jitter: 20 * MS,
        // All are held back alike, so that a delay depends on no earlier one.
        reorder: 1.0,
        ..Conditions::delayed(5 * MS).with_loss(loss)
    };
    let mut link = Link::new(conditions, seed).starting_at(start);
    let mut randomness = std::collections::BTreeMap::new();
    let mut at = Duration::ZERO;
    while at < Duration::from_secs(2) {
        let delay = match link.send(start + at, 1200, ()) {
            SendOutcome::Arrives(arrival) => Some(arrival - start - at),
            _ => None,
        };
        randomness.entry(at.as_millis()).or_insert(delay);
        at += pace;
    }
    randomness
}

#[test]
fn senders_of_different_rates_meet_the_same_luck() {
    for loss in [Loss::Random(0.3), Loss::bursts(0.3, 5.0)] {
        let (slow, fast) = (luck_of(7 * MS, loss, 1), luck_of(MS / 3, loss, 1));
        assert!(slow.len() > 250 && fast.len() == 2000);
        assert!(slow.iter().all(|(ms, randomness)| fast[ms] == *randomness));
        let lost = fast
            .values()
            .filter(|randomness| randomness.is_none())
            .count();
        assert!((400..800).contains(&lost), "{lost} of 2000");
        assert_ne!(luck_of(MS, loss, 1), luck_of(MS, loss, 2));
    }
}

#[test]
fn a_link_without_loss_is_worse_from_when_it_is_told() {
    let clock = Clock::new();
    let never = Conditions::default().with_loss(Loss::bursts(0.0, 50.0));
    let mut link = Link::new(never, 5).starting_at(clock.now());
    let hour = Duration::from_secs(3600);
    link.send(clock.now() + hour, 100, ());
    link.set_conditions(Conditions::default().with_loss(Loss::bursts(0.5, 50.0)));
    for ms in 1..10_000 {
        link.send(clock.now() + hour + MS * ms, 100, ());
    }
    assert!(
        (3500..6500).contains(&link.counts().lost),
        "{:?}",
        link.counts()
    );
}

fn any_conditions() -> impl Strategy<Value = Conditions> {
    let capacity = prop_oneof![
        Just(Capacity::Unlimited),
        (1_000u64..10_000_000).prop_map(|bps| Capacity::Rate(Bitrate::from_bps(bps))),
        (prop::collection::vec(0u32..40, 1..20), 0u64..100).prop_map(|(mut at, offset)| {
            at.push(40);
            at.sort_unstable();
            Capacity::Trace {
                schedule: Arc::new(Schedule::new(at, 40).expect("in order")),
                offset: Duration::from_millis(offset),
            }
        }),
    ];
    let loss = prop_oneof![
        Just(Loss::None),
        (0.0..1.0f64).prop_map(Loss::Random),
        (0.0..0.9f64, 1.0..20.0f64).prop_map(|(mean, burst)| Loss::bursts(mean, burst)),
    ];
    let policer = prop::option::of((1_000u64..5_000_000, 0u64..50_000).prop_map(
        |(bps, burst_bytes)| Policer {
            rate: Bitrate::from_bps(bps),
            burst_bytes,
        },
    ));
    let outages = prop::collection::vec((0u32..500, 0u32..100), 0..4).prop_map(|outages| {
        let outage = |(begin, length)| MS * begin..MS * (begin + length);
        outages.into_iter().map(outage).collect::<Vec<_>>()
    });
    let times = (0u32..50, 0u32..50, 0u32..50, 0u32..50);
    let rest = (0usize..20_000, prop::option::of(0usize..5_000), 0.0..0.5f64);
    (capacity, loss, policer, outages, times, rest).prop_map(
        |(capacity, loss, policer, outages, (delay, jitter, batch, held), rest)| Conditions {
            capacity,
            queue_bytes: rest.0,
            mark_above_bytes: rest.1,
            outages,
            loss,
            policer,
            delay: MS * delay,
            jitter: MS * jitter,
            batch: MS * batch,
            reorder: rest.2,
            reorder_delay: MS * held,
        },
    )
}

proptest! {
    /// Whatever the conditions, and even if they change on the way: nothing is lost
    /// without an account, nothing arrives before it was sent or twice.
    #[test]
    fn every_datagram_is_accounted_for(
        seed: u64,
        conditions in any_conditions(),
        changed in any_conditions(),
        sends in prop::collection::vec((0u32..30, 1usize..1500), 0..80),
    ) {
        let start = Clock::new().now();
        let queue_bytes = conditions.queue_bytes.max(changed.queue_bytes);
        let mut link = Link::new(conditions, seed).starting_at(start);
        let mut promised = Vec::new();
        let mut now = start;
        for (index, (pause, bytes)) in sends.iter().enumerate() {
            now += MS * *pause;
            if index == sends.len() / 2 {
                link.set_conditions(changed.clone());
            }
            if let SendOutcome::Arrives(at) = link.send(now, *bytes, index) {
                prop_assert!(at >= now);
                promised.push((at, index));
            }
            prop_assert!(link.queued_bytes(now) <= queue_bytes);
            let counts = link.counts();
            let gone = counts.dropped + counts.lost + counts.policed;
            prop_assert_eq!(counts.sent, gone + link.in_flight() as u64);
        }
        promised.sort_unstable();
        let later = now + Duration::from_secs(100_000);
        let arrived: Vec<_> = std::iter::from_fn(|| link.poll(later))
            .map(|arrival| (arrival.at, arrival.datagram))
            .collect();
        prop_assert_eq!(arrived, promised);
        prop_assert_eq!(link.in_flight(), 0);
        prop_assert_eq!(link.queued_bytes(later), 0);
        let counts = link.counts();
        prop_assert_eq!(counts.sent, sends.len() as u64);
        prop_assert_eq!(counts.sent, counts.delivered + counts.dropped + counts.lost + counts.policed);
    }

    /// In any period a policer passes at most what its rate brings in that period and its
    /// bucket holds.
    #[test]
    fn a_policer_holds_over_every_stretch(
        bps in 100_000u64..5_000_000,
        burst_bytes in 1500u64..50_000,
        sends in prop::collection::vec((0u32..5_000, 1usize..1500), 1..300),
    ) {
        let start = Clock::new().now();
        let rate = Bitrate::from_bps(bps);
        let policer = Some(Policer { rate, burst_bytes });
        let mut link = Link::new(Conditions { policer, ..Conditions::default() }, 0);
        let mut now = start;
        let mut passed = Vec::new();
        for (micros, bytes) in sends {
            now += Duration::from_micros(micros.into());
            if link.send(now, bytes, ()) != SendOutcome::Policed {
                passed.push((now - start, bytes));
            }
        }
        for first in 0..passed.len() {
            let mut bits = 0;
            for (at, bytes) in &passed[first..] {
                bits += *bytes as u128 * 8;
                let time = *at - passed[first].0;
                let allowed = u128::from(bps) * time.as_nanos() + u128::from(burst_bytes) * 8_000_000_000;
                prop_assert!(bits * 1_000_000_000 <= allowed);
            }
        }
    }
}
