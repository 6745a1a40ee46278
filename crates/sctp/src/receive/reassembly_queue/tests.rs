use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const LABEL: MessageInfo = MessageInfo {
    stream: 1,
    number: 2,
    ppid: 51,
    unordered: false,
};

fn fragment(number: u64, last: u64, payload: &[u8]) -> Fragment<'_> {
    Fragment {
        number,
        begins: number == 0,
        ends: number == last,
        info: LABEL,
        payload,
    }
}

proptest! {
    #[test]
    fn a_message_comes_out_once_whatever_the_order(
        order in Just((0u64..40).collect::<Vec<_>>()).prop_shuffle()
    ) {
        let mut queue = ReassemblyQueue::<()>::default();
        let mut found = None;
        for number in order {
            let payload = [number as u8; 3];
            match queue.insert((), &fragment(number, 39, &payload), 1000, 90) {
                InsertOutcome::Complete(message) => prop_assert!(found.replace(message).is_none()),
                InsertOutcome::Incomplete => {}
                other => prop_assert!(false, "{:?}", other),
            }
        }
        let expected: Vec<u8> = (0..40).flat_map(|number| [number; 3]).collect();
        prop_assert_eq!(found.map(|it| it.data.to_vec()), Some(expected));
        prop_assert_eq!((queue.bytes(), queue.held(), queue.run_count()), (0, 0, 0));
    }

    /// Whatever comes, and however long the messages before were, a peer pays for what it has others
    /// hold: the buffers are counted, except what was reserved for one message.
    #[test]
    fn buffers_are_counted_but_for_one_reservation(
        arrivals in prop::collection::vec(arrival(), 1..200)
    ) {
        let mut queue = ReassemblyQueue::<u64>::default();
        let mut arrived = BTreeSet::new();
        for Arrival { key, number, len, expected } in arrivals {
            if !arrived.insert((key, number)) {
                continue;
            }
            let payload = vec![7; len];
            queue.insert(key, &fragment(number, 30, &payload), 1 << 20, expected);
            let runs = queue.runs.values();
            let capacity: usize = runs.flat_map(|run| &run.parts).map(Vec::capacity).sum();
            let counted = queue.held() - queue.run_count() * RUN_BYTES;
            prop_assert!(capacity <= counted + EXPECTED_MAX, "{capacity} of {counted}");
            prop_assert!(queue.bytes() <= counted);
        }
    }
}

/// A fragment that arrives, and what the message before lets one expect.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    key: u64,
    number: u64,
    len: usize,
    expected: usize,
}

/// Most fragments begin a message with a byte, as those of a peer that lets others hold as much as it
/// can.
fn arrival() -> impl Strategy<Value = Arrival> {
    let number = prop_oneof![3 => Just(0), 1 => 0..31_u64];
    let len = prop_oneof![3 => Just(1), 1 => 1..1_500_usize];
    let any = (0..60_u64, number, len, 0..(1_usize << 20));
    any.prop_map(|(key, number, len, expected)| Arrival {
        key,
        number,
        len,
        expected,
    })
}

#[test]
fn a_message_that_never_ends_is_cut_off() {
    let mut queue = ReassemblyQueue::<()>::default();
    let payload = [0; 100];
    for number in 0..10 {
        let outcome = queue.insert((), &fragment(number, 99, &payload), 1000, 0);
        assert!(matches!(outcome, InsertOutcome::Incomplete), "{outcome:?}");
    }
    let outcome = queue.insert((), &fragment(10, 99, &payload), 1000, 0);
    assert!(matches!(outcome, InsertOutcome::TooLarge), "{outcome:?}");
}

#[test]
fn what_cannot_become_complete_is_let_go() {
    let mut queue = ReassemblyQueue::<()>::default();
    let mut insert = |number, begins| {
        let fragment = Fragment {
            number,
            begins,
            ends: false,
            info: LABEL,
            payload: b"abc",
        };
        queue.insert((), &fragment, 100, 0);
        queue.drop_dead(number);
        (queue.bytes(), queue.run_count())
    };
    assert_eq!(insert(5, true), (3, 1), "its next fragment may come");
    assert_eq!(insert(6, false), (6, 1), "the next came");
    assert_eq!(
        insert(7, true),
        (3, 1),
        "a message began before the last one ended"
    );
    assert_eq!(insert(9, false), (0, 0), "packet 8 will not come");
    assert_eq!(queue.held(), 0);
}

#[test]
fn what_was_given_up_is_let_go() {
    let mut queue = ReassemblyQueue::<()>::default();
    queue.insert((), &fragment(0, 9, b"abc"), 100, 0);
    queue.insert((), &fragment(2, 9, b"def"), 100, 0);
    queue.insert((), &fragment(8, 9, b"ghi"), 100, 0);
    queue.drop_dead(3);
    assert_eq!((queue.bytes(), queue.run_count()), (3, 1));
    queue.drop_if(3, |_| true);
    assert_eq!((queue.bytes(), queue.run_count()), (3, 1), "it lies behind");
}

/// After a long message, as much was reserved for each of many that only began.
#[test]
fn fragments_of_a_byte_are_counted_by_what_they_hold() {
    let mut queue = ReassemblyQueue::<u64>::default();
    for key in 0..1_000 {
        let outcome = queue.insert(key, &fragment(0, 9, b"q"), 1 << 20, 250_000);
        assert!(matches!(outcome, InsertOutcome::Incomplete), "{outcome:?}");
    }
    assert_eq!(
        (queue.bytes(), queue.held()),
        (1_000, 1_000 * (RUN_BYTES + 1))
    );
    let capacity = |run: &FragmentRun| run.parts.iter().map(Vec::capacity).sum::<usize>();
    let capacity: usize = queue.runs.values().map(capacity).sum();
    assert!(capacity < 250_000 + 1_000 * 64, "{capacity}");
    // What grows beyond its reservation is counted with the room that it has.
    for number in 1..9 {
        queue.insert(7, &fragment(number, 9, &[0; 100]), 1 << 20, 0);
    }
    assert!(queue.held() > 1_000 * (RUN_BYTES + 1) + 800);
    queue.drop_keys(0..=998);
    assert_eq!((queue.bytes(), queue.held()), (1, RUN_BYTES + 1));
    assert!(queue.has(999) && !queue.has(998));
}
