//! What is done to captured sound before it is encoded: echo cancellation, noise
//! suppression, gain control, and a meter. All of it on frames of 10 ms at 48 kHz.
//!
//! The algorithms are WebRTC's (AEC3, its noise suppressor, AGC2), by the crate
//! `sonora`. A device that does any of it in hardware says so ([`Hardware`]); twice is
//! worse than once.

use std::time::Duration;

use sonora::config::{
    AdaptiveDigital, EchoCanceller, GainController2, HighPassFilter, MaxProcessingRate,
    NoiseSuppression, Pipeline,
};
use sonora::{AudioProcessing, StreamConfig};

use crate::opus::RATE;

/// Samples of a channel that are processed at once: 10 ms.
pub(crate) const FRAME: usize = RATE as usize / 100;

/// By how many samples it comes out later, as measured by a test: splitting into three
/// bands and joining them, the canceller's blocks and its suppressor's overlap, the
/// noise suppressor's overlap.
const SPLIT: u32 = 46;
const ECHO: u32 = 384;
const NOISE: u32 = 288;

/// Delays of more are not looked for.
const STREAM_DELAY_MAX: Duration = Duration::from_millis(500);

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Take out what the loudspeaker says into the microphone.
    pub echo: bool,
    /// Take out steady noise.
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
    /// Nothing at all: 0 ms.
    pub const OFF: Self = Self {
        echo: false,
        noise: false,
        gain: false,
    };

    /// Without what the device does itself.
    #[must_use]
    pub const fn beside(self, hardware: Hardware) -> Self {
        Self {
            echo: self.echo && !hardware.echo,
            noise: self.noise && !hardware.noise,
            gain: self.gain && !hardware.gain,
        }
    }
}

/// What a device does in hardware, or its system for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Hardware {
    /// Its echo canceller is on.
    pub echo: bool,
    /// Its noise suppressor is on.
    pub noise: bool,
    /// Its gain control is on.
    pub gain: bool,
}

/// What echo cancellation says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EchoReport {
    /// How much weaker the echo is than what was played, in dB.
    pub return_loss_db: Option<f64>,
    /// How much weaker cancelling made it, in dB.
    pub enhancement_db: Option<f64>,
    /// How long it found sound to take from loudspeaker to microphone.
    pub delay: Option<Duration>,
}

/// The chain before the encoder.
#[derive(Debug)]
pub(crate) struct Preprocess {
    config: Config,
    processing: Option<AudioProcessing>,
    channels: usize,
    /// One of each channel.
    planes: Vec<Vec<f32>>,
    processed: Vec<Vec<f32>>,
    /// Of the far end, until 10 ms are there; one channel.
    rendered: Vec<f32>,
    scratch: Vec<f32>,
}

impl Preprocess {
    /// For frames of `channels`.
    pub(crate) fn new(config: Config, channels: usize) -> Self {
        let is_needed = config != Config::OFF;
        Self {
            config,
            processing: is_needed.then(|| build(config, channels)),
            channels,
            planes: vec![vec![0.0; FRAME]; channels],
            processed: vec![vec![0.0; FRAME]; channels],
            rendered: Vec::with_capacity(2 * FRAME),
            scratch: vec![0.0; FRAME],
        }
    }

    /// Takes what goes to the loudspeaker: one channel at 48 kHz, in order.
    pub(crate) fn rendered(&mut self, samples: &[f32]) {
        let Some(processing) = self.processing.as_mut().filter(|_| self.config.echo) else {
            return;
        };
        for sample in samples {
            self.rendered.push(sane(*sample));
            if self.rendered.len() == FRAME {
                // Errors tell of lengths, and these are right.
                let _ = processing.process_render_f32(
                    &[self.rendered.as_slice()],
                    &mut [self.scratch.as_mut_slice()],
                );
                self.rendered.clear();
            }
        }
    }

    /// How long sound takes from [`Self::rendered`] through loudspeaker, room and
    /// microphone to [`Self::process`], at most half a second.
    pub(crate) fn set_stream_delay(&mut self, delay: Duration) {
        if let Some(processing) = &mut self.processing {
            let ms = delay.min(STREAM_DELAY_MAX).as_millis();
            // It is within the range.
            let _ = processing.set_stream_delay_ms(i32::try_from(ms).unwrap_or(0));
        }
    }

    /// Processes a frame of interleaved samples in place.
    pub(crate) fn process(&mut self, frame: &mut [f32]) {
        let Some(processing) = &mut self.processing else {
            return;
        };
        let channels = self.channels;
        for (index, sample) in frame.iter().enumerate() {
            self.planes[index % channels][index / channels] = *sample;
        }
        let from: Vec<&[f32]> = self.planes.iter().map(Vec::as_slice).collect();
        let mut to: Vec<&mut [f32]> = self.processed.iter_mut().map(Vec::as_mut_slice).collect();
        if processing.process_capture_f32(&from, &mut to).is_err() {
            // It tells of lengths only, and these are right; if not, sound goes on as it is.
            return;
        }
        for (index, sample) in frame.iter_mut().enumerate() {
            *sample = sane(self.processed[index % channels][index / channels]);
        }
    }

    /// By how much what comes out is later than what goes in.
    pub(crate) fn delay(&self) -> Duration {
        let frames = |is_on: bool, frames: u32| if is_on { frames } else { 0 };
        let all = frames(self.processing.is_some(), SPLIT)
            + frames(self.config.echo, ECHO)
            + frames(self.config.noise, NOISE);
        Duration::from_secs_f64(f64::from(all) / f64::from(RATE))
    }

    pub(crate) fn echo(&self) -> EchoReport {
        let Some(processing) = self.processing.as_ref().filter(|_| self.config.echo) else {
            return EchoReport::default();
        };
        let stats = processing.statistics();
        EchoReport {
            return_loss_db: stats.echo_return_loss,
            enhancement_db: stats.echo_return_loss_enhancement,
            delay: stats
                .delay_ms
                .and_then(|ms| u64::try_from(ms).ok())
                .map(Duration::from_millis),
        }
    }
}

fn build(config: Config, channels: usize) -> AudioProcessing {
    let sonora = sonora::Config {
        pipeline: Pipeline {
            // Else all above 16 kHz is lost, and a resampler costs another delay.
            maximum_internal_processing_rate: MaxProcessingRate::Rate48kHz,
            ..Pipeline::default()
        },
        high_pass_filter: Some(HighPassFilter::default()),
        echo_canceller: config.echo.then(EchoCanceller::default),
        noise_suppression: config.noise.then(NoiseSuppression::default),
        gain_controller2: config.gain.then(|| GainController2 {
            adaptive_digital: Some(AdaptiveDigital::default()),
            ..GainController2::default()
        }),
        ..sonora::Config::default()
    };
    let channels = u16::try_from(channels).expect("1 or 2");
    AudioProcessing::builder()
        .config(sonora)
        .capture_config(StreamConfig::new(RATE, channels))
        .render_config(StreamConfig::new(RATE, 1))
        .build()
}

fn sane(sample: f32) -> f32 {
    match sample.is_finite() {
        true => sample.clamp(-1.0, 1.0),
        false => 0.0,
    }
}
