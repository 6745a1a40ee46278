use std::fmt;
use std::time::{Duration, Instant};

use crate::{Histogram, Summary, Windowed};

/// A part of the way from the lens to the viewer's eye or ear, in order.
///
/// A stage's delay runs from the end of the stage before it on that path to its
/// own end, so that the stages of one frame add up to its whole delay. Stages
/// that a path does not have are absent, not zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Stage {
    /// From the frame's capture until all of it arrived, where the publisher says when
    /// that was by a clock that ours agrees with.
    Uplink,
    /// From the frame's capture, or its due time in a file, until it is packetized.
    Ingest,
    /// From publication until a shard holds the burst.
    Hub,
    /// Held back by the viewer's pacer.
    Pace,
    /// Sealed and handed to the kernel, last packet of the frame.
    Send,
    /// From hand-over until the viewer's socket has the frame's last packet.
    Network,
    /// Waiting for order and smoothness at the viewer.
    JitterBuffer,
    /// In the decoder.
    Decode,
    /// From decoded until presented on a screen.
    Render,
}

impl Stage {
    /// Every stage, in the order of the way.
    pub const ALL: [Self; 9] = [
        Self::Uplink,
        Self::Ingest,
        Self::Hub,
        Self::Pace,
        Self::Send,
        Self::Network,
        Self::JitterBuffer,
        Self::Decode,
        Self::Render,
    ];

    /// The name in tables, JSON and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Uplink => "uplink",
            Self::Ingest => "ingest",
            Self::Hub => "hub",
            Self::Pace => "pace",
            Self::Send => "send",
            Self::Network => "network",
            Self::JitterBuffer => "jitter_buffer",
            Self::Decode => "decode",
            Self::Render => "render",
        }
    }

    /// Place in [`Stage::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Monotonic stamps that a burst collects on its way through the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamps {
    /// Where this frame's accounted delay begins: its due time for a file, the
    /// arrival of its first packet for a network source.
    pub origin: Instant,
    /// When the hub published it; `origin` until then.
    pub published: Instant,
    /// When this frame is due by the stream's own clock, arrival jitter filtered
    /// out: what sender reports call the time of its RTP timestamp. `origin`
    /// until the hub knows better.
    pub reference: Instant,
}

impl Stamps {
    /// Stamps of a frame whose accounted delay begins at `origin`.
    pub const fn arrived(origin: Instant) -> Self {
        Self {
            origin,
            published: origin,
            reference: origin,
        }
    }
}

/// Delay distributions, one per stage: of the recent past and of all time.
#[derive(Clone, Debug)]
pub struct StageTable {
    stages: [Option<Box<Delays>>; Stage::ALL.len()],
    window: Duration,
}

/// One stage's delays.
#[derive(Clone, Debug)]
struct Delays {
    recent: Windowed,
    total: Histogram,
}

impl StageTable {
    /// An empty table whose summaries cover the last `window`.
    pub fn new(window: Duration) -> Self {
        Self {
            stages: Default::default(),
            window,
        }
    }

    /// Adds one measured `delay` of `stage`.
    pub fn record(&mut self, stage: Stage, delay: Duration, now: Instant) {
        let delays = self.delays(stage, now);
        delays.recent.record(delay, now);
        delays.total.record(delay);
    }

    /// The distribution of each stage that has samples within the window.
    pub fn summaries(&mut self, now: Instant) -> Vec<(Stage, Summary)> {
        Stage::ALL
            .into_iter()
            .filter_map(|stage| {
                let summary = self.stages[stage.index()].as_mut()?.recent.summary(now);
                (summary.count > 0).then_some((stage, summary))
            })
            .collect()
    }

    /// The distribution of each stage since the table was made, for metrics
    /// that only ever rise.
    pub fn totals(&self) -> impl Iterator<Item = (Stage, &Histogram)> {
        Stage::ALL.into_iter().filter_map(|stage| {
            let delays = self.stages[stage.index()].as_ref()?;
            Some((stage, &delays.total))
        })
    }

    /// Adds all that `other` holds, for tables that several threads keep.
    pub fn merge(&mut self, other: &mut Self, now: Instant) {
        for stage in Stage::ALL {
            if let Some(theirs) = &mut other.stages[stage.index()] {
                let mine = self.delays(stage, now);
                mine.recent.merge(&mut theirs.recent, now);
                mine.total.merge(&theirs.total);
            }
        }
    }

    fn delays(&mut self, stage: Stage, now: Instant) -> &mut Delays {
        let window = self.window;
        self.stages[stage.index()].get_or_insert_with(|| {
            Box::new(Delays {
                recent: Windowed::new(window, now),
                total: Histogram::new(),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_know_their_place() {
        for (index, stage) in Stage::ALL.into_iter().enumerate() {
            assert_eq!(stage.index(), index);
        }
    }

    #[test]
    fn absent_stages_are_absent_and_old_samples_fall_out() {
        let start = Instant::now();
        let mut table = StageTable::new(Duration::from_secs(10));
        table.record(Stage::Hub, Duration::from_millis(2), start);
        let rows = table.summaries(start + Duration::from_secs(1));
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].0, Stage::Hub);
        assert!(table.summaries(start + Duration::from_secs(21)).is_empty());
        let totals: Vec<_> = table
            .totals()
            .map(|(stage, all)| (stage, all.count()))
            .collect();
        assert_eq!(totals, [(Stage::Hub, 1)], "totals forget nothing");
    }

    #[test]
    fn merging_adds_counts() {
        let now = Instant::now();
        let (mut a, mut b) = (
            StageTable::new(Duration::from_secs(10)),
            StageTable::new(Duration::from_secs(10)),
        );
        a.record(Stage::Send, Duration::from_micros(10), now);
        b.record(Stage::Send, Duration::from_micros(30), now);
        b.record(Stage::Pace, Duration::from_micros(5), now);
        a.merge(&mut b, now);
        let rows = a.summaries(now);
        assert_eq!(
            rows.iter()
                .map(|(stage, s)| (*stage, s.count))
                .collect::<Vec<_>>(),
            [(Stage::Pace, 1), (Stage::Send, 2)]
        );
    }
}
