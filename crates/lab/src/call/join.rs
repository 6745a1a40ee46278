//! Both ends' records of a call, put together by SSRC and RTP timestamp.
//!
//! ```text
//! spoken(ssrc, Spoken) ──┐ key: (SSRC, low 32 bits of the timestamp)
//! heard(Heard) ──────────┼─► waits for its other half, at most 10 s ─► Frame ─► Delays
//! came_again(…) ─────────┘     └─► lost, unmatched: counted            └─► kept for pictures
//! capture_called, playout_called ─► intervals
//! ```
//!
//! The timestamp is the only name that a frame keeps from end to end. Both ends count
//! wraps from where they came in, so the low 32 bits are compared: for ten seconds
//! nothing else can have them. In which order records come does not matter, and a
//! number that is there twice is a copy of the first, not a frame.
//!
//! Here is no clock: what is too old is told by the newest stamp.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use glassline_voice::{Heard, Operation, Spoken, Ssrc};
use serde::Serialize;

use super::frame::{Delay, Frame, between};
use super::report::{Copies, Report, Waterfall};
use super::stage::{Role, Stage};
use super::table::Delays;

#[cfg(test)]
mod tests;

/// A frame waits so long for its other half.
const HORIZON: Duration = Duration::from_secs(10);

/// And so many of them wait at most: 10 s of a hundred voices.
const WAITING_MAX: usize = 1 << 17;

/// Frames that are kept for pictures: evenly spread over the call.
const KEPT_MAX: usize = 512;

/// The encoder's operation is counted where it made a packet, and where it took this
/// long although it made none.
const ENCODED_ANYWAY_NS: i64 = 500_000;

/// Why a packet's number came once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Again {
    /// The network made two of it.
    Duplicate,
    /// It was sent again on request.
    Retransmission,
    /// A later packet carried it along (RED, RFC 2198).
    Redundant,
    /// It came too late to be played.
    Late,
}

/// The accounts of one direction of a call.
#[derive(Debug)]
pub struct Join {
    waiting: HashMap<Key, Entry>,
    /// By when they came; each key once.
    order: VecDeque<(Instant, Key)>,
    newest: Option<Instant>,
    delays: Vec<Delays>,
    /// Of the frames that both ends know, by stage: nanoseconds.
    sums: [i128; Stage::ALL.len()],
    joined: u64,
    copies: HashMap<Again, Delays>,
    kept: Kept,
    captured: Option<Instant>,
    played: Option<Instant>,
}

/// SSRC, and the timestamp as on the wire.
type Key = (Ssrc, u32);

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    spoken: Option<(Spoken, Option<Duration>)>,
    heard: Option<Heard>,
    /// When it was here first, played or not.
    arrived: Option<Instant>,
    is_joined: bool,
}

impl Default for Join {
    fn default() -> Self {
        Self::new()
    }
}

impl Join {
    /// Nothing yet.
    pub fn new() -> Self {
        Self {
            waiting: HashMap::new(),
            order: VecDeque::new(),
            newest: None,
            delays: vec![Delays::default(); Stage::ALL.len()],
            sums: [0; Stage::ALL.len()],
            joined: 0,
            copies: HashMap::new(),
            kept: Kept::default(),
            captured: None,
            played: None,
        }
    }

    /// The recording device called at `at`.
    pub fn capture_called(&mut self, at: Instant) {
        if let Some(before) = self.captured.replace(at) {
            self.record(Stage::CaptureInterval, between(before, at));
        }
    }

    /// The playing device called at `at`.
    pub fn playout_called(&mut self, at: Instant) {
        if let Some(before) = self.played.replace(at) {
            self.record(Stage::PlayoutInterval, between(before, at));
        }
    }

