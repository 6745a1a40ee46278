//! The jitter buffer in virtual time, over bad paths.

use std::time::Duration;

use bytes::Bytes;
use glassline_sim::{Clock, Delays, Family, Rng};

use super::*;
use crate::{Format, L16};

mod audio;
mod curves;
mod hooks;
mod hours;
mod operations;

pub(super) const RATE: u32 = 8_000;
pub(super) const PACKET: Duration = Duration::from_millis(20);
pub(super) const PULL: Duration = Duration::from_millis(10);

/// Frequency of the test tone; a packet holds whole periods, so all packets are alike.
pub(super) const TONE_HZ: f64 = 200.0;
pub(super) const TONE_LEVEL: f64 = 0.5;

pub(super) fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(super) fn mono() -> Format {
    Format::new(RATE, 1).expect("a voice's")
}

/// A packet's worth of the tone.
pub(super) fn tone() -> Bytes {
    let frames = (f64::from(RATE) * PACKET.as_secs_f64()) as u32;
    let sample = |frame: u32| {
        let turns = f64::from(frame) * TONE_HZ / f64::from(RATE);
        (TONE_LEVEL * (std::f64::consts::TAU * turns).sin()) as f32
    };
    L16::encode(&(0..frames).map(sample).collect::<Vec<_>>()).into()
}

/// A call: a sender with a clock of its own, a path, the jitter buffer, a device.
///
/// It has a loop of its own instead of `glassline_sim::Simulation`: a buffer has no timers
/// and sends nothing. The device's pulls are the clock, and tests write each packet's delay.
pub(super) struct Call<D> {
    pub(super) buffer: Buffer<D>,
    pub(super) clock: Clock,
    start: Instant,
    sent: u64,
    pulled: u32,
    /// How much faster the sender's clock runs, in parts per million.
    pub(super) drift_ppm: f64,
    pub(super) sequence: u16,
    pub(super) timestamp: u32,
    /// Packets on the path, by arrival time.
    pub(super) flying: Vec<(Instant, Packet)>,
    /// Delay of each packet by its number; `None` loses the packet.
    pub(super) path: Box<dyn FnMut(u64) -> Option<Duration>>,
    pub(super) payload: Bytes,
    /// If set, every packet arrives a second time, this much later.
    pub(super) copy_after: Option<Duration>,
    pub(super) heard: Vec<f32>,
    /// Whether played audio is kept.
    pub(super) is_recording: bool,
}

impl Call<L16> {
    pub(super) fn new(path: impl FnMut(u64) -> Option<Duration> + 'static) -> Self {
        Self::with(L16::new(mono()), Config::default(), path)
    }
}

impl<D: Decoder> Call<D> {
    pub(super) fn with(
        decoder: D,
        config: Config,
        path: impl FnMut(u64) -> Option<Duration> + 'static,
    ) -> Self {
        let clock = Clock::new();
        Self {
            buffer: Buffer::new(config, decoder),
            start: clock.now(),
            clock,
            sent: 0,
            pulled: 0,
            drift_ppm: 0.0,
            // Wraps within the first minute.
            sequence: 64_000,
            timestamp: u32::MAX - 40_000,
            flying: Vec::new(),
            path: Box::new(path),
            payload: tone(),
            copy_after: None,
            heard: Vec::new(),
            is_recording: false,
        }
    }

    pub(super) fn run(&mut self, time: Duration) {
        let end = self.clock.now() + time;
        while self.clock.now() < end {
            self.step();
        }
    }

    /// Runs one pull, after all packets that arrived before it.
    pub(super) fn step(&mut self) {
        self.send();
        let now = self.clock.now();
        let (came, flying) = self.flying.drain(..).partition(|(at, _)| *at <= now);
        self.flying = flying;
        let mut came: Vec<(Instant, Packet)> = came;
        came.sort_by_key(|(at, _)| *at);
        for (at, packet) in came {
            // What is refused is counted, and tests look there.
            let _ = self.buffer.insert(packet, at);
        }
        let mut out = [0.0; (RATE / 100) as usize];
        self.buffer.pull(now, &mut out);
        for sample in out {
            assert!(sample.is_finite() && sample.abs() <= 1.0, "{sample}");
        }
        if self.is_recording {
            self.heard.extend(out);
        }
        self.pulled += 1;
        self.clock.advance_to(self.start + PULL * self.pulled);
    }

