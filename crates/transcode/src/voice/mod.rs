//! A voice as browsers send it, made into what cameras take.
//!
//! ```text
//! Opus or G.711 ─► samples ─► Resampler ─► whole frames ─► AAC or G.711, timestamps of its own rate
//! ```
//!
//! What is lost of the source is silence in the output, so that later words keep their time. After a
//! pause the output's timestamps jump as far as those of the source.

use glassline_media::Codec;
use opusic_c::{Channels, SampleRate};
use thiserror::Error;

use crate::RATE;
use crate::aac::{AAC_FRAME_SAMPLES, AacEncoder, AacSettings, AacSettingsError};
use crate::decode::{Format, Undecodable};
use crate::g711::Companding;
use crate::resample::Resampler;

/// Sample rate of G.711, in Hz.
const G711_RATE: u32 = 8_000;

/// Samples of a packet of G.711: 20 ms.
const G711_SAMPLES: usize = 160;

/// Longest gap that is filled with silence, in seconds: a longer one is a pause.
const FILLED_S: u32 = 1;

/// Samples that a packet of Opus can hold: 120 ms at 48 kHz (RFC 6716 §2).
const OPUS_SAMPLES_MAX: usize = 5_760;

/// Samples that libopus conceals at a time: 20 ms.
const CONCEALED_SAMPLES: usize = 960;

/// Most of a gap that libopus conceals: behind it, its guess is silence. 60 ms.
const CONCEALED_SAMPLES_MAX: usize = 2_880;

/// The codec that a voice is made into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VoiceTarget {
    /// AAC-LC in frames of 1024 samples.
    Aac(AacSettings),
    /// G.711 µ-law of 8 kHz, in packets of 20 ms.
    Pcmu,
    /// G.711 A-law of 8 kHz, in packets of 20 ms.
    Pcma,
}

/// The reason why a voice is not transcoded.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum VoiceError {
    /// The voice is in a codec that is not decoded here.
    #[error("a voice in {0} is not transcoded, only one in Opus, PCMU or PCMA")]
    Codec(Codec),
    /// The target is not encoded.
    #[error(transparent)]
    Target(#[from] AacSettingsError),
    /// A decoder or the resampler could not be made; holds its reason.
    #[error("cannot transcode a voice: {0}")]
    Setup(String),
}

/// A frame of the target's codec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VoiceFrame {
    /// Time of the first sample in samples of the target's rate since the first frame. Wraps around.
    pub timestamp: u32,
    /// Coded frame without headers: a raw data block of AAC, or bytes of G.711.
    pub data: Vec<u8>,
}

/// Transcodes one voice, packet by packet. See the example of [`Self::push`].
#[derive(derive_more::Debug)]
#[debug(
    "VoiceTranscoder {{ rate: {:?}, timestamp: {timestamp:?}, late: {late:?}, .. }}",
    self.target.rate()
)]
pub struct VoiceTranscoder {
    source: VoiceDecoder,
    resampler: Option<Resampler>,
    target: Target,
    /// Timestamp behind the latest packet of the source; `None` before the first one.
    next: Option<u32>,
    /// Timestamp of the first sample that is pending.
    timestamp: u32,
    /// Samples at the target's rate that do not fill a frame yet.
    pending: Vec<f32>,
    /// Samples of one packet, at the source's rate. Empty between packets.
    samples: Vec<f32>,
    late: u64,
}

enum VoiceDecoder {
    Opus(opusic_c::Decoder),
    G711(Companding),
}

enum Target {
    Aac(Box<AacEncoder>),
    G711(Companding),
}

impl VoiceTarget {
    /// Returns the sample rate, which is also the clock rate of [`VoiceFrame::timestamp`], in Hz.
    pub const fn rate(&self) -> u32 {
        match self {
            Self::Aac(settings) => settings.rate,
            Self::Pcmu | Self::Pcma => G711_RATE,
        }
    }
}

