//! Reframing of captured audio: from a device's periods to frames of one length.
//!
//! Devices choose their own periods: 120 samples, 441, 1,024, on some telephones 200 ms at
//! once. Their clocks drift, and their callbacks are late now and then. A frame leaves as
//! soon as its last sample is there, with the time at which its first sample was captured.
//!
//! The time of the callback is not that time: a period of 512 samples cut to 480 would make
//! frames that seem to come in pairs. The capture time is read from a clock that counts
//! samples and is held to `now` by a delay-locked loop (Adriaensen, *Using a DLL to filter
//! time*, Linux Audio Conference 2005). This clock drifts as the device does and does not
//! jump as its callbacks do.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::codec::Format;

/// Longest audio that waits to be taken; beyond it the oldest samples are dropped.
const WAITING_MAX: Duration = Duration::from_secs(1);

/// Bandwidth of the delay-locked loop, in Hz: a callback that is 5 ms late moves the clock by
/// a tenth of that.
const BANDWIDTH_HZ: f64 = 0.1;

/// Largest difference between a callback and the expected end of its samples, in seconds,
/// that still adjusts the clock. A larger one means a late callback that following ones make
/// up for, or lost samples.
const LATE_S_MAX: f64 = 0.020;

/// Time that following callbacks have to make up for a late one. A device that reports
/// capture times is believed at once.
const GRACE: Duration = Duration::from_millis(60);

/// Largest relative deviation of the device's clock from its nominal rate.
const SKEW_MAX: f64 = 0.002;

/// Cuts captured audio into frames of equal length.
#[derive(Clone, Debug)]
pub struct Reframer {
    format: Format,
    /// Frame length, in samples per channel.
    frame: usize,
    samples: VecDeque<f32>,
    /// For callbacks whose samples wait: samples pushed in total after the callback, and its
    /// time.
    calls: VecDeque<(u64, Instant)>,
    /// Samples per channel pushed in total.
    pushed: u64,
    clock: Option<SampleClock>,
    /// Set while callbacks are later than their samples should be.
    late_calls: Option<LateCalls>,
    /// Longest wait for a period's end in the last seconds, in seconds; decays.
    hold_s: f64,
    dropped: u64,
}

/// A run of callbacks that were later than their samples should be.
#[derive(Clone, Copy, Debug)]
struct LateCalls {
    /// When the run began.
    since: Instant,
    /// Least lateness in the run, in seconds.
    nearest_s: f64,
}

/// Times of a captured frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Captured {
    /// When the first sample was captured.
    pub at: Instant,
    /// When the device called back with the last sample.
    pub delivered: Instant,
    /// When to send the frame so that frames leave evenly: a period of 200 ms completes
    /// twenty frames at once, which would be jitter to the receiver. Periods no longer than a
    /// frame complete one frame at a time, which is due at once.
    pub due: Instant,
}

/// Clock that counts samples, for the capture time of the next sample.
#[derive(Clone, Copy, Debug)]
struct SampleClock {
    start: Instant,
    /// Capture time of the next sample, in seconds since `start`.
    next_s: f64,
    /// Estimated length of one sample, in seconds; the loop's second state.
    frame_s: f64,
}

impl Reframer {
    /// Makes a reframer for frames of length `frame`, 2.5 to 60 ms, of audio captured in
    /// `format`; `None` outside that range.
    pub fn new(format: Format, frame: Duration) -> Option<Self> {
        let ms = frame.as_secs_f64() * 1e3;
        (2.5..=60.0).contains(&ms).then(|| Self {
            format,
            frame: format.frames(ms),
            samples: VecDeque::new(),
            calls: VecDeque::new(),
            pushed: 0,
            clock: None,
            late_calls: None,
            hold_s: 0.0,
            dropped: 0,
        })
    }

    /// Samples of a frame, all channels together.
    pub const fn frame_samples(&self) -> usize {
        self.frame * self.format.channels()
    }

    /// Samples per channel that were dropped because nobody took them.
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Takes interleaved `samples`, whole frames, with which the device called back at `now`.
    pub fn push(&mut self, samples: &[f32], now: Instant) {
        self.push_at(samples, now, now);
    }

