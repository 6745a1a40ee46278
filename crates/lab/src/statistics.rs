//! Figures of samples that several tools tell.

/// The value below which `share` (0–1) of `values` lie, nearest rank; `None` without values.
pub(crate) fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() as f64 * share).ceil().max(1.0);
    sorted.get(rank as usize - 1).copied()
}