    fn send(&mut self) {
        loop {
            let interval = PACKET.as_secs_f64() / (1.0 + self.drift_ppm / 1e6);
            let due = self.start + Duration::from_secs_f64(self.sent as f64 * interval);
            if due > self.clock.now() {
                return;
            }
            if let Some(delay) = (self.path)(self.sent) {
                let packet = Packet {
                    sequence: self.sequence,
                    timestamp: self.timestamp,
                    payload: self.payload.clone(),
                };
                if let Some(after) = self.copy_after {
                    self.flying.push((due + delay + after, packet.clone()));
                }
                self.flying.push((due + delay, packet));
            }
            self.sent += 1;
            self.sequence = self.sequence.wrapping_add(1);
            self.timestamp = self.timestamp.wrapping_add(RATE / 50);
        }
    }

    pub(super) fn report(&self) -> Report {
        self.buffer.report(self.clock.now())
    }

    /// Counts made while `time` passes.
    pub(super) fn during(&mut self, time: Duration) -> Counts {
        let before = self.report().counts;
        self.run(time);
        let after = self.report().counts;
        Counts {
            frames: after.frames - before.frames,
            frames_concealed: after.frames_concealed - before.frames_concealed,
            late: after.late - before.late,
            lost: after.lost - before.lost,
            ..after
        }
    }
}

/// Delay of a steady path, which is the same for every packet.
pub(super) fn steady(_: u64) -> Option<Duration> {
    Some(millis(20))
}

pub(super) fn concealed_ms(counts: Counts) -> f64 {
    counts.frames_concealed as f64 * 1e3 / f64::from(RATE)
}

#[test]
fn a_steady_path_is_played_at_once_and_nothing_is_made_up() {
    let mut call = Call::new(steady);
    call.run(millis(5_000));
    let counts = call.during(millis(60_000));
    let report = call.report();
    assert_eq!(counts.frames_concealed, 0, "{counts:?}");
    assert!(report.delay < millis(20), "{report:?}");
    let waits: Vec<Duration> =
        std::iter::from_fn(|| call.buffer.poll_played().map(|it| it.wait)).collect();
    assert!(waits.iter().all(|it| *it < millis(20)), "{waits:?}");
}

#[test]
fn a_packet_that_is_late_is_played_whole_and_conceals_only_its_lateness() {
    let mut call = Call::new(|packet| match packet {
        1_500 => Some(millis(75)),
        // The path keeps the order.
        1_501 => Some(millis(55)),
        1_502 => Some(millis(35)),
        _ => Some(millis(20)),
    });
    call.run(millis(29_900));
    let counts = call.during(millis(1_000));
    let concealed = concealed_ms(counts);
    assert!((30.0..75.0).contains(&concealed), "{concealed}");
    assert_eq!((counts.late, counts.lost), (0, 0));
    // A second later the delay is what it was.
    call.run(millis(1_000));
    assert!(call.report().delay < millis(25), "{:?}", call.report());
}

#[test]
fn a_lost_packet_conceals_its_own_length_and_changes_no_delay() {
    let mut call = Call::new(|packet| (packet != 1_500).then_some(millis(20)));
    call.run(millis(29_900));
    let before = call.report().delay;
    let counts = call.during(millis(300));
    assert_eq!(counts.lost, 1);
    let concealed = concealed_ms(counts);
    assert!((19.0..31.0).contains(&concealed), "{concealed}");
    let after = call.report().delay;
    assert!(after.abs_diff(before) < millis(11), "{before:?} {after:?}");
}

#[test]
fn what_comes_while_it_is_concealed_is_played_from_there() {
    let overtaken = |packet| Some(millis(if packet == 1_500 { 48 } else { 20 }));
    let mut call = Call::new(overtaken);
    call.run(millis(29_900));
    let played = call.report().counts.packets;
    let counts = call.during(millis(300));
    assert_eq!(call.report().counts.packets - played, 15);
    let concealed = concealed_ms(counts);
    assert!(concealed > 0.0 && concealed < 40.0, "{concealed}");
}

#[test]
fn a_path_that_becomes_longer_is_followed_within_a_second() {
    for step in [100, 300, 1_500] {
        let mut call =
            Call::new(move |packet| Some(millis(if packet < 1_500 { 20 } else { 20 + step })));
        call.run(millis(30_000 + step + 1_000));
        let counts = call.during(millis(2_000));
        assert_eq!(counts.frames_concealed, 0, "{step}: {counts:?}");
        // And back again when it becomes shorter.
        let mut call =
            Call::new(move |packet| Some(millis(if packet < 1_500 { 20 + step } else { 20 })));
        call.run(millis(42_000));
        let report = call.report();
        assert!(report.delay < millis(30), "{step}: {report:?}");
    }
}