impl VoiceTranscoder {
    /// Creates the transcoder of a voice in `codec`, which is Opus or G.711.
    ///
    /// # Errors
    /// Returns why such a voice is not transcoded, or not made into `target`.
    pub fn new(codec: Codec, target: VoiceTarget) -> Result<Self, VoiceError> {
        let source = match codec {
            Codec::Opus => {
                let decoder = opusic_c::Decoder::new(Channels::Mono, SampleRate::Hz48000);
                let reason = |code: opusic_c::ErrorCode| VoiceError::Setup(code.message().into());
                VoiceDecoder::Opus(decoder.map_err(reason)?)
            }
            Codec::Pcmu => VoiceDecoder::G711(Companding::Mu),
            Codec::Pcma => VoiceDecoder::G711(Companding::A),
            codec => return Err(VoiceError::Codec(codec)),
        };
        let format = Format {
            rate: source.rate(),
            channels: 1,
        };
        let resampler = match target.rate() == format.rate {
            true => None,
            false => Some(Resampler::between(format, target.rate()).map_err(VoiceError::Setup)?),
        };
        let target = match target {
            VoiceTarget::Aac(settings) => Target::Aac(Box::new(AacEncoder::new(settings)?)),
            VoiceTarget::Pcmu => Target::G711(Companding::Mu),
            VoiceTarget::Pcma => Target::G711(Companding::A),
        };
        Ok(Self {
            source,
            resampler,
            target,
            next: None,
            timestamp: 0,
            pending: Vec::with_capacity(2 * AAC_FRAME_SAMPLES),
            samples: Vec::with_capacity(OPUS_SAMPLES_MAX),
            late: 0,
        })
    }

    /// Takes the payload of one RTP packet and appends the frames that are full to `frames`: at most a
    /// second of them if packets before were lost. A packet whose time was already filled is dropped
    /// and counted in [`Self::late`].
    ///
    /// ```
    /// use glassline_media::{Bitrate, Codec};
    /// use glassline_transcode::{AacSettings, VoiceTarget, VoiceTranscoder};
    ///
    /// let aac = AacSettings { rate: 16_000, channels: 1, bitrate: Bitrate::from_bps(48_000) };
    /// let mut voice = VoiceTranscoder::new(Codec::Pcmu, VoiceTarget::Aac(aac))?;
    /// let mut frames = Vec::new();
    /// for packet in 0..10 {
    ///     voice.push(160 * packet, &[0xff; 160], &mut frames)?;
    /// }
    /// assert_eq!(frames.len(), 3, "200 ms in frames of 64 ms");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns the reason of libopus if the payload is no Opus. The time of the packet is silence.
    pub fn push(
        &mut self,
        timestamp: u32,
        payload: &[u8],
        frames: &mut Vec<VoiceFrame>,
    ) -> Result<(), Undecodable> {
        let filled = FILLED_S * self.source.rate();
        let gap = timestamp.wrapping_sub(self.next.unwrap_or(timestamp)) as i32;
        match gap {
            0 => {}
            1.. if gap.unsigned_abs() <= filled => self.conceal(gap as usize),
            1.. => self.jump(gap.unsigned_abs(), frames),
            // A source that begins anew far back goes on in time.
            _ if gap.unsigned_abs() > filled => {}
            _ => {
                self.late += 1;
                return Ok(());
            }
        }
        let decoded = self.source.decode(payload, &mut self.samples);
        let duration = self.samples.len() as u32 - gap_samples(gap, filled);
        self.next = Some(timestamp.wrapping_add(duration));
        self.resample();
        self.encode(frames);
        decoded
    }

    /// Number of packets that came twice, or after their time was filled.
    pub const fn late(&self) -> u64 {
        self.late
    }

    /// Fills a gap: libopus guesses the first of it, the rest is silence.
    fn conceal(&mut self, count: usize) {
        let mut left = count;
        if let VoiceDecoder::Opus(decoder) = &mut self.source {
            while left >= CONCEALED_SAMPLES && count - left < CONCEALED_SAMPLES_MAX {
                let mut guess = [0.0; CONCEALED_SAMPLES];
                match decoder.decode_float_to_slice(&[], &mut guess, false) {
                    Ok(CONCEALED_SAMPLES) => self.samples.extend_from_slice(&guess),
                    _ => break,
                }
                left -= CONCEALED_SAMPLES;
            }
        }
        let silent = self.samples.len() + left;
        self.samples.resize(silent, 0.0);
    }

