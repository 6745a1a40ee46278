//! Both ends' records of a call, joined by SSRC and RTP timestamp.
//!
//! ```text
//! record_sent(ssrc, SendStamps) ──┐ key: (SSRC, low 32 bits of the timestamp)
//! record_played(PlayoutStamps) ───┼─► waits for the other record, at most 10 s ─► Frame ─► Delays
//! duplicate(…) ───────────────────┘     └─► lost, unmatched: counted        └─► sample for charts
//! capture_called, playout_called ─► intervals
//! ```
//!
//! The timestamp is the only number that a frame keeps from end to end. Both ends count wraps
//! from the time they joined, so only the low 32 bits are compared: within ten seconds they are
//! unique. Records may come in any order. A second record with the same number is a copy of the
//! first, not a frame.
//!
//! Records of the far end of another host have an error, begin after the call and end before it:
//! [`Join::finish_remote`]. Where the far end sends none, there is [`Join::finish_alone`].
//!
//! A join reads no clock: records are too old by the newest stamp.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use glassline_voice::far::RemoteRecord;
use glassline_voice::{
    DuplicateReason, DuplicateRecord, Operation, PlayoutStamps, Record, SendStamps, Ssrc,
};

use super::frame::{Delay, between};
use super::report::{Copies, Report, Waterfall};
use super::stage::{Role, Stage};
use super::table::Delays;

mod pending;
mod sampled;
#[cfg(test)]
mod tests;

use pending::PendingFrame;
use sampled::SampledFrames;

/// Longest wait for a frame's other record.
const HORIZON: Duration = Duration::from_secs(10);

/// Longest wait where the other record comes over a network and waits until its clock is known.
const HORIZON_REMOTE: Duration = Duration::from_secs(30);

/// Most frames that wait: 10 s of a hundred voices.
const WAITING_MAX: usize = 1 << 17;

/// An encoder call without a packet is counted only if it took this long, in ns.
const ENCODED_ANYWAY_NS: i64 = 500_000;

/// Joins the records of one direction of a call.
#[derive(Debug)]
pub struct Join {
    /// Whether one end's records come from another host.
    has_remote_end: bool,
    /// The first frame that both ends have stamped: when it was sent, and when it arrived.
    first: Option<(Instant, Instant)>,
    /// Frames before the first or after the last one that both ends have stamped.
    open: u64,
    waiting: HashMap<Key, PendingFrame>,
    /// Waiting frames by the time of their first record; each key once.
    order: VecDeque<(Instant, Key)>,
    newest: Option<Instant>,
    delays: Vec<Delays>,
    /// Sums of the delays of frames that both ends have stamped, by stage, in ns.
    sums: [i128; Stage::ALL.len()],
    joined: u64,
    copies: HashMap<DuplicateReason, Delays>,
    kept: SampledFrames,
    captured: Option<Instant>,
    played: Option<Instant>,
}

/// SSRC and RTP timestamp, as on the wire.
type Key = (Ssrc, u32);

impl Default for Join {
    fn default() -> Self {
        Self::new()
    }
}

impl Join {
    /// A join of the records of one host.
    pub fn new() -> Self {
        Self {
            has_remote_end: false,
            first: None,
            open: 0,
            waiting: HashMap::new(),
            order: VecDeque::new(),
            newest: None,
            delays: vec![Delays::default(); Stage::ALL.len()],
            sums: [0; Stage::ALL.len()],
            joined: 0,
            copies: HashMap::new(),
            kept: SampledFrames::default(),
            captured: None,
            played: None,
        }
    }

    /// A join of which one end's records come from another host.
    pub fn with_remote_end() -> Self {
        Self {
            has_remote_end: true,
            ..Self::new()
        }
    }

    /// Takes what the far end remote.
    pub fn record_remote(&mut self, remote: &RemoteRecord) {
        let error = Some(remote.error);
        match remote.record {
            Record::Sent(ssrc, send_stamps) => self.record_sent(ssrc, send_stamps, error),
            Record::Played(playout_stamps) => self.record_played(playout_stamps, error),
            Record::Duplicate(again) => self.duplicate(again),
            Record::CaptureCalled(at) => self.capture_called(at),
            Record::PlayoutCalled(at) => self.playout_called(at),
        }
    }

