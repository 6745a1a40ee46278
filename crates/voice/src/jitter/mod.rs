//! The jitter buffer: packets in as they come, samples out as the device asks.
//!
//! A pull is a decision. The playout delay that results from what waits is compared
//! with [`Target`]'s; if it is too long, a pitch period is left out, if too short,
//! one is played again: when that is worth it is a matter of [`Pace`] while somebody
//! speaks, and free where nobody does. Clocks that run at different speeds are the same
//! thing to it: waits that grow or shrink.
//!
//! When what is due is not there:
//!
//! | in hand | what is played | the delay |
//! |---|---|---|
//! | nothing | the last sound goes on, fading | grows: what comes late is played whole, until [`Config::stall_max`]; then time goes on |
//! | something later | the codec's redundancy (FEC), else its concealment, else the last sound | stays; if the packet comes meanwhile, its rest is played |
//! | something later, and its number is the next | comfort noise: the sender was silent | moves freely to the target |

use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, Instant};

use bytes::Bytes;
use thiserror::Error;

use crate::codec::{Decoder, FRAMES_MS_MAX};
use crate::expand::Expansion;
use crate::pitch;
use crate::stamps::Operation;
use crate::tape::Tape;
use absence::Absence;
use ceiling::Ceiling;
use order::{Order, Place};
use queue::{Entry, Queue};
use target::{Outlook, Target};

mod absence;
mod ceiling;
mod missing;
mod order;
mod pace;
mod queue;
mod report;
mod skew;
mod steer;
mod target;

#[cfg(test)]
mod tests;

pub use pace::{Pace, UnknownPace};
pub use report::{Counts, Report};
use skew::Skew;
use steer::Steering;

/// What a jitter buffer may do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Ticks a second of RTP timestamps; `None` if they count the decoder's frames
    /// (G.722's clock runs at half of its rate: RFC 3551 §4.5.2).
    pub clock_rate: Option<u32>,
    /// Of the time, what may be concealed for packets that come late, 0 to 0.1, in
    /// the long run. Less costs waiting.
    pub late_share: f64,
    /// The playout delay never goes below this above the fastest path.
    pub delay_min: Duration,
    /// Nor its target above this; what comes later is lost.
    pub delay_max: Duration,
    /// How willingly the delay moves while somebody speaks.
    pub pace: Pace,
    /// How long to hold the stream up for a packet that is late.
    pub stall_max: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            clock_rate: None,
            late_share: 0.00055,
            delay_min: Duration::ZERO,
            delay_max: Duration::from_millis(500),
            pace: Pace::default(),
            stall_max: Duration::from_millis(80),
        }
    }
}

/// A voice packet: its RTP numbers and what is inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// RTP sequence number.
    pub sequence: u16,
    /// RTP timestamp.
    pub timestamp: u32,
    /// What the codec takes.
    pub payload: Bytes,
}

/// Why a packet was not taken. None of these needs an answer; they are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refused {
    /// It was here before, or is too old to tell.
    #[error("the packet was here before")]
    Duplicate,
    /// Its time to be played has passed.
    #[error("the packet came too late to be played")]
    Late,
    /// The codec cannot say how long it is.
    #[error("the codec makes no sound of this payload")]
    Undecodable,
    /// Its numbers are far from the stream's. A second one in a row begins anew.
    #[error("the packet's numbers are not this stream's")]
    Stray,
}

/// What became of a packet, for tables of stages: its first sample has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Played {
    /// RTP sequence number; a redundant copy has none.
    pub sequence: Option<u16>,
    /// RTP timestamp, made wide as the stream's first was.
    pub timestamp: i64,
    /// When it was inserted, or what brought its copy.
    pub arrival: Instant,
    /// From then until its first sample leaves.
    pub wait: Duration,
    /// What the pull gave before that sample.
    pub offset: Duration,
    /// How it came to be played.
    pub operation: Operation,
}

/// A packet that was taken and will not be played: its time passed, or too much waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unplayed {
    /// RTP timestamp, made wide as the stream's first was.
    pub timestamp: i64,
    /// When it was inserted.
    pub arrival: Instant,
}

/// A packet on the tape, whose first sample has not left.
#[derive(Clone, Copy, Debug)]
struct Leaving {
    sequence: Option<u16>,
    timestamp: i64,
    arrival: Instant,
    operation: Operation,
}

/// What a device's period is waited for at most.
const PERIOD_MS_MAX: f64 = 200.0;

/// Packets whose end was not asked for yet; older ones are forgotten.
const PLAYED_MAX: usize = 256;

/// Timestamps further apart than this are another stream's.
const REACH: Duration = Duration::from_secs(10);

