//! Figures of one viewer in one run.

use std::time::Duration;

use serde::Serialize;

use super::ledger::{Ledger, Sample, Shown};
use super::moment::Moment;
use crate::statistics::quantile;

/// Time beyond the rhythm of the frames after which a picture counts as frozen (libwebrtc).
const FREEZE: Duration = Duration::from_millis(150);
/// Time over which the fewest frames are counted.
const WINDOW: Duration = Duration::from_secs(10);
/// Time for which an encoding must be shown to count as being back.
const SECOND: Duration = Duration::from_secs(1);
/// Share of that second's frames that must be shown.
const RISEN: f64 = 0.9;
/// Samples in a row that count for the time to fit: a second.
const FIT_SAMPLES: usize = 10;

/// Figures of one viewer in one run. Counts are `f64`, so that means over runs have the same fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Useful media that arrived, in relation to the lesser of the viewer's share of the capacity and
    /// the best encoding.
    pub use_ratio: f64,
    /// Useful media that arrived, in relation to the best encoding that fits the viewer's share at each time.
    pub fitting_ratio: f64,
    /// Media that left the server in Mbit/s.
    pub sent_mbps: f64,
    /// Useful media that arrived in Mbit/s.
    pub received_mbps: f64,
    /// Mean bitrate of the encoding that was shown, in relation to the best one.
    pub layer_ratio: f64,
    /// Time that the viewer's datagrams waited at the bottleneck in ms, 95th percentile.
    pub queue_ms_p95: f64,
    /// Share of media datagrams that the path lost.
    pub loss_ratio: f64,
    /// Share of those that were sent three seconds after the join or later.
    pub loss_late_ratio: f64,
    /// Time from capture to sending in ms, 99th percentile.
    pub wait_ms_p99: f64,
    /// Fewest frames shown in any 10 s after the first frame, in a second.
    pub fps_min: f64,
    /// Frames shown in relation to frames published.
    pub shown_ratio: f64,
    /// Longest time that a frame came later than the rhythm of the frames, in ms.
    pub stall_ms_max: f64,
    /// Number of freezes: frames that came more than 150 ms later than the rhythm.
    pub freezes: f64,
    /// Time in freezes in s.
    pub frozen_s: f64,
    /// Frames that were decoded without their reference.
    pub torn: f64,
    /// Frames that arrived in part and were given up.
    pub abandoned: f64,
    /// Time from capture to decoding in ms.
    pub delay_ms_p50: f64,
    /// 95th percentile of that time.
    pub delay_ms_p95: f64,
    /// Number of changes of the encoding that is shown.
    pub switches: f64,
    /// Keyframes that the server asked the publisher for.
    pub keyframes_asked: f64,
    /// Share of the media bytes that were of no use to the viewer: padding and repetitions.
    pub padding_ratio: f64,
    /// Time from the join to the first frame in ms; `None` if none was shown.
    pub first_frame_ms: Option<f64>,
    /// Time from the case's moment until what is sent fits for a second, in s; `None` if it never did
    /// before the path changed again.
    pub fit_s: Option<f64>,
    /// Time from the case's moment until the best encoding that fits is shown, with nine tenths of its
    /// frames in the second that follows, in s; `None` if it never was before the path changed again.
    pub rise_s: Option<f64>,
}

