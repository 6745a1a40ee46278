//! Pairs the items that left a queue with those that entered it, where neither names the other.

/// For each time in `left`, the index of the matching time in `entered`; both are in ascending
/// order. `None`: the item was in the queue before `entered` begins.
///
/// The queue is first in, first out, and may drop items. No item leaves before it entered, which
/// bounds the number of dropped items before each one. Of all pairings that this allows, the
/// latest is taken. That pairing is the true one wherever the queue was empty at some time before
/// more items were dropped; otherwise waits come out too short, never too long.
pub(super) fn pair(entered: &[i64], left: &[i64]) -> Vec<Option<usize>> {
    let mut pairs = vec![None; left.len()];
    let before = |at: i64| entered.partition_point(|it| *it <= at);
    let mut known = Vec::new();
    for (place, at) in left.iter().enumerate() {
        if before(*at) > known.len() {
            known.push(place);
        }
    }
    let mut dropped = usize::MAX;
    for (count, place) in known.into_iter().enumerate().rev() {
        dropped = dropped.min(before(left[place]) - count - 1);
        pairs[place] = Some(count + dropped);
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_empties_tells_everything() {
        type Case<'a> = (&'a [i64], &'a [i64], &'a [Option<usize>]);
        let cases: [Case<'_>; 5] = [
            (&[0, 10, 20], &[1, 11, 21], &[Some(0), Some(1), Some(2)]),
            // A stall: all items wait for the first.
            (
                &[0, 10, 20, 30],
                &[25, 26, 27, 31],
                &[Some(0), Some(1), Some(2), Some(3)],
            ),
            // The first two were dropped.
            (&[0, 10, 20, 30], &[21, 31], &[Some(2), Some(3)]),
            // Every second item makes a packet.
            (&[0, 10, 20, 30], &[11, 31], &[Some(1), Some(3)]),
            (&[5], &[], &[]),
        ];
        for (entered, left, wanted) in cases {
            assert_eq!(pair(entered, left), wanted, "{entered:?} {left:?}");
        }
    }

    #[test]
    fn what_was_in_the_queue_before_the_trace_is_nobodys() {
        assert_eq!(pair(&[10], &[1, 11]), [None, Some(0)]);
        assert_eq!(pair(&[10, 12], &[1, 13]), [None, Some(1)]);
    }

    proptest::proptest! {
        #[test]
        fn nothing_leaves_before_it_entered_and_nothing_twice(
            mut entered in proptest::collection::vec(0i64..1000, 0..60),
            mut left in proptest::collection::vec(0i64..1000, 0..60),
        ) {
            entered.sort_unstable();
            left.sort_unstable();
            let pairs = pair(&entered, &left);
            let known: Vec<usize> = pairs.iter().flatten().copied().collect();
            proptest::prop_assert!(known.windows(2).all(|it| it[0] < it[1]));
            for (at, pair) in left.iter().zip(&pairs) {
                if let Some(place) = pair {
                    proptest::prop_assert!(entered[*place] <= *at);
                }
            }
        }
    }
}
