//! Reorders pictures from decoding order to output order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::elementary::grammar::OutputOrder;

/// Most pictures that may be decoded before one that is output ahead of them: a decoder stores
/// 16 frames (H.264 A.3.1, H.265 A.4.2), and each may be two fields.
const AHEAD_MAX: usize = 32;

/// Outputs pictures as a decoder does that outputs them as late as it may (the bumping process
/// of H.264 C.4.5.3 and H.265 C.5.2.4).
#[derive(Debug, Default)]
pub(crate) struct DisplayOrder {
    /// Order and number of pictures that are not output yet.
    waiting: BinaryHeap<Reverse<(i64, usize)>>,
}

impl DisplayOrder {
    /// Adds the next picture, by its number in decoding order. Calls `shown` with each picture
    /// that is output now, in output order.
    pub(crate) fn push(
        &mut self,
        number: usize,
        output_order: OutputOrder,
        mut shown: impl FnMut(usize),
    ) {
        if output_order.begins_sequence {
            self.finish(&mut shown);
        }
        self.waiting.push(Reverse((output_order.order, number)));
        if self.waiting.len() > AHEAD_MAX {
            self.show_next(&mut shown);
        }
    }

    /// Outputs all remaining pictures.
    pub(crate) fn finish(&mut self, mut shown: impl FnMut(usize)) {
        while !self.waiting.is_empty() {
            self.show_next(&mut shown);
        }
    }

    fn show_next(&mut self, shown: &mut impl FnMut(usize)) {
        if let Some(Reverse((_, number))) = self.waiting.pop() {
            shown(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sequences_do_not_mix() {
        let mut order = DisplayOrder::default();
        let mut shown = Vec::new();
        for (number, (begins_sequence, order_count)) in
            [(true, 0), (false, 8), (false, 4), (true, 0), (false, 2)]
                .into_iter()
                .enumerate()
        {
            let output_order = OutputOrder {
                begins_sequence,
                order: order_count,
            };
            order.push(number, output_order, |number| shown.push(number));
        }
        order.finish(|number| shown.push(number));
        assert_eq!(shown, [0, 2, 1, 3, 4]);
    }

    proptest! {
        #[test]
        fn every_picture_is_shown_once(counts in prop::collection::vec(any::<i64>(), 0..200)) {
            let mut order = DisplayOrder::default();
            let mut shown = Vec::new();
            for (number, &count) in counts.iter().enumerate() {
                let output_order = OutputOrder { begins_sequence: false, order: count };
                order.push(number, output_order, |number| shown.push(number));
            }
            order.finish(|number| shown.push(number));
            if counts.len() <= AHEAD_MAX {
                prop_assert!(shown.windows(2).all(|pair| counts[pair[0]] <= counts[pair[1]]));
            }
            shown.sort_unstable();
            prop_assert!(shown.into_iter().eq(0..counts.len()));
        }
    }
}