#[test]
fn a_stall_that_ends_in_a_burst_is_forgotten_soon() {
    // All that is sent in 250 ms comes at once.
    let stalled = |packet: u64| {
        let since = (packet % 500) * 20;
        Some(millis(20 + 250u64.saturating_sub(since)))
    };
    let mut call = Call::new(stalled);
    call.run(millis(30_400));
    let counts = call.during(millis(600));
    assert_eq!(counts.frames_concealed, 0, "{counts:?}");
    call.run(millis(2_000));
    assert!(call.report().delay < millis(80), "{:?}", call.report());
}

#[test]
fn a_stream_that_begins_anew_is_played_within_a_tenth_of_a_second() {
    let mut call = Call::new(steady);
    call.run(millis(5_000));
    call.sequence = 9_000;
    call.timestamp = 1 << 30;
    call.run(millis(100));
    let counts = call.during(millis(1_000));
    assert_eq!(counts.frames_concealed, 0, "{counts:?}");
    let counts = call.report().counts;
    assert_eq!((counts.restarts, counts.strays), (1, 1));
    assert!(call.buffer.poll_played().is_some());
}

#[test]
fn what_a_device_never_asked_for_is_cut_and_not_played_faster() {
    let mut call = Call::new(steady);
    call.run(millis(5_000));
    // For 200 ms nobody pulls, and nobody makes up for it.
    call.pulled += 20;
    call.clock.advance_to(call.start + PULL * call.pulled);
    let before = call.report().counts;
    call.run(millis(150));
    let report = call.report();
    let cut = report.counts.cut - before.cut;
    assert!((7..=10).contains(&cut), "{report:?}");
    assert!(report.delay < millis(40), "{report:?}");
}

#[test]
fn what_is_reset_begins_as_if_nothing_had_come_and_goes_on_counting() {
    let mut call = Call::new(steady);
    call.run(millis(5_000));
    let before = call.report();
    assert!(before.delay > Duration::ZERO && before.target > Duration::ZERO);
    call.buffer.reset();
    let after = call.report();
    assert_eq!(after.counts, before.counts);
    assert_eq!((after.packets, after.delay), (0, Duration::ZERO));
    assert_eq!((after.target, after.skew_ppm), (Duration::ZERO, None));
    // Numbers far from the last ones are at home at once.
    call.flying.clear();
    call.sequence = 9_000;
    call.timestamp = 1 << 30;
    call.run(millis(1_000));
    let counts = call.report().counts;
    assert_eq!((counts.strays, counts.restarts), (0, 0));
    assert!(counts.packets >= before.counts.packets + 48);
}

#[test]
fn a_device_that_was_away_finds_a_fresh_stream() {
    let mut call = Call::new(steady);
    call.run(millis(5_000));
    // For ten minutes nobody pulls.
    for _ in 0..30_000 {
        call.clock.advance(PACKET);
        call.send();
        for (at, packet) in std::mem::take(&mut call.flying) {
            let _ = call.buffer.insert(packet, at);
        }
    }
    assert!(call.report().packets <= queue::PACKETS_MAX);
    call.pulled = (call.clock.elapsed().as_millis() / PULL.as_millis()) as u32;
    call.run(millis(1_000));
    let report = call.report();
    assert!(report.delay < millis(60), "{report:?}");
    let counts = call.during(millis(1_000));
    assert_eq!(counts.frames_concealed, 0, "{report:?}");
}

#[test]
fn nothing_is_heard_before_the_first_packet_and_nothing_breaks_without_one() {
    let mut call = Call::new(|_| None);
    call.is_recording = true;
    call.run(millis(1_000));
    assert!(call.heard.iter().all(|sample| *sample == 0.0));
    let counts = call.report().counts;
    assert_eq!((counts.frames_concealed, counts.packets), (0, 0));
}

#[test]
fn the_same_packets_make_the_same_audio() {
    let play = || {
        let delays = Delays::of_family(Family::Mixed, 5, 3_000, PACKET);
        let mut call = Call::new(move |packet| delays.packets()[packet as usize % 3_000]);
        call.is_recording = true;
        call.run(millis(50_000));
        call.heard
    };
    assert_eq!(play(), play());
}
