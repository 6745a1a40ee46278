//! The sending half of a call: from a microphone's samples to packets.
//!
//! ```text
//! capture() ─► channels, rate ─► Reframer ─► 10 ms ─► Preprocess ─► opus ─► (RED) ─► poll()
//! rendered(): what the loudspeaker plays ────────────────┘
//! ```
//!
//! Each frame leaves with its [`SendStamps`]. RTP timestamps follow the device's clock: a pause
//! of the device becomes a gap in the timestamps, not a delay of everything that follows.

mod config;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use glassline_media::Bitrate;
use glassline_rtp::red;

use crate::codec::{Encoder, Format};
use crate::meter::{self, Meter};
use crate::mix::remix;
use crate::opus::{self, RATE};
use crate::preprocess::{EchoReport, FRAME, Preprocess};
use crate::reframe::{Captured, Reframer};
use crate::resample::Resampler;
use crate::stamps::{SendStamps, SignalDelay};

pub use config::{Config, ConfigError, Red};

/// A packet to be sent: an RTP payload, and the fields of its RTP header.
#[derive(Clone, Debug, PartialEq)]
pub struct Outgoing {
    /// Opus, or RED with Opus inside.
    pub payload: Bytes,
    /// RTP timestamp as a 64-bit number that never wraps; its low 32 bits go on the wire.
    pub timestamp: u64,
    /// Whether this is the first packet after silence (RFC 3551 §4.1).
    pub marker: bool,
    /// Audio level in −dBov, 0 (loudest) to 127 (silence), as RFC 6464 defines it.
    pub level_dbov: u8,
    /// The times at which the packet's audio passed each stage.
    pub stamps: SendStamps,
}

/// The counts of a [`Speaker`], and its current levels and delays.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Report {
    /// Frames of 10 ms that were processed.
    pub frames: u64,
    /// Packets that were made.
    pub packets: u64,
    /// Bytes of payload in those packets.
    pub bytes: u64,
    /// Packets that were left out because nobody spoke (DTX).
    pub silent: u64,
    /// Samples per channel that were dropped, because nobody took them in time or because the
    /// device stopped.
    pub dropped: u64,
    /// Number of pauses of the device.
    pub gaps: u64,
    /// Packets that could not be encoded.
    pub failed: u64,
    /// Level of the microphone in −dBov, 0 (loudest) to 127 (silence); falls slowly.
    pub level_dbov: u8,
    /// Whether silence is sent instead of what the microphone captures.
    pub is_muted: bool,
    /// Delay inside the processing chain, which no stamp shows.
    pub signal: SignalDelay,
    /// Metrics of the echo canceller.
    pub echo: EchoReport,
}

/// Bound on the stamps of frames without a packet that wait for [`Speaker::poll_unsent`];
/// beyond it the oldest are dropped.
const UNSENT_MAX: usize = 64;

/// A frame that begins this much later than the previous one ended follows a pause in which
/// the device lost samples. Smaller differences are drift of the device's clock.
const PAUSE: Duration = Duration::from_millis(15);

/// The sending half of a call. It encodes Opus, unless the caller supplies another encoder of
/// samples at 48 kHz.
#[derive(Debug)]
pub struct Speaker<E = opus::Encoder> {
    config: Config,
    resampler: Resampler,
    reframer: Reframer,
    preprocess: Preprocess,
    encoder: E,
    /// Captured samples, converted to the number of channels that are encoded.
    remixed: Vec<f32>,
    resampled: Vec<f32>,
    frame: Vec<f32>,
    /// Frames collected so far for the packet that is being built.
    packet: Vec<f32>,
    begun: Option<Begun>,
    encoded: Vec<u8>,
    earlier: VecDeque<Earlier>,
    /// RTP timestamp of the next frame.
    timestamp: u64,
    /// When the next frame's first sample should be captured.
    expected: Option<Instant>,
    is_muted: bool,
    /// Gain applied to the end of the last frame, 0 to 1; see [`Self::mute`].
    gain: f32,
    was_silent: bool,
    meter: Meter,
    unsent: VecDeque<SendStamps>,
    report: Report,
}

