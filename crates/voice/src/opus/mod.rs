//! Opus (RFC 6716; in RTP: RFC 7587): encoder and decoder as the engine needs them.
//!
//! The decoder conceals in steps of 10 ms, the shortest that all Opus modes can continue by
//! without losing their state. Concealed audio that was not asked for yet is kept, and fades
//! into what is decoded next.

use std::time::Duration;

use glassline_media::Bitrate;
use glassline_rtp::opus;
use opusic_c::{Application, Channels, InbandFec, SampleRate, Signal};
use thiserror::Error;

use crate::codec::{self, Format, Undecodable, Unencodable};

#[cfg(test)]
mod tests;

/// RTP clock rate of Opus and sample rate of the engine, in Hz.
pub const RATE: u32 = opus::CLOCK_RATE;

/// Optimization target of the encoder (libopus: application).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Speech at any bitrate, with FEC where requested; 6.5 ms of look-ahead.
    Voip,
    /// 2.5 ms of look-ahead at a higher bitrate: only CELT is used, so there is no FEC.
    #[default]
    LowDelay,
}

/// Length of the audio in a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Frame {
    /// 10 ms: the least delay.
    #[default]
    Ms10,
    /// 20 ms: half as many packets, which saves 16 kbit/s of headers.
    Ms20,
}

impl Frame {
    /// The length as a duration.
    pub const fn duration(self) -> Duration {
        match self {
            Self::Ms10 => Duration::from_millis(10),
            Self::Ms20 => Duration::from_millis(20),
        }
    }
}

/// Configuration of the Opus encoder.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Number of channels, 1 or 2.
    pub channels: usize,
    /// Length of the audio in a packet.
    pub frame: Frame,
    /// Purpose that the encoder optimizes for.
    pub purpose: Purpose,
    /// Bitrate, 6 to 510 kbit/s; 32 kbit/s suffice for [`Purpose::Voip`].
    pub bitrate: Bitrate,
    /// Complexity, 0 to 10: higher values give better quality for more processor time.
    pub complexity: u8,
    /// Whether to send almost nothing while nobody speaks (discontinuous transmission).
    pub dtx: bool,
    /// Whether a packet may repeat the previous one at a low bitrate (LBRR) when losses are
    /// expected.
    pub fec: bool,
    /// Expected share of lost packets, 0 to 1.
    pub expected_loss: f64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            channels: 1,
            frame: Frame::default(),
            purpose: Purpose::default(),
            bitrate: Bitrate::from_bps(48_000),
            complexity: 9,
            dtx: false,
            fec: true,
            expected_loss: 0.0,
        }
    }
}

/// The reason why an encoder or decoder cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Error {
    /// The number of channels is neither 1 nor 2.
    #[error("Opus codes one or two channels, not {0}")]
    Channels(usize),
    /// The sample rate is none of Opus's five.
    #[error("Opus plays at 8, 12, 16, 24 or 48 kHz, not {0} Hz")]
    Rate(u32),
    /// libopus refused; the text is its own.
    #[error("libopus refused: {0}")]
    Refused(&'static str),
}

impl From<opusic_c::ErrorCode> for Error {
    fn from(code: opusic_c::ErrorCode) -> Self {
        Self::Refused(code.message())
    }
}

/// Opus encoder of libopus.
#[derive(derive_more::Debug)]
#[debug("Encoder {{ config: {config:?}, .. }}")]
pub struct Encoder {
    config: Config,
    inner: opusic_c::Encoder,
    look_ahead: Duration,
}

/// Longest packet, in bytes: a TOC byte and a frame of 1,275 bytes (RFC 6716 §3.4, R2); one
/// frame suffices for 20 ms.
const PACKET_BYTES_MAX: usize = 1_276;

impl Encoder {
    /// Makes an encoder of samples at [`RATE`]; values of `config` outside their ranges are
    /// clamped.
    ///
    /// # Errors
    /// If the number of channels is neither 1 nor 2, or libopus refuses.
    pub fn new(config: Config) -> Result<Self, Error> {
        let application = match config.purpose {
            Purpose::Voip => Application::Voip,
            Purpose::LowDelay => Application::LowDelay,
        };
        let channels = channels(config.channels)?;
        let mut inner = opusic_c::Encoder::new(channels, SampleRate::Hz48000, application)?;
        inner.set_complexity(config.complexity.min(10))?;
        inner.set_dtx(config.dtx)?;
        if config.purpose == Purpose::Voip {
            inner.set_signal(Signal::Voice)?;
        }
        let look_ahead = inner.get_look_ahead()?;
        let mut encoder = Self {
            config,
            inner,
            look_ahead: Duration::from_secs_f64(f64::from(look_ahead) / f64::from(RATE)),
        };
        encoder.configure(config.bitrate, config.expected_loss)?;
        Ok(encoder)
    }