/// The sound is background below this part of the speaker's level, or below this.
const SILENCE_SHARE: f32 = 0.1;
const SILENCE_LEVEL: f32 = 0.000_5;

/// The jitter buffer of one voice.
#[derive(Debug)]
pub struct Buffer<D> {
    config: Config,
    decoder: D,
    order: Order,
    queue: Queue,
    target: Target,
    skew: Skew,
    tape: Tape,
    /// Since when times are counted: the first packet's arrival.
    epoch: Option<Instant>,
    /// The media time right after what is on the tape, in frames.
    next: i64,
    /// The last packet that was decoded.
    last: Option<Last>,
    is_begun: bool,
    expansion: Option<Expansion>,
    /// Concealed since the last packet, because nothing was in hand, in frames.
    stalled: usize,
    /// The packet that is being decoded ended a stall.
    was_late: bool,
    /// Concealed in place of packets that may still come, by media time.
    concealed: VecDeque<Range<i64>>,
    steering: Steering,
    absence: Absence,
    /// The speaker's level, decaying.
    level: f32,
    ceiling: Ceiling,
    pull_ms: f64,
    /// The device's, if it asks several times a period, all at the period's begin.
    period_ms: Option<f64>,
    /// By their marks on the tape.
    leaving: VecDeque<Leaving>,
    played: VecDeque<Played>,
    unplayed: VecDeque<Unplayed>,
    counts: Counts,
    /// Kept for its memory.
    decoded: Vec<f32>,
}

#[derive(Clone, Copy, Debug)]
struct Last {
    sequence: Option<u64>,
    begins_silence: bool,
}

impl<D: Decoder> Buffer<D> {
    /// An empty buffer; values of `config` beyond their ranges are cut.
    pub fn new(config: Config, decoder: D) -> Self {
        let tape = Tape::new(decoder.format());
        Self {
            target: Target::new(config.late_share.clamp(0.0, 0.1), config.pace.law()),
            ceiling: Ceiling::new(tape.format()),
            tape,
            config,
            decoder,
            order: Order::default(),
            queue: Queue::default(),
            skew: Skew::default(),
            epoch: None,
            next: 0,
            last: None,
            is_begun: false,
            expansion: None,
            stalled: 0,
            was_late: false,
            concealed: VecDeque::new(),
            steering: Steering::new(config.pace.law()),
            absence: Absence::default(),
            level: 0.0,
            pull_ms: 10.0,
            period_ms: None,
            leaving: VecDeque::new(),
            played: VecDeque::new(),
            unplayed: VecDeque::new(),
            counts: Counts::default(),
            decoded: Vec::new(),
        }
    }

    /// The decoder.
    pub const fn decoder(&self) -> &D {
        &self.decoder
    }

    /// Takes a packet that came at `now`.
    ///
    /// # Errors
    /// Says why it will not be played; the stream goes on.
    pub fn insert(&mut self, packet: Packet, now: Instant) -> Result<(), Refused> {
        self.take(packet, &[], now)
    }

    /// Takes a packet and what it repeats of earlier ones: (ticks before its
    /// timestamp, payload). For RED, see [`red::blocks`](glassline_rtp::red::blocks).
    ///
    /// # Errors
    /// As [`Self::insert`], for the packet itself.
    pub fn insert_with(
        &mut self,
        packet: Packet,
        earlier: &[(u32, Bytes)],
        now: Instant,
    ) -> Result<(), Refused> {
        self.take(packet, earlier, now)
    }

    fn take(
        &mut self,
        packet: Packet,
        earlier: &[(u32, Bytes)],
        now: Instant,
    ) -> Result<(), Refused> {
        let reach = self.clock_rate() as i64 * REACH.as_secs() as i64;
        let mut place = self.order.place(packet.sequence, packet.timestamp, reach);
        if place == Place::Restart {
            self.counts.restarts += 1;
            self.restart();
            place = self.order.place(packet.sequence, packet.timestamp, reach);
        }
        let (sequence, ticks) = match place {
            Place::At(sequence, ticks) => (sequence, ticks),
            Place::Seen => {
                self.counts.duplicates += 1;
                return Err(Refused::Duplicate);
            }
            Place::Stray | Place::Restart => {
                self.counts.strays += 1;
                return Err(Refused::Stray);
            }
        };
        if packet.payload.is_empty() {
            // Nothing but padding (RFC 3550 §5.1): Chromium probes the path with such, and
            // they take numbers of the stream.
            self.order.mark_empty(sequence);
            self.counts.empty += 1;
            return Ok(());
        }
        self.counts.packets += 1;
        let Some(frames) = self.frames_of(&packet.payload) else {
            self.counts.undecodable += 1;
            return Err(Refused::Undecodable);
        };
        let at = self.media(ticks);
        self.epoch.get_or_insert(now);
        let came = self.since(now);
        let delay = came - at as f64 * self.frame_ms();
        self.target.arrived(came, delay);
        self.skew.arrived(came, delay);
        for (offset, payload) in earlier {
            self.take_copy(Order::before(ticks, *offset), payload, now);
        }
        let entry = Entry {
            payload: packet.payload,
            sequence: Some(sequence),
            ticks,
            arrival: now,
            frames,
        };
        self.admit(at, entry)
    }

