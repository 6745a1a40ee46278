use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const CONFIG: Config = Config {
    gap_timeout: Duration::from_secs(1),
    bytes_max: 64 << 10,
};

/// Pushes arrivals (ms, sequence number), and returns the numbers that the buffer passes on.
fn run(config: Config, arrivals: &[(u64, u64)]) -> (ReorderBuffer, Vec<u64>) {
    let start = Instant::now();
    let mut order = ReorderBuffer::new(config);
    let mut out = Vec::new();
    for &(millis, sequence) in arrivals {
        let payload = sequence.to_be_bytes();
        let packet = ReceivedPacket {
            sequence,
            timestamp: 0,
            marker: false,
            payload: &payload,
            received: start + Duration::from_millis(millis),
        };
        order.push(packet, |packet| {
            assert_eq!(packet.payload, packet.sequence.to_be_bytes());
            out.push(packet.sequence);
        });
    }
    (order, out)
}

#[test]
fn a_filled_gap_comes_out_in_order() {
    let (order, out) = run(CONFIG, &[(0, 5), (1, 7), (2, 8), (30, 6), (31, 9)]);
    assert_eq!(out, [5, 6, 7, 8, 9]);
    assert_eq!((order.held_bytes, order.deadline()), (0, None));
}

#[test]
fn a_gap_is_given_up_in_time_and_its_packet_is_late_then() {
    let (order, out) = run(CONFIG, &[(0, 5), (1, 7), (1000, 8), (1001, 9), (1002, 6)]);
    assert_eq!(out, [5, 7, 8, 9]);
    assert_eq!((order.deadline(), order.late()), (None, 1));
}

#[test]
fn the_second_gap_has_its_own_time() {
    let (order, out) = run(CONFIG, &[(0, 1), (10, 3), (300, 5), (1011, 6)]);
    assert_eq!(out, [1, 3]);
    assert!(order.deadline().is_some());
    let (_, out) = run(CONFIG, &[(0, 1), (10, 3), (300, 5), (1301, 6)]);
    assert_eq!(out, [1, 3, 5, 6]);
}

#[test]
fn without_a_gap_timeout_nothing_is_held() {
    let config = Config {
        gap_timeout: Duration::ZERO,
        ..CONFIG
    };
    let (order, out) = run(config, &[(0, 1), (0, 3), (0, 2), (0, 4), (0, 3)]);
    assert_eq!(out, [1, 3, 4]);
    assert_eq!((order.held_bytes, order.late()), (0, 2));
}

#[test]
fn a_source_that_begins_anew_keeps_what_was_held() {
    let (mut order, mut out) = run(CONFIG, &[(0, 70_000), (1, 70_002), (2, 70_005)]);
    assert_eq!(out, [70_000]);
    order.restart(|packet| out.push(packet.sequence));
    assert_eq!(out, [70_000, 70_002, 70_005]);
    assert_eq!((order.held_bytes, order.deadline()), (0, None));
    let packet = ReceivedPacket {
        sequence: 7,
        timestamp: 0,
        marker: false,
        payload: &[],
        received: Instant::now(),
    };
    order.push(packet, |packet| out.push(packet.sequence));
    assert_eq!(out.last(), Some(&7));
}

#[test]
fn doubles_are_held_once_and_memory_is_bounded() {
    let (order, out) = run(CONFIG, &[(0, 1), (1, 3), (2, 3), (3, 1)]);
    assert_eq!((out.as_slice(), order.held.len()), ([1].as_slice(), 1));

    for payload in [vec![0; 1000], Vec::new()] {
        let received = Instant::now();
        let (mut order, mut out) = (ReorderBuffer::new(CONFIG), 0usize);
        for sequence in (0..10_000).filter(|n| *n != 1) {
            let packet = ReceivedPacket {
                sequence,
                timestamp: 0,
                marker: false,
                payload: &payload,
                received,
            };
            order.push(packet, |_| out += 1);
            assert!(order.held_bytes <= CONFIG.bytes_max);
        }
        assert_eq!(out, 9_999);
    }
}