    /// Takes interleaved `samples`, the last of which was captured at `last` by the device's
    /// own report; the device called back at `now`. The clock follows `last`, which late
    /// callbacks do not disturb. A `last` equal to `now` counts as no report.
    pub fn push_at(&mut self, samples: &[f32], last: Instant, now: Instant) {
        let channels = self.format.channels();
        let frames = samples.len() / channels;
        if frames == 0 {
            return;
        }
        self.follow(frames, last, last < now);
        let sane = samples[..frames * channels].iter();
        let sane = sane.map(|it| {
            if it.is_finite() {
                it.clamp(-1.0, 1.0)
            } else {
                0.0
            }
        });
        self.samples.extend(sane);
        self.pushed += frames as u64;
        self.calls.push_back((self.pushed, now));
        let most = self.format.frames(WAITING_MAX.as_secs_f64() * 1e3) * channels;
        if self.samples.len() > most {
            let over = self.samples.len() - most;
            self.samples.drain(..over);
            self.dropped += (over / channels) as u64;
            self.forget_calls();
        }
    }

    /// Takes the next whole frame into `out`, which holds [`Self::frame_samples`] samples.
    ///
    /// # Panics
    /// If `out` has another length, a mistake of the caller.
    pub fn pop(&mut self, out: &mut [f32]) -> Option<Captured> {
        assert_eq!(out.len(), self.frame_samples(), "a frame's samples");
        if self.samples.len() < out.len() {
            return None;
        }
        let clock = self.clock?;
        let waiting = self.samples.len() / self.format.channels();
        let taken = self.samples.drain(..out.len());
        for (place, sample) in out.iter_mut().zip(taken) {
            *place = sample;
        }
        let at_s = clock.next_s - waiting as f64 * clock.frame_s;
        let due_s = at_s + self.frame as f64 * clock.frame_s + self.hold_s;
        let end = self.pushed - (self.samples.len() / self.format.channels()) as u64;
        let call = self.calls.iter().find(|(pushed, _)| *pushed >= end);
        let delivered = call.map_or(clock.instant(at_s), |(_, at)| *at);
        self.forget_calls();
        Some(Captured {
            at: clock.instant(at_s),
            delivered,
            due: match self.hold_s > 0.0 {
                true => clock.instant(due_s),
                false => delivered,
            },
        })
    }

    /// When the next whole frame is due; `None` if no frame is whole.
    pub fn next_due(&self) -> Option<Instant> {
        let waiting = self.samples.len() / self.format.channels();
        let clock = self.clock.filter(|_| waiting >= self.frame)?;
        if self.hold_s == 0.0 {
            // The frame is complete, so it is due already.
            return Some(self.calls.front()?.1);
        }
        let at_s = clock.next_s - waiting as f64 * clock.frame_s;
        Some(clock.instant(at_s + self.frame as f64 * clock.frame_s + self.hold_s))
    }

    /// Drops callbacks whose samples are all taken.
    fn forget_calls(&mut self) {
        let gone = self.pushed - (self.samples.len() / self.format.channels()) as u64;
        while self
            .calls
            .front()
            .is_some_and(|(pushed, _)| *pushed <= gone)
        {
            self.calls.pop_front();
        }
    }

    /// Advances the clock by `frames` samples, which were complete at `last`; `is_reported` says
    /// whether the device reported that time.
    fn follow(&mut self, frames: usize, last: Instant, is_reported: bool) {
        let nominal = 1.0 / f64::from(self.format.rate());
        let took = frames as f64 * nominal;
        // The longest that a frame waits for its period's end. The longest of the last
        // seconds counts, since periods seldom change.
        let hold = match frames > self.frame {
            true => (frames - gcd(frames, self.frame)) as f64 * nominal,
            false => 0.0,
        };
        let kept = self.hold_s * (-took / 5.0).exp();
        self.hold_s = hold.max(if kept < nominal { 0.0 } else { kept });
        let Some(mut clock) = self.clock else {
            return self.begin(took, nominal, last);
        };
        clock.next_s += frames as f64 * clock.frame_s;
        let error = clock.since(last) - clock.next_s;
        if error < -LATE_S_MAX {
            // No sample is delivered before it is captured, so earlier callbacks that
            // seemed to be in time were late.
            clock.next_s += error;
            (self.clock, self.late_calls) = (Some(clock), None);
            return;
        }
        if error > LATE_S_MAX {
            self.clock = Some(clock);
            return self.on_late_call(error, took, last, is_reported);
        }
        self.late_calls = None;
        // Critically damped; the loop runs once for each callback.
        let turn = std::f64::consts::TAU * BANDWIDTH_HZ * took.min(0.25);
        clock.next_s += std::f64::consts::SQRT_2 * turn * error;
        let skew = turn * turn * error / frames as f64;
        let range = nominal * (1.0 - SKEW_MAX)..=nominal * (1.0 + SKEW_MAX);
        clock.frame_s = (clock.frame_s + skew).clamp(*range.start(), *range.end());
        self.clock = Some(clock);
    }

