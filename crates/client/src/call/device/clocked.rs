//! Virtual devices, clocked by counting samples.
//!
//! Sample n is captured or played exactly n sample times after the device began, by a clock
//! that may run fast or slow, whatever the threads do. Only the callback is late, by the
//! configured jitter and by what the system adds. So the delay from one file to another can
//! be measured to the sample.
//!
//! A virtual device whose thread stalls holds as much audio as a sound card ([`BACKLOG`]):
//! the rest of its microphone's audio is lost, and its loudspeaker was silent meanwhile.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use glassline_voice::Format;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::wav::{Sink, Source};
use super::{
    CaptureTime, Deliver, DeviceError, Fill, Loudspeaker, Microphone, PlayoutTime, Running,
};

/// Timing of a virtual device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    /// Samples per channel in each callback, 1 to [`Timing::PERIOD_MAX`].
    pub period: usize,
    /// How much faster its clock runs, in parts per million, -1,000 to 1,000.
    pub drift_ppm: f64,
    /// Largest lateness of callbacks, which is drawn uniformly.
    pub jitter: Duration,
    /// Seed of the lateness.
    pub seed: u64,
}

impl Default for Timing {
    /// 2.5 ms at 48 kHz, on time.
    fn default() -> Self {
        Self {
            period: 120,
            drift_ppm: 0.0,
            jitter: Duration::ZERO,
            seed: 1,
        }
    }
}

impl Timing {
    /// Longest period, in samples per channel: a third of a second at 48 kHz. Some telephones
    /// have periods of 200 ms.
    pub const PERIOD_MAX: usize = 16_384;
    const DRIFT_PPM_MAX: f64 = 1_000.0;
    const JITTER_MAX: Duration = Duration::from_millis(500);

    fn check(self) -> Result<Self, DeviceError> {
        let unsuited = |text: String| Err(DeviceError::Unsuited(text));
        if !(1..=Self::PERIOD_MAX).contains(&self.period) {
            let most = Self::PERIOD_MAX;
            return unsuited(format!(
                "a period of {} samples: give 1 to {most}",
                self.period
            ));
        }
        if !(-Self::DRIFT_PPM_MAX..=Self::DRIFT_PPM_MAX).contains(&self.drift_ppm) {
            return unsuited(format!(
                "a drift of {} ppm: give -1000 to 1000",
                self.drift_ppm
            ));
        }
        if self.jitter > Self::JITTER_MAX {
            return unsuited(format!(
                "a jitter of {:?}: give at most 500 ms",
                self.jitter
            ));
        }
        Ok(self)
    }
}

/// State of a virtual device, for comparing files.
#[derive(Clone, Debug, Default)]
pub struct VirtualDeviceState {
    at: Arc<OnceLock<Instant>>,
    underruns: Arc<AtomicU64>,
    lost: Arc<AtomicU64>,
}

impl VirtualDeviceState {
    /// When the first sample of its file was, or will be, captured or played; `None` before
    /// the start.
    pub fn at(&self) -> Option<Instant> {
        self.at.get().copied()
    }

    /// Periods that were filled after their time, or never.
    pub fn underruns(&self) -> u64 {
        self.underruns.load(Ordering::Relaxed)
    }

    /// Periods that were lost because nobody took or filled them in time: overruns of a sound
    /// card, or silence of its loudspeaker.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

/// A microphone that captures a WAV file once, a signal, or silence.
pub struct VirtualMicrophone {
    audio: Audio,
    format: Format,
    timing: Timing,
    state: VirtualDeviceState,
}

/// Audio at a virtual microphone.
enum Audio {
    Silence,
    Wav(Source),
    Signal(Signal),
}

/// A signal by the seconds since the device began: -1 to 1.
pub type Signal = Box<dyn FnMut(f64) -> f32 + Send>;

impl Audio {
    /// Fills a period whose first sample has number `first` in each channel.
    fn read(&mut self, out: &mut [f32], first: u64, format: Format) -> Result<(), DeviceError> {
        match self {
            Self::Silence => Ok(()),
            Self::Wav(source) => source.read(out),
            Self::Signal(signal) => {
                for (index, frame) in out.chunks_exact_mut(format.channels()).enumerate() {
                    let number = first + index as u64;
                    frame.fill(signal(number as f64 / f64::from(format.rate())));
                }
                Ok(())
            }
        }
    }
}

impl VirtualMicrophone {
    /// Captures `wav` from the beginning of the call on.
    ///
    /// # Errors
    /// If the file cannot be read, or has not 8 to 48 kHz and one or two channels.
    pub fn wav(wav: &Path, timing: Timing) -> Result<Self, DeviceError> {
        let source = Source::open(wav)?;
        Ok(Self {
            format: source.format(),
            audio: Audio::Wav(source),
            timing: timing.check()?,
            state: VirtualDeviceState::default(),
        })
    }

