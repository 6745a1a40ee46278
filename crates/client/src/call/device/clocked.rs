//! Devices of no hardware, clocked by counting samples.
//!
//! Sample n is heard exactly n sample times after the device began, by a clock that may
//! run fast or slow, whatever the threads do. What is late is only the call, by the
//! jitter that was asked for and by what the system adds. So the delay from one file to
//! another can be read to the sample.
//!
//! A device whose thread stood still holds as much as a sound card does ([`BACKLOG`]): the
//! rest of what its microphone heard is lost, and its loudspeaker was silent meanwhile.

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

/// How a device of no hardware keeps time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    /// Samples of a channel in each call, 1 to [`Timing::PERIOD_MAX`].
    pub period: usize,
    /// Its clock is faster by so many parts in a million, -1,000 to 1,000.
    pub drift_ppm: f64,
    /// Calls are late by up to this, evenly drawn.
    pub jitter: Duration,
    /// Decides by how much.
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
    /// A third of a second at 48 kHz; some telephones have periods of 200 ms.
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

/// When a device of no hardware began, for whoever compares files.
#[derive(Clone, Debug, Default)]
pub struct Began {
    at: Arc<OnceLock<Instant>>,
    underruns: Arc<AtomicU64>,
    lost: Arc<AtomicU64>,
}

impl Began {
    /// When the first sample of its file was, or will be, heard; `None` before.
    pub fn at(&self) -> Option<Instant> {
        self.at.get().copied()
    }

    /// Periods that were filled after their time, or never.
    pub fn underruns(&self) -> u64 {
        self.underruns.load(Ordering::Relaxed)
    }

    /// Periods that were lost because nobody took or filled them in time: a sound card's
    /// overruns, or silence where its loudspeaker was given nothing.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

/// A microphone that hears a WAV file once, a signal, or silence.
pub struct VirtualMicrophone {
    audio: Audio,
    format: Format,
    timing: Timing,
    began: Began,
}

/// What is to be heard.
enum Audio {
    Silence,
    Wav(Source),
    Signal(Signal),
}

/// A signal by the seconds since the device began: -1 to 1.
pub type Signal = Box<dyn FnMut(f64) -> f32 + Send>;

impl Audio {
    /// Fills a period whose first sample is number `first` of each channel.
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
    /// Hears `wav` from the beginning of the call on.
    ///
    /// # Errors
    /// The file cannot be read, or is not of 8 to 48 kHz and one or two channels.
    pub fn wav(wav: &Path, timing: Timing) -> Result<Self, DeviceError> {
        let source = Source::open(wav)?;
        Ok(Self {
            format: source.format(),
            audio: Audio::Wav(source),
            timing: timing.check()?,
            began: Began::default(),
        })
    }

    /// Hears nothing.
    ///
    /// # Errors
    /// `timing` is beyond its ranges.
    pub fn silent(format: Format, timing: Timing) -> Result<Self, DeviceError> {
        Ok(Self {
            audio: Audio::Silence,
            format,
            timing: timing.check()?,
            began: Began::default(),
        })
    }

    /// Hears `signal`.
    ///
    /// # Errors
    /// `timing` is beyond its ranges.
    pub fn signal(format: Format, timing: Timing, signal: Signal) -> Result<Self, DeviceError> {
        Ok(Self {
            audio: Audio::Signal(signal),
            ..Self::silent(format, timing)?
        })
    }

    /// Will tell when it began.
    pub fn began(&self) -> Began {
        self.began.clone()
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
            // The first begins it; nobody else does.
            let _ = self.began.at.set(clock.start);
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
                    self.began.lost.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                deliver(&samples, CaptureTime { called, last });
            }
        })
    }
}

/// A loudspeaker that writes a WAV file, hands on what it plays, or neither. It plays a
/// period while it asks for the next, as double buffering does.
pub struct VirtualLoudspeaker {
    sink: Option<Sink>,
    tap: Option<Tap>,
    format: Format,
    timing: Timing,
    began: Began,
}

