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

    /// A copy of the configuration without the processing that the device does itself.
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

#[cfg(test)]
mod tests {
    use glassline_sim::Rng;

    use super::*;

    fn configs() -> impl Iterator<Item = Config> {
        (0..8).map(|bits| Config {
            echo: bits & 1 != 0,
            noise: bits & 2 != 0,
            gain: bits & 4 != 0,
        })
    }

    #[test]
    fn what_the_device_does_is_not_done_again() {
        for config in configs() {
            for Config { echo, noise, gain } in configs() {
                let hardware = Hardware { echo, noise, gain };
                let left = config.without(hardware);
                // Wanted and not yet done.
                assert_eq!(left.echo, config.echo & !echo);
                assert_eq!(left.noise, config.noise & !noise);
                assert_eq!(left.gain, config.gain & !gain);
            }
        }
    }

    #[test]
    fn delays_are_those_of_the_parts() {
        for config in configs() {
            let preprocess = Preprocess::new(config, 1);
            let mut samples = if config == Config::OFF { 0 } else { 46 };
            samples += if config.echo { 384 } else { 0 };
            samples += if config.noise { 288 } else { 0 };
            let wanted = f64::from(samples) / 48_000.0;
            let stated = preprocess.delay().as_secs_f64();
            assert!((stated - wanted).abs() < 1e-8, "{config:?}: {stated}");
            assert_eq!(preprocess.chain.is_some(), config != Config::OFF);
            // The report has figures where there is a canceller.
            let report = preprocess.echo();
            let is_some = [report.return_loss_db, report.enhancement_db].map(|it| it.is_some());
            assert_eq!(is_some, [config.echo; 2]);
        }
    }

    const ECHO_ONLY: Config = Config {
        echo: true,
        noise: false,
        gain: false,
    };

    /// White noise, the same for the same seed.
    fn noise(seed: u64, count: usize, level: f32) -> Vec<f32> {
        let mut rng = Rng::new(seed);
        let sample = |_| level * (2.0 * rng.unit() as f32 - 1.0);
        (0..count).map(sample).collect()
    }

    fn db(samples: &[f32]) -> f32 {
        20.0 * crate::pitch::level(samples).max(1e-9).log10()
    }

    #[test]
    fn an_echo_goes_and_what_is_said_here_stays() {
        // The room gives back a third, 30 ms later.
        let played = noise(1, 400 * FRAME, 0.3);
        let mut preprocess = Preprocess::new(ECHO_ONLY, 1);
        preprocess.set_stream_delay(Duration::from_millis(30));
        let mut pieces = Preprocess::new(ECHO_ONLY, 1);
        pieces.set_stream_delay(Duration::from_millis(30));
        let near = noise(2, FRAME, 0.3);
        let mut last = Vec::new();
        for number in 0..400 {
            let frame = &played[number * FRAME..(number + 1) * FRAME];
            preprocess.rendered(frame);
            // In any lengths it is the same.
            for piece in frame.chunks(1 + number) {
                pieces.rendered(piece);
            }
            let mut captured: Vec<f32> = (number * FRAME..(number + 1) * FRAME)
                .map(|at| at.checked_sub(1_440).map_or(0.0, |at| played[at] / 3.0))
                .collect();
            if number >= 380 {
                for (sample, near) in captured.iter_mut().zip(&near) {
                    *sample += near;
                }
            }
            let mut other = captured.clone();
            let before_db = db(&captured);
            preprocess.process(&mut captured);
            pieces.process(&mut other);
            assert_eq!(captured, other, "{number}");
            if (300..380).contains(&number) {
                assert!(
                    db(&captured) < before_db - 20.0,
                    "{number}: {}",
                    db(&captured)
                );
            }
            last = captured;
        }
        // Twenty decibels above what is left of the echo.
        assert!(db(&last) > db(&near) - 10.0, "{} {}", db(&last), db(&near));
        let report = preprocess.echo();
        let delay = report.delay.expect("found");
        assert!(
            delay.abs_diff(Duration::from_millis(30)) <= Duration::from_millis(8),
            "{delay:?}"
        );
        assert!(report.enhancement_db.expect("on") > 10.0, "{report:?}");
        // A canceller that is not on keeps nothing of what is played.
        let mut off = Preprocess::new(Config::OFF, 1);
        off.rendered(&[0.5; 100]);
        off.set_stream_delay(Duration::from_secs(1));
        assert!(off.rendered.is_empty());
        preprocess.rendered(&[0.5; FRAME + 100]);
        assert_eq!(preprocess.rendered.len(), 100);
    }

