//! The delays of one stream by stage, and how they are distributed, second by second.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::response::sse::Event;
use futures_util::stream;
use glassline_hub::Stream;
use glassline_latency::StreamDelays;
use glassline_media::{Histogram, Stage};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::time::{MissedTickBehavior, interval};

use super::super::api::publishing::{PublishedLayer, layers};
use crate::app::App;

/// Interval between two events.
const PERIOD: Duration = Duration::from_secs(1);

/// Upper bounds of the rows of the heat map in µs: four to a decade, from 10 µs to 10 s.
pub(super) const BOUNDS_US: [u64; 25] = [
    10, 18, 32, 56, 100, 178, 316, 562, 1_000, 1_778, 3_162, 5_623, 10_000, 17_783, 31_623, 56_234,
    100_000, 177_828, 316_228, 562_341, 1_000_000, 1_778_279, 3_162_278, 5_623_413, 10_000_000,
];

/// The content of one event.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Second {
    #[serde(flatten)]
    delays: StreamDelays,
    /// Frames of the last second by stage, in the rows of the heat map from the bottom to the top;
    /// the last row holds what is longer than the last bound. Stages without frames are missing.
    heat: BTreeMap<&'static str, Vec<u64>>,
    /// Encodings of the video that its publisher sends at the same time; absent for a single one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    layers: Vec<PublishedLayer>,
}

/// A stream that a page shows.
pub(super) struct Watch {
    app: App,
    stream: Arc<Stream>,
    /// Counts below each bound since the stream began, at the second before.
    before: BTreeMap<Stage, Vec<u64>>,
}

impl Watch {
    pub(super) fn new(app: App, stream: Arc<Stream>) -> Self {
        Self {
            app,
            stream,
            before: BTreeMap::new(),
        }
    }

    /// Returns an event each second.
    pub(super) fn events(self) -> impl stream::Stream<Item = Result<Event, Infallible>> + Send {
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        stream::unfold((self, ticks), |(mut watch, mut ticks)| async move {
            ticks.tick().await;
            let data = serde_json::to_string(&watch.second()).expect("names and numbers");
            let event = Event::default().event("stages").data(data);
            Some((Ok(event), (watch, ticks)))
        })
    }

    /// Returns the delays now, and the frames since the call before.
    pub(super) fn second(&mut self) -> Second {
        let now = Instant::now();
        // Merged from those of all shards: one serves the heat map and the delays.
        let mut table = self.app.latencies.server_stages(&self.stream, now);
        let counts = |histogram: &Histogram| -> Vec<u64> {
            let below = BOUNDS_US.map(|us| histogram.count_at_most(Duration::from_micros(us)));
            below.into_iter().chain([histogram.count()]).collect()
        };
        let totals: BTreeMap<Stage, Vec<u64>> = table
            .totals()
            .map(|(stage, histogram)| (stage, counts(histogram)))
            .collect();
        let heat = totals.iter().filter_map(|(stage, totals)| {
            let rows = new_by_row(self.before.get(stage)?, totals)?;
            Some((stage.as_str(), rows))
        });
        let heat = heat.collect();
        self.before = totals;
        Second {
            delays: self
                .app
                .latencies
                .delays(self.stream.name(), &mut table, now),
            heat,
            layers: layers(&self.stream, self.stream.latency_track(), now),
        }
    }
}

/// Returns how many samples of each row are new, from the numbers of all samples up to each bound;
/// `None` if there is none.
fn new_by_row(before: &[u64], now: &[u64]) -> Option<Vec<u64>> {
    let new = now
        .iter()
        .zip(before)
        .map(|(now, before)| now.saturating_sub(*before));
    let rows: Vec<u64> = new
        .scan(0, |below, up_to| {
            Some(up_to - std::mem::replace(below, up_to).min(up_to))
        })
        .collect();
    rows.iter().any(|count| *count > 0).then_some(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_hold_what_is_new_between_their_bounds() {
        assert_eq!(new_by_row(&[1, 4, 9], &[1, 6, 14]), Some(vec![0, 2, 3]));
        assert_eq!(new_by_row(&[1, 4, 9], &[1, 4, 9]), None);
        // A thread that left took its counts along.
        assert_eq!(new_by_row(&[5, 5], &[1, 7]), Some(vec![0, 2]));
    }

    #[test]
    fn bounds_rise_by_a_quarter_of_a_decade() {
        for pair in BOUNDS_US.windows(2) {
            let ratio = pair[1] as f64 / pair[0] as f64;
            assert!((1.7..1.85).contains(&ratio), "{pair:?}");
        }
    }
}