/// The first frame of the packet that is being built.
#[derive(Clone, Copy, Debug)]
struct Begun {
    timestamp: u64,
    captured: Instant,
}

/// A packet as the encoder made it.
struct Encoded {
    payload: Bytes,
    /// Audio level in −dBov, 0 (loudest) to 127 (silence).
    level_dbov: u8,
    /// Whether the packet begins a talkspurt.
    marker: bool,
}

/// A packet that was sent and that RED may repeat.
#[derive(Clone, Debug)]
struct Earlier {
    timestamp: u64,
    payload: Bytes,
}

impl Speaker {
    /// Makes a speaker that has captured nothing yet.
    ///
    /// # Errors
    /// If libopus offers no such encoder, or the number of RED copies is not 1 to 4.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        Self::with_encoder(config, opus::Encoder::new(config.opus)?)
    }
}

impl<E: Encoder> Speaker<E> {
    /// Makes a speaker with the caller's encoder. Of [`Config::opus`] only the number of
    /// channels is used, which must be the encoder's.
    ///
    /// # Errors
    /// If the number of RED copies is not 1 to 4, or the number of channels is neither 1 nor
    /// 2.
    pub fn with_encoder(config: Config, encoder: E) -> Result<Self, ConfigError> {
        if let Some(red) = config.red
            && !(1..=4).contains(&red.copies)
        {
            return Err(ConfigError::Copies(red.copies));
        }
        let channels = config.opus.channels;
        let format = Format::new(RATE, channels).ok_or(opus::Error::Channels(channels))?;
        let reframer = Reframer::new(format, opus::Frame::Ms10.duration());
        let preprocess = config.preprocess.without(config.hardware);
        Ok(Self {
            resampler: Resampler::new(config.device.rate(), RATE, channels),
            reframer: reframer.expect("10 ms is a frame"),
            preprocess: Preprocess::new(preprocess, channels),
            encoder,
            remixed: Vec::new(),
            resampled: Vec::new(),
            frame: vec![0.0; FRAME * channels],
            packet: Vec::new(),
            begun: None,
            encoded: Vec::new(),
            earlier: VecDeque::new(),
            timestamp: u64::from(config.timestamp_first),
            expected: None,
            is_muted: false,
            gain: 1.0,
            was_silent: true,
            meter: Meter::default(),
            unsent: VecDeque::new(),
            report: Report::default(),
            config,
        })
    }

    /// Takes the interleaved samples of [`Config::device`] with which the device called back
    /// at `now`.
    pub fn capture(&mut self, samples: &[f32], now: Instant) {
        self.capture_at(samples, now, now);
    }

    /// Takes samples from a device that knows its capture times: the last of `samples` was at
    /// the microphone at `last`, [`Config::device_delay`] not counted, and the device called
    /// back at `now`.
    pub fn capture_at(&mut self, samples: &[f32], last: Instant, now: Instant) {
        let (from, to) = (self.config.device.channels(), self.config.opus.channels);
        let whole = samples.len() - samples.len() % from;
        self.remixed.clear();
        remix(&samples[..whole], from, to, &mut self.remixed);
        for sample in &mut self.remixed {
            // A filter would keep a NaN forever.
            if !sample.is_finite() {
                *sample = 0.0;
            }
        }
        self.resampled.clear();
        self.resampler.push(&self.remixed, &mut self.resampled);
        self.reframer.push_at(&self.resampled, last, now);
    }

    /// Takes what the loudspeaker plays, as the echo canceller's reference: one channel at 48
    /// kHz, in order, without gaps.
    pub fn rendered(&mut self, samples: &[f32]) {
        self.preprocess.rendered(samples);
    }