    /// A frame was spoken. `error`: its stamps are another host's, put on our clock to
    /// within so much (`glassline_voice::clock`).
    pub fn spoken(&mut self, ssrc: Ssrc, spoken: Spoken, error: Option<Duration>) {
        let delay = Delay::of_spoken(&spoken);
        let operation = delay.get(Stage::EncodeOperation).unwrap_or(0);
        let is_encoded = spoken.encoded_something || operation > ENCODED_ANYWAY_NS;
        for stage in [Stage::Capture, Stage::Reframe, Stage::Preprocess] {
            self.record_of(&delay, stage);
        }
        if is_encoded {
            for stage in [Stage::Encode, Stage::EncodeQueue, Stage::EncodeOperation] {
                self.record_of(&delay, stage);
            }
        }
        if !spoken.encoded_something {
            return;
        }
        let Some(sent) = spoken.sent else {
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
        let key = (ssrc, spoken.timestamp as u32);
        let entry = self.entry(key, sent);
        // Twice the same number: the first counts.
        entry.spoken.get_or_insert((spoken, error));
        self.join(key);
    }

    /// A frame was heard.
    pub fn heard(&mut self, heard: Heard) {
        let key = (heard.ssrc, heard.timestamp as u32);
        let entry = self.entry(key, heard.arrived);
        if let Some(first) = entry.heard {
            let again = match heard.operation {
                Operation::Repeated => Again::Redundant,
                _ => Again::Duplicate,
            };
            self.copy(again, first.arrived, heard.arrived);
            return;
        }
        entry.heard = Some(heard);
        entry.arrived = Some(
            entry
                .arrived
                .map_or(heard.arrived, |it| it.min(heard.arrived)),
        );
        let delay = Delay::of_heard(&heard);
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
        // Where a virtual device plays within the call, the buffer holds nothing.
        let playout = delay.get(Stage::Playout).unwrap_or(0);
        self.record(Stage::Playout, playout.max(0));
        self.join(key);
    }

    /// A packet came at `at` whose number was here before, or which nobody will hear.
    pub fn came_again(&mut self, ssrc: Ssrc, timestamp: u32, at: Instant, why: Again) {
        let key = (ssrc, timestamp);
        let entry = self.entry(key, at);
        match entry.arrived {
            Some(first) => self.copy(why, first, at),
            None => {
                entry.arrived = Some(at);
                self.copies.entry(why).or_default().record_us(0);
            }
        }
    }

    fn copy(&mut self, why: Again, first: Instant, at: Instant) {
        let after = between(first, at).max(0) / 1_000;
        self.copies.entry(why).or_default().record_us(after);
    }

    /// What became of the frames so far. Those that still wait for their other half
    /// count as lost and unmatched: call it at the end.
    pub fn finish(mut self, source: impl Into<String>) -> Report {
        while let Some((_, key)) = self.order.pop_front() {
            self.give_up(key);
        }
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
            let steps = known.map(|stage| Waterfall {
                stage,
                mean_ms: mean(stage),
                p5_ms: quantile(stage, 0.05),
                p95_ms: quantile(stage, 0.95),
            });
            waterfall.extend(steps);
        }
        let again = [
            Again::Duplicate,
            Again::Retransmission,
            Again::Redundant,
            Again::Late,
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
            notes: Vec::new(),
        }
    }

    /// The whole way of the frames so far, for a live line: how many, and the quantile
    /// `share` in ms.
    pub fn mouth_to_ear_ms(&self, share: f64) -> Option<f64> {
        let delays = &self.delays[Stage::MouthToEar as usize];
        delays.quantile_us(share).map(|us| us as f64 / 1e3)
    }

    fn record(&mut self, stage: Stage, ns: i64) {
        self.delays[stage as usize].record_us(ns.div_euclid(1_000));
    }

    fn record_of(&mut self, delay: &Delay, stage: Stage) {
        if let Some(ns) = delay.get(stage) {
            self.record(stage, ns);
        }
    }

    /// The frame's entry, made if it is new; what is too old or too much goes.
    fn entry(&mut self, key: Key, at: Instant) -> &mut Entry {
        let newest = self.newest.map_or(at, |it| it.max(at));
        self.newest = Some(newest);
        while let Some((came, oldest)) = self.order.front().copied() {
            let is_old = newest.saturating_duration_since(came) > HORIZON;
            if !is_old && self.order.len() < WAITING_MAX {
                break;
            }
            self.order.pop_front();
            self.give_up(oldest);
        }
        self.waiting.entry(key).or_insert_with(|| {
            self.order.push_back((newest, key));
            Entry::default()
        })
    }

