//! A whole call in virtual time: a microphone and a loudspeaker clocked by their samples,
//! both halves of the engine, and a path between them.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use glassline_media::Ssrc;
use glassline_sim::Clock;

use crate::jitter::Packet;
use crate::{
    Decoder, Encoder, Format, Listener, PlayoutStamps, Received, SendStamps, Speaker, listener,
    opus, speaker,
};

mod chirps;
mod delay;
mod hours;
mod loudness;
mod metered_encoder;
mod redundancy;
mod silence;
mod stall;
mod whole;

use metered_encoder::MeteredEncoder;

pub(crate) const SSRC: Ssrc = Ssrc(0x5eed);

/// A device clocked by its samples.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Device {
    pub(crate) format: Format,
    /// Frames in each callback.
    pub(crate) period: usize,
    /// How much faster its clock runs, in parts per million.
    pub(crate) ppm: f64,
    /// When its clock shows 0.
    start: Instant,
    /// Frames delivered or taken so far.
    frames: u64,
}

impl Device {
    fn new(format: Format, period: usize, ppm: f64, start: Instant) -> Self {
        Self {
            format,
            period,
            ppm,
            start,
            frames: 0,
        }
    }

    /// When its clock shows `frames`.
    pub(crate) fn at(&self, frames: u64) -> Instant {
        let rate = f64::from(self.format.rate()) * (1.0 + self.ppm / 1e6);
        self.start + Duration::from_secs_f64(frames as f64 / rate)
    }

    fn next_end(&self) -> Instant {
        self.at(self.frames + self.period as u64)
    }

    /// When a callback happens that is due at `due`, if its thread stalls until `until`.
    fn call(&mut self, due: Instant, until: Option<Instant>) -> Instant {
        let Some(until) = until.filter(|until| *until > due) else {
            return due;
        };
        let late = until - due;
        if late > BACKLOG {
            let period = Duration::from_secs_f64(self.format.ms(self.period) / 1e3);
            let lost = (late - BACKLOG).as_secs_f64() / period.as_secs_f64();
            self.frames += lost.ceil() as u64 * self.period as u64;
        }
        until
    }

    /// The device after a change of format and period at `now`.
    fn changed(&self, format: Format, period: usize, now: Instant) -> Self {
        Self::new(format, period, self.ppm, now)
    }
}

/// One direction of a call.
///
/// It has a loop of its own instead of `glassline_sim::Simulation`: two devices whose clocks
/// drift call into the engine, and the engine asks for the time more than once while it
/// works.
pub(crate) struct Call<E = opus::Encoder, D = opus::Decoder> {
    pub(crate) speaker: Speaker<MeteredEncoder<E>>,
    pub(crate) listener: Listener<D>,
    pub(crate) microphone: Device,
    pub(crate) loudspeaker: Device,
    /// Signal at the microphone, by seconds of its clock.
    pub(crate) source: Box<dyn FnMut(f64) -> f32>,
    /// Signal of the loudspeaker near the microphone, sample by sample at 48 kHz; `None`:
    /// what is played at the other end.
    pub(crate) other: Option<Box<dyn FnMut() -> f32>>,
    /// Delays of each packet's copies, by packet number; no copies means a lost packet.
    pub(crate) path: Box<dyn FnMut(u64) -> Vec<Duration>>,
    pub(crate) clock: Clock,
    pub(crate) start: Instant,
    /// Time that passes whenever the engine asks for the time.
    pub(crate) tick: Duration,
    sequence: u16,
    sent: u64,
    flying: BinaryHeap<Reverse<(Instant, u64, Flying)>>,
    pub(crate) send_stamps: Vec<SendStamps>,
    pub(crate) playout_stamps: Vec<PlayoutStamps>,
    /// All audio that was played, from [`Self::played_from`] on.
    pub(crate) played: Vec<f32>,
    pub(crate) is_recording: bool,
    /// Largest sample that was encoded since the value was last taken.
    pub(crate) encoded_peak: Rc<Cell<f32>>,
    /// Largest played sample since the value was last reset.
    pub(crate) peak: f32,
    /// Largest difference of neighboring played samples since the value was last reset.
    pub(crate) step: f32,
    last: f32,
    /// Neither device calls back before this.
    pub(crate) unplugged_until: Option<Instant>,
    /// The threads of microphone and loudspeaker stall until these times.
    pub(crate) stopped_until: [Option<Instant>; 2],
    /// The path holds all packets back until then.
    pub(crate) held_until: Option<Instant>,
    /// Whether the microphone reports the capture time of its samples.
    pub(crate) reports_times: bool,
    is_red: bool,
}