    fn admit(&mut self, at: i64, entry: Entry) -> Result<(), Refused> {
        let end = at + entry.frames as i64;
        if !self.is_begun {
            // The earliest of those that came before the first pull begins.
            self.next = match self.queue.first() {
                Some((first, _)) => first.min(at),
                None => at,
            };
        } else if end <= self.next && !self.is_starving() {
            self.was_concealed(at, end);
            self.counts.late += 1;
            return Err(Refused::Late);
        }
        if !self.queue.insert(at, entry) {
            self.counts.duplicates += 1;
            return Err(Refused::Duplicate);
        }
        while self.queue.is_over() {
            self.leave_out();
            self.counts.overflowed += 1;
        }
        Ok(())
    }

    /// A redundant copy: taken if it is of use.
    fn take_copy(&mut self, ticks: i64, payload: &Bytes, now: Instant) {
        let at = self.media(ticks);
        let Some(frames) = self.frames_of(payload) else {
            return;
        };
        if !self.is_begun || at < self.next {
            return;
        }
        let entry = Entry {
            payload: payload.clone(),
            sequence: None,
            ticks,
            arrival: now,
            frames,
        };
        if self.queue.insert(at, entry) {
            // The original is lost, or later still: so long its sound takes.
            let came = self.since(now);
            self.target
                .arrived(came, came - at as f64 * self.frame_ms());
        }
    }

    /// From now on the device asks once a `period`, in several pulls at the same moment,
    /// whose `now` are as far apart as what they give is long.
    pub fn set_period(&mut self, period: Duration) {
        self.period_ms = Some((period.as_secs_f64() * 1e3).min(PERIOD_MS_MAX));
    }

    /// Fills `out` with what is to be heard next: interleaved samples, whole frames
    /// of [`Decoder::format`], 2.5 to 10 ms at best. `now` is when they are asked for.
    pub fn pull(&mut self, now: Instant, out: &mut [f32]) {
        let frames = out.len() / self.format().channels();
        let (out, rest) = out.split_at_mut(frames * self.format().channels());
        rest.fill(0.0);
        self.pull_ms = self.format().ms(frames).min(20.0);
        let lost = self.absence.asked(now, self.format().ms(frames));
        self.counts.frames += frames as u64;
        if !self.begin(now) {
            out.fill(0.0);
            return;
        }
        self.steer(now, frames, lost);
        while self.tape.waiting() < frames {
            self.fill(now, frames - self.tape.waiting());
        }
        self.play(now, out);
        self.target.passed(self.format().ms(frames));
    }

    /// The next packet that was played. After a pull, all are those of that pull.
    pub fn poll_played(&mut self) -> Option<Played> {
        self.played.pop_front()
    }

    /// The next packet that was taken and left out.
    pub fn poll_unplayed(&mut self) -> Option<Unplayed> {
        self.unplayed.pop_front()
    }

    /// How it stands.
    pub fn report(&self, now: Instant) -> Report {
        let ms = |ms: f64| Duration::from_secs_f64(ms.max(0.0) / 1e3);
        let floor = self.target.floor();
        let target = self.aim();
        Report {
            counts: self.counts,
            format: self.format(),
            waiting: ms(self.format().ms(self.tape.waiting())),
            packets: self.queue.len(),
            target: ms(target.map_or(0.0, |it| it - floor)),
            delay: match self.is_begun {
                true => ms(self.playout(now) - floor),
                false => Duration::ZERO,
            },
            skew_ppm: self.skew.ppm(),
        }
    }

    /// Forgets the stream, as when its source changes; counts go on.
    pub fn reset(&mut self) {
        self.restart();
        self.order = Order::default();
    }

