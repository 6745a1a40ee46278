//! Model of the control logic of NetEq, WebRTC's jitter buffer: when it plays, stretches and
//! conceals.
//!
//! The model follows a description of two versions. All times are whole ticks of 10 ms, one for
//! each call of the device, as in NetEq. Without audio, a stretch always finds a pitch period of
//! 8 ms; NetEq often finds none. With audio ([`NetEq::play_speech`]), our pitch search decides. Packets
//! that come late while no other packet is there delay the stream; packets that come after later
//! ones were played are discarded.

use std::collections::{BTreeMap, VecDeque};

use glassline_voice::{Decoder, L16, Player};

use super::speech_run::{EncodedSpeech, PlayedSpeech};
use super::{Contender, Moment, Outcome, Stream};
use histogram::{Reordering, Underruns};

mod histogram;

/// The version of NetEq whose behavior is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// NetEq of Chromium 98 (December 2021), which the study used.
    M98,
    /// NetEq of July 2026.
    Y2026,
}

/// The part of NetEq that decides what to play next.
#[derive(Clone, Copy, Debug)]
pub struct NetEq {
    /// Version of the control logic.
    pub version: Version,
    /// Quantile of the largest delays of half-seconds that NetEq waits for. A field trial may set
    /// it; the default is 0.95.
    pub quantile: f64,
}

impl Default for NetEq {
    fn default() -> Self {
        Self {
            version: Version::M98,
            quantile: 0.95,
        }
    }
}

/// Duration of a tick, and of the audio that a call of the device plays.
const TICK_MS: f64 = 10.0;
/// Duration that a stretch removes or inserts.
const PERIOD_MS: f64 = 8.0;
/// Least number of ticks between two stretches.
const STRETCH_TICKS: u64 = 5;
/// Decoded audio that a stretch needs.
const DECODED_MS: f64 = 30.0;
/// Least correlation of a pitch period, for normal and for urgent stretches.
const FIT: (f32, f32) = (0.9, 0.5);
/// Media time over which arrivals are compared.
const HISTORY_MS: f64 = 2_000.0;

impl Contender for NetEq {
    fn name(&self) -> String {
        match self.version {
            Version::M98 => "NetEq M98 (model)".to_owned(),
            Version::Y2026 => "NetEq 2026 (model)".to_owned(),
        }
    }

    fn play(&self, stream: &Stream<'_>) -> Outcome {
        State::<L16>::new(*self, stream, None).run(stream)
    }
}

impl NetEq {
    /// Plays `spoken` with its audio; [`Contender::play`] plays packets without audio.
    pub fn play_speech<D: Decoder>(
        &self,
        stream: &Stream<'_>,
        spoken: &EncodedSpeech<D>,
    ) -> PlayedSpeech {
        let audio = Audio {
            player: Player::new((spoken.make)()),
            spoken,
            played: Vec::new(),
        };
        let mut state = State::new(*self, stream, Some(audio));
        let outcome = state.run(stream);
        PlayedSpeech {
            outcome,
            samples: state.audio.map(|it| it.played).unwrap_or_default(),
        }
    }
}

/// Audio of a run.
struct Audio<'a, D> {
    player: Player<D>,
    spoken: &'a EncodedSpeech<D>,
    played: Vec<f32>,
}

/// State of one run.
struct State<'a, D = L16> {
    audio: Option<Audio<'a, D>>,
    version: Version,
    packet_ms: f64,
    tick: u64,
    /// Packets in the buffer by index, and the tick in which each arrived.
    packets: BTreeMap<usize, u64>,
    /// Index of the next packet to decode.
    expected: usize,
    /// Decoded audio that was not played yet.
    decoded_ms: f64,
    arrivals: Arrivals,
    underruns: Underruns,
    reordering: Reordering,
    target_ms: f64,
    level_ms: f64,
    stretched_at: u64,
    /// Number of ticks that were concealed in a row.
    expands: u64,
    /// Audio that stretches added or removed since the level was filtered last.
    change_ms: f64,
    is_begun: bool,
    concealed_ms: f64,
    stretched_ms: f64,
    late: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Operation {
    Normal,
    Accelerate,
    FastAccelerate,
    PreemptiveExpand,
    Expand,
    Merge,
}

impl<'a, D: Decoder> State<'a, D> {
    fn new(kind: NetEq, stream: &Stream<'_>, audio: Option<Audio<'a, D>>) -> Self {
        Self {
            audio,
            version: kind.version,
            packet_ms: stream.interval.as_secs_f64() * 1e3,
            tick: 0,
            packets: BTreeMap::new(),
            expected: 0,
            decoded_ms: 0.0,
            arrivals: Arrivals::default(),
            underruns: Underruns::new(kind.quantile),
            reordering: Reordering::new(),
            target_ms: 80.0,
            level_ms: 0.0,
            stretched_at: 0,
            expands: 0,
            change_ms: 0.0,
            is_begun: false,
            concealed_ms: 0.0,
            stretched_ms: 0.0,
            late: 0,
        }
    }