    /// Captures silence.
    ///
    /// # Errors
    /// If `timing` is outside its ranges.
    pub fn silent(format: Format, timing: Timing) -> Result<Self, DeviceError> {
        Ok(Self {
            audio: Audio::Silence,
            format,
            timing: timing.check()?,
            state: VirtualDeviceState::default(),
        })
    }

    /// Captures `signal`.
    ///
    /// # Errors
    /// If `timing` is outside its ranges.
    pub fn signal(format: Format, timing: Timing, signal: Signal) -> Result<Self, DeviceError> {
        Ok(Self {
            audio: Audio::Signal(signal),
            ..Self::silent(format, timing)?
        })
    }

    /// Returns a handle to the device's state.
    pub fn state(&self) -> VirtualDeviceState {
        self.state.clone()
    }
}

impl Microphone for VirtualMicrophone {
    fn format(&self) -> Format {
        self.format
    }

    fn start(mut self: Box<Self>, mut deliver: Deliver) -> Result<Running, DeviceError> {
        Running::thread("microphone", move |stop| {
            let mut clock = Clock::start(self.format, self.timing);
            let mut samples = vec![0.0; self.timing.period * self.format.channels()];
            // Only this thread sets it, once.
            let _ = self.state.at.set(clock.start);
            loop {
                let first = clock.calls * self.timing.period as u64;
                self.audio.read(&mut samples, first, self.format)?;
                clock.calls += 1;
                let last = clock.period(clock.calls);
                if !clock.wait(last, stop) {
                    return Ok(());
                }
                let called = Instant::now();
                if clock.is_over(last, called) {
                    self.state.lost.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                deliver(&samples, CaptureTime { called, last });
            }
        })
    }
}

/// A loudspeaker that writes a WAV file, passes its audio on, or neither. It plays a period
/// while it asks for the next, like double buffering.
pub struct VirtualLoudspeaker {
    sink: Option<Sink>,
    tap: Option<Tap>,
    format: Format,
    timing: Timing,
    state: VirtualDeviceState,
}

/// Callback that takes what a loudspeaker plays, period by period.
pub type Tap = Box<dyn FnMut(&[f32]) + Send>;

impl VirtualLoudspeaker {
    /// Writes what it plays to `wav`, from the beginning of the call on.
    ///
    /// # Errors
    /// If the file cannot be written, or `timing` is outside its ranges.
    pub fn wav(wav: &Path, format: Format, timing: Timing) -> Result<Self, DeviceError> {
        let timing = timing.check()?;
        Ok(Self {
            sink: Some(Sink::create(wav, format)?),
            tap: None,
            format,
            timing,
            state: VirtualDeviceState::default(),
        })
    }

    /// Discards what it plays.
    ///
    /// # Errors
    /// If `timing` is outside its ranges.
    pub fn silent(format: Format, timing: Timing) -> Result<Self, DeviceError> {
        Ok(Self {
            sink: None,
            tap: None,
            format,
            timing: timing.check()?,
            state: VirtualDeviceState::default(),
        })
    }

    /// Passes what it plays to `tap` as well.
    #[must_use]
    pub fn tapped(mut self, tap: Tap) -> Self {
        self.tap = Some(tap);
        self
    }

    /// Returns a handle to the device's state.
    pub fn state(&self) -> VirtualDeviceState {
        self.state.clone()
    }
}

impl Loudspeaker for VirtualLoudspeaker {
    fn format(&self) -> Format {
        self.format
    }

    fn start(mut self: Box<Self>, mut fill: Fill) -> Result<Running, DeviceError> {
        Running::thread("loudspeaker", move |stop| {
            let mut clock = Clock::start(self.format, self.timing);
            let mut samples = vec![0.0; self.timing.period * self.format.channels()];
            // Only this thread sets it, once.
            let _ = self.state.at.set(clock.period(1));
            while clock.wait(clock.period(clock.calls), stop) {
                let plays = clock.period(clock.calls + 1);
                let called = Instant::now();
                if clock.is_over(plays, called) {
                    samples.fill(0.0);
                    self.state.lost.fetch_add(1, Ordering::Relaxed);
                    self.state.underruns.fetch_add(1, Ordering::Relaxed);
                } else {
                    fill(&mut samples, PlayoutTime { called, plays });
                    let late = Instant::now() > plays;
                    self.state
                        .underruns
                        .fetch_add(u64::from(late), Ordering::Relaxed);
                }
                if let Some(sink) = &mut self.sink {
                    sink.write(&samples)?;
                }
                if let Some(tap) = &mut self.tap {
                    tap(&samples);
                }
                clock.calls += 1;
            }
            self.sink.take().map_or(Ok(()), Sink::finish)
        })
    }
}

/// Counts the periods of a virtual device.
struct Clock {
    start: Instant,
    /// Length of a period by the wall clock, in seconds.
    period_s: f64,
    jitter: Duration,
    rng: StdRng,
    calls: u64,
}

/// Longest sleep of a device's thread without checking whether to stop.
const STEP: Duration = Duration::from_millis(50);

/// Audio that a device holds in addition to a period and its jitter: twenty periods of 2.5
/// ms. Sound cards hold less, but the scheduler of a shared machine needs as much.
const BACKLOG: Duration = Duration::from_millis(50);

impl Clock {
    fn start(format: Format, timing: Timing) -> Self {
        let rate = f64::from(format.rate()) * (1.0 + timing.drift_ppm / 1e6);
        Self {
            start: Instant::now(),
            period_s: timing.period as f64 / rate,
            jitter: timing.jitter,
            rng: StdRng::seed_from_u64(timing.seed),
            calls: 0,
        }
    }

