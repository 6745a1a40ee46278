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

#[cfg(test)]
mod tests;

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
