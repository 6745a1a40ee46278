//! This machine's microphones and loudspeakers, through its sound system: ALSA (also for
//! PulseAudio and PipeWire), Core Audio, WASAPI.
//!
//! A device that was opened once is kept. If it is unplugged or stops calling, it is opened
//! again until it is back, and the call continues without it meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use cpal::traits::{DeviceTrait as _, HostTrait as _, StreamTrait as _};
use cpal::{BufferSize, Device, FromSample, Sample as _, SampleFormat, SizedSample, StreamConfig};
use glassline_client::call::{
    CaptureTime, Deliver, DeviceError, Fill, Loudspeaker, Microphone, PlayoutTime, Running,
};
use glassline_voice::Format;
use parking_lot::Mutex;

use crate::Names;

/// Period to request; a device that does not support it uses its own.
const PERIOD: Duration = Duration::from_millis(10);
/// Time between two checks of a device's thread whether to stop.
const STEP: Duration = Duration::from_millis(20);
/// Time without a callback after which a device counts as gone, because some audio servers
/// leave a stream hanging when the device behind it goes. The longest known period, of some
/// telephones, is near 200 ms.
const SILENCE_MAX: Duration = Duration::from_millis(600);
/// Time after opening a device, and without a callback meanwhile, after which it counts as
/// gone: a sound server may have to wake the device, and then first finishes earlier audio.
const WAKING_MAX: Duration = Duration::from_secs(3);
/// Time between two attempts to open a device that is gone. ALSA writes to the terminal each
/// time, so there are no more attempts than needed to be back within a second.
const RETRY: Duration = Duration::from_millis(300);
/// Largest distance from now of a time that a device reports; a larger one is ignored.
const AWAY_MAX: Duration = Duration::from_secs(1);

/// A microphone of this machine.
pub(super) struct SystemMicrophone(Opened);

/// A loudspeaker of this machine.
pub(super) struct SystemLoudspeaker(Opened);

/// A device, and the configuration that it is run with.
struct Opened {
    name: String,
    device: Device,
    config: StreamConfig,
    samples: SampleFormat,
    format: Format,
}

impl SystemMicrophone {
    /// Opens the microphone whose name contains `name`, or the system's default.
    ///
    /// # Errors
    /// If there is none, or it has no format that a voice call can use.
    pub(super) fn open(name: Option<&str>) -> Result<Self, DeviceError> {
        Opened::new(Side::Microphone, name).map(Self)
    }
}

impl SystemLoudspeaker {
    /// Opens the loudspeaker whose name contains `name`, or the system's default.
    ///
    /// # Errors
    /// If there is none, or it has no format that a voice call can use.
    pub(super) fn open(name: Option<&str>) -> Result<Self, DeviceError> {
        Opened::new(Side::Loudspeaker, name).map(Self)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Microphone,
    Loudspeaker,
}

impl Side {
    const fn name(self) -> &'static str {
        match self {
            Self::Microphone => "microphone",
            Self::Loudspeaker => "loudspeaker",
        }
    }

    fn all(self) -> Result<Vec<Device>, DeviceError> {
        let host = cpal::default_host();
        let failed = |error| failure(self.name(), &error);
        Ok(match self {
            Self::Microphone => host.input_devices().map_err(failed)?.collect(),
            Self::Loudspeaker => host.output_devices().map_err(failed)?.collect(),
        })
    }

    fn default(self) -> Option<Device> {
        let host = cpal::default_host();
        match self {
            Self::Microphone => host.default_input_device(),
            Self::Loudspeaker => host.default_output_device(),
        }
    }
}

/// Returns the names of all microphones and loudspeakers.
pub(super) fn names() -> Result<Names, DeviceError> {
    let names = |side: Side| Ok(side.all()?.iter().map(name_of).collect());
    Ok(Names {
        microphones: names(Side::Microphone)?,
        loudspeakers: names(Side::Loudspeaker)?,
    })
}

/// The device's name for people, and in brackets the system's name.
fn name_of(device: &Device) -> String {
    let Ok(described) = device.description() else {
        return "nameless".to_owned();
    };
    match described.driver().filter(|it| *it != described.name()) {
        Some(driver) => format!("{} [{driver}]", described.name()),
        None => described.name().to_owned(),
    }
}

fn failure(device: &str, error: &cpal::Error) -> DeviceError {
    DeviceError::System {
        device: device.to_owned(),
        reason: error.to_string(),
    }
}