    /// Handles a period of `took` seconds that ended `error` seconds later than expected:
    /// decides whether samples were lost or others follow at once.
    fn on_late_call(&mut self, error: f64, took: f64, last: Instant, is_reported: bool) {
        let mut late_calls = self.late_calls.unwrap_or(LateCalls {
            since: last,
            nearest_s: error,
        });
        late_calls.nearest_s = late_calls.nearest_s.min(error);
        // Nothing follows a call that is later than what a device can hold.
        let may_follow = error < WAITING_MAX.as_secs_f64();
        if !is_reported && may_follow && last.saturating_duration_since(late_calls.since) < GRACE {
            self.late_calls = Some(late_calls);
            return;
        }
        let late = Duration::from_secs_f64(error - late_calls.nearest_s);
        let nominal = 1.0 / f64::from(self.format.rate());
        self.begin(took, nominal, last.checked_sub(late).unwrap_or(last));
    }

    /// Starts the clock with the first callback, or anew after samples were lost; audio that
    /// waits from before is dropped.
    fn begin(&mut self, took: f64, nominal: f64, now: Instant) {
        self.dropped += (self.samples.len() / self.format.channels()) as u64;
        self.samples.clear();
        self.calls.clear();
        self.late_calls = None;
        let start = now
            .checked_sub(Duration::from_secs_f64(took))
            .unwrap_or(now);
        self.clock = Some(SampleClock {
            start,
            next_s: now.duration_since(start).as_secs_f64(),
            frame_s: nominal,
        });
    }
}

impl SampleClock {
    fn since(&self, now: Instant) -> f64 {
        match now.checked_duration_since(self.start) {
            Some(later) => later.as_secs_f64(),
            None => -self.start.duration_since(now).as_secs_f64(),
        }
    }

    fn instant(&self, at_s: f64) -> Instant {
        self.start + Duration::from_secs_f64(at_s.max(0.0))
    }
}

const fn gcd(a: usize, b: usize) -> usize {
    match b {
        0 => a,
        _ => gcd(b, a % b),
    }
}

#[cfg(test)]
mod tests {
    use glassline_sim::{Clock, Rng};

    use super::*;

    const TEN: Duration = Duration::from_millis(10);

    /// A device that calls every `period` samples, up to `late_ms` late, its clock
    /// faster by `ppm`. Sample n is n, scaled. Returns each frame and when it came.
    fn capture(
        format: Format,
        period: usize,
        (late_ms, ppm): (f64, f64),
        calls: usize,
    ) -> (Instant, Vec<(Captured, Vec<f32>)>) {
        let mut reframer = Reframer::new(format, TEN).expect("10 ms");
        let mut rng = Rng::new(period as u64);
        let start = Clock::new().now();
        let mut frames = Vec::new();
        let mut out = vec![0.0; reframer.frame_samples()];
        let channels = format.channels();
        for call in 0..calls {
            let first = call * period;
            let samples: Vec<f32> = (first * channels..(first + period) * channels)
                .map(|index| (index / channels % 4_096) as f32 / 4_096.0)
                .collect();
            let due = (first + period) as f64 / f64::from(format.rate()) / (1.0 + ppm / 1e6);
            let late = late_ms * rng.unit() / 1e3;
            let now = start + Duration::from_secs_f64(due + late);
            reframer.push(&samples, now);
            while let Some(captured) = reframer.pop(&mut out) {
                assert!(captured.at <= now);
                frames.push((captured, out.clone()));
            }
        }
        assert_eq!(reframer.dropped(), 0);
        (start, frames)
    }