    /// Records that the capture device delivered audio at `at`.
    pub fn capture_called(&mut self, at: Instant) {
        if let Some(before) = self.captured.replace(at) {
            self.record(Stage::CaptureInterval, between(before, at));
        }
    }

    /// Records that the playout device asked for audio at `at`.
    pub fn playout_called(&mut self, at: Instant) {
        if let Some(before) = self.played.replace(at) {
            self.record(Stage::PlayoutInterval, between(before, at));
        }
    }

    /// Takes the stamps of a frame at its sender. `error`: largest error of stamps of another
    /// host, which were mapped to this host's clock (`glassline_media::clock`).
    pub fn record_sent(&mut self, ssrc: Ssrc, send_stamps: SendStamps, error: Option<Duration>) {
        let delay = Delay::of_sender(&send_stamps);
        let operation = delay.get(Stage::EncodeOperation).unwrap_or(0);
        let is_encoded = send_stamps.encoded_something || operation > ENCODED_ANYWAY_NS;
        for stage in [Stage::Capture, Stage::Reframe, Stage::Preprocess] {
            self.record_of(&delay, stage);
        }
        if is_encoded {
            for stage in [Stage::Encode, Stage::EncodeQueue, Stage::EncodeOperation] {
                self.record_of(&delay, stage);
            }
        }
        if !send_stamps.encoded_something {
            return;
        }
        let Some(sent) = send_stamps.sent else {
            self.delays[Stage::Send as usize].record_lost();
            return;
        };
        let send = [
            Stage::Send,
            Stage::SendEnqueue,
            Stage::SendPace,
            Stage::SendHandOver,
            Stage::SendQueue,
            Stage::SendSocket,
        ];
        for stage in send {
            self.record_of(&delay, stage);
        }
        let key = (ssrc, send_stamps.timestamp as u32);
        let entry = self.entry(key, sent);
        // Of two records with the same number, the first counts.
        if entry.send_stamps.is_none() {
            entry.send_stamps = Some(send_stamps);
            entry.error = entry.error.max(error);
        }
        self.join(key);
    }

    /// Takes the stamps of a frame at its receiver; `error` as with [`Self::record_sent`].
    pub fn record_played(&mut self, playout_stamps: PlayoutStamps, error: Option<Duration>) {
        let key = (playout_stamps.ssrc, playout_stamps.timestamp as u32);
        let entry = self.entry(key, playout_stamps.arrived);
        if let Some(first) = entry.playout_stamps {
            let again = match playout_stamps.operation {
                Operation::Repeated => DuplicateReason::Redundant,
                _ => DuplicateReason::Duplicate,
            };
            self.copy(again, first.arrived, playout_stamps.arrived);
            return;
        }
        entry.playout_stamps = Some(playout_stamps);
        entry.error = entry.error.max(error);
        entry.arrived = Some(
            entry
                .arrived
                .map_or(playout_stamps.arrived, |it| it.min(playout_stamps.arrived)),
        );
        if playout_stamps.operation != Operation::Repeated
            && let Some(copied) = entry.copied.take()
        {
            self.copy(DuplicateReason::Redundant, playout_stamps.arrived, copied);
        }
        let delay = Delay::of_receiver(&playout_stamps);
        let operations = [
            Stage::Open,
            Stage::JitterBuffer,
            Stage::Decode,
            Stage::Mix,
            Stage::Mixer,
            Stage::Resample,
        ];
        for stage in operations {
            self.record_of(&delay, stage);
        }
        // Where a virtual device plays within its call, its buffer is empty.
        let playout = delay.get(Stage::Playout).unwrap_or(0);
        self.record(Stage::Playout, playout.max(0));
        self.join(key);
    }

    /// Takes a packet whose number came before, or which is too late to be played.
    pub fn duplicate(&mut self, again: DuplicateRecord) {
        let DuplicateRecord {
            ssrc,
            timestamp,
            at,
            why,
        } = again;
        let entry = self.entry((ssrc, timestamp), at);
        let is_copy = why == DuplicateReason::Redundant;
        let is_played =
            |it: &PlayoutStamps| it.operation == Operation::Repeated && it.arrived == at;
        match entry.arrived {
            // The copy was counted where it was played.
            Some(_) if is_copy && entry.playout_stamps.as_ref().is_some_and(is_played) => {}
            Some(first) => self.copy(why, first, at),
            None if is_copy => entry.copied = entry.copied.or(Some(at)),
            None => {
                entry.arrived = Some(at);
                self.copies.entry(why).or_default().record_us(0);
            }
        }
    }

