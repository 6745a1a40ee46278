//! Property test: whatever a transport reports, in whatever order, no flow loses count.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use crate::bottleneck::PACKET;
use crate::{Algorithm, Flow};

/// A report of a transport.
#[derive(Clone, Debug)]
enum Operation {
    Wait(u64),
    Send {
        skip: u64,
        bytes: u64,
    },
    Acknowledge {
        first: u64,
        count: u64,
        delay_ms: u64,
    },
    Lose {
        first: u64,
        count: u64,
        persistent: bool,
    },
    Discard {
        first: u64,
        count: u64,
    },
    Mark,
    Idle,
    Spurious,
    Mtu(u64),
}

fn operation() -> impl Strategy<Value = Operation> {
    // Positions count back from the newest packet; some are before the first.
    let place = || (0u64..80, 0u64..40);
    prop_oneof![
        4 => (0u64..400).prop_map(Operation::Wait),
        6 => (0u64..3, 1u64..1500).prop_map(|(skip, bytes)| Operation::Send { skip, bytes }),
        5 => (place(), 0u64..50).prop_map(|((first, count), delay_ms)| {
            Operation::Acknowledge { first, count, delay_ms }
        }),
        2 => (place(), any::<bool>()).prop_map(|((first, count), persistent)| {
            Operation::Lose { first, count, persistent }
        }),
        1 => place().prop_map(|(first, count)| Operation::Discard { first, count }),
        1 => Just(Operation::Mark),
        1 => Just(Operation::Idle),
        1 => Just(Operation::Spurious),
        1 => (1200u64..1500).prop_map(Operation::Mtu),
    ]
}

/// A flow, and what should be in flight.
struct Watched {
    flow: Flow,
    now: Instant,
    next: u64,
    open: BTreeSet<(u64, u64)>,
}

impl Watched {
    fn new(algorithm: Algorithm) -> Self {
        Self {
            flow: Flow::new(algorithm.start(PACKET)),
            now: Instant::now(),
            next: 0,
            open: BTreeSet::new(),
        }
    }

    fn settle(&mut self, first: u64, count: u64) -> std::ops::Range<u64> {
        let first = self.next.saturating_sub(first);
        let range = first..first + count;
        self.open.retain(|(number, _)| !range.contains(number));
        range
    }

    fn apply(&mut self, operation: &Operation) {
        let now = self.now;
        match *operation {
            Operation::Wait(ms) => self.now += Duration::from_millis(ms),
            Operation::Send { skip, bytes } => {
                let number = self.next + skip;
                self.flow.on_sent(now, number, bytes);
                self.open.insert((number, bytes));
                self.next = number + 1;
            }
            Operation::Acknowledge {
                first,
                count,
                delay_ms,
            } => {
                let numbers = self.settle(first, count);
                let delay = Duration::from_millis(delay_ms);
                self.flow.on_acked(now, numbers, delay);
            }
            Operation::Lose {
                first,
                count,
                persistent,
            } => {
                let numbers = self.settle(first, count);
                self.flow.on_lost(now, numbers, persistent);
            }
            Operation::Discard { first, count } => {
                let numbers = self.settle(first, count);
                self.flow.on_discarded(numbers);
            }
            Operation::Mark => self.flow.on_marked(now),
            Operation::Idle => self.flow.on_app_limited(),
            Operation::Spurious => self.flow.on_spurious_loss(now),
            Operation::Mtu(bytes) => self.flow.on_mtu(bytes),
        }
    }
}

proptest! {
    #[test]
    fn no_flow_loses_count(
        which in 0..Algorithm::ALL.len(),
        operations in prop::collection::vec(operation(), 1..300),
    ) {
        let algorithm = Algorithm::ALL[which];
        let mut watched = Watched::new(algorithm);
        for operation in &operations {
            watched.apply(operation);
            let flow = &watched.flow;
            let in_flight: u64 = watched.open.iter().map(|(_, bytes)| bytes).sum();
            prop_assert_eq!(flow.in_flight(), in_flight, "{} after {:?}", algorithm, operation);
            let totals = flow.totals();
            prop_assert!(totals.delivered + totals.lost + in_flight <= totals.sent + totals.spurious);
            let window = flow.window();
            prop_assert!((1..1 << 40).contains(&window), "{algorithm}: {window}");
            if let Some(rate) = flow.pacing_rate() {
                prop_assert!((1..1 << 50).contains(&rate.bps()), "{algorithm}: {rate:?}");
            }
        }
    }
}