    /// Ends the frame before a pause of `gap` samples of the source, and leaves the pause out.
    fn jump(&mut self, gap: u32, frames: &mut Vec<VoiceFrame>) {
        let target = u64::from(gap) * u64::from(self.target.rate()) / u64::from(self.source.rate());
        let size = self.target.frame_samples();
        let fill = (size - self.pending.len() % size) % size;
        self.pending.resize(self.pending.len() + fill, 0.0);
        self.encode(frames);
        let skipped = target.saturating_sub(fill as u64);
        self.timestamp = self.timestamp.wrapping_add(skipped as u32);
    }

    /// Moves the samples of a packet to those that are pending.
    fn resample(&mut self) {
        for sample in &mut self.samples {
            // A damaged frame may decode to anything; what is no number would stay in the filter.
            *sample = if sample.is_finite() { *sample } else { 0.0 };
        }
        match &mut self.resampler {
            Some(resampler) => resampler.push(&self.samples, &mut self.pending),
            None => self.pending.extend_from_slice(&self.samples),
        }
        self.samples.clear();
    }

    /// Encodes the frames that are full.
    fn encode(&mut self, frames: &mut Vec<VoiceFrame>) {
        let size = self.target.frame_samples();
        let whole = self.pending.len() / size * size;
        for samples in self.pending[..whole].chunks_exact(size) {
            frames.push(VoiceFrame {
                timestamp: self.timestamp,
                data: self.target.encode(samples),
            });
            self.timestamp = self.timestamp.wrapping_add(size as u32);
        }
        self.pending.drain(..whole);
    }
}

/// Returns how many samples of a packet's are those of the gap before it.
fn gap_samples(gap: i32, filled: u32) -> u32 {
    match u32::try_from(gap) {
        Ok(gap) if gap <= filled => gap,
        _ => 0,
    }
}

impl VoiceDecoder {
    const fn rate(&self) -> u32 {
        match self {
            Self::Opus(_) => RATE,
            Self::G711(_) => G711_RATE,
        }
    }

    /// Appends the samples of a payload to `samples`; 20 ms of silence if it cannot be decoded.
    fn decode(&mut self, payload: &[u8], samples: &mut Vec<f32>) -> Result<(), Undecodable> {
        match self {
            Self::G711(law) => samples.extend(payload.iter().map(|byte| law.decode(*byte))),
            Self::Opus(decoder) => {
                let start = samples.len();
                samples.resize(start + OPUS_SAMPLES_MAX, 0.0);
                let decoded = match payload {
                    // To libopus this is a lost packet.
                    [] => Err(Undecodable("the packet is empty".to_owned())),
                    _ => decoder
                        .decode_float_to_slice(payload, &mut samples[start..], false)
                        .map_err(|code| Undecodable(code.message().to_owned())),
                };
                let count = decoded.as_ref().copied().unwrap_or(CONCEALED_SAMPLES);
                samples.truncate(start + count);
                decoded?;
            }
        }
        Ok(())
    }
}

impl Target {
    const fn rate(&self) -> u32 {
        match self {
            Self::Aac(encoder) => encoder.settings().rate,
            Self::G711(_) => G711_RATE,
        }
    }

    const fn frame_samples(&self) -> usize {
        match self {
            Self::Aac(_) => AAC_FRAME_SAMPLES,
            Self::G711(_) => G711_SAMPLES,
        }
    }

    fn encode(&mut self, samples: &[f32]) -> Vec<u8> {
        match self {
            Self::Aac(encoder) => samples
                .try_into()
                .map_or_else(|_| Vec::new(), |samples| encoder.encode(samples)),
            Self::G711(law) => samples.iter().map(|it| law.encode(*it)).collect(),
        }
    }
}

#[cfg(test)]
mod tests;
