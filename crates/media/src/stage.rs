use std::time::{Duration, Instant};

use crate::{Histogram, Summary, WindowedHistogram};

/// One stage of the path from capture to presentation, in order.
///
/// The delay of a stage runs from the end of the previous stage of that path to its own end, so
/// the stages of a frame add up to its whole delay. A stage that a path does not have is absent
/// from tables; it is not reported as zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Display)]
#[display("{}", self.as_str())]
#[non_exhaustive]
pub enum Stage {
    /// From the capture of the frame until the publisher's encoder takes it. Measured only if the
    /// publisher is a page that tells how its clock relates to ours.
    Capture,
    /// Time in the publisher's encoder, a mean of the last second. Measured as `Capture` is.
    Encode,
    /// From the encoder, if its time is known, otherwise from the capture of the frame, until the
    /// frame arrived. Measured only if the publisher tells its clock, or if its clock agrees with
    /// ours.
    Uplink,
    /// From the frame's capture, its arrival from the network or its due time in a file, until
    /// the hub publishes it.
    Ingest,
    /// From publication on the server that the stream was published to until the frame is whole on
    /// this one, over all servers between them. Measured only on a server that pulls the stream.
    Relay,
    /// From publication until an egress thread holds the unit.
    Hub,
    /// Time that the viewer's pacer holds the frame back.
    Pace,
    /// From release by the pacer until the kernel has the frame's last packet, sealed.
    Send,
    /// From the kernel of the server until the viewer's socket has the frame's last packet.
    Network,
    /// Time in the viewer's jitter buffer.
    JitterBuffer,
    /// Time in the viewer's decoder.
    Decode,
    /// From the end of decoding until the frame is presented on the screen.
    Render,
    /// From publication of the newest frame of a fragment until the system has taken the fragment for a file
    /// of a recording. The stage is beside the path to viewers, and no part of its sum.
    Record,
}

impl Stage {
    /// Every stage of the path, in order.
    pub const ALL: [Self; 12] = [
        Self::Capture,
        Self::Encode,
        Self::Uplink,
        Self::Ingest,
        Self::Relay,
        Self::Hub,
        Self::Pace,
        Self::Send,
        Self::Network,
        Self::JitterBuffer,
        Self::Decode,
        Self::Render,
    ];

    /// Every stage that a table may have: those of the path, and then those beside it.
    pub const TABLED: [Self; 13] = [
        Self::Capture,
        Self::Encode,
        Self::Uplink,
        Self::Ingest,
        Self::Relay,
        Self::Hub,
        Self::Pace,
        Self::Send,
        Self::Network,
        Self::JitterBuffer,
        Self::Decode,
        Self::Render,
        Self::Record,
    ];

    /// Returns the name of the stage in tables, JSON and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Capture => "capture",
            Self::Encode => "encode",
            Self::Uplink => "uplink",
            Self::Ingest => "ingest",
            Self::Relay => "relay",
            Self::Hub => "hub",
            Self::Pace => "pace",
            Self::Send => "send",
            Self::Network => "network",
            Self::JitterBuffer => "jitter_buffer",
            Self::Decode => "decode",
            Self::Render => "render",
            Self::Record => "record",
        }
    }

    /// Returns the index of the stage in [`Stage::TABLED`], and in [`Stage::ALL`] if it is part of the path.
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// Instants at which a unit passed the stages of the server, by the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamps {
    /// Instant at which the measured delay begins: the due time of a frame from a file, the
    /// arrival of the first packet of a frame from the network.
    pub origin: Instant,
    /// Instant at which the hub published the unit; equal to `origin` until then.
    pub published: Instant,
    /// Instant at which the frame is due by the stream's own clock, with the jitter of its
    /// arrival filtered out. Sender reports pair this instant with the frame's RTP timestamp.
    /// Equal to `origin` until the hub has an estimate.
    pub reference: Instant,
    /// The part of the time between `origin` and `published` that the unit was under way from
    /// server to server; `None` for a unit that was not, or while that time is not known.
    pub relay: Option<Relay>,
}