    /// Sets how long audio takes from [`Self::rendered`] to [`Self::poll`], as far as the
    /// devices report it. The echo canceller estimates the rest.
    pub fn set_stream_delay(&mut self, delay: Duration) {
        self.preprocess.set_stream_delay(delay);
    }

    /// Changes the microphone's format and delay, as when another device is chosen. It
    /// applies to samples captured from now on.
    pub fn set_device(&mut self, device: Format, delay: Duration) {
        if device.rate() != self.config.device.rate() {
            let channels = self.config.opus.channels;
            self.resampler = Resampler::new(device.rate(), RATE, channels);
        }
        self.config.device = device;
        self.config.device_delay = delay;
    }

    /// Sets whether silence is sent, from the next frame on.
    pub fn set_muted(&mut self, is_muted: bool) {
        self.is_muted = is_muted;
    }

    /// Sets the expected packet loss, 0 to 1: see [`Encoder::set_expected_loss`].
    pub fn set_expected_loss(&mut self, ratio: f64) {
        self.encoder.set_expected_loss(ratio);
    }

    /// Sets the encoder's bitrate: see [`Encoder::set_bitrate`].
    pub fn set_bitrate(&mut self, bitrate: Bitrate) {
        self.encoder.set_bitrate(bitrate);
    }