/// The delivery of one packet of a steady stream by a network.
#[derive(Clone, Copy, Debug)]
struct Delivery {
    lost: bool,
    delay_ms: u64,
    double_ms: Option<u64>,
}

fn delivery() -> impl Strategy<Value = Delivery> {
    let double = prop::option::weighted(0.1, 0..80u64);
    (prop::bool::weighted(0.1), 0..60u64, double).prop_map(|(lost, delay_ms, double_ms)| Delivery {
        lost,
        delay_ms,
        double_ms,
    })
}

/// Arrival times of packets sent a millisecond apart.
fn arrivals(deliveries: &[Delivery]) -> Vec<(u64, u64)> {
    let mut arrivals = Vec::new();
    for (sent, delivery) in (0..).zip(deliveries) {
        if !delivery.lost {
            arrivals.push((sent + delivery.delay_ms, 1000 + sent));
            let double = delivery
                .double_ms
                .map(|after| sent + delivery.delay_ms + after);
            arrivals.extend(double.map(|at| (at, 1000 + sent)));
        }
    }
    arrivals.sort_by_key(|(at, _)| *at);
    arrivals
}

proptest! {
    /// Reordering within the gap timeout loses nothing that came behind the first packet.
    #[test]
    fn what_the_network_mixed_up_comes_out_once_and_in_order(
        deliveries in prop::collection::vec(delivery(), 1..300),
    ) {
        let arrivals = arrivals(&deliveries);
        let config = Config { gap_timeout: Duration::from_millis(61), bytes_max: 1 << 20 };
        let (mut order, mut out) = run(config, &arrivals);
        order.restart(|packet| out.push(packet.sequence));
        let first = arrivals.first().map_or(0, |(_, number)| *number);
        let came: BTreeSet<_> = arrivals.iter().map(|(_, number)| *number).collect();
        let expected: Vec<_> = came.into_iter().filter(|number| *number >= first).collect();
        prop_assert_eq!(out, expected);
    }

    /// Whatever arrives, numbers rise, the limits hold, and no gap stays open.
    #[test]
    fn numbers_rise_and_bounds_hold(
        steps in prop::collection::vec((-40i64..60, 0u64..30), 1..300),
        gap_timeout_ms in 0u64..100,
        bytes_max in 0usize..4000,
    ) {
        let config = Config { gap_timeout: Duration::from_millis(gap_timeout_ms), bytes_max };
        let start = Instant::now();
        let mut order = ReorderBuffer::new(config);
        let (mut number, mut at) = (10_000u64, start);
        let mut out: Vec<u64> = Vec::new();
        for (step, ms) in steps {
            number = number.saturating_add_signed(step);
            at += Duration::from_millis(ms);
            let packet = ReceivedPacket { sequence: number, timestamp: 0, marker: false, payload: &[0; 100], received: at };
            order.push(packet, |packet| out.push(packet.sequence));
            prop_assert!(order.held_bytes <= bytes_max);
            prop_assert_eq!(order.held_bytes, order.held.len() * (100 + PACKET_OVERHEAD_BYTES));
            prop_assert!(order.deadline().is_none_or(|deadline| deadline > at));
            prop_assert_eq!(order.deadline().is_none(), order.held.is_empty());
        }
        prop_assert!(out.is_sorted_by(|a, b| a < b));
    }
}

/// Every second packet is held; filling their gaps one by one must not look at all of them each
/// time.
#[test]
fn many_gaps_are_each_looked_at_once() {
    let config = Config {
        gap_timeout: Duration::from_secs(1),
        bytes_max: 64 << 20,
    };
    let gaps = 100_000;
    let held = (0..gaps).map(|gap| (0, 2 * gap));
    let filled = (0..gaps).map(|gap| (1, 2 * gap + 1));
    let arrivals: Vec<(u64, u64)> = held.chain(filled).collect();
    let began = Instant::now();
    let (order, out) = run(config, &arrivals);
    assert_eq!(out.len(), 2 * gaps as usize);
    assert_eq!((order.held_bytes, order.deadline()), (0, None));
    // It took minutes when each gap was sought among all packets that were held.
    assert!(began.elapsed() < Duration::from_secs(20));
}