    /// Configuration with the bitrate and expected loss set last.
    pub const fn config(&self) -> Config {
        self.config
    }

    /// Passes bitrate and expected loss to libopus. It has no reason to refuse them, since
    /// values are clamped first.
    fn configure(&mut self, bitrate: Bitrate, expected_loss: f64) -> Result<(), Error> {
        let bps = bitrate.bps().clamp(6_000, 510_000) as u32;
        let percent = (expected_loss.clamp(0.0, 1.0) * 100.0).ceil() as u8;
        // libopus repeats nothing while it expects no loss.
        let fec = match self.config.fec {
            true => InbandFec::Mode1,
            false => InbandFec::Off,
        };
        (self.config.bitrate, self.config.expected_loss) = (bitrate, expected_loss);
        self.inner.set_bitrate(opusic_c::Bitrate::Value(bps))?;
        self.inner.set_packet_loss(percent)?;
        self.inner.set_inband_fec(fec)?;
        Ok(())
    }
}

impl codec::Encoder for Encoder {
    fn frame_samples(&self) -> usize {
        let ms = self.config.frame.duration().as_millis() as usize;
        RATE as usize / 1_000 * ms * self.config.channels
    }

    fn encode(&mut self, samples: &[f32], payload: &mut Vec<u8>) -> Result<(), Unencodable> {
        let error = Unencodable {
            samples: samples.len(),
        };
        payload.clear();
        if samples.len() != self.frame_samples() {
            return Err(error);
        }
        payload.reserve(PACKET_BYTES_MAX);
        let result = self.inner.encode_float_to_vec(samples, payload);
        result.map(|_| ()).map_err(|_| error)
    }

    fn look_ahead(&self) -> Duration {
        self.look_ahead
    }

    fn is_silence(&self, payload: &[u8]) -> bool {
        is_silence(payload)
    }

    fn set_bitrate(&mut self, bitrate: Bitrate) {
        let _ = self.configure(bitrate, self.config.expected_loss);
    }

    /// Sets the expected loss. A higher value makes the encoder depend less on earlier
    /// packets, and repeat them if FEC is allowed.
    fn set_expected_loss(&mut self, ratio: f64) {
        let _ = self.configure(self.config.bitrate, ratio);
    }
}

/// Whether `packet` only announces silence and need not be sent, except the first one, which
/// carries the announcement (RFC 7587 §3.1.3).
const fn is_silence(packet: &[u8]) -> bool {
    packet.len() <= 2
}

/// Opus decoder of libopus.
#[derive(derive_more::Debug)]
#[debug("Decoder {{ format: {format:?}, spare: {:?}, .. }}", self.spare.len())]
pub struct Decoder {
    format: Format,
    inner: opusic_c::Decoder,
    /// Concealed audio that was not asked for yet.
    spare: Vec<f32>,
}

/// How losses are concealed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Concealment {
    /// Pitch and noise are continued.
    Classic,
    /// The neural concealment of Opus 1.5 and later; costs 30 times the work while it lasts.
    #[default]
    Deep,
}

/// Lowest decoder complexity at which libopus conceals with its neural network.
const DEEP: u8 = 5;

impl Decoder {
    /// Makes a decoder into `format`, whatever rate and channels were encoded.
    ///
    /// # Errors
    /// If the rate of `format` is none of Opus's 8, 12, 16, 24 and 48 kHz.
    pub fn new(format: Format, concealment: Concealment) -> Result<Self, Error> {
        let rate = match format.rate() {
            8_000 => SampleRate::Hz8000,
            12_000 => SampleRate::Hz12000,
            16_000 => SampleRate::Hz16000,
            24_000 => SampleRate::Hz24000,
            48_000 => SampleRate::Hz48000,
            rate => return Err(Error::Rate(rate)),
        };
        let mut inner = opusic_c::Decoder::new(channels(format.channels())?, rate)?;
        if concealment == Concealment::Deep {
            inner.set_complexity(DEEP)?;
        }
        Ok(Self {
            format,
            inner,
            spare: Vec::new(),
        })
    }

    /// Frames in 10 ms.
    fn step(&self) -> usize {
        self.format.rate() as usize / 100
    }

    /// Decodes `payload`, which holds `frames` frames, behind the contents of `out`; an empty
    /// payload conceals. Returns false, and appends nothing, if libopus decoded another
    /// number of frames.
    fn run(&mut self, payload: &[u8], frames: usize, is_fec: bool, out: &mut Vec<f32>) -> bool {
        let begun = out.len();
        out.resize(begun + frames * self.format.channels(), 0.0);
        let made = self
            .inner
            .decode_float_to_slice(payload, &mut out[begun..], is_fec);
        if made != Ok(frames) {
            out.truncate(begun);
        }
        made == Ok(frames)
    }

