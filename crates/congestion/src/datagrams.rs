//! Tests of controllers whose datagrams change their size, as path MTU discovery
//! (RFC 8899) makes them.

use std::time::{Duration, Instant};

use crate::bottleneck::PACKET;
use crate::{Algorithm, Flow};

/// Size of a datagram on a path with jumbo frames, in bytes.
const JUMBO: u64 = 8_900;

/// Returns the window that is left after nothing came through for a long time.
fn least_window(flow: &mut Flow, now: Instant) -> u64 {
    flow.on_sent(now, 0, PACKET);
    flow.on_acked(now + Duration::from_millis(40), [0], Duration::ZERO);
    let later = now + Duration::from_millis(50);
    flow.on_sent(later, 1, PACKET);
    flow.on_lost(later + Duration::from_secs(4), [1], true);
    flow.window()
}

#[test]
fn the_smallest_window_is_counted_in_datagrams_of_the_present_size() {
    for algorithm in Algorithm::ALL {
        let now = Instant::now();
        let mut flow = Flow::new(algorithm.start(PACKET));
        let small = least_window(&mut flow.clone(), now);
        flow.on_mtu(JUMBO);
        let large = least_window(&mut flow, now);
        let datagrams = small / PACKET;
        assert!((1..=4).contains(&datagrams), "{algorithm}: {small}");
        assert_eq!(large, datagrams * JUMBO, "{algorithm}, was {small}");
    }
}
