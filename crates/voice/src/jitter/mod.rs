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
//! | nothing | the last audio goes on, fading | grows: what comes late is played whole, until [`Config::stall_max`]; then time goes on |
//! | something later | the codec's redundancy (FEC), else its concealment, else the last audio | stays; if the packet comes meanwhile, its rest is played |
//! | something later, and its number is the next | comfort noise: the sender was silent | moves freely to the target |

use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, Instant};

use crate::codec::Decoder;
use crate::expand::Expansion;
use crate::tape::Tape;
use absence::Absence;
use ceiling::Ceiling;
use order::Order;
use packet::{Departures, PLAYED_MAX};
use queue::Queue;
use target::{Outlook, Target};

mod absence;
mod arrive;
mod ceiling;
mod config;
mod missing;
mod order;
mod pace;
mod packet;
mod play;
mod queue;
mod report;
mod skew;
mod steer;
mod target;

#[cfg(test)]
mod tests;

pub use config::Config;
pub use pace::{Pace, UnknownPace};
pub use packet::{Packet, Played, Refused, Unplayed};
pub use report::{Counts, Report};
use skew::Skew;
use steer::Steering;

/// What a device's period is waited for at most.
const PERIOD_MS_MAX: f64 = 200.0;

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
    gaps: Gaps,
    steering: Steering,
    absence: Absence,
    /// The speaker's level, decaying.
    level: f32,
    ceiling: Ceiling,
    device: Device,
    departures: Departures,
    counts: Counts,
    /// Kept for its memory.
    decoded: Vec<f32>,
}

/// What was concealed, and may still have to be made up for.
#[derive(Debug, Default)]
struct Gaps {
    /// Concealed since the last packet, because nothing was in hand, in frames.
    stalled: usize,
    /// The packet that is being decoded ended a stall.
    was_late: bool,
    /// Concealed in place of packets that may still come, by media time.
    concealed: VecDeque<Range<i64>>,
}

/// How the device asks.
#[derive(Clone, Copy, Debug)]
struct Device {
    /// What the last pull asked for.
    pull_ms: f64,
    /// The device's period, if it asks several times in one, all at the period's begin.
    period_ms: Option<f64>,
}

/// The last packet that was decoded.
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
            gaps: Gaps::default(),
            steering: Steering::new(config.pace.law()),
            absence: Absence::default(),
            level: 0.0,
            device: Device {
                pull_ms: 10.0,
                period_ms: None,
            },
            departures: Departures::default(),
            counts: Counts::default(),
            decoded: Vec::new(),
        }
    }

    /// The decoder.
    pub const fn decoder(&self) -> &D {
        &self.decoder
    }

    /// From now on the device asks once a `period`, in several pulls at the same moment,
    /// whose `now` are as far apart as what they give is long.
    pub fn set_period(&mut self, period: Duration) {
        self.device.period_ms = Some((period.as_secs_f64() * 1e3).min(PERIOD_MS_MAX));
    }

    /// Fills `out` with what is to be heard next: interleaved samples, whole frames
    /// of [`Decoder::format`], 2.5 to 10 ms at best. `now` is when they are asked for.
    pub fn pull(&mut self, now: Instant, out: &mut [f32]) {
        let frames = out.len() / self.format().channels();
        let (out, rest) = out.split_at_mut(frames * self.format().channels());
        rest.fill(0.0);
        self.device.pull_ms = self.format().ms(frames).min(20.0);
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
        self.departures.played.pop_front()
    }

    /// The next packet that was taken and left out.
    pub fn poll_unplayed(&mut self) -> Option<Unplayed> {
        self.departures.unplayed.pop_front()
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
        self.gaps.stalled = 0;
        self.gaps.concealed.clear();
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
                .is_some_and(|aim| self.playout(now) + self.device.pull_ms / 2.0 >= aim)
        {
            self.is_begun = true;
        }
        // After a restart the old audio fades until the new one begins.
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
            self.gaps.stalled = 0;
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
            if self.departures.unplayed.len() == PLAYED_MAX {
                self.departures.unplayed.pop_front();
            }
            self.departures.unplayed.push_back(Unplayed {
                timestamp: entry.ticks,
                arrival: entry.arrival,
            });
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
        let early = self
            .device
            .period_ms
            .map_or(0.0, |it| it - self.device.pull_ms);
        let aim = outlook.playout(part) + self.device.pull_ms / 2.0 + early.max(0.0);
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

    fn frame_ms(&self) -> f64 {
        1e3 / f64::from(self.format().rate())
    }

    const fn format(&self) -> crate::Format {
        self.tape.format()
    }
}