impl Opened {
    fn new(side: Side, name: Option<&str>) -> Result<Self, DeviceError> {
        let found = match name {
            None => side.default(),
            Some(name) => {
                let mut all = side.all()?.into_iter();
                all.find(|device| name_of(device).contains(name))
            }
        };
        let device = found.ok_or_else(|| DeviceError::System {
            device: name.unwrap_or(side.name()).to_owned(),
            reason: format!(
                "there is no such {}; run with --devices for a list",
                side.name()
            ),
        })?;
        let name = name_of(&device);
        let failed = |error| failure(&name, &error);
        let supported = match side {
            Side::Microphone => device.default_input_config(),
            Side::Loudspeaker => device.default_output_config(),
        };
        let supported = supported.map_err(failed)?;
        // The system mixes and resamples formats that a voice call does not use.
        let channels = supported.channels().clamp(1, 2);
        let rate = supported.sample_rate().clamp(8_000, 48_000);
        let format = Format::new(rate, usize::from(channels)).expect("within its ranges");
        let period = PERIOD.as_secs_f64() * f64::from(rate);
        Ok(Self {
            config: StreamConfig {
                channels,
                sample_rate: rate,
                buffer_size: BufferSize::Fixed(period as u32),
            },
            samples: supported.sample_format(),
            format,
            name,
            device,
        })
    }

    /// Runs a stream on a thread of its own, which keeps it, since not every system lets
    /// streams move between threads. `build` is tried with the wanted period, then with any.
    fn run<C: Send + 'static>(self, callback: C, build: Build<C>) -> Result<Running, DeviceError> {
        let (built, when_built) = mpsc::sync_channel(1);
        let name = self.name.clone();
        let running = Running::thread(&name, move |stop| {
            let callback = Arc::new(Callback {
                run: Mutex::new(callback),
                calls: AtomicU64::new(0),
            });
            let stream = self.attempt(&callback, build);
            let result = stream
                .as_ref()
                .map(drop)
                .map_err(|it| failure(&self.name, it));
            // The caller of `run` waits for this.
            let _ = built.send(result);
            if let Ok(stream) = stream {
                self.keep(stream, stop, &callback, build);
            }
            Ok(())
        })?;
        match when_built.recv() {
            Ok(Ok(())) => Ok(running),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(DeviceError::System {
                device: name,
                reason: "its thread ended".to_owned(),
            }),
        }
    }

    fn attempt<C>(
        &self,
        callback: &Arc<Callback<C>>,
        build: Build<C>,
    ) -> Result<Stream, cpal::Error> {
        let attempt = |buffer_size| {
            let config = StreamConfig {
                buffer_size,
                ..self.config
            };
            // Errors of an earlier stream do not concern this one.
            let (failed, failures) = mpsc::channel();
            let stream = build(self, config, Arc::clone(callback), failed)?;
            stream.play()?;
            tracing::debug!(device = self.name, ?config, "opened");
            Ok::<_, cpal::Error>(Stream {
                _stream: stream,
                failures,
            })
        };
        attempt(self.config.buffer_size).or_else(|_| attempt(BufferSize::Default))
    }

    /// Keeps `stream`, or another in its place, until told to stop.
    fn keep<C>(
        &self,
        mut stream: Stream,
        stop: &AtomicBool,
        callback: &Arc<Callback<C>>,
        build: Build<C>,
    ) {
        while let Some(reason) = watch(&stream, stop, &callback.calls) {
            let lost = Instant::now();
            tracing::warn!(
                device = self.name,
                reason,
                "sound device is gone; the call continues without it until it is back"
            );
            // The old stream is closed first, because a device may allow only one.
            drop(stream);
            stream = loop {
                #[expect(clippy::disallowed_methods, reason = "a device's own thread")]
                std::thread::sleep(RETRY);
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                match self.attempt(callback, build) {
                    Ok(stream) => break stream,
                    Err(error) => tracing::trace!(device = self.name, %error, "still gone"),
                }
            };
            let seconds = lost.elapsed().as_secs_f64();
            tracing::info!(device = self.name, seconds, "sound device is back");
        }
    }

    fn capture<T>(
        &self,
        config: StreamConfig,
        deliver: Arc<Callback<Deliver>>,
        failed: Failed,
    ) -> Result<cpal::Stream, cpal::Error>
    where
        T: SizedSample + Send + 'static,
        f32: FromSample<T>,
    {
        let mut samples = Vec::new();
        let frames = f64::from(config.sample_rate) * f64::from(config.channels);
        self.device.build_input_stream(
            config,
            move |data: &[T], info: &cpal::InputCallbackInfo| {
                let called = Instant::now();
                samples.clear();
                samples.extend(data.iter().map(|it| f32::from_sample(*it)));
                let stamp = info.timestamp();
                // It says when the first was captured.
                let age = stamp.callback.duration_since(stamp.capture);
                let took = Duration::from_secs_f64(data.len() as f64 / frames);
                let age = age.checked_sub(took).filter(|it| *it < AWAY_MAX);
                let last = called - age.unwrap_or_default();
                deliver.calls.fetch_add(1, Ordering::Relaxed);
                let mut deliver = deliver.run.lock();
                deliver(&samples, CaptureTime { called, last });
            },
            move |error| report(&failed, error),
            None,
        )
    }

    fn play<T>(
        &self,
        config: StreamConfig,
        fill: Arc<Callback<Fill>>,
        failed: Failed,
    ) -> Result<cpal::Stream, cpal::Error>
    where
        T: SizedSample + FromSample<f32> + Send + 'static,
    {
        let mut samples = Vec::new();
        self.device.build_output_stream(
            config,
            move |data: &mut [T], info: &cpal::OutputCallbackInfo| {
                let called = Instant::now();
                samples.resize(data.len(), 0.0);
                let stamp = info.timestamp();
                let ahead = stamp.playback.duration_since(stamp.callback);
                let plays = called + ahead.min(AWAY_MAX);
                fill.calls.fetch_add(1, Ordering::Relaxed);
                let mut fill = fill.run.lock();
                fill(&mut samples, PlayoutTime { called, plays });
                for (place, sample) in data.iter_mut().zip(&samples) {
                    *place = T::from_sample(*sample);
                }
            },
            move |error| report(&failed, error),
            None,
        )
    }
}