    #[test]
    fn any_period_becomes_frames_without_a_gap() {
        for (rate, channels) in [(8_000, 1), (16_000, 2), (44_100, 1), (48_000, 2)] {
            let format = Format::new(rate, channels).expect("voice");
            let long = format.frames(197.0);
            for period in [120, 128, 441, 480, 512, 1_000, 1_024, long] {
                let calls = 4 * rate as usize / period;
                let (_, frames) = capture(format, period, (0.0, 0.0), calls);
                let per_frame = format.frames(10.0);
                assert_eq!(frames.len(), calls * period / per_frame);
                let all = frames.iter().flat_map(|(_, frame)| frame);
                for (index, sample) in all.enumerate() {
                    let wanted = (index / channels % 4_096) as f32 / 4_096.0;
                    assert_eq!(*sample, wanted, "{rate} x {channels}, {period}: {index}");
                }
            }
        }
    }

    #[test]
    fn times_are_the_samples_not_the_calls() {
        let format = Format::new(48_000, 1).expect("voice");
        for (period, ppm) in [(512, 0.0), (1_024, 150.0), (480, -150.0), (9_456, 80.0)] {
            let calls = 90 * 48_000 / period;
            let (start, frames) = capture(format, period, (3.0, ppm), calls);
            // After a third the loop has settled.
            for (index, (captured, _)) in frames.iter().enumerate().skip(frames.len() / 3) {
                let true_s = index as f64 * 0.01 / (1.0 + ppm / 1e6);
                let at_s = captured.at.duration_since(start).as_secs_f64();
                // Half of the lateness is not to be reported from delay.
                let error_ms = (at_s - true_s) * 1e3 - 1.5;
                assert!(error_ms.abs() < 1.5, "{period} at {ppm} ppm: {error_ms} ms");
            }
        }
    }

    #[test]
    fn twenty_frames_at_once_are_to_leave_one_by_one() {
        let format = Format::new(16_000, 1).expect("voice");
        let (_, frames) = capture(format, 3_200, (0.0, 0.0), 50);
        let due: Vec<Instant> = frames.iter().map(|(captured, _)| captured.due).collect();
        for pair in due.windows(2) {
            let between = (pair[1] - pair[0]).as_secs_f64() * 1e3;
            assert!((9.0..11.0).contains(&between), "{between}");
        }
        for (captured, _) in frames {
            let until = (captured.due - captured.at).as_secs_f64() * 1e3;
            assert!((199.0..201.0).contains(&until), "{until}");
        }
    }

    #[test]
    fn a_call_that_is_late_moves_no_clock_and_lost_samples_do() {
        let format = Format::new(48_000, 1).expect("voice");
        let start = Clock::new().now();
        for (is_reported, is_lost) in [(false, false), (false, true), (true, false), (true, true)] {
            let mut reframer = Reframer::new(format, TEN).expect("10 ms");
            let mut out = [0.0; 480];
            let mut frames = Vec::new();
            for period in 0..400u32 {
                let last = start + TEN * (period + 1);
                // From 1 s on the device calls no more; at 1.3 s it calls again.
                let is_away = (100..130).contains(&period);
                if is_away && is_lost {
                    continue;
                }
                let late = if is_away {
                    TEN * (130 - period)
                } else {
                    Duration::ZERO
                };
                let now = last + late + Duration::from_micros(50);
                let reported = if is_reported { last } else { now };
                reframer.push_at(&[0.1; 480], reported, now);
                while let Some(captured) = reframer.pop(&mut out) {
                    frames.push((TEN * period, captured.at));
                }
            }
            // Six frames may be in doubt.
            let settled = |at: &Duration| *at < TEN * 100 || *at > TEN * 137;
            for (captured_at, at) in frames.iter().filter(|it| is_reported || settled(&it.0)) {
                let error_ms = (*at - start).as_secs_f64() * 1e3 - captured_at.as_secs_f64() * 1e3;
                assert!(
                    error_ms.abs() < 1.0,
                    "reported {is_reported}, lost {is_lost}: at {captured_at:?} {error_ms}"
                );
            }
            assert!(
                frames.len() >= if is_lost { 369 } else { 400 },
                "{}",
                frames.len()
            );
        }
    }