    fn run(&mut self, stream: &Stream<'_>) -> Outcome {
        let mut outcome = Outcome::new(stream);
        let mut arrivals = stream.arrivals().into_iter().peekable();
        let first = arrivals.peek().map_or(0.0, |it| it.0.as_secs_f64() * 1e3);
        let end = stream.end().as_secs_f64() * 1e3;
        let mut now = first;
        while now < end {
            while let Some((_, packet)) = arrivals.next_if(|it| it.0.as_secs_f64() * 1e3 <= now) {
                self.insert(packet);
            }
            self.pull(now, &mut outcome);
            now += TICK_MS;
        }
        let played = self.tick as f64 * TICK_MS;
        outcome.concealed_ratio = self.concealed_ms / played;
        outcome.stretched_ratio = self.stretched_ms / played;
        outcome.late = self.late;
        outcome
    }

    fn insert(&mut self, packet: usize) {
        let media = packet as f64 * self.packet_ms;
        let came = self.tick as f64 * TICK_MS;
        let is_reordered = self.arrivals.latest.is_some_and(|latest| media < latest);
        let delay = match self.version {
            Version::M98 => self.arrivals.running(came, media),
            Version::Y2026 => self.arrivals.above_fastest(came, media),
        };
        if !is_reordered {
            self.underruns.add(delay, came);
        }
        let under = self.underruns.optimal_ms();
        let reordered = if is_reordered { delay } else { 0.0 };
        let over = self.reordering.add(reordered, under);
        let least = match self.version {
            Version::M98 => self.packet_ms,
            Version::Y2026 => 0.0,
        };
        self.target_ms = under
            .max(over)
            .max(least)
            .min(0.75 * 200.0 * self.packet_ms);
        if self.is_begun && packet < self.expected {
            self.late += 1;
        } else {
            self.packets.insert(packet, self.tick);
        }
    }

    fn pull(&mut self, now: f64, outcome: &mut Outcome) {
        self.tick += 1;
        if !self.is_begun {
            let Some((packet, _)) = self.packets.first_key_value() else {
                return;
            };
            (self.is_begun, self.expected) = (true, *packet);
        }
        self.filter_level();
        let operation = self.decide();
        self.decode_for(operation, now, outcome);
        let is_long_enough = self.decoded_ms >= DECODED_MS - 1e-6;
        match operation {
            Operation::Accelerate if is_long_enough => self.stretch(-PERIOD_MS, FIT.0),
            Operation::FastAccelerate if is_long_enough => self.stretch(-PERIOD_MS, FIT.1),
            Operation::PreemptiveExpand if is_long_enough => self.stretch(PERIOD_MS, FIT.0),
            _ => {}
        }
        if self.decoded_ms >= TICK_MS - 1e-6 {
            self.decoded_ms -= TICK_MS;
            self.expands = 0;
        } else {
            self.concealed_ms += TICK_MS - self.decoded_ms;
            self.decoded_ms = 0.0;
            self.expands += 1;
        }
        if let Some(audio) = &mut self.audio {
            let begun = audio.played.len();
            audio
                .played
                .resize(begun + audio.spoken.samples(TICK_MS), 0.0);
            audio.player.play(&mut audio.played[begun..]);
            self.decoded_ms = audio.player.waiting_ms();
        }
    }

    fn stretch(&mut self, by: f64, fit_min: f32) {
        let by = match &mut self.audio {
            Some(audio) if by < 0.0 => -audio.player.shorten(fit_min),
            Some(audio) => audio.player.lengthen(fit_min),
            None => by,
        };
        if by == 0.0 {
            return;
        }
        self.decoded_ms += by;
        self.change_ms += by;
        self.stretched_ms += by.abs();
        self.stretched_at = self.tick;
    }

    fn filter_level(&mut self) {
        let factor = match self.target_ms {
            it if it <= 20.0 => 251.0,
            it if it <= 60.0 => 252.0,
            it if it <= 140.0 => 253.0,
            _ => 254.0,
        } / 256.0;
        // The level counts packets only, not decoded audio.
        let span = self.packets.len() as f64 * self.packet_ms;
        let change = std::mem::take(&mut self.change_ms);
        self.level_ms = (factor * self.level_ms + (1.0 - factor) * span + change).max(0.0);
    }

    fn decide(&self) -> Operation {
        match self.packets.first_key_value() {
            None => Operation::Expand,
            Some((packet, _)) if *packet > self.expected => self.decide_on_gap(*packet),
            Some(_) => self.decide_on_level(),
        }
    }