    /// When the next frame is due, if a whole frame is captured. The frames of a long device
    /// period are due one by one.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.reframer.next_due()
    }

    /// Returns the next packet that is due. `clock` returns the current time; it is called
    /// several times, because each step is timed.
    pub fn poll(&mut self, clock: &mut impl FnMut() -> Instant) -> Option<Outgoing> {
        while self.poll_timeout().is_some_and(|due| due <= clock()) {
            let captured = self.reframer.pop(&mut self.frame)?;
            let framed = clock();
            let outgoing = self.advance(captured, framed, clock);
            if outgoing.is_some() {
                return outgoing;
            }
        }
        None
    }

    /// Returns the stamps of the next frame that made no packet of its own: nobody spoke, or
    /// the frame is part of a longer packet.
    pub fn poll_unsent(&mut self) -> Option<SendStamps> {
        self.unsent.pop_front()
    }

    /// Returns counts, levels and delays.
    pub fn report(&self) -> Report {
        Report {
            dropped: self.reframer.dropped(),
            level_dbov: self.meter.dbov(),
            is_muted: self.is_muted,
            signal: self.signal(),
            echo: self.preprocess.echo(),
            ..self.report
        }
    }

    fn signal(&self) -> SignalDelay {
        SignalDelay {
            resample: self.resampler.delay(),
            preprocess: self.preprocess.delay(),
            encode: self.encoder.look_ahead(),
        }
    }

    /// Processes a frame, and returns a packet if the frame completes one.
    fn advance(
        &mut self,
        captured: Captured,
        framed: Instant,
        clock: &mut impl FnMut() -> Instant,
    ) -> Option<Outgoing> {
        let captured_at = captured.at - self.config.device_delay.min(Duration::from_secs(1));
        let timestamp = self.timestamp_at(captured_at);
        self.preprocess.process(&mut self.frame);
        let frame_s = opus::Frame::Ms10.duration().as_secs_f32();
        self.meter.update(&self.frame, frame_s);
        self.mute();
        let preprocessed = clock();
        self.report.frames += 1;
        if self.packet.is_empty() {
            self.begun = Some(Begun {
                timestamp,
                captured: captured_at,
            });
        }
        self.packet.extend_from_slice(&self.frame);
        let begun = self.begun?;
        let is_whole = self.packet.len() >= self.encoder.frame_samples();
        let frames = (self.packet.len() / self.frame.len()) as u32;
        let encode_began = clock();
        let payload = is_whole.then(|| self.encode()).flatten();
        let encoded = clock();
        let stamps = SendStamps {
            timestamp: if is_whole { begun.timestamp } else { timestamp },
            duration: opus::Frame::Ms10.duration() * if is_whole { frames } else { 1 },
            captured: if is_whole {
                begun.captured
            } else {
                captured_at
            },
            delivered: captured.delivered,
            framed,
            preprocessed,
            encode_began,
            encoded,
            enqueued: None,
            paced: None,
            handed_over: None,
            dequeued: None,
            sent: None,
            signal: self.signal(),
            encoded_something: payload.is_some(),
        };
        let Some(Encoded {
            payload,
            level_dbov,
            marker,
        }) = payload
        else {
            if self.unsent.len() == UNSENT_MAX {
                self.unsent.pop_front();
            }
            self.unsent.push_back(stamps);
            return None;
        };
        Some(Outgoing {
            payload,
            timestamp: stamps.timestamp,
            marker,
            level_dbov,
            stamps,
        })
    }

    /// Returns the RTP timestamp of a frame whose first sample was captured at `at`.
    fn timestamp_at(&mut self, at: Instant) -> u64 {
        let late = self
            .expected
            .map_or(Duration::ZERO, |it| at.saturating_duration_since(it));
        if late > PAUSE {
            let ticks = late.as_secs_f64() * f64::from(RATE);
            self.timestamp += ticks.round() as u64;
            self.report.gaps += 1;
            // Audio that begins in the middle of a signal is faded in.
            self.gain = 0.0;
            // A packet must not span the pause.
            self.packet.clear();
            self.earlier.clear();
            self.was_silent = true;
        }
        let timestamp = self.timestamp;
        self.timestamp += FRAME as u64;
        self.expected = Some(at + opus::Frame::Ms10.duration());
        timestamp
    }

    /// Applies muting: fades out over one frame when muted, and in again when not.
    fn mute(&mut self) {
        let to = if self.is_muted { 0.0 } else { 1.0 };
        if self.gain == 1.0 && to == 1.0 {
            return;
        }
        let frames = FRAME as f32;
        let channels = self.config.opus.channels;
        for (index, sample) in self.frame.iter_mut().enumerate() {
            let share = (index / channels) as f32 / frames;
            *sample *= self.gain + (to - self.gain) * share;
        }
        self.gain = to;
    }

    /// Encodes the completed packet, unless it is silence that need not be sent.
    fn encode(&mut self) -> Option<Encoded> {
        let level_dbov = meter::dbov(crate::pitch::level(&self.packet));
        let result = self.encoder.encode(&self.packet, &mut self.encoded);
        self.packet.clear();
        if result.is_err() {
            self.report.failed += 1;
            return None;
        }
        let is_silent = self.encoder.is_silence(&self.encoded);
        let was_silent = std::mem::replace(&mut self.was_silent, is_silent);
        if is_silent && was_silent {
            self.report.silent += 1;
            return None;
        }
        let timestamp = self.begun?.timestamp;
        let primary = Bytes::copy_from_slice(&self.encoded);
        let payload = match self.config.red {
            None => primary,
            Some(red) => self.repeat(red, timestamp, primary),
        };
        self.report.packets += 1;
        self.report.bytes += payload.len() as u64;
        Some(Encoded {
            payload,
            level_dbov,
            marker: was_silent && !is_silent,
        })
    }

    /// Builds a RED payload from `primary` and the packets sent before it.
    fn repeat(&mut self, red: Red, timestamp: u64, primary: Bytes) -> Bytes {
        let copies = self.earlier.iter().map(|it| red::Repeat {
            // An offset too large for a RED block's header is left out.
            offset: u32::try_from(timestamp.saturating_sub(it.timestamp)).unwrap_or(u32::MAX),
            payload: &it.payload,
        });
        let copies: Vec<_> = copies.collect();
        let mut payload = Vec::new();
        red::write(red.payload_type, &copies, &primary, &mut payload);
        if self.earlier.len() == red.copies {
            self.earlier.pop_front();
        }
        self.earlier.push_back(Earlier {
            timestamp,
            payload: primary,
        });
        payload.into()
    }
}