    fn restart(&mut self) {
        self.queue.clear();
        self.order = Order::default();
        self.target = Target::new(
            self.config.late_share.clamp(0.0, 0.1),
            self.config.pace.law(),
        );
        self.skew = Skew::default();
        self.epoch = None;
        self.last = None;
        self.is_begun = false;
        self.steering.reset();
        self.stalled = 0;
        self.concealed.clear();
        self.decoder.reset();
        self.ceiling = Ceiling::new(self.format());
        // What waits is still played; what comes then joins to it.
        if self.expansion.is_none() {
            self.expansion = Some(Expansion::after(&self.tape));
        }
    }

    /// Whether there is something to play at all: the first packet waits as long as
    /// all others.
    fn begin(&mut self, now: Instant) -> bool {
        if self.is_begun {
            return true;
        }
        if self.queue.first().is_some()
            && self
                .aim()
                .is_some_and(|aim| self.playout(now) + self.pull_ms / 2.0 >= aim)
        {
            self.is_begun = true;
        }
        // After a restart the old sound fades until the new one begins.
        self.is_begun || self.is_fading()
    }

    fn is_fading(&mut self) -> bool {
        !self.is_begun && self.expansion.as_ref().is_some_and(|it| !it.is_silent())
    }

    /// Packets that are all in the past: of no use, unless nothing else is left.
    fn drop_passed(&mut self) {
        let Some(end) = self.queue.end() else { return };
        if end <= self.next {
            // All of it is late: the path has changed. Go back to where it is now.
            let (at, _) = self.queue.first().expect("it has an end");
            self.next = at;
            self.stalled = 0;
            return;
        }
        while let Some((at, first)) = self.queue.first() {
            if at + first.frames as i64 > self.next {
                break;
            }
            self.leave_out();
            self.counts.late += 1;
        }
    }

    /// The first packet in hand will not be played.
    fn leave_out(&mut self) {
        let left_out = self.queue.take_first().map(|it| it.1);
        // Nobody waits for a copy.
        if let Some(entry) = left_out.filter(|it| it.sequence.is_some()) {
            if self.unplayed.len() == PLAYED_MAX {
                self.unplayed.pop_front();
            }
            self.unplayed.push_back(Unplayed {
                timestamp: entry.ticks,
                arrival: entry.arrival,
            });
        }
    }

    /// Decodes the first packet in hand, which is due.
    fn decode(&mut self) {
        let Some((at, entry)) = self.queue.take_first() else {
            return;
        };
        self.settle(at, entry.sequence);
        self.decoded.clear();
        let result = self.decoder.decode(&entry.payload, &mut self.decoded);
        let channels = self.format().channels();
        self.decoded.resize(entry.frames * channels, 0.0);
        if result.is_err() {
            self.counts.undecodable += 1;
            self.conceal(entry.frames);
            self.next = self.next.max(at + entry.frames as i64);
            return;
        }
        self.ceiling.bound_decoded(&mut self.decoded);
        self.hear();
        let gone = usize::try_from(self.next - at).unwrap_or(0);
        let gone = gone.min(entry.frames);
        if gone > 0 {
            self.was_concealed(at, self.next);
        }
        let leaving = (gone < entry.frames).then_some(Leaving {
            sequence: entry.sequence.map(|it| it as u16),
            timestamp: entry.ticks,
            arrival: entry.arrival,
            operation: match (entry.sequence, gone > 0 || self.was_late) {
                (None, _) => Operation::Repeated,
                (_, true) => Operation::Late,
                (_, false) => Operation::Normal,
            },
        });
        let decoded = std::mem::take(&mut self.decoded);
        self.join(&decoded[gone * channels..], leaving);
        self.decoded = decoded;
        self.next = at + entry.frames as i64;
        self.last = Some(Last {
            sequence: entry.sequence,
            begins_silence: self.decoder.begins_silence(&entry.payload),
        });
        if entry.sequence.is_none() {
            self.counts.repeated += 1;
        }
    }

    /// Plays what waits, and tells which packets begin in it.
    fn play(&mut self, now: Instant, out: &mut [f32]) {
        let format = self.format();
        let (leaving, played) = (&mut self.leaving, &mut self.played);
        self.tape.play(out, |frames| {
            let Some(packet) = leaving.pop_front() else {
                return;
            };
            if played.len() == PLAYED_MAX {
                played.pop_front();
            }
            let offset = Duration::from_secs_f64(format.ms(frames) / 1e3);
            played.push_back(Played {
                sequence: packet.sequence,
                timestamp: packet.timestamp,
                arrival: packet.arrival,
                wait: now.saturating_duration_since(packet.arrival) + offset,
                offset,
                operation: packet.operation,
            });
        });
    }