impl Figures {
    /// Returns the means of several runs; of a time, only if all runs have it. `None` without runs.
    pub(super) fn mean(runs: &[&Self]) -> Option<Self> {
        let count = runs.len() as f64;
        let mean = |of: fn(&Self) -> f64| runs.iter().map(|run| of(run)).sum::<f64>() / count;
        let all = |of: fn(&Self) -> Option<f64>| {
            let sum: Option<f64> = runs.iter().map(|run| of(run)).sum();
            Some(sum? / count)
        };
        (!runs.is_empty()).then(|| Self {
            use_ratio: mean(|it| it.use_ratio),
            fitting_ratio: mean(|it| it.fitting_ratio),
            sent_mbps: mean(|it| it.sent_mbps),
            received_mbps: mean(|it| it.received_mbps),
            layer_ratio: mean(|it| it.layer_ratio),
            queue_ms_p95: mean(|it| it.queue_ms_p95),
            loss_ratio: mean(|it| it.loss_ratio),
            loss_late_ratio: mean(|it| it.loss_late_ratio),
            wait_ms_p99: mean(|it| it.wait_ms_p99),
            fps_min: mean(|it| it.fps_min),
            shown_ratio: mean(|it| it.shown_ratio),
            stall_ms_max: mean(|it| it.stall_ms_max),
            freezes: mean(|it| it.freezes),
            frozen_s: mean(|it| it.frozen_s),
            torn: mean(|it| it.torn),
            abandoned: mean(|it| it.abandoned),
            delay_ms_p50: mean(|it| it.delay_ms_p50),
            delay_ms_p95: mean(|it| it.delay_ms_p95),
            switches: mean(|it| it.switches),
            keyframes_asked: mean(|it| it.keyframes_asked),
            padding_ratio: mean(|it| it.padding_ratio),
            first_frame_ms: all(|it| it.first_frame_ms),
            fit_s: all(|it| it.fit_s),
            rise_s: all(|it| it.rise_s),
        })
    }
}

/// Bytes that a viewer could have got.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Possible {
    /// Bytes of the best encoding, as far as the path carries them.
    pub(super) bytes: f64,
    /// Bytes of the best encoding that fits at each time.
    pub(super) fitting_bytes: f64,
}

/// A run of one viewer, of which figures are computed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Evidence<'a> {
    pub(super) ledger: &'a Ledger,
    /// When the viewer joined, and the end of the run.
    pub(super) joined: Duration,
    pub(super) end: Duration,
    /// Bytes that the viewer could have got.
    pub(super) possible: Possible,
    /// Bitrates of the encodings, best first, in Mbit/s.
    pub(super) layers: &'a [f64],
    pub(super) moment: Option<Moment>,
    /// Position of the best encoding that fits after the moment.
    pub(super) best: usize,
}