    fn copy(&mut self, why: DuplicateReason, first: Instant, at: Instant) {
        let after = between(first, at).max(0) / 1_000;
        self.copies.entry(why).or_default().record_us(after);
    }

    /// Builds the report. Call it at the end: frames that still wait for their other record count
    /// as lost or unmatched.
    pub fn finish(mut self, source: impl Into<String>) -> Report {
        while let Some((_, key)) = self.order.pop_front() {
            self.count_unjoined(key);
        }
        self.report(source)
    }

    /// Builds the report where the far end's records end before ours. Frames after the last one
    /// that both ends have stamped are not counted; their number becomes a note.
    pub fn finish_remote(mut self, source: impl Into<String>) -> Report {
        while let Some((_, key)) = self.order.back() {
            let entry = self.waiting.get(key);
            if entry.is_some_and(|it| it.is_joined) {
                break;
            }
            self.open += u64::from(entry.is_some_and(PendingFrame::is_frame));
            self.waiting.remove(key);
            self.order.pop_back();
        }
        while let Some((_, key)) = self.order.pop_front() {
            self.count_unjoined(key);
        }
        let open = self.open;
        let mut report = self.report(source);
        if open > 0 {
            report.notes.push(format!(
                "of {open} frames at the call's begin and end only one end has told: they are \
                 neither lost nor unmatched"
            ));
        }
        report
    }

    /// Builds a report of one end's records alone, without the stages between the two ends.
    pub fn finish_alone(self, source: impl Into<String>) -> Report {
        let mut report = self.finish(source);
        let between = [Stage::Network, Stage::MouthToEar];
        report.stages.retain(|it| !between.contains(&it.stage));
        report
    }

    fn report(self, source: impl Into<String>) -> Report {
        let stages = Stage::ALL.into_iter().filter_map(|stage| {
            let delays = &self.delays[stage as usize];
            (!delays.is_absent()).then(|| delays.table(stage))
        });
        let way = Stage::ALL.into_iter();
        let way = way.filter(|it| matches!(it.role(), Role::Way | Role::Signal));
        let mean = |stage: Stage| self.sums[stage as usize] as f64 / self.joined as f64 / 1e6;
        let mut waterfall = Vec::new();
        if self.joined > 0 {
            let known = way.filter(|stage| self.kept.has(*stage));
            let quantile = |stage, share| self.kept.quantile_ms(stage, share);
            let error = |stage| match stage {
                Stage::Network => self.delays[stage as usize].error_ms(),
                _ => None,
            };
            let steps = known.map(|stage| Waterfall {
                stage,
                error_ms: error(stage),
                mean_ms: mean(stage),
                p5_ms: quantile(stage, 0.05),
                p95_ms: quantile(stage, 0.95),
            });
            waterfall.extend(steps);
        }
        let again = [
            DuplicateReason::Duplicate,
            DuplicateReason::Retransmission,
            DuplicateReason::Redundant,
            DuplicateReason::Late,
        ];
        let copies = again.into_iter().filter_map(|kind| {
            let after = self.copies.get(&kind)?;
            Some(Copies::new(kind, after))
        });
        Report {
            source: source.into(),
            stages: stages.collect(),
            waterfall,
            copies: copies.collect(),
            frames: self.kept.frames,
            malformed: 0,
            direction: None,
            peer: None,
            notes: Vec::new(),
        }
    }

    /// Quantile `share` (0–1) of the mouth-to-ear delay so far, in ms; `None` without frames.
    pub fn mouth_to_ear_ms(&self, share: f64) -> Option<f64> {
        let delays = &self.delays[Stage::MouthToEar as usize];
        delays.quantile_us(share).map(|us| us as f64 / 1e3)
    }

    fn record(&mut self, stage: Stage, ns: i64) {
        self.delays[stage as usize].record_us(ns.div_euclid(1_000));
    }

    fn record_within(&mut self, delay: &Delay, stage: Stage, error: Option<Duration>) {
        let us = delay.get(stage).unwrap_or(0).div_euclid(1_000);
        let delays = &mut self.delays[stage as usize];
        match error {
            Some(error) => delays.record_us_within(us, error),
            None => delays.record_us(us),
        }
    }