/// Audio that a device keeps while its thread stalls; the rest is lost.
const BACKLOG: Duration = Duration::from_millis(50);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Flying {
    sequence: u16,
    timestamp: u32,
    payload: Vec<u8>,
}

impl Call {
    pub(crate) fn new(
        speaker: speaker::Config,
        listener: listener::Config,
        periods: (usize, usize),
        ppm: (f64, f64),
    ) -> Self {
        let encoder = opus::Encoder::new(speaker.opus).expect("an encoder");
        Self::with(speaker, encoder, listener, opus::Decoder::new, periods, ppm)
    }
}

impl<E: Encoder, D: Decoder> Call<E, D> {
    pub(crate) fn with(
        mut speaker: speaker::Config,
        encoder: E,
        mut listener: listener::Config,
        make: listener::MakeDecoder<D>,
        periods: (usize, usize),
        ppm: (f64, f64),
    ) -> Self {
        let clock = Clock::new();
        let start = clock.now();
        // Two calls of the loudspeaker are in its buffer at most.
        listener.device_delay =
            Duration::from_secs_f64(periods.1 as f64 / f64::from(listener.device.rate()));
        speaker.timestamp_first = u32::MAX - 40_000;
        let encoded_peak = Rc::new(Cell::new(0.0));
        let encoder = MeteredEncoder {
            inner: encoder,
            peak: encoded_peak.clone(),
        };
        Self {
            microphone: Device::new(speaker.device, periods.0, ppm.0, start),
            // Not in step with each other.
            loudspeaker: Device::new(
                listener.device,
                periods.1,
                ppm.1,
                start + Duration::from_micros(700),
            ),
            is_red: speaker.red.is_some(),
            speaker: Speaker::with_encoder(speaker, encoder).expect("a speaker"),
            listener: Listener::with_decoder(listener, make).expect("a listener"),
            source: Box::new(|_| 0.0),
            other: None,
            path: Box::new(|_| vec![Duration::ZERO]),
            clock,
            start,
            tick: Duration::from_micros(10),
            sequence: 65_000,
            sent: 0,
            flying: BinaryHeap::new(),
            send_stamps: Vec::new(),
            playout_stamps: Vec::new(),
            played: Vec::new(),
            is_recording: true,
            encoded_peak,
            peak: 0.0,
            step: 0.0,
            last: 0.0,
            unplugged_until: None,
            stopped_until: [None; 2],
            held_until: None,
            reports_times: false,
        }
    }

    pub(crate) fn run(&mut self, time: Duration) {
        let end = self.clock.now() + time;
        loop {
            let [microphone_until, loudspeaker_until] = self.stopped_until;
            let microphone = self
                .microphone
                .call(self.microphone.next_end(), microphone_until);
            let loudspeaker = self.loudspeaker.at(self.loudspeaker.frames);
            let loudspeaker = self.loudspeaker.call(loudspeaker, loudspeaker_until);
            let due = self.speaker.poll_timeout();
            let flying = self.flying.peek().map(|it| it.0.0);
            let next = microphone.min(loudspeaker);
            let next = due.map_or(next, |it| next.min(it));
            let next = flying.map_or(next, |it| next.min(it));
            if next > end {
                self.clock.advance_to(end);
                return;
            }
            self.clock.advance_to(next.max(self.clock.now()));
            let now = self.clock.now();
            self.arrive(now);
            if loudspeaker <= now {
                self.play(now);
            }
            if microphone <= now {
                self.capture(now);
            }
            self.send(now);
        }
    }

    fn is_unplugged(&self, now: Instant) -> bool {
        self.unplugged_until.is_some_and(|until| now < until)
    }