    #[test]
    fn a_device_that_was_stopped_begins_anew_and_nothing_piles_up() {
        let format = Format::new(8_000, 1).expect("voice");
        let mut reframer = Reframer::new(format, TEN).expect("10 ms");
        let mut now = Clock::new().now();
        for _ in 0..1_000 {
            now += TEN;
            reframer.push(&[0.5; 80], now);
        }
        assert_eq!(reframer.dropped(), 900 * 80);
        now += Duration::from_secs(7);
        reframer.push(&[0.1; 80], now);
        let mut out = [0.0; 80];
        let captured = reframer.pop(&mut out).expect("a frame");
        assert_eq!((captured.at, out[0]), (now - TEN, 0.1));
        assert_eq!(reframer.pop(&mut out), None);
    }

    #[test]
    fn what_is_no_audio_becomes_silence_and_frames_have_lengths() {
        let format = Format::new(8_000, 2).expect("voice");
        for ms in [0, 2, 61] {
            assert!(Reframer::new(format, Duration::from_millis(ms)).is_none());
        }
        let mut reframer = Reframer::new(format, TEN).expect("10 ms");
        let now = Clock::new().now();
        reframer.push(&[f32::NAN, f32::INFINITY, 7.0].repeat(60), now);
        let mut out = [9.0; 160];
        assert!(reframer.pop(&mut out).is_some());
        assert!(out.iter().all(|it| *it == 0.0 || *it == 1.0));
        reframer.push(&[], now);
        reframer.push(&[0.5], now);
        assert_eq!(reframer.pop(&mut out), None);
    }

    /// The delay-locked loop as Adriaensen writes it: the end of each period is predicted, and
    /// both states follow the error of the prediction.
    struct Loop {
        end_s: f64,
        sample_s: f64,
    }

    impl Loop {
        fn period(&mut self, samples: usize, seen_s: f64, rate: f64) {
            let predicted_s = self.end_s + samples as f64 * self.sample_s;
            let error_s = seen_s - predicted_s;
            let omega = std::f64::consts::TAU * 0.1 * samples as f64 / rate;
            self.end_s = predicted_s + std::f64::consts::SQRT_2 * omega * error_s;
            self.sample_s += omega * omega * error_s / samples as f64;
        }
    }

    #[test]
    fn the_clock_is_the_delay_locked_loop_of_the_source() {
        // Lateness of the calls, in ms; less than what counts as late.
        let late_ms = [0.0, 5.0, 0.0, 12.0, 3.0, 0.5, 19.0, 7.0, 0.0, 1.0];
        for (rate, period, frame_ms) in [(48_000, 480, 10), (48_000, 512, 10), (16_000, 320, 20)] {
            let format = Format::new(rate, 1).expect("a voice's");
            let frame = Duration::from_millis(frame_ms);
            let mut reframer = Reframer::new(format, frame).expect("a frame");
            let start = Clock::new().now();
            let nominal_s = 1.0 / f64::from(rate);
            let period_s = period as f64 * nominal_s;
            let at = |s: f64| start + Duration::from_secs_f64(s);
            let mut reference = Loop {
                end_s: period_s,
                sample_s: nominal_s,
            };
            let mut out = vec![0.0; reframer.frame_samples()];
            let (mut pushed, mut popped) = (0, 0);
            for call in 1..=200 {
                let seen_s = f64::from(call) * period_s + late_ms[call as usize % 10] / 1e3;
                if call == 1 {
                    reference.end_s = seen_s;
                } else {
                    reference.period(period, seen_s, f64::from(rate));
                }
                reframer.push(&vec![0.5; period], at(seen_s));
                pushed += period;
                while let Some(captured) = reframer.pop(&mut out) {
                    let waited = (pushed - popped) as f64;
                    popped += out.len();
                    let wanted_s = reference.end_s - waited * reference.sample_s;
                    let got_s = captured.at.duration_since(start).as_secs_f64();
                    let error_s = (got_s - wanted_s).abs();
                    assert!(
                        error_s < 1e-7,
                        "{period} of {rate}, {call}: {got_s} {wanted_s}"
                    );
                    assert_eq!(captured.delivered, at(seen_s));
                }
            }
        }
    }

