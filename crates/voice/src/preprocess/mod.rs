//! Processing of captured audio before encoding: echo cancellation, noise suppression and
//! gain control, on frames of 10 ms at 48 kHz.
//!
//! ```text
//! process() ─► three bands ─► rumble out ─► echo out ─► noise out ─► one band ─► gain, limiter
//! rendered() ─► three bands ────────────────────┘
//! ```
//!
//! The algorithms are WebRTC's (AEC3, its noise suppressor, AGC2) from the `sonora` crates,
//! in the order of its audio processing module. The code between them is here: `sonora`'s own
//! makes a call cost a third more, because it multiplies and adds by a function call wherever
//! the compiler may not assume that every processor has FMA. A device that does part of this
//! in hardware reports that ([`Hardware`]); doing it twice is worse than once.

use std::time::Duration;

use sonora_ns::config::NsConfig;
use sonora_ns::noise_suppressor::NoiseSuppressor;

use crate::opus::RATE;
use bands::{BAND, BANDS, Bands, Join, Split};
use echo::Echo;
use gain::Gain;
use rumble::Rumble;

mod bands;
mod echo;
mod gain;
mod rumble;

/// Samples per channel that are processed at once: 10 ms.
pub(crate) const FRAME: usize = RATE as usize / 100;

/// Delay of splitting into three bands and joining them, in samples, as measured by a test.
const SPLIT: u32 = 46;
/// Delay of the echo canceller's blocks and of its suppressor's overlap, in samples, as
/// measured by a test.
const ECHO: u32 = 384;
/// Delay of the noise suppressor's overlap, in samples, as measured by a test.
const NOISE: u32 = 288;

/// Longest delay between loudspeaker and microphone that is passed to the echo canceller.
const STREAM_DELAY_MAX: Duration = Duration::from_millis(500);

/// Which processing is done before encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Remove what the loudspeaker plays from what the microphone captures.
    pub echo: bool,
    /// Whether steady noise is suppressed.
    pub noise: bool,
    /// Bring speech to an even level.
    pub gain: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            echo: true,
            noise: true,
            gain: true,
        }
    }
}

impl Config {
    /// No processing, and no delay.
    pub const OFF: Self = Self {
        echo: false,
        noise: false,
        gain: false,
    };

    /// The same configuration without the processing that the device does itself.
    #[must_use]
    pub const fn without(self, hardware: Hardware) -> Self {
        Self {
            echo: self.echo && !hardware.echo,
            noise: self.noise && !hardware.noise,
            gain: self.gain && !hardware.gain,
        }
    }
}

/// Processing that a device does in hardware, or its operating system for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Hardware {
    /// Whether its echo canceller is on.
    pub echo: bool,
    /// Whether its noise suppressor is on.
    pub noise: bool,
    /// Whether its gain control is on.
    pub gain: bool,
}

/// Metrics of the echo canceller.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EchoReport {
    /// How much weaker the echo is than the played audio, in dB (echo return loss).
    pub return_loss_db: Option<f64>,
    /// How much cancellation weakened the echo, in dB (echo return loss enhancement).
    pub enhancement_db: Option<f64>,
    /// Estimated delay from loudspeaker to microphone.
    pub delay: Option<Duration>,
}

/// Full scale of the algorithms' samples.
const FULL: f32 = 32_768.0;

/// The processing chain before the encoder.
#[derive(Debug)]
pub(crate) struct Preprocess {
    config: Config,
    /// The chain; `None` if no processing is configured.
    chain: Option<Chain>,
    /// Samples of the loudspeaker that wait until 10 ms are complete; one channel.
    rendered: Vec<f32>,
}

impl Preprocess {
    /// Makes a chain for frames of `channels` channels.
    pub(crate) fn new(config: Config, channels: usize) -> Self {
        let is_needed = config != Config::OFF;
        Self {
            config,
            chain: is_needed.then(|| Chain::new(config, channels)),
            rendered: Vec::with_capacity(FRAME),
        }
    }

    /// Takes what the loudspeaker plays: one channel at 48 kHz, in order.
    pub(crate) fn rendered(&mut self, samples: &[f32]) {
        let Some(chain) = self.chain.as_mut().filter(|_| self.config.echo) else {
            return;
        };
        let mut left = samples;
        while !left.is_empty() {
            let (next, rest) = left.split_at(left.len().min(FRAME - self.rendered.len()));
            let sane = next.iter().map(|it| sane(*it) * FULL);
            self.rendered.extend(sane);
            left = rest;
            if self.rendered.len() == FRAME {
                chain.render(&self.rendered);
                self.rendered.clear();
            }
        }
    }

    /// Sets how long audio takes from [`Self::rendered`] through loudspeaker, room and
    /// microphone to [`Self::process`]; at most half a second counts.
    pub(crate) fn set_stream_delay(&mut self, delay: Duration) {
        if let Some(echo) = self.chain.as_mut().and_then(|it| it.echo.as_mut()) {
            let ms = delay.min(STREAM_DELAY_MAX).as_millis();
            echo.set_delay_ms(i32::try_from(ms).unwrap_or(0));
        }
    }