    fn capture(&mut self, now: Instant) {
        let first = self.microphone.frames;
        self.microphone.frames += self.microphone.period as u64;
        let channels = self.microphone.format.channels();
        let samples: Vec<f32> = (first..self.microphone.frames)
            .flat_map(|frame| {
                // By the device's clock, which may run fast.
                let at = self.microphone.at(frame) - self.start;
                let sample = (self.source)(at.as_secs_f64());
                std::iter::repeat_n(sample, channels)
            })
            .collect();
        if self.is_unplugged(now) {
            return;
        }
        match self.reports_times {
            true => {
                let last = self.microphone.at(self.microphone.frames);
                self.speaker.capture_at(&samples, last, now);
            }
            false => self.speaker.capture(&samples, now),
        }
    }

    fn send(&mut self, now: Instant) {
        let (mut time, tick) = (now, self.tick);
        let mut clock = || {
            time += tick;
            time
        };
        while let Some(outgoing) = self.speaker.poll(&mut clock) {
            let sent = outgoing.stamps.encoded;
            let flying = Flying {
                sequence: self.sequence,
                timestamp: outgoing.timestamp as u32,
                payload: outgoing.payload.to_vec(),
            };
            for delay in (self.path)(self.sent) {
                let order = self.sent;
                let arrives = self
                    .held_until
                    .map_or(sent + delay, |it| it.max(sent + delay));
                self.flying.push(Reverse((arrives, order, flying.clone())));
            }
            self.sequence = self.sequence.wrapping_add(1);
            self.sent += 1;
            if self.is_recording {
                self.send_stamps.push(outgoing.stamps);
            }
        }
        while self.speaker.poll_unsent().is_some() {}
    }

    fn arrive(&mut self, now: Instant) {
        while self.flying.peek().is_some_and(|it| it.0.0 <= now) {
            let Some(Reverse((at, _, flying))) = self.flying.pop() else {
                break;
            };
            let packet = Packet {
                sequence: flying.sequence,
                timestamp: flying.timestamp,
                payload: flying.payload.into(),
            };
            // What is refused is counted, and tests look there.
            let _ = match self.is_red {
                true => self.listener.receive_red(SSRC, packet, Received::at(at)),
                false => self.listener.receive(SSRC, packet, Received::at(at)),
            };
        }
    }

    fn play(&mut self, now: Instant) {
        let channels = self.loudspeaker.format.channels();
        let mut out = vec![f32::NAN; self.loudspeaker.period * channels];
        self.loudspeaker.frames += self.loudspeaker.period as u64;
        if self.is_unplugged(now) {
            out.fill(0.0);
        } else {
            let (mut time, tick) = (now, self.tick);
            self.listener.play(&mut out, now, &mut || {
                time += tick;
                time
            });
        }
        for sample in out.iter().step_by(channels) {
            assert!(sample.is_finite() && sample.abs() <= 1.0, "{sample}");
            self.peak = self.peak.max(sample.abs());
            self.step = self.step.max((sample - self.last).abs());
            self.last = *sample;
        }
        if self.is_recording {
            self.played.extend(out.iter().step_by(channels));
        }
        while let Some(stamps) = self.listener.poll_playout_stamps() {
            if self.is_recording {
                self.playout_stamps.push(stamps);
            }
        }
        let mut rendered = Vec::new();
        self.listener.take_rendered(&mut rendered);
        if let Some(other) = &mut self.other {
            rendered.fill_with(other);
        }
        self.speaker.rendered(&rendered);
    }

    /// When the first sample of [`Self::played`] was played.
    pub(crate) fn played_from(&self) -> Instant {
        let taken = self.played.len() as u64;
        self.loudspeaker
            .at(self.loudspeaker.frames - taken + self.loudspeaker.period as u64)
    }

    /// Replaces both devices by others.
    pub(crate) fn change(&mut self, format: Format, period: usize) {
        let now = self.clock.now();
        let delay = Duration::from_secs_f64(period as f64 / f64::from(format.rate()));
        self.microphone = self.microphone.changed(format, period, now);
        self.loudspeaker = self.loudspeaker.changed(format, period, now);
        self.speaker.set_device(format, Duration::ZERO);
        self.listener.set_device(format, delay);
    }
}

pub(crate) fn mono(rate: u32) -> Format {
    Format::new(rate, 1).expect("a voice's")
}