/// How long a unit was under way between servers, over all hops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Relay {
    /// Sum over the hops of the time from publication on one server until the unit was whole on the
    /// next one.
    pub delay: Duration,
    /// Largest error of `delay`, since each hop is measured with two clocks.
    pub error: Duration,
}

impl Stamps {
    /// Creates the stamps of a frame whose measured delay begins at `origin`.
    pub const fn arrived(origin: Instant) -> Self {
        Self {
            origin,
            published: origin,
            reference: origin,
            relay: None,
        }
    }

    /// Returns the time from `origin` to publication that the unit spent within servers: the whole
    /// time but that between servers.
    pub fn ingest(&self) -> Duration {
        let whole = self.published.saturating_duration_since(self.origin);
        whole.saturating_sub(self.relay.unwrap_or_default().delay)
    }
}

/// Delay distributions, one per stage: of a recent window, and since the table was created.
#[derive(Clone, Debug)]
pub struct StageTable {
    stages: [Option<Box<Delays>>; Stage::TABLED.len()],
    window: Duration,
}

/// Delay distributions of one stage.
#[derive(Clone, Debug)]
struct Delays {
    recent: WindowedHistogram,
    total: Histogram,
}

impl StageTable {
    /// Creates an empty table whose summaries cover the last `window`.
    pub fn new(window: Duration) -> Self {
        Self {
            stages: Default::default(),
            window,
        }
    }

    /// Adds one `delay` of `stage`, measured at `now`.
    pub fn record(&mut self, stage: Stage, delay: Duration, now: Instant) {
        let delays = self.delays(stage, now);
        delays.recent.record(delay, now);
        delays.total.record(delay);
    }

    /// Returns the summary of each stage that has samples within the window ending at `now`.
    pub fn summaries(&mut self, now: Instant) -> Vec<(Stage, Summary)> {
        Stage::TABLED
            .into_iter()
            .filter_map(|stage| {
                let summary = self.stages[stage.index()].as_mut()?.recent.summary(now);
                (summary.count > 0).then_some((stage, summary))
            })
            .collect()
    }

    /// Returns the distribution of each stage since the table was created. Its counts never
    /// fall, as counters of metrics require.
    pub fn totals(&self) -> impl Iterator<Item = (Stage, &Histogram)> {
        Stage::TABLED.into_iter().filter_map(|stage| {
            let delays = self.stages[stage.index()].as_ref()?;
            Some((stage, &delays.total))
        })
    }

    /// Adds all samples of `other`, a table that another thread kept.
    pub fn merge(&mut self, other: &mut Self, now: Instant) {
        for stage in Stage::TABLED {
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
                recent: WindowedHistogram::new(window, now),
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
        for (index, stage) in Stage::TABLED.into_iter().enumerate() {
            assert_eq!(stage.index(), index);
        }
        assert_eq!(Stage::TABLED[..Stage::ALL.len()], Stage::ALL);
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

    #[test]
    fn stages_are_displayed_by_names_of_their_own() {
        let names: std::collections::BTreeSet<_> =
            Stage::TABLED.iter().map(ToString::to_string).collect();
        assert_eq!(names.len(), Stage::TABLED.len());
        assert_eq!(Stage::JitterBuffer.to_string(), "jitter_buffer");
    }

    #[test]
    fn a_frame_that_arrived_has_one_instant_in_all_stamps() {
        let now = Instant::now();
        let stamps = Stamps::arrived(now);
        let all = [stamps.origin, stamps.published, stamps.reference];
        assert_eq!(all, [now; 3]);
    }

    #[test]
    fn merging_adds_totals_of_stages_that_the_window_forgot() {
        let start = Instant::now();
        let late = start + Duration::from_secs(60);
        let mut theirs = StageTable::new(Duration::from_secs(10));
        theirs.record(Stage::Hub, Duration::from_millis(2), start);
        let mut ours = StageTable::new(Duration::from_secs(10));
        ours.merge(&mut theirs, late);
        assert!(ours.summaries(late).is_empty());
        let totals: Vec<_> = ours.totals().map(|(at, all)| (at, all.count())).collect();
        assert_eq!(totals, [(Stage::Hub, 1)]);
    }
}