    fn join(&mut self, key: Key) {
        let Some(entry) = self.waiting.get_mut(&key).filter(|it| !it.is_joined) else {
            return;
        };
        let (Some((spoken, error)), Some(heard)) = (entry.spoken, entry.heard) else {
            return;
        };
        entry.is_joined = true;
        let delay = Delay::of_both(&spoken, &heard);
        let network = &mut self.delays[Stage::Network as usize];
        if heard.operation == Operation::Repeated {
            // The packet itself did not come, or came after its copy.
            network.record_lost();
            let sent = spoken.sent.unwrap_or(spoken.encoded);
            self.copy(Again::Redundant, sent, heard.arrived);
        } else {
            let ns = delay.get(Stage::Network).unwrap_or(0);
            network.record_us(ns.div_euclid(1_000));
        }
        for stage in [
            Stage::PreprocessSignal,
            Stage::EncodeLookAhead,
            Stage::ResampleSignal,
            Stage::MouthToEar,
        ] {
            self.record_of(&delay, stage);
        }
        if let Some(error) = error {
            for stage in [Stage::Network, Stage::MouthToEar] {
                self.delays[stage as usize].within(error);
            }
        }
        self.joined += 1;
        for (stage, ns) in delay.way() {
            self.sums[stage as usize] += i128::from(ns);
        }
        self.kept
            .offer(spoken.timestamp as u32, spoken.captured, delay);
    }

    /// The frame's other half will not come any more.
    fn give_up(&mut self, key: Key) {
        let Some(entry) = self.waiting.remove(&key).filter(|it| !it.is_joined) else {
            return;
        };
        let mut count =
            |stage: Stage, with: fn(&mut Delays)| with(&mut self.delays[stage as usize]);
        match (entry.spoken, entry.heard, entry.arrived) {
            (Some((spoken, _)), _, Some(arrived)) => {
                let sent = spoken.sent.unwrap_or(spoken.encoded);
                count(Stage::JitterBuffer, Delays::record_lost);
                count(Stage::MouthToEar, Delays::record_lost);
                self.record(Stage::Network, between(sent, arrived));
            }
            (Some(_), _, None) => {
                count(Stage::Network, Delays::record_lost);
                count(Stage::MouthToEar, Delays::record_lost);
            }
            (None, Some(_), _) => {
                count(Stage::Network, Delays::record_unmatched);
                count(Stage::MouthToEar, Delays::record_unmatched);
            }
            (None, None, _) => count(Stage::Network, Delays::record_unmatched),
        }
    }
}

/// Frames for pictures: every one, then every second, fourth …
#[derive(Clone, Debug)]
struct Kept {
    frames: Vec<Frame>,
    begun: Option<Instant>,
    every: u64,
    offered: u64,
}

impl Default for Kept {
    fn default() -> Self {
        Self {
            frames: Vec::new(),
            begun: None,
            every: 1,
            offered: 0,
        }
    }
}

impl Kept {
    fn offer(&mut self, timestamp: u32, captured: Instant, delay: Delay) {
        let begun = *self.begun.get_or_insert(captured);
        let place = self.offered;
        self.offered += 1;
        if !place.is_multiple_of(self.every) {
            return;
        }
        if self.frames.len() == KEPT_MAX {
            self.every *= 2;
            let mut is_even = false;
            self.frames.retain(|_| {
                is_even = !is_even;
                is_even
            });
        }
        self.frames.push(Frame {
            timestamp,
            at_s: between(begun, captured) as f64 / 1e9,
            mouth_to_ear_ms: delay.get(Stage::MouthToEar).unwrap_or(0) as f64 / 1e6,
            stages_ms: delay,
        });
    }

    fn has(&self, stage: Stage) -> bool {
        self.frames
            .iter()
            .any(|it| it.stages_ms.get(stage).is_some())
    }

    fn quantile_ms(&self, stage: Stage, share: f64) -> f64 {
        let values = self.frames.iter().filter_map(|it| it.stages_ms.get(stage));
        let mut values: Vec<i64> = values.collect();
        values.sort_unstable();
        let rank = (values.len() as f64 * share).ceil().max(1.0) as usize;
        values.get(rank - 1).map_or(0.0, |ns| *ns as f64 / 1e6)
    }
}