    /// The boundary after `count` periods.
    fn period(&self, count: u64) -> Instant {
        self.start + Duration::from_secs_f64(count as f64 * self.period_s)
    }

    /// Whether a period that was due at `due` is lost at `called`.
    fn is_over(&self, due: Instant, called: Instant) -> bool {
        let period = Duration::from_secs_f64(self.period_s);
        called.saturating_duration_since(due) > BACKLOG + period + self.jitter
    }

    /// Waits until `at` plus a random lateness; returns false if `stop` was set first.
    fn wait(&mut self, at: Instant, stop: &AtomicBool) -> bool {
        let late = self.jitter.mul_f64(self.rng.random::<f64>());
        let at = at + late;
        loop {
            if stop.load(Ordering::Relaxed) {
                return false;
            }
            let left = at.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(STEP));
        }
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    #[test]
    fn a_microphone_says_when_its_samples_were_whatever_the_threads_do() {
        let format = Format::new(8_000, 1).expect("a voice's");
        let timing = Timing {
            period: 80,
            drift_ppm: 1_000.0,
            jitter: Duration::from_millis(4),
            ..Timing::default()
        };
        let microphone = VirtualMicrophone::silent(format, timing).expect("in range");
        let began = microphone.state();
        let times = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&times);
        let running = Box::new(microphone).start(Box::new(move |samples, time| {
            assert_eq!(samples.len(), 80);
            seen.lock().push(time);
        }));
        let running = running.expect("a thread");
        while times.lock().len() < 20 {
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(running);
        let began = began.at().expect("it ran");
        for (index, time) in times.lock().iter().enumerate() {
            // 10 ms, less a thousandth. A thread that stands still loses whole periods.
            let period = 0.01 / 1.001;
            let periods = (time.last - began).as_secs_f64() / period;
            let off = (periods - periods.round()) * period;
            assert!(off.abs() < 1e-6, "{index}: {off}");
            assert!(periods.round() >= (index + 1) as f64, "{index}: {periods}");
            assert!(time.called >= time.last);
        }
    }

    #[test]
    fn who_stood_still_loses_what_a_device_does_not_hold() {
        let format = Format::new(8_000, 1).expect("a voice's");
        let timing = Timing {
            period: 80,
            ..Timing::default()
        };
        // Its clock has run for a second before anybody takes a period.
        let stands = |calls: u32| if calls == 3 { 1_000 } else { 0 };
        let microphone = VirtualMicrophone::silent(format, timing).expect("in range");
        let began = microphone.state();
        let taken = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&taken);
        let running = Box::new(microphone).start(Box::new(move |_, time| {
            let mut seen = seen.lock();
            seen.push(time.last);
            let stands = stands(seen.len() as u32);
            drop(seen);
            std::thread::sleep(Duration::from_millis(stands));
        }));
        let running = running.expect("a thread");
        while taken.lock().len() < 6 {
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(running);
        let taken = taken.lock();
        let gap = taken[3] - taken[2];
        let lost = gap.as_millis() / 10 - 1;
        assert!(
            lost >= 90 && began.lost() >= lost as u64,
            "{gap:?}, {began:?}"
        );
    }

    #[test]
    fn what_no_device_does_is_refused() {
        let format = Format::new(48_000, 1).expect("a voice's");
        for (timing, wanted) in [
            (
                Timing {
                    period: 0,
                    ..Timing::default()
                },
                "1 to 16384",
            ),
            (
                Timing {
                    drift_ppm: f64::NAN,
                    ..Timing::default()
                },
                "-1000 to 1000",
            ),
            (
                Timing {
                    jitter: Duration::from_secs(9),
                    ..Timing::default()
                },
                "500 ms",
            ),
        ] {
            let refused = VirtualMicrophone::silent(format, timing).err();
            let text = refused.expect("out of range").to_string();
            assert!(text.contains(wanted), "{text}");
        }
    }
}