    /// Appends `frames` frames of concealment or comfort noise to `out`.
    fn continue_audio(&mut self, frames: usize, out: &mut Vec<f32>) -> bool {
        let wanted = frames * self.format.channels();
        let mut spare = std::mem::take(&mut self.spare);
        while spare.len() < wanted && self.run(&[], self.step(), false, &mut spare) {}
        let is_enough = spare.len() >= wanted;
        if is_enough {
            out.extend(spare.drain(..wanted));
        }
        self.spare = spare;
        is_enough
    }

    /// Crossfades concealed audio that was not asked for into `out`, which was decoded after
    /// it.
    fn fade_in(&mut self, out: &mut [f32]) {
        let channels = self.format.channels();
        let frames = (self.spare.len().min(out.len()) / channels).min(self.step() / 2);
        let head = out.iter_mut().zip(&self.spare).take(frames * channels);
        for (index, (sample, spare)) in head.enumerate() {
            let share = ((index / channels) as f32 + 0.5) / frames as f32;
            *sample = *sample * share + spare * (1.0 - share);
        }
        self.spare.clear();
    }
}

impl codec::Decoder for Decoder {
    fn format(&self) -> Format {
        self.format
    }

    fn frames(&self, payload: &[u8]) -> Option<usize> {
        let ticks = opus::samples(payload).ok()?;
        Some((ticks / (RATE / self.format.rate())) as usize)
    }

    fn decode(&mut self, payload: &[u8], out: &mut Vec<f32>) -> Result<(), Undecodable> {
        let frames = self.frames(payload).ok_or(Undecodable)?;
        let begun = out.len();
        if !self.run(payload, frames, false, out) {
            return Err(Undecodable);
        }
        self.fade_in(&mut out[begun..]);
        Ok(())
    }

    fn recover(&mut self, following: &[u8], frames: usize, out: &mut Vec<f32>) -> bool {
        let begun = out.len();
        if !has_redundancy(following) || !self.run(following, frames, true, out) {
            return false;
        }
        self.fade_in(&mut out[begun..]);
        true
    }

    fn conceal(&mut self, frames: usize, out: &mut Vec<f32>) -> bool {
        self.continue_audio(frames, out)
    }

    fn comfort(&mut self, frames: usize, out: &mut Vec<f32>) -> bool {
        self.continue_audio(frames, out)
    }

    fn begins_silence(&self, payload: &[u8]) -> bool {
        is_silence(payload)
    }

    fn reset(&mut self) {
        self.spare.clear();
        // Only an invalid pointer makes this call fail.
        let _ = self.inner.reset();
    }
}

fn channels(count: usize) -> Result<Channels, Error> {
    match count {
        1 => Ok(Channels::Mono),
        2 => Ok(Channels::Stereo),
        _ => Err(Error::Channels(count)),
    }
}

/// Whether `packet` repeats the previous one: whether the LBRR flag of its first SILK frame
/// is set, in either channel (RFC 6716 §4.2.3, §4.2.4).
fn has_redundancy(packet: &[u8]) -> bool {
    let Some(&toc) = packet.first() else {
        return false;
    };
    // CELT-only packets have no LBRR (RFC 6716 table 2).
    if toc >> 3 >= 16 {
        return false;
    }
    let Some(&first) = first_frame(packet).and_then(|at| packet.get(at)) else {
        return false;
    };
    // One voice activity bit for each 20 ms, then the LBRR flag; the side channel's bits
    // follow in the same order.
    let frames = match toc >> 3 {
        it if it < 12 && it & 3 == 2 => 2,
        it if it < 12 && it & 3 == 3 => 3,
        _ => 1,
    };
    let mid = first >> (7 - frames) & 1;
    let side = match toc >> 2 & 1 {
        0 => 0,
        _ => first >> (6 - 2 * frames) & 1,
    };
    mid | side != 0
}

/// Index at which the first frame of `packet` begins (RFC 6716 §3.2); `None` without frames.
fn first_frame(packet: &[u8]) -> Option<usize> {
    let length_bytes = |at: usize| Some(if *packet.get(at)? < 252 { 1 } else { 2 });
    match packet.first()? & 3 {
        0 | 1 => Some(1),
        2 => Some(1 + length_bytes(1)?),
        _ => {
            let count = *packet.get(1)?;
            let mut at = 2;
            if count & 0x40 != 0 {
                // Padding length: 254 for each byte of 255, plus the last byte.
                while *packet.get(at)? == 255 {
                    at += 1;
                }
                at += 1;
            }
            if count & 0x80 != 0 {
                for _ in 1..count & 0x3f {
                    at += length_bytes(at)?;
                }
            }
            Some(at)
        }
    }
}
