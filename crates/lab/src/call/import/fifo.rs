//! Pairs what left a queue with what entered it, where nothing names them.

/// For each of `left`, which of `entered` it was; both are times, rising. `None`: it
/// was in the queue already when `entered` begins.
///
/// What entered first leaves first; some may never leave. Nothing leaves before it
/// entered, so each has at most so many before it that stay; of the pairings that
/// this allows the latest is taken. That is the true one wherever the queue was empty
/// at some later time before more was dropped; else waits come out too short, never
/// too long.
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
            // A stall: all wait for the first.
            (
                &[0, 10, 20, 30],
                &[25, 26, 27, 31],
                &[Some(0), Some(1), Some(2), Some(3)],
            ),
            // The first two were dropped.
            (&[0, 10, 20, 30], &[21, 31], &[Some(2), Some(3)]),
            // Every second one makes a packet.
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
