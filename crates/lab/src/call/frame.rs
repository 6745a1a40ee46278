//! Path of one audio frame: its delay in each stage, in nanoseconds.

use std::time::Instant;

use glassline_voice::{PlayoutStamps, SendStamps};
use serde::Serialize;
use serde::ser::{SerializeMap as _, Serializer};

use super::stage::{Role, Stage};

/// Delays of a frame by stage, in nanoseconds; negative where the clocks of two hosts disagree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay([Option<i64>; Stage::ALL.len()]);

impl Default for Delay {
    fn default() -> Self {
        Self([None; Stage::ALL.len()])
    }
}

/// A frame that was played, with its delays from mouth to ear.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Frame {
    /// RTP timestamp, as on the wire.
    pub timestamp: u32,
    /// When it was at the microphone, in seconds since the first frame.
    pub at_s: f64,
    /// Delay from mouth to ear, in ms.
    pub mouth_to_ear_ms: f64,
    /// Largest error of the mouth-to-ear and network delays, in ms, where two clocks took part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_ms: Option<f64>,
    /// Delays of the stages, which add up to `mouth_to_ear_ms`; `null` for a stage that the frame
    /// did not pass.
    pub stages_ms: Delay,
}

impl Delay {
    /// Delay in `stage`, in ns; `None` if the frame's path has no such stage.
    pub const fn get(&self, stage: Stage) -> Option<i64> {
        self.0[stage as usize]
    }

    pub(super) const fn set(&mut self, stage: Stage, ns: i64) {
        self.0[stage as usize] = Some(ns);
    }

    /// Adds the time between `from` and `to` to `stage`, where both are known, and moves `from`
    /// on. An unknown part becomes part of the next stage.
    fn step(&mut self, stage: Stage, from: &mut Instant, to: Option<Instant>) {
        if let Some(to) = to {
            self.set(stage, between(*from, to));
            *from = to;
        }
    }