    fn record_of(&mut self, delay: &Delay, stage: Stage) {
        if let Some(ns) = delay.get(stage) {
            self.record(stage, ns);
        }
    }

    /// The waiting frame of `key`, made if it is new. Frames that are too old or too many are
    /// removed.
    fn entry(&mut self, key: Key, at: Instant) -> &mut PendingFrame {
        let horizon = match self.has_remote_end {
            true => HORIZON_REMOTE,
            false => HORIZON,
        };
        let newest = self.newest.map_or(at, |it| it.max(at));
        self.newest = Some(newest);
        while let Some((came, oldest)) = self.order.front().copied() {
            let is_old = newest.saturating_duration_since(came) > horizon;
            if !is_old && self.order.len() < WAITING_MAX {
                break;
            }
            self.order.pop_front();
            self.count_unjoined(oldest);
        }
        self.waiting.entry(key).or_insert_with(|| {
            self.order.push_back((newest, key));
            PendingFrame::default()
        })
    }

    fn join(&mut self, key: Key) {
        let Some(entry) = self.waiting.get_mut(&key).filter(|it| !it.is_joined) else {
            return;
        };
        let (Some(send_stamps), Some(playout_stamps)) = (entry.send_stamps, entry.playout_stamps)
        else {
            return;
        };
        entry.is_joined = true;
        entry.copied = None;
        let error = entry.error;
        let sent = send_stamps.sent.unwrap_or(send_stamps.encoded);
        let first = self.first.unwrap_or((sent, playout_stamps.arrived));
        self.first = Some((first.0.min(sent), first.1.min(playout_stamps.arrived)));
        let delay = Delay::of_both(&send_stamps, &playout_stamps);
        if playout_stamps.operation == Operation::Repeated {
            // The packet itself was lost, or arrived after its copy.
            self.delays[Stage::Network as usize].record_lost();
            self.copy(DuplicateReason::Redundant, sent, playout_stamps.arrived);
        } else {
            self.record_within(&delay, Stage::Network, error);
        }
        self.record_within(&delay, Stage::MouthToEar, error);
        for stage in [
            Stage::PreprocessSignal,
            Stage::EncodeLookAhead,
            Stage::ResampleSignal,
        ] {
            self.record_of(&delay, stage);
        }
        self.joined += 1;
        for (stage, ns) in delay.way() {
            self.sums[stage as usize] += i128::from(ns);
        }
        self.kept.offer(
            send_stamps.timestamp as u32,
            send_stamps.captured,
            delay,
            error,
        );
    }

    /// Counts a frame whose other record can no longer come.
    fn count_unjoined(&mut self, key: Key) {
        let Some(entry) = self.waiting.remove(&key).filter(|it| !it.is_joined) else {
            return;
        };
        if self.has_remote_end && entry.is_before(self.first) {
            self.open += u64::from(entry.is_frame());
            return;
        }
        let mut count =
            |stage: Stage, with: fn(&mut Delays)| with(&mut self.delays[stage as usize]);
        if entry.copied.is_some() {
            // The original of the copy is not known, so its delay behind it is not either.
            self.copies
                .entry(DuplicateReason::Redundant)
                .or_default()
                .record_us(0);
        }
        match (entry.send_stamps, entry.playout_stamps, entry.arrived) {
            (Some(send_stamps), _, Some(arrived)) => {
                let sent = send_stamps.sent.unwrap_or(send_stamps.encoded);
                count(Stage::JitterBuffer, Delays::record_lost);
                count(Stage::MouthToEar, Delays::record_lost);
                let mut delay = Delay::default();
                delay.set(Stage::Network, between(sent, arrived));
                self.record_within(&delay, Stage::Network, entry.error);
            }
            (Some(_), _, None) => {
                count(Stage::Network, Delays::record_lost);
                count(Stage::MouthToEar, Delays::record_lost);
            }
            (None, Some(_), _) => {
                count(Stage::Network, Delays::record_unmatched);
                count(Stage::MouthToEar, Delays::record_unmatched);
            }
            (None, None, Some(_)) => count(Stage::Network, Delays::record_unmatched),
            // A copy is all that is known of the frame.
            (None, None, None) => {}
        }
    }
}