    fn decide_on_level(&self) -> Operation {
        if self.expands > 0 {
            return Operation::Merge;
        }
        let target = self.target_ms;
        let (level, low, high) = match self.version {
            Version::M98 => {
                let low = (0.75 * target).max(target - 85.0);
                (self.level_ms, low, target.max(low + 20.0))
            }
            Version::Y2026 => {
                let played = self.expected as f64 * self.packet_ms - self.decoded_ms;
                let delay = self.arrivals.above_fastest_at(self.tick, played);
                (delay, target, target + self.arrivals.highest_ms() + 20.0)
            }
        };
        let may_stretch = self.tick >= self.stretched_at + STRETCH_TICKS;
        match () {
            () if level >= 4.0 * high => Operation::FastAccelerate,
            () if level >= high && may_stretch => Operation::Accelerate,
            () if level < low && may_stretch => Operation::PreemptiveExpand,
            () => Operation::Normal,
        }
    }

    /// Decides for a tick in which the expected packet is missing and `packet` is the next one.
    fn decide_on_gap(&self, packet: usize) -> Operation {
        let leap_ms = (packet - self.expected) as f64 * self.packet_ms;
        let is_early = leap_ms > self.expands as f64 * TICK_MS;
        let span = self.packets.len() as f64 * self.packet_ms + self.decoded_ms;
        let waits = match self.version {
            Version::M98 => self.expands < 10 && span < self.target_ms,
            Version::Y2026 => span <= self.target_ms + 50.0,
        };
        match is_early && waits {
            true => Operation::Expand,
            false => Operation::Merge,
        }
    }

    /// Decodes as much as the operation needs, if it is in the buffer.
    fn decode_for(&mut self, operation: Operation, now: f64, outcome: &mut Outcome) {
        let is_stretch = matches!(
            operation,
            Operation::Accelerate | Operation::FastAccelerate | Operation::PreemptiveExpand
        );
        let wanted = match is_stretch {
            true => DECODED_MS,
            false => TICK_MS,
        };
        while self.decoded_ms < wanted - 1e-6 && operation != Operation::Expand {
            let Some((packet, came)) = self.packets.pop_first() else {
                return;
            };
            if packet > self.expected && operation != Operation::Merge {
                self.packets.insert(packet, came);
                return;
            }
            outcome.moments.push(Moment {
                at_s: now / 1e3,
                wait_ms: (self.tick - came) as f64 * TICK_MS,
            });
            self.expected = packet + 1;
            self.decoded_ms = match &mut self.audio {
                Some(audio) => {
                    audio.player.decode(&audio.spoken.payloads[packet]);
                    audio.player.waiting_ms()
                }
                None => self.decoded_ms + self.packet_ms,
            };
        }
    }
}

/// Arrivals of the packets of the last two seconds.
#[derive(Default)]
struct Arrivals {
    /// Media time of each packet, and its arrival less its media time.
    delays: VecDeque<(f64, f64)>,
    latest: Option<f64>,
    last: Option<(f64, f64)>,
    /// Media time of each packet, and how much longer it took than the one before.
    steps: VecDeque<(f64, f64)>,
}

impl Arrivals {
    /// Relative delay of M98: the sum of inter-arrival differences, never below 0.
    fn running(&mut self, came: f64, media: f64) -> f64 {
        let step = self
            .last
            .map_or(0.0, |(before, then)| came - before - (media - then));
        self.last = Some((came, media));
        self.latest = Some(self.latest.map_or(media, |latest| latest.max(media)));
        self.steps.push_back((media, step));
        while self.steps[0].0 < media - HISTORY_MS {
            self.steps.pop_front();
        }
        self.steps
            .iter()
            .fold(0.0, |sum, (_, step)| f64::max(sum + step, 0.0))
    }

    /// Relative delay of 2026: above the fastest packet of two seconds.
    fn above_fastest(&mut self, came: f64, media: f64) -> f64 {
        self.latest = Some(self.latest.map_or(media, |latest| latest.max(media)));
        self.delays.push_back((media, came - media));
        let latest = self.latest.unwrap_or(media);
        while self.delays[0].0 < latest - HISTORY_MS {
            self.delays.pop_front();
        }
        came - media - self.fastest()
    }

    /// The relative delay of a packet played in `tick`.
    fn above_fastest_at(&self, tick: u64, media: f64) -> f64 {
        tick as f64 * TICK_MS - media - self.fastest()
    }

    fn highest_ms(&self) -> f64 {
        let delays = self.delays.iter().map(|(_, delay)| *delay);
        (delays.fold(f64::NEG_INFINITY, f64::max) - self.fastest()).max(0.0)
    }

    fn fastest(&self) -> f64 {
        self.delays
            .iter()
            .map(|(_, delay)| *delay)
            .fold(f64::INFINITY, f64::min)
    }
}