    /// Processes a frame of interleaved samples in place.
    pub(crate) fn process(&mut self, frame: &mut [f32]) {
        if let Some(chain) = &mut self.chain {
            chain.process(frame);
        }
    }

    /// Delay of the chain.
    pub(crate) fn delay(&self) -> Duration {
        let frames = |is_on: bool, frames: u32| if is_on { frames } else { 0 };
        let all = frames(self.chain.is_some(), SPLIT)
            + frames(self.config.echo, ECHO)
            + frames(self.config.noise, NOISE);
        Duration::from_secs_f64(f64::from(all) / f64::from(RATE))
    }

    /// Metrics of the echo canceller; empty if it is off.
    pub(crate) fn echo(&self) -> EchoReport {
        let Some(echo) = self.chain.as_ref().and_then(|it| it.echo.as_ref()) else {
            return EchoReport::default();
        };
        let metrics = echo.metrics();
        EchoReport {
            return_loss_db: Some(metrics.echo_return_loss),
            enhancement_db: Some(metrics.echo_return_loss_enhancement),
            delay: u64::try_from(metrics.delay_ms)
                .ok()
                .map(Duration::from_millis),
        }
    }
}

/// The processors that are configured.
#[derive(Debug)]
struct Chain {
    channels: Vec<Channel>,
    /// The full band of each channel.
    planes: Vec<Vec<f32>>,
    /// The three bands of each channel.
    bands: Vec<Bands>,
    echo: Option<Echo>,
    gain: Option<Gain>,
    /// Band splitting of what the loudspeaker plays.
    render: Split,
    render_bands: Bands,
}

/// Processors that each channel has for itself.
#[derive(Debug)]
struct Channel {
    split: Split,
    join: Join,
    rumble: Rumble,
    noise: Option<NoiseSuppressor>,
}

impl Chain {
    fn new(config: Config, channels: usize) -> Self {
        let channel = |_| Channel {
            split: Split::new(),
            join: Join::new(),
            rumble: Rumble::default(),
            noise: config
                .noise
                .then(|| NoiseSuppressor::new_with_bands(NsConfig::default(), BANDS)),
        };
        Self {
            channels: (0..channels).map(channel).collect(),
            planes: vec![vec![0.0; FRAME]; channels],
            bands: vec![[[0.0; BAND]; BANDS]; channels],
            echo: config.echo.then(|| Echo::new(channels)),
            gain: config.gain.then(Gain::new),
            render: Split::new(),
            render_bands: [[0.0; BAND]; BANDS],
        }
    }

    fn render(&mut self, frame: &[f32]) {
        if let Some(echo) = &mut self.echo {
            self.render.split(frame, &mut self.render_bands);
            echo.render(&self.render_bands);
        }
    }

    fn process(&mut self, frame: &mut [f32]) {
        let count = self.channels.len();
        for (index, plane) in self.planes.iter_mut().enumerate() {
            let samples = frame.iter().skip(index).step_by(count);
            for (place, sample) in plane.iter_mut().zip(samples) {
                *place = sane(*sample) * FULL;
            }
        }
        let is_overdriven = self.planes.iter().any(|it| Echo::is_overdriven(it));
        let parts = self.channels.iter_mut().zip(&self.planes);
        for ((channel, plane), bands) in parts.zip(&mut self.bands) {
            channel.split.split(plane, bands);
            channel.rumble.remove(&mut bands[0]);
            // Noise is measured before cancellation, because it is the room's.
            if let Some(noise) = &mut channel.noise {
                noise.analyze(&bands[0]);
            }
        }
        if let Some(echo) = &mut self.echo {
            echo.cancel(&mut self.bands, is_overdriven);
        }
        self.suppress_noise();
        let parts = self.channels.iter_mut().zip(&mut self.planes);
        for ((channel, plane), bands) in parts.zip(&self.bands) {
            channel.join.join(bands, plane);
        }
        if let Some(gain) = &mut self.gain {
            gain.level(&mut self.planes);
        }
        for (index, plane) in self.planes.iter().enumerate() {
            let places = frame.iter_mut().skip(index).step_by(count);
            for (place, sample) in places.zip(plane) {
                *place = sane(sample / FULL);
            }
        }
    }

    /// Suppresses noise: by its spectrum in the lowest band, as a whole in the others. The
    /// upper gain is the smallest of all channels', so that audio keeps its position between
    /// the channels.
    fn suppress_noise(&mut self) {
        let mut upper_gain = f32::MAX;
        for (channel, bands) in self.channels.iter_mut().zip(&mut self.bands) {
            if let Some(noise) = &mut channel.noise {
                noise.process(&mut bands[0]);
                upper_gain = upper_gain.min(noise.upper_band_gain());
            }
        }
        for (channel, bands) in self.channels.iter_mut().zip(&mut self.bands) {
            if let Some(noise) = &mut channel.noise {
                for (upper, band) in bands[1..].iter_mut().enumerate() {
                    noise.process_upper_band(band, upper, upper_gain);
                    NoiseSuppressor::clamp_frame(band);
                }
            }
        }
    }
}

/// Clips a sample to full scale; NaN and infinities become silence.
fn sane(sample: f32) -> f32 {
    match sample.is_finite() {
        true => sample.clamp(-1.0, 1.0),
        false => 0.0,
    }
}