    /// A packet comes after a stall: what was it?
    fn settle(&mut self, at: i64, sequence: Option<u64>) {
        let stalled = std::mem::take(&mut self.stalled);
        self.was_late = false;
        let last = self.last.and_then(|last| last.sequence);
        let missing = match (last, sequence) {
            (Some(last), Some(sequence)) => self.order.between(last, sequence),
            _ => 0,
        };
        self.counts.lost += missing;
        if missing > 0 && !self.decoder.is_stateless() {
            self.ceiling.lose();
        }
        if stalled > 0 && missing == 0 && at <= self.next {
            self.target.was_late(self.format().ms(stalled));
            self.was_late = true;
        }
    }

    /// Appends decoded sound to the tape, without a seam if the last was ours, and
    /// follows where the packet that it is of begins.
    fn join(&mut self, decoded: &[f32], leaving: Option<Leaving>) {
        match self.expansion.take() {
            Some(expansion) if !decoded.is_empty() => {
                let (joined, longer) = expansion.join(decoded, self.is_background(decoded));
                self.follow(leaving, longer);
                self.counts.frames_concealed += longer as u64;
                if std::mem::take(&mut self.was_late) {
                    self.target.was_late(self.format().ms(longer));
                }
                self.tape.append(&joined);
            }
            kept => {
                self.expansion = kept;
                self.follow(leaving, 0);
                self.tape.append(decoded);
            }
        }
    }

    fn follow(&mut self, leaving: Option<Leaving>, frames: usize) {
        if let Some(leaving) = leaving {
            self.tape.mark(frames);
            self.leaving.push_back(leaving);
        }
    }

    fn is_quiet(&self) -> bool {
        self.is_background(self.tape.span(0, self.tape.waiting() as isize))
    }

    fn is_background(&self, samples: &[f32]) -> bool {
        pitch::level(samples) < (self.level * SILENCE_SHARE).max(SILENCE_LEVEL)
    }

    /// Follows the speaker's level: up at once, down in seconds.
    fn hear(&mut self) {
        let frames = self.decoded.len() / self.format().channels();
        let fades = (-self.format().ms(frames) / 3_000.0).exp() as f32;
        let level = pitch::level(&self.decoded);
        if level.is_finite() {
            self.level = level.min(1.0).max(self.level * fades);
        }
    }

    /// By how many ms media is played later than it should be.
    fn error_ms(&self, now: Instant) -> Option<f64> {
        Some(self.playout(now) - self.aim()?)
    }

    /// The playout delay to aim for; `None` before anything has come.
    fn aim(&self) -> Option<f64> {
        Some(self.aim_for(self.target.outlook()?, 1.0))
    }

    /// What `outlook` says with so much of its margin, and what a pull adds, within the
    /// configuration's bounds.
    fn aim_for(&self, outlook: Outlook, part: f64) -> f64 {
        // Half a pull, and all that is asked for before its time.
        let early = self.period_ms.map_or(0.0, |it| it - self.pull_ms);
        let aim = outlook.playout(part) + self.pull_ms / 2.0 + early.max(0.0);
        let floor = self.target.floor();
        let least = floor + self.config.delay_min.as_secs_f64() * 1e3;
        let most = floor + self.config.delay_max.as_secs_f64() * 1e3;
        aim.max(least).min(most.max(least))
    }

    /// The playout delay of the next frame to be decoded, in the target's terms.
    fn playout(&self, now: Instant) -> f64 {
        let waiting = self.format().ms(self.tape.waiting());
        self.since(now) + waiting - self.next as f64 * self.frame_ms()
    }

    fn since(&self, now: Instant) -> f64 {
        let epoch = self.epoch.unwrap_or(now);
        now.saturating_duration_since(epoch).as_secs_f64() * 1e3
    }

    fn frames_of(&self, payload: &[u8]) -> Option<usize> {
        let longest = self.format().frames(FRAMES_MS_MAX);
        let frames = self.decoder.frames(payload)?;
        (1..=longest).contains(&frames).then_some(frames)
    }

    fn clock_rate(&self) -> u32 {
        self.config
            .clock_rate
            .unwrap_or(self.format().rate())
            .max(1)
    }

    /// A wide timestamp in frames.
    fn media(&self, ticks: i64) -> i64 {
        let (rate, clock) = (self.format().rate(), self.clock_rate());
        match rate == clock {
            true => ticks,
            false => {
                let frames = i128::from(ticks) * i128::from(rate) / i128::from(clock);
                i64::try_from(frames).unwrap_or(0)
            }
        }
    }

    fn frame_ms(&self) -> f64 {
        1e3 / f64::from(self.format().rate())
    }

    const fn format(&self) -> crate::Format {
        self.tape.format()
    }
}
