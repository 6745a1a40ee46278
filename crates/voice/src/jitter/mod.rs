//! Jitter buffer: takes packets as they arrive, and returns samples as the device asks for
//! them.
//!
//! Each pull makes a decision. The playout delay that results from the waiting audio is
//! compared with the target's. If it is too long, a pitch period is removed (accelerate); if
//! it is too short, one is repeated (preemptive expand). While somebody speaks, [`Pace`]
//! decides when that is worthwhile; in silence it is free. Clocks that run at different
//! speeds need nothing of their own: they make waits grow or shrink.
//!
//! What is played when the packet that is due is missing:
//!
//! | in hand | what is played | the delay |
//! |---|---|---|
//! | nothing | the last audio, expanded and fading | grows: a late packet is played whole, until [`Config::stall_max`]; then media time goes on |
//! | a later packet | the codec's redundancy (FEC), else its concealment, else expanded audio | stays; if the packet arrives meanwhile, its rest is played |
//! | a later packet with the next sequence number | comfort noise: the sender was silent | moves freely to the target |

use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, Instant};

use crate::codec::Decoder;
use crate::expand::Expansion;
use crate::playout_buffer::PlayoutBuffer;
use ceiling::Ceiling;
use device_stall::DeviceStallDetector;
use order::Order;
use packet::{PLAYED_MAX, PlayoutRecords};
use queue::Queue;
use target::{Outlook, Target};

mod arrive;
mod ceiling;
mod config;
mod device_stall;
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

/// Longest device period that the delay allows for, in ms.
const PERIOD_MS_MAX: f64 = 200.0;

/// Jitter buffer of one voice.
#[derive(Debug)]
pub struct Buffer<D> {
    config: Config,
    decoder: D,
    order: Order,
    queue: Queue,
    target: Target,
    skew: Skew,
    playout_buffer: PlayoutBuffer,
    /// Arrival of the first packet; times are counted from it.
    epoch: Option<Instant>,
    /// Media time right after the decoded audio, in frames.
    next: i64,
    /// The last packet that was decoded.
    last: Option<Last>,
    /// Whether playout has begun.
    is_begun: bool,
    /// Continuation of the audio, while nothing decoded follows.
    expansion: Option<Expansion>,
    gaps: Gaps,
    steering: Steering,
    stall_detector: DeviceStallDetector,
    /// Level of speech, as root mean square; decays.
    level: f32,
    ceiling: Ceiling,
    device: Device,
    records: PlayoutRecords,
    counts: Counts,
    /// Buffer that is kept for its memory.
    decoded: Vec<f32>,
}

/// Concealed audio that may still be made up for.
#[derive(Debug, Default)]
struct Gaps {
    /// Frames concealed since the last packet because no packet was in hand.
    stalled: usize,
    /// Whether the packet that is being decoded ended a stall.
    was_late: bool,
    /// Media times concealed in place of packets that may still arrive.
    concealed: VecDeque<Range<i64>>,
}

/// How the device asks for audio.
#[derive(Clone, Copy, Debug)]
struct Device {
    /// Length of the last pull, in ms.
    pull_ms: f64,
    /// The device's period in ms, if the device asks several times at the beginning of each
    /// period.
    period_ms: Option<f64>,
}

/// The last packet that was decoded.
#[derive(Clone, Copy, Debug)]
struct Last {
    sequence: Option<u64>,
    begins_silence: bool,
}

impl<D: Decoder> Buffer<D> {
    /// Makes an empty buffer; values of `config` outside their ranges are clamped.
    pub fn new(config: Config, decoder: D) -> Self {
        let playout_buffer = PlayoutBuffer::new(decoder.format());
        Self {
            target: Target::new(config.late_share.clamp(0.0, 0.1), config.pace.parameters()),
            ceiling: Ceiling::new(playout_buffer.format()),
            playout_buffer,
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
            steering: Steering::new(config.pace.parameters()),
            stall_detector: DeviceStallDetector::default(),
            level: 0.0,
            device: Device {
                pull_ms: 10.0,
                period_ms: None,
            },
            records: PlayoutRecords::default(),
            counts: Counts::default(),
            decoded: Vec::new(),
        }
    }

    /// The decoder that the buffer was made with.
    pub const fn decoder(&self) -> &D {
        &self.decoder
    }

    /// Tells the buffer that from now on the device asks once in each `period`, by several
    /// pulls at the same moment. Their `now` values are spaced by the length of the audio
    /// that they return.
    pub fn set_period(&mut self, period: Duration) {
        self.device.period_ms = Some((period.as_secs_f64() * 1e3).min(PERIOD_MS_MAX));
    }