    #[test]
    fn frames_of_a_long_period_wait_for_its_end_and_those_of_a_short_one_do_not() {
        // The longest wait: the period less what it has in common with a frame.
        for (rate, period, hold) in [
            (48_000, 480, 0),
            (48_000, 479, 0),
            (48_000, 481, 480),
            (48_000, 720, 480),
            (48_000, 960, 480),
            (16_000, 3_200, 3_040),
        ] {
            let format = Format::new(rate, 1).expect("a voice's");
            let mut reframer = Reframer::new(format, TEN).expect("10 ms");
            let start = Clock::new().now();
            let mut out = vec![0.0; reframer.frame_samples()];
            assert_eq!(reframer.next_due(), None);
            let at =
                |samples: usize| start + Duration::from_secs_f64(samples as f64 / f64::from(rate));
            let mut popped = 0;
            for call in 1..=20 {
                reframer.push(&vec![0.5; period], at(call * period));
                let hold_s = hold as f64 / f64::from(rate);
                while let Some(due) = reframer.next_due() {
                    let captured = reframer.pop(&mut out).expect("it is whole");
                    // What is complete may be due since its first samples came.
                    let is_right = if hold == 0 {
                        due <= captured.due
                    } else {
                        due == captured.due
                    };
                    assert!(is_right, "{period}: {due:?} {captured:?}");
                    popped += out.len();
                    let wanted = match hold {
                        // At once, with the call that completed the frame.
                        0 => captured.delivered,
                        _ => at(popped) + Duration::from_secs_f64(hold_s),
                    };
                    let due = captured.due;
                    let off = wanted.max(due) - wanted.min(due);
                    assert!(off < Duration::from_nanos(300), "{period}: {off:?}");
                    assert_eq!(captured.delivered, at(popped.div_ceil(period) * period));
                }
                assert!(
                    call * period - popped < out.len(),
                    "less than a frame is left"
                );
            }
        }
    }

    #[test]
    fn a_wait_for_long_periods_is_given_up_when_periods_become_short() {
        let format = Format::new(8_000, 1).expect("mono");
        let mut reframer = Reframer::new(format, TEN).expect("10 ms");
        let mut now = Clock::new().now();
        let mut push = |reframer: &mut Reframer, samples: usize| {
            now += Duration::from_secs_f64(samples as f64 / 8_000.0);
            reframer.push(&vec![0.0; samples], now);
        };
        push(&mut reframer, 160);
        assert!((reframer.hold_s - 0.01).abs() < 1e-9);
        // It fades by the time constant of five seconds, until it is less than a sample.
        for _ in 0..500 {
            push(&mut reframer, 80);
        }
        assert!((reframer.hold_s - 0.01 * (-1.0f64).exp()).abs() < 1e-9);
        for _ in 0..1_690 {
            push(&mut reframer, 80);
        }
        // The logarithm of 80 samples is 4.382, which is reached after 2,191 periods.
        assert!(reframer.hold_s > 1.0 / 8_000.0, "{}", reframer.hold_s);
        for _ in 0..2 {
            push(&mut reframer, 80);
        }
        assert_eq!(reframer.hold_s, 0.0);
    }

    /// A reframer of 10 ms at 8 kHz after ten calls on time, and the time of the last.
    fn settled() -> (Reframer, Instant) {
        let format = Format::new(8_000, 1).expect("mono");
        let mut reframer = Reframer::new(format, TEN).expect("10 ms");
        let mut now = Clock::new().now();
        for _ in 0..10 {
            now += TEN;
            reframer.push(&[0.5; 80], now);
            reframer.pop(&mut [0.0; 80]).expect("a frame");
        }
        (reframer, now)
    }

    #[test]
    fn what_is_20_ms_off_adjusts_the_clock_and_more_does_not() {
        // Lateness in µs, and by how much the frame's time moves, in ns.
        let omega = std::f64::consts::TAU * 0.1 * 0.01;
        // The end of the frame moves, and the length of its samples changes.
        let moved = |us: f64| (std::f64::consts::SQRT_2 * omega - omega * omega) * us * 1e3;
        for (late_us, moved_ns) in [
            (0, 0.0),
            (19_990, moved(19_990.0)),
            (20_010, 0.0),
            (500_000, 0.0),
            (-9_000, moved(-9_000.0)),
            (-19_990, moved(-19_990.0)),
            // No sample is delivered before it is captured.
            (-20_010, -20_010_000.0),
        ] {
            let (mut reframer, last) = settled();
            let late = Duration::from_micros(i64::unsigned_abs(late_us));
            let on_time = last + TEN;
            let now = if late_us < 0 {
                on_time - late
            } else {
                on_time + late
            };
            reframer.push(&[0.5; 80], now);
            let captured = reframer.pop(&mut [0.0; 80]).expect("a frame");
            let ns = |at: Instant| at.duration_since(last - TEN * 5).as_secs_f64() * 1e9;
            let off = ns(captured.at) - ns(last) - moved_ns;
            assert!(off.abs() < 20.0, "{late_us}: {off}");
            assert_eq!(reframer.late_calls.is_some(), late_us > 20_000, "{late_us}");
            assert_eq!(reframer.dropped(), 0);
        }
    }

