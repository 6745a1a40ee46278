use glassline_media::Bitrate;
use proptest::prelude::*;

use super::*;
use crate::{Clock, Trace};

const MS: Duration = Duration::from_millis(1);

fn send(link: &mut Link<Vec<u8>>, now: Instant, datagram: Vec<u8>) -> Fate {
    link.send(now, datagram.len(), datagram)
}

fn numbered(number: u32) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

/// Everything that arrives until the link is empty: when, and which.
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

proptest! {
    #[test]
    fn every_datagram_is_accounted_for(
        seed: u64,
        bps in 1_000u64..10_000_000,
        queue_bytes in 0usize..5_000,
        loss in 0.0f64..1.0,
        sizes in prop::collection::vec(4usize..1500, 0..60),
    ) {
        let mut clock = Clock::new();
        let mut link = Link::new(
            Conditions {
                capacity: Capacity::Rate(Bitrate::from_bps(bps)),
                queue_bytes,
                ..Conditions::default().with_loss(Loss::Random(loss))
            },
            seed,
        );
        for size in &sizes {
            send(&mut link, clock.now(), vec![0; *size]);
            prop_assert!(link.queued_bytes(clock.now()) <= queue_bytes);
        }
        drain(&mut link, &mut clock);
        let counts = link.counts();
        prop_assert_eq!(counts.sent, sizes.len() as u64);
        prop_assert_eq!(counts.sent, counts.delivered + counts.dropped + counts.lost);
        prop_assert_eq!(link.queued_bytes(clock.now() + Duration::from_secs(3600)), 0);
    }
}