/// Waits until the device is gone, and returns why; `None` if it was told to stop.
fn watch(stream: &Stream, stop: &AtomicBool, calls: &AtomicU64) -> Option<String> {
    let mut known = calls.load(Ordering::Relaxed);
    let opened = Instant::now();
    let mut called = opened;
    while !stop.load(Ordering::Relaxed) {
        match stream.failures.recv_timeout(STEP) {
            Ok(error) => return Some(error.to_string()),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Some("its audio stream ended".to_owned());
            }
        }
        let patience = match opened.elapsed() < WAKING_MAX {
            true => WAKING_MAX,
            false => SILENCE_MAX,
        };
        let count = calls.load(Ordering::Relaxed);
        if count != known {
            (known, called) = (count, Instant::now());
        } else if called.elapsed() > patience {
            return Some(format!("it delivered or took no audio for {patience:?}"));
        }
    }
    None
}

/// A running stream, and the errors that it reports.
struct Stream {
    _stream: cpal::Stream,
    failures: mpsc::Receiver<cpal::Error>,
}

/// The callback, which successive streams share.
struct Callback<C> {
    run: Mutex<C>,
    /// Number of calls so far.
    calls: AtomicU64,
}

type Build<C> =
    fn(&Opened, StreamConfig, Arc<Callback<C>>, Failed) -> Result<cpal::Stream, cpal::Error>;
type Failed = mpsc::Sender<cpal::Error>;

/// Passes an error on, unless the stream survives it.
fn report(failed: &Failed, error: cpal::Error) {
    use cpal::ErrorKind as Kind;
    match error.kind() {
        Kind::Xrun | Kind::DeviceChanged | Kind::RealtimeDenied => {
            tracing::debug!(%error, "a sound device");
        }
        // The receiver is gone only when the call is over.
        _ => drop(failed.send(error)),
    }
}

fn unsuited(name: &str, samples: SampleFormat) -> DeviceError {
    DeviceError::Unsuited(format!(
        "{name} has samples of format {samples}, which is not supported: choose another device"
    ))
}

impl Microphone for SystemMicrophone {
    fn format(&self) -> Format {
        self.0.format
    }

    fn start(self: Box<Self>, deliver: Deliver) -> Result<Running, DeviceError> {
        let build = match self.0.samples {
            SampleFormat::F32 => Opened::capture::<f32>,
            SampleFormat::I16 => Opened::capture::<i16>,
            SampleFormat::I32 => Opened::capture::<i32>,
            other => return Err(unsuited(&self.0.name, other)),
        };
        self.0.run(deliver, build)
    }
}

impl Loudspeaker for SystemLoudspeaker {
    fn format(&self) -> Format {
        self.0.format
    }

    fn start(self: Box<Self>, fill: Fill) -> Result<Running, DeviceError> {
        let build = match self.0.samples {
            SampleFormat::F32 => Opened::play::<f32>,
            SampleFormat::I16 => Opened::play::<i16>,
            SampleFormat::I32 => Opened::play::<i32>,
            other => return Err(unsuited(&self.0.name, other)),
        };
        self.0.run(fill, build)
    }
}
