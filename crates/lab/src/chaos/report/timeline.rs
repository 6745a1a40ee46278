//! The timeline of a run: one entry for each second.

use super::Second;
use crate::chaos::account::{GroupSamples, Span};
use crate::chaos::clock::seconds;
use crate::chaos::record::Record;

/// Observations of each second, for charts.
pub(super) fn timeline(record: &Record) -> Vec<Second> {
    let delivered = |of: &GroupSamples, at_ms: u64| {
        let span = Span {
            from_ms: at_ms.saturating_sub(1000),
            to_ms: at_ms,
        };
        of.account(span, &[]).delivered_ratio(None)
    };
    let seconds_of = record.observed.seconds.iter();
    seconds_of
        .map(|it| Second {
            at_s: seconds(record.began_ms, it.at_ms),
            delivered: record
                .groups
                .iter()
                .map(|of| delivered(of, it.at_ms))
                .collect(),
            memory_bytes: it.server_rss_bytes,
            descriptors: it.server_descriptors,
            server_cpu_percent: it.server_cpu_percent,
            harness_cpu_percent: it.harness_cpu_percent,
            idle_percent: it.idle_percent,
            starved_ms: it.starved_ms,
        })
        .collect()
}