    #[test]
    fn late_calls_have_60_ms_to_be_made_up_for_and_no_second_to_be_late() {
        // Every call is 100 ms late; the run begins with the first. Less 50 ms in the middle.
        let (mut reframer, last) = settled();
        let late = Duration::from_millis(100);
        for call in 1..=6u32 {
            let nearer = if call == 3 { TEN * 5 } else { Duration::ZERO };
            reframer.push(&[0.5; 80], last + TEN * call + late - nearer);
            let captured = reframer.pop(&mut [0.0; 80]).expect("a frame");
            // The clock goes on as if nothing was late.
            let off = captured.at.duration_since(last - TEN).as_secs_f64() - f64::from(call) * 0.01;
            assert!(off.abs() < 1e-7, "{call}: {off}");
        }
        // 60 ms after the first one the samples are lost: of the least lateness, half of it.
        reframer.push(&[0.5; 80], last + TEN * 7 + late);
        let captured = reframer.pop(&mut [0.0; 80]).expect("a frame");
        let moved = captured.at.duration_since(last + TEN * 6).as_secs_f64();
        assert!((moved - 0.050).abs() < 1e-6, "{moved}");
        assert!(reframer.late_calls.is_none());
        // What a device reports is believed at once, and so is what no device can hold.
        for (late_ms, is_reported) in [(100, true), (1_000, false), (2_000, false)] {
            let (mut reframer, last) = settled();
            let end = last + TEN + Duration::from_millis(late_ms);
            let now = if is_reported { end + TEN } else { end };
            reframer.push_at(&[0.5; 80], end, now);
            let captured = reframer.pop(&mut [0.0; 80]).expect("a frame");
            let off = captured.at.duration_since(end - TEN).as_secs_f64();
            assert!(off.abs() < 1e-7, "{late_ms}: {off}");
            assert_eq!(captured.delivered, now);
        }
    }

    #[test]
    fn the_clock_follows_a_device_by_two_thousandths_and_no_further() {
        for (ppm, found_ppm) in [(1_000.0, 1_000.0), (-1_000.0, -1_000.0), (3_000.0, 2_000.0)] {
            let format = Format::new(8_000, 1).expect("mono");
            let mut reframer = Reframer::new(format, TEN).expect("10 ms");
            let start = Clock::new().now();
            for call in 1..=6_000 {
                let at_s = f64::from(call) * 0.01 * (1.0 + ppm / 1e6);
                reframer.push(&[0.5; 80], start + Duration::from_secs_f64(at_s));
                reframer.pop(&mut [0.0; 80]);
            }
            let clock = reframer.clock.expect("it runs");
            let ppm = (clock.frame_s * 8_000.0 - 1.0) * 1e6;
            assert!((ppm - found_ppm).abs() < 5.0, "{ppm} {found_ppm}");
        }
    }

    #[test]
    fn a_second_waits_and_frames_have_2_5_to_60_ms() {
        let format = Format::new(8_000, 2).expect("stereo");
        let made = |us| Reframer::new(format, Duration::from_micros(us));
        let lengths = [2_499, 2_500, 60_000, 60_001];
        let frames = lengths.map(|us| made(us).map(|it| it.frame_samples()));
        assert_eq!(frames, [None, Some(40), Some(960), None]);
        let mut reframer = made(10_000).expect("10 ms");
        let mut now = Clock::new().now();
        for _ in 0..100 {
            now += TEN;
            reframer.push(&[0.5; 160], now);
        }
        assert_eq!(reframer.dropped(), 0, "a second");
        reframer.push(&[0.25; 2], now);
        assert_eq!(reframer.dropped(), 1);
        // The first frame is what comes after the sample that was dropped.
        let captured = reframer.pop(&mut [0.0; 160]).expect("a frame");
        let delivered = now - TEN * 98;
        assert_eq!(
            captured.delivered, delivered,
            "a sample is of the second call"
        );
    }
}