impl Evidence<'_> {
    /// Computes the figures.
    pub(super) fn figures(&self) -> Figures {
        let ledger = self.ledger;
        let seconds = (self.end - self.joined).as_secs_f64().max(1e-9);
        let mbps = |bytes: u64| bytes as f64 / 125_000.0 / seconds;
        let useful = ledger.received_bytes - ledger.wasted_bytes;
        let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
        let delays: Vec<f64> = ledger.shown.iter().map(delay_ms).collect();
        let queued: Vec<f64> = ledger.queued_ms.iter().copied().map(f64::from).collect();
        let delay = |at: f64| quantile(&delays, at).unwrap_or(f64::INFINITY);
        let changes = ledger.shown.windows(2);
        let switches = changes.filter(|pair| pair[0].layer != pair[1].layer);
        let torn = ledger.shown.iter().filter(|shown| shown.is_torn);
        let mut figures = Figures {
            use_ratio: useful as f64 / self.possible.bytes.max(1.0),
            fitting_ratio: useful as f64 / self.possible.fitting_bytes.max(1.0),
            sent_mbps: mbps(ledger.sent_bytes),
            received_mbps: mbps(useful),
            layer_ratio: self.layer_ratio(),
            queue_ms_p95: quantile(&queued, 0.95).unwrap_or_default(),
            loss_ratio: share(ledger.lost, ledger.sent),
            loss_late_ratio: share(ledger.lost_late, ledger.sent_late),
            wait_ms_p99: quantile(&ledger.waited_ms, 0.99).unwrap_or_default(),
            fps_min: self.fps_min(),
            shown_ratio: share(ledger.shown.len() as u64, ledger.published.len() as u64),
            torn: torn.count() as f64,
            abandoned: ledger.abandoned as f64,
            delay_ms_p50: delay(0.5),
            delay_ms_p95: delay(0.95),
            switches: switches.count() as f64,
            keyframes_asked: ledger.keyframes_asked as f64,
            padding_ratio: share(ledger.wasted_bytes, ledger.received_bytes),
            first_frame_ms: ledger
                .shown
                .first()
                .map(|shown| (shown.at - self.joined).as_secs_f64() * 1e3),
            fit_s: self.fit_s(),
            rise_s: self.rise_s(),
            ..Figures::default()
        };
        self.count_stalls(&mut figures);
        figures
    }

    fn fps_min(&self) -> f64 {
        let shown = &self.ledger.shown;
        let Some(first) = shown.first() else {
            return 0.0;
        };
        let (mut from, mut least) = (first.at, f64::INFINITY);
        while from + WINDOW <= self.end {
            let at = |time: Duration| shown.partition_point(|it| it.at < time);
            let count = at(from + WINDOW) - at(from);
            least = least.min(count as f64 / WINDOW.as_secs_f64());
            from += WINDOW / 20;
        }
        match least.is_finite() {
            true => least,
            false => shown.len() as f64 / (self.end - self.joined).as_secs_f64().max(1e-9),
        }
    }

    fn layer_ratio(&self) -> f64 {
        let best = self.layers.first().copied().unwrap_or(1.0);
        let samples = self.ledger.samples.iter();
        let (mut sum, mut count) = (0.0, 0.0);
        for sample in samples {
            sum += sample.layer_mbps.unwrap_or_default() / best;
            count += 1.0;
        }
        sum / f64::max(count, 1.0)
    }

    /// Counts the times that a frame came later than the rhythm in which frames were captured.
    fn count_stalls(&self, figures: &mut Figures) {
        let ledger = self.ledger;
        let mut stall = |from: Duration, until: Duration, rhythm: Duration| {
            let late = (until.saturating_sub(from)).saturating_sub(rhythm);
            figures.stall_ms_max = figures.stall_ms_max.max(late.as_secs_f64() * 1e3);
            if late > FREEZE {
                figures.freezes += 1.0;
                figures.frozen_s += late.as_secs_f64();
            }
        };
        let rhythm = |from: u32, to: u32| {
            let between = ledger.published.get(from as usize..=to as usize);
            let gaps = between.unwrap_or_default().windows(2);
            let longest = gaps.map(|pair| pair[1] - pair[0]).max();
            longest.unwrap_or_default()
        };
        for pair in ledger.shown.windows(2) {
            let (from, to) = (&pair[0], &pair[1]);
            stall(from.at, to.at, rhythm(from.number, to.number));
        }
        let last = ledger.shown.last();
        let (at, number) = last.map_or((self.joined, 0), |shown| (shown.at, shown.number));
        if let Some(newest) = ledger.published.len().checked_sub(1) {
            // A frame that is on its way at the end is not late.
            let newest = u32::try_from(newest).unwrap_or(u32::MAX);
            if newest > number + 3 {
                stall(at, self.end, rhythm(number, newest));
            }
        }
    }

    fn fit_s(&self) -> Option<f64> {
        let moment = self.moment?;
        let span = self.within(moment);
        let fits = |window: &[Sample]| {
            let sent: f64 = window.iter().map(|it| it.sent_mbps).sum();
            let capacity: Option<f64> = window.iter().map(|it| it.capacity_mbps).sum();
            capacity.is_none_or(|capacity| sent <= capacity)
        };
        let first = span.windows(FIT_SAMPLES).position(fits)?;
        Some(span[first].at_s - moment.at.as_secs_f64())
    }

    fn rise_s(&self) -> Option<f64> {
        let moment = self.moment?;
        let best = usize::from(u8::MAX).min(self.best);
        let Ledger {
            shown, published, ..
        } = self.ledger;
        let goes_on = |from: usize| {
            let it = &shown[from];
            let before = |at: Duration| published.partition_point(|time| *time < at);
            let due = before(it.captured + SECOND) - before(it.captured);
            let until = shown.partition_point(|next| next.at < it.at + SECOND);
            (until - from) as f64 >= RISEN * due as f64
        };
        let mut all = shown.iter().enumerate();
        let (_, risen) = all.find(|(index, it)| {
            let is_within = it.at >= moment.at && it.at < moment.until;
            is_within && usize::from(it.layer) <= best && goes_on(*index)
        })?;
        Some((risen.at - moment.at).as_secs_f64())
    }

    fn within(&self, moment: Moment) -> &[Sample] {
        let samples = &self.ledger.samples;
        let at = |time: Duration| samples.partition_point(|it| it.at_s <= time.as_secs_f64());
        let (from, to) = (at(moment.at), at(moment.until));
        &samples[from..to.max(from)]
    }
}

fn delay_ms(shown: &Shown) -> f64 {
    (shown.at - shown.captured).as_secs_f64() * 1e3
}