    #[test]
    fn steady_noise_goes_in_all_bands_and_channels_keep_their_places() {
        let config = Config {
            noise: true,
            ..Config::OFF
        };
        let mut preprocess = Preprocess::new(config, 2);
        let left = noise(3, 300 * FRAME, 0.05);
        let (mut out, mut split) = (Vec::new(), Split::new());
        for plane in left.chunks(FRAME) {
            // The right channel has half of it.
            let mut frame: Vec<f32> = plane.iter().flat_map(|it| [*it, it / 2.0]).collect();
            preprocess.process(&mut frame);
            out.extend(frame);
        }
        let settled = &out[out.len() - 100 * FRAME..];
        let channel =
            |it: usize| -> Vec<f32> { settled.iter().skip(it).step_by(2).copied().collect() };
        let before = db(&left);
        for (number, least) in [(0, 8.0), (1, 8.0 + 6.0)] {
            let after = db(&channel(number));
            assert!(after < before - least, "{number}: {before} {after}");
        }
        let between = db(&channel(0)) - db(&channel(1));
        assert!((between - 6.0).abs() < 1.5, "{between} dB");
        let (mut bands, mut original) = ([[0.0; BAND]; BANDS], [[0.0; BAND]; BANDS]);
        split.split(&channel(0)[..FRAME], &mut bands);
        Split::new().split(&left[left.len() - FRAME..], &mut original);
        for (after, before) in bands.iter().zip(&original) {
            assert!(db(after) < db(before) - 8.0, "{} {}", db(before), db(after));
        }
    }

    #[test]
    fn a_frame_comes_back_channel_by_channel_and_within_full_scale() {
        let gain_only = Config {
            gain: true,
            ..Config::OFF
        };
        let mut preprocess = Preprocess::new(gain_only, 2);
        let turn = std::f32::consts::TAU * 4_000.0 / 48_000.0;
        let tone = |at: usize| 0.1 * (turn * at as f32).sin();
        let mut heard = Vec::new();
        for number in 0..20 {
            let mut frame: Vec<f32> = (number * FRAME..(number + 1) * FRAME)
                .flat_map(|at| [tone(at), 0.0])
                .collect();
            preprocess.process(&mut frame);
            heard.extend(frame);
        }
        let (mut left, mut right) = (Vec::new(), 0.0f32);
        for pair in heard.as_chunks::<2>().0 {
            left.push(pair[0]);
            right = right.max(pair[1].abs());
        }
        assert!(right < 1e-6, "{right}");
        // The middle of a band: 46 samples later it is what it was, but for the gain.
        let left = &left[10 * FRAME..];
        let wanted: Vec<f32> = (10 * FRAME..20 * FRAME).map(|at| tone(at - 46)).collect();
        let both: f32 = left.iter().zip(&wanted).map(|(a, b)| a * b).sum();
        let power = |it: &[f32]| it.iter().map(|it| it * it).sum::<f32>();
        let fit = both / (power(left) * power(&wanted)).sqrt();
        assert!(fit > 0.99, "{fit}");
        let samples = [f32::NAN, f32::INFINITY, 2.0, -2.0, 0.5];
        assert_eq!(samples.map(sane), [0.0, 0.0, 1.0, -1.0, 0.5]);
    }
}