/// Takes what a loudspeaker plays, period by period.
pub type Tap = Box<dyn FnMut(&[f32]) + Send>;

impl VirtualLoudspeaker {
    /// Writes what it plays to `wav`, from the beginning of the call on.
    ///
    /// # Errors
    /// The file cannot be written, or `timing` is beyond its ranges.
    pub fn wav(wav: &Path, format: Format, timing: Timing) -> Result<Self, DeviceError> {
        let timing = timing.check()?;
        Ok(Self {
            sink: Some(Sink::create(wav, format)?),
            tap: None,
            format,
            timing,
            began: Began::default(),
        })
    }

    /// Plays to nobody.
    ///
    /// # Errors
    /// `timing` is beyond its ranges.
    pub fn silent(format: Format, timing: Timing) -> Result<Self, DeviceError> {
        Ok(Self {
            sink: None,
            tap: None,
            format,
            timing: timing.check()?,
            began: Began::default(),
        })
    }

    /// And hands it on to `tap`, too.
    #[must_use]
    pub fn tapped(mut self, tap: Tap) -> Self {
        self.tap = Some(tap);
        self
    }

    /// Will tell when it began.
    pub fn began(&self) -> Began {
        self.began.clone()
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
            // As with the microphone.
            let _ = self.began.at.set(clock.period(1));
            while clock.wait(clock.period(clock.calls), stop) {
                let plays = clock.period(clock.calls + 1);
                let called = Instant::now();
                if clock.is_over(plays, called) {
                    samples.fill(0.0);
                    self.began.lost.fetch_add(1, Ordering::Relaxed);
                    self.began.underruns.fetch_add(1, Ordering::Relaxed);
                } else {
                    fill(&mut samples, PlayoutTime { called, plays });
                    let late = Instant::now() > plays;
                    self.began
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

/// Counts periods.
struct Clock {
    start: Instant,
    /// Seconds of a period by the wall.
    period_s: f64,
    jitter: Duration,
    rng: StdRng,
    calls: u64,
}

/// A thread that waits for a period wakes so often to see whether it shall stop.
const STEP: Duration = Duration::from_millis(50);

/// So much of what was heard, or shall be, a device holds beside a period and its jitter:
/// twenty periods of 2.5 ms. Cards hold less; a shared machine's scheduler wants as much.
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

    /// Whether a period that was due at `due` is lost by `called`.
    fn is_over(&self, due: Instant, called: Instant) -> bool {
        let period = Duration::from_secs_f64(self.period_s);
        called.saturating_duration_since(due) > BACKLOG + period + self.jitter
    }

    /// Waits until `at`, and its jitter; false if `stop` came first.
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
    use std::sync::Mutex;

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
        let began = microphone.began();
        let times = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&times);
        let running = Box::new(microphone).start(Box::new(move |samples, time| {
            assert_eq!(samples.len(), 80);
            seen.lock().expect("no panic").push(time);
        }));
        let running = running.expect("a thread");
        while times.lock().expect("no panic").len() < 20 {
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(running);
        let began = began.at().expect("it ran");
        for (index, time) in times.lock().expect("no panic").iter().enumerate() {
            // 10 ms, less a thousandth.
            let exact = (index + 1) as f64 * 0.01 / 1.001;
            let off = (time.last - began).as_secs_f64() - exact;
            assert!(off.abs() < 1e-6, "{index}: {off}");
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
        let began = microphone.began();
        let taken = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&taken);
        let running = Box::new(microphone).start(Box::new(move |_, time| {
            let mut seen = seen.lock().expect("no panic");
            seen.push(time.last);
            let stands = stands(seen.len() as u32);
            drop(seen);
            std::thread::sleep(Duration::from_millis(stands));
        }));
        let running = running.expect("a thread");
        while taken.lock().expect("no panic").len() < 6 {
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(running);
        let taken = taken.lock().expect("no panic");
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