    /// The stages that frames pass, with those of signal processing, in order.
    pub fn way(&self) -> impl Iterator<Item = (Stage, i64)> + '_ {
        let stages = Stage::ALL.into_iter();
        let stages = stages.filter(|it| matches!(it.role(), Role::Way | Role::Signal));
        stages.filter_map(|stage| Some((stage, self.get(stage)?)))
    }

    /// Sum of all stages on the path, in ns.
    pub fn sum(&self) -> i64 {
        self.way().map(|(_, ns)| ns).sum()
    }

    /// Delays that the sender's stamps show: every stage up to the socket.
    pub fn of_sender(send_stamps: &SendStamps) -> Self {
        let mut delay = Self::default();
        let length = i64::try_from(send_stamps.duration.as_nanos()).unwrap_or(i64::MAX);
        let mut at = send_stamps.captured;
        delay.step(Stage::Capture, &mut at, Some(send_stamps.delivered));
        let collected = delay.get(Stage::Capture).unwrap_or(0);
        let own = collected.min(length);
        delay.set(Stage::Capture, own);
        let rest = between(at, send_stamps.framed) + collected - own;
        delay.set(Stage::Reframe, rest);
        at = send_stamps.framed;
        delay.step(Stage::Preprocess, &mut at, Some(send_stamps.preprocessed));
        delay.step(Stage::EncodeQueue, &mut at, Some(send_stamps.encode_began));
        delay.step(Stage::EncodeOperation, &mut at, Some(send_stamps.encoded));
        delay.set(Stage::Encode, between(send_stamps.preprocessed, at));
        delay.step(Stage::SendEnqueue, &mut at, send_stamps.enqueued);
        delay.step(Stage::SendPace, &mut at, send_stamps.paced);
        delay.step(Stage::SendHandOver, &mut at, send_stamps.handed_over);
        delay.step(Stage::SendQueue, &mut at, send_stamps.dequeued);
        delay.step(Stage::SendSocket, &mut at, send_stamps.sent);
        if let Some(sent) = send_stamps.sent {
            delay.set(Stage::Send, between(send_stamps.encoded, sent));
        }
        delay
    }

    /// Delays that the receiver's stamps show: every stage from its socket on.
    pub fn of_receiver(playout_stamps: &PlayoutStamps) -> Self {
        let mut delay = Self::default();
        let mut at = playout_stamps.arrived;
        delay.step(Stage::Open, &mut at, Some(playout_stamps.inserted));
        delay.step(Stage::JitterBuffer, &mut at, Some(playout_stamps.pulled));
        let (decode, mix) = (ns(playout_stamps.decode), ns(playout_stamps.mix));
        delay.set(Stage::Decode, decode);
        delay.set(Stage::Mix, mix);
        delay.set(Stage::Mixer, decode + mix);
        delay.set(Stage::Resample, ns(playout_stamps.resample));
        let operations = decode + mix + ns(playout_stamps.resample);
        delay.set(
            Stage::Playout,
            between(at, playout_stamps.played) - operations,
        );
        delay
    }

    /// Delays of a frame that both ends have stamped, on one clock.
    pub fn of_both(send_stamps: &SendStamps, playout_stamps: &PlayoutStamps) -> Self {
        let (before, after) = (
            Self::of_sender(send_stamps),
            Self::of_receiver(playout_stamps),
        );
        let mut delay = Self::default();
        for stage in Stage::ALL {
            let place = stage as usize;
            delay.0[place] = before.0[place].or(after.0[place]);
        }
        let sent = send_stamps.sent.unwrap_or(send_stamps.encoded);
        delay.set(Stage::Network, between(sent, playout_stamps.arrived));
        delay.within_the_send();
        let signal = [
            (
                Stage::PreprocessSignal,
                send_stamps.signal.preprocess,
                playout_stamps.signal.preprocess,
            ),
            (
                Stage::EncodeLookAhead,
                send_stamps.signal.encode,
                playout_stamps.signal.encode,
            ),
            (
                Stage::ResampleSignal,
                send_stamps.signal.resample,
                playout_stamps.signal.resample,
            ),
        ];
        for (stage, there, here) in signal {
            delay.set(stage, ns(there + here));
        }
        delay.within_the_call();
        let whole = between(send_stamps.captured, playout_stamps.played);
        let signals = ns(send_stamps.signal.total() + playout_stamps.signal.total());
        delay.set(Stage::MouthToEar, whole + signals);
        delay
    }

    /// Shortens the send stage where, as on loopback, the packet arrived during the system call
    /// that sent it: nobody waits for the rest of that call.
    fn within_the_send(&mut self) {
        let network = self.get(Stage::Network).unwrap_or(0);
        let socket = self.get(Stage::SendSocket).unwrap_or(0);
        let rest = network.min(0).saturating_neg().min(socket);
        if rest > 0 {
            self.set(Stage::Network, network + rest);
            self.set(Stage::SendSocket, socket - rest);
        }
    }

    /// Shortens the operations of playout where a virtual device plays within the call that asks
    /// for audio: nobody waits for operations beyond that call.
    fn within_the_call(&mut self) {
        let mut short = self
            .get(Stage::Playout)
            .unwrap_or(0)
            .min(0)
            .saturating_neg();
        for stage in [Stage::Resample, Stage::Mix, Stage::Decode] {
            let took = self.get(stage).unwrap_or(0);
            let less = short.min(took);
            self.set(stage, took - less);
            short -= less;
        }
        let playout = self.get(Stage::Playout).unwrap_or(0);
        self.set(Stage::Playout, playout.max(0) - short);
    }
}

/// Serializes the stages by name, in milliseconds.
impl Serialize for Delay {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (stage, ns) in self.way() {
            map.serialize_entry(stage.as_str(), &(ns as f64 / 1e6))?;
        }
        map.end()
    }
}

/// Time from `from` to `to` in ns; negative if `to` is earlier.
pub(super) fn between(from: Instant, to: Instant) -> i64 {
    match to.checked_duration_since(from) {
        Some(after) => ns(after),
        None => -ns(from - to),
    }
}

fn ns(duration: std::time::Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}
