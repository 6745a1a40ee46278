//! Figures of samples that several tools need.

/// The value that `share` (0–1) of `values` do not exceed, nearest rank; `None` without values.
pub(crate) fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() as f64 * share).ceil().max(1.0);
    sorted.get(rank as usize - 1).copied()
}

/// The median of `values`; of an even number the lower one of the two in the middle, which was
/// measured. `None` without values.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    quantile(&values.into_iter().collect::<Vec<_>>(), 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_were_there() {
        let values = [4.0, 1.0, 3.0, 2.0];
        let found = [0.0, 0.25, 0.26, 0.5, 1.0].map(|share| quantile(&values, share));
        assert_eq!(found, [1.0, 1.0, 2.0, 2.0, 4.0].map(Some));
        assert_eq!(median(values), Some(2.0));
        assert_eq!((quantile(&[], 0.5), median([])), (None, None));
    }
}