    /// Fills `out` with the next interleaved samples to be played: whole frames of
    /// [`Decoder::format`], ideally 2.5 to 10 ms. `now` is the time of the request.
    pub fn pull(&mut self, now: Instant, out: &mut [f32]) {
        let frames = out.len() / self.format().channels();
        let (out, rest) = out.split_at_mut(frames * self.format().channels());
        rest.fill(0.0);
        self.device.pull_ms = self.format().ms(frames).min(20.0);
        let lost = self.stall_detector.on_pull(now, self.format().ms(frames));
        self.counts.frames += frames as u64;
        if !self.begin(now) {
            out.fill(0.0);
            return;
        }
        self.steer(now, frames, lost);
        while self.playout_buffer.waiting() < frames {
            self.fill(now, frames - self.playout_buffer.waiting());
        }
        self.play(now, out);
        self.target.passed(self.format().ms(frames));
    }

    /// Returns the next packet that was played. After each pull, poll until `None`.
    pub fn poll_played(&mut self) -> Option<Played> {
        self.records.played.pop_front()
    }

    /// Returns the next packet that was accepted and then left out.
    pub fn poll_unplayed(&mut self) -> Option<Unplayed> {
        self.records.unplayed.pop_front()
    }

    /// Returns counts and delays at `now`.
    pub fn report(&self, now: Instant) -> Report {
        let ms = |ms: f64| Duration::from_secs_f64(ms.max(0.0) / 1e3);
        let floor = self.target.floor();
        let target = self.aim();
        Report {
            counts: self.counts,
            format: self.format(),
            waiting: ms(self.format().ms(self.playout_buffer.waiting())),
            packets: self.queue.len(),
            target: ms(target.map_or(0.0, |it| it - floor)),
            delay: match self.is_begun {
                true => ms(self.playout(now) - floor),
                false => Duration::ZERO,
            },
            skew_ppm: self.skew.ppm(),
        }
    }

    /// Forgets the stream, as when its source changes; counts continue.
    pub fn reset(&mut self) {
        self.restart();
    }

    fn restart(&mut self) {
        self.queue.clear();
        self.order = Order::default();
        self.target = Target::new(
            self.config.late_share.clamp(0.0, 0.1),
            self.config.pace.parameters(),
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
        // Waiting audio is still played; the new stream's audio is joined to it.
        if self.expansion.is_none() {
            self.expansion = Some(Expansion::after(&self.playout_buffer));
        }
    }

    /// Begins playout once the first packet has waited as long as the target asks. Returns
    /// whether there is audio to be played.
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

    /// Whether audio from before a restart is still fading.
    fn is_fading(&mut self) -> bool {
        !self.is_begun && self.expansion.as_ref().is_some_and(|it| !it.is_silent())
    }

    /// Drops packets whose time has passed, unless nothing else is left.
    fn drop_late_packets(&mut self) {
        let Some(end) = self.queue.end() else { return };
        if end <= self.next {
            // All packets are late, so the path has changed: media time goes back to
            // theirs.
            let (at, _) = self.queue.first().expect("it has an end");
            self.next = at;
            self.gaps.stalled = 0;
            return;
        }
        while let Some((at, first)) = self.queue.first() {
            if at + first.frames as i64 > self.next {
                break;
            }
            self.discard_first();
            self.counts.late += 1;
        }
    }

    /// Discards the first packet in hand.
    fn discard_first(&mut self) {
        let left_out = self.queue.take_first().map(|it| it.1);
        // A redundant copy is not reported.
        if let Some(queued) = left_out.filter(|it| it.sequence.is_some()) {
            if self.records.unplayed.len() == PLAYED_MAX {
                self.records.unplayed.pop_front();
            }
            self.records.unplayed.push_back(Unplayed {
                timestamp: queued.ticks,
                arrival: queued.arrival,
            });
        }
    }

    /// How much later media is played than the target asks, in ms.
    fn error_ms(&self, now: Instant) -> Option<f64> {
        Some(self.playout(now) - self.aim()?)
    }

    /// Target of the playout delay in ms; `None` before the first packet.
    fn aim(&self) -> Option<f64> {
        Some(self.aim_for(self.target.outlook()?, 1.0))
    }

    /// Playout delay for `outlook` with the given part of its margin, plus what a pull adds,
    /// within the configured bounds; in ms.
    fn aim_for(&self, outlook: Outlook, part: f64) -> f64 {
        // Half a pull, and the audio that the device asks for ahead of time.
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

    /// Playout delay of the next frame to be decoded in ms, comparable with the target.
    fn playout(&self, now: Instant) -> f64 {
        let waiting = self.format().ms(self.playout_buffer.waiting());
        self.since(now) + waiting - self.next as f64 * self.frame_ms()
    }

    /// Time since the epoch, in ms.
    fn since(&self, now: Instant) -> f64 {
        let epoch = self.epoch.unwrap_or(now);
        now.saturating_duration_since(epoch).as_secs_f64() * 1e3
    }

    /// Length of a frame, in ms.
    fn frame_ms(&self) -> f64 {
        1e3 / f64::from(self.format().rate())
    }

    const fn format(&self) -> crate::Format {
        self.playout_buffer.format()
    }
}
