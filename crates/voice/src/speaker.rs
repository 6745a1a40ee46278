//! The half of a call that speaks: from what a microphone gives to packets.
//!
//! ```text
//! capture() ─► channels, rate ─► Reframer ─► 10 ms ─► Preprocess ─► opus ─► (RED) ─► poll()
//! rendered(): what the loudspeaker says ─────────────────┘
//! ```
//!
//! Each frame leaves with its [`Spoken`]. Timestamps follow the device's clock: a pause of
//! the device is a pause of the stream, not a delay of all that comes later.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use glassline_media::Bitrate;
use glassline_rtp::red;
use thiserror::Error;

use crate::codec::{Encoder, Format};
use crate::meter::{self, Meter};
use crate::mix::remix;
use crate::opus::{self, RATE};
use crate::preprocess::{self, EchoReport, FRAME, Preprocess};
use crate::reframe::{Captured, Reframer};
use crate::resample::Resampler;
use crate::stamps::{SignalDelay, Spoken};

/// How to speak.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// What the device gives.
    pub device: Format,
    /// How long after its last sample was at the microphone the device calls.
    pub device_delay: Duration,
    /// What is done before encoding.
    pub preprocess: preprocess::Config,
    /// What of that the device does.
    pub hardware: preprocess::Hardware,
    /// How to encode.
    pub opus: opus::Config,
    /// Packets repeat earlier ones (RFC 2198).
    pub red: Option<Red>,
    /// The first RTP timestamp: by chance, which comes from outside.
    pub timestamp_first: u32,
}

/// How to repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Red {
    /// Of the Opus inside.
    pub payload_type: u8,
    /// How many earlier packets, 1 to 4.
    pub copies: usize,
}

impl Config {
    /// The usual for `device`.
    pub fn new(device: Format) -> Self {
        Self {
            device,
            device_delay: Duration::ZERO,
            preprocess: preprocess::Config::default(),
            hardware: preprocess::Hardware::default(),
            opus: opus::Config::default(),
            red: None,
            timestamp_first: 0,
        }
    }
}

/// Why there is no speaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// There is no such encoder.
    #[error(transparent)]
    Opus(#[from] opus::Error),
    /// RED has room for few.
    #[error("RED repeats one to four packets, not {0}")]
    Copies(usize),
}

/// A packet to be sent: an RTP payload, and what its header says.
#[derive(Clone, Debug, PartialEq)]
pub struct Outgoing {
    /// Opus, or RED with Opus inside.
    pub payload: Bytes,
    /// RTP timestamp, wide; the low 32 bits go on the wire.
    pub timestamp: u64,
    /// The first after silence (RFC 3551 §4.1).
    pub marker: bool,
    /// How loud it is, −dBov, 0 to 127 (RFC 6464).
    pub level_dbov: u8,
    /// When it passed what.
    pub spoken: Spoken,
}

/// How it stands.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Report {
    /// 10 ms frames that were processed.
    pub frames: u64,
    /// Packets that were made.
    pub packets: u64,
    /// Of them, bytes of payload.
    pub bytes: u64,
    /// Packets that were not, because nobody spoke.
    pub silent: u64,
    /// Samples of a channel that nobody took in time, or that a stopped device left.
    pub dropped: u64,
    /// Times that the device had been away.
    pub gaps: u64,
    /// Packets that could not be encoded.
    pub failed: u64,
    /// How loud the microphone is, −dBov, falling slowly.
    pub level_dbov: u8,
    /// Whether silence is sent instead.
    pub is_muted: bool,
    /// What no stamp shows, now.
    pub signal: SignalDelay,
    /// Of the echo canceller.
    pub echo: EchoReport,
}

/// A packet that nobody polled; older ones are forgotten.
const UNSENT_MAX: usize = 64;

/// A frame that begins so much later than the one before ended comes after a pause: the
/// device lost samples. Its clock is followed in smaller steps.
const PAUSE: Duration = Duration::from_millis(15);

/// The speaking half. Opus, unless it is given another encoder of samples at 48 kHz.
#[derive(Debug)]
pub struct Speaker<E = opus::Encoder> {
    config: Config,
    resampler: Resampler,
    reframer: Reframer,
    preprocess: Preprocess,
    encoder: E,
    /// What is captured, in the channels that are encoded.
    remixed: Vec<f32>,
    resampled: Vec<f32>,
    frame: Vec<f32>,
    /// Of the packet, what is there of it.
    packet: Vec<f32>,
    begun: Option<Begun>,
    encoded: Vec<u8>,
    earlier: VecDeque<Earlier>,
    /// The next frame's timestamp, and when its first sample should be captured.
    timestamp: u64,
    expected: Option<Instant>,
    is_muted: bool,
    /// What the last frame was multiplied with at its end.
    gain: f32,
    was_silent: bool,
    meter: Meter,
    unsent: VecDeque<Spoken>,
    report: Report,
}

/// A packet's first frame.
#[derive(Clone, Copy, Debug)]
struct Begun {
    timestamp: u64,
    captured: Instant,
}

/// A packet as the encoder made it.
struct Encoded {
    payload: Bytes,
    /// Loudness in dBov, negated: 0 is the loudest, 127 silence.
    level_dbov: u8,
    /// The packet begins a talkspurt.
    marker: bool,
}

/// A packet that was sent, for RED to repeat.
#[derive(Clone, Debug)]
struct Earlier {
    timestamp: u64,
    payload: Bytes,
}

impl Speaker {
    /// Nothing captured yet.
    ///
    /// # Errors
    /// If there is no such encoder, or RED is asked for what it cannot.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        Self::with_encoder(config, opus::Encoder::new(config.opus)?)
    }
}

impl<E: Encoder> Speaker<E> {
    /// Nothing captured yet; of [`Config::opus`] only the channels count, which must be
    /// the encoder's.
    ///
    /// # Errors
    /// If RED is asked for what it cannot, or there are other than 1 or 2 channels.
    pub fn with_encoder(config: Config, encoder: E) -> Result<Self, ConfigError> {
        if let Some(red) = config.red
            && !(1..=4).contains(&red.copies)
        {
            return Err(ConfigError::Copies(red.copies));
        }
        let channels = config.opus.channels;
        let format = Format::new(RATE, channels).ok_or(opus::Error::Channels(channels))?;
        let reframer = Reframer::new(format, opus::Frame::Ms10.duration());
        let preprocess = config.preprocess.beside(config.hardware);
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

    /// The device called at `now` with interleaved samples of [`Config::device`].
    pub fn capture(&mut self, samples: &[f32], now: Instant) {
        self.capture_at(samples, now, now);
    }

    /// The same of a device that knows when the last of `samples` was at the microphone,
    /// [`Config::device_delay`] not counted.
    pub fn capture_at(&mut self, samples: &[f32], last: Instant, now: Instant) {
        let (from, to) = (self.config.device.channels(), self.config.opus.channels);
        let whole = samples.len() - samples.len() % from;
        self.remixed.clear();
        remix(&samples[..whole], from, to, &mut self.remixed);
        for sample in &mut self.remixed {
            // A filter would keep what is no number for ever.
            if !sample.is_finite() {
                *sample = 0.0;
            }
        }
        self.resampled.clear();
        self.resampler.push(&self.remixed, &mut self.resampled);
        self.reframer.push_at(&self.resampled, last, now);
    }

    /// What the loudspeaker is given: one channel at 48 kHz, in order, without gaps. The
    /// echo canceller looks for it in what is captured.
    pub fn rendered(&mut self, samples: &[f32]) {
        self.preprocess.rendered(samples);
    }

    /// How long audio takes from [`Self::rendered`] to [`Self::poll`], as far as devices
    /// tell; the echo canceller finds the rest.
    pub fn set_stream_delay(&mut self, delay: Duration) {
        self.preprocess.set_stream_delay(delay);
    }

    /// The device is another, or its rate has changed: what it gives from now on.
    pub fn set_device(&mut self, device: Format, delay: Duration) {
        if device.rate() != self.config.device.rate() {
            let channels = self.config.opus.channels;
            self.resampler = Resampler::new(device.rate(), RATE, channels);
        }
        self.config.device = device;
        self.config.device_delay = delay;
    }

    /// Whether to send silence from the next frame on.
    pub fn set_muted(&mut self, is_muted: bool) {
        self.is_muted = is_muted;
    }

    /// As [`Encoder::set_expected_loss`].
    pub fn set_expected_loss(&mut self, ratio: f64) {
        self.encoder.set_expected_loss(ratio);
    }

    /// As [`Encoder::set_bitrate`].
    pub fn set_bitrate(&mut self, bitrate: Bitrate) {
        self.encoder.set_bitrate(bitrate);
    }

    /// When the next frame is due, if it is there already: a long period's frames leave
    /// one by one.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.reframer.next_due()
    }

    /// The next packet that is due. `clock` says what time it is, several times: each
    /// step is timed.
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

    /// The next frame that made no packet of its own: nobody spoke, or it is part of
    /// a longer packet.
    pub fn poll_unsent(&mut self) -> Option<Spoken> {
        self.unsent.pop_front()
    }

    /// How it stands.
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

    /// A frame goes through the chain; a packet comes out if it is the packet's last.
    fn advance(
        &mut self,
        captured: Captured,
        framed: Instant,
        clock: &mut impl FnMut() -> Instant,
    ) -> Option<Outgoing> {
        let heard = captured.at - self.config.device_delay.min(Duration::from_secs(1));
        let timestamp = self.place(heard);
        self.preprocess.process(&mut self.frame);
        let frame_s = opus::Frame::Ms10.duration().as_secs_f32();
        self.meter.hear(&self.frame, frame_s);
        self.mute();
        let preprocessed = clock();
        self.report.frames += 1;
        if self.packet.is_empty() {
            self.begun = Some(Begun {
                timestamp,
                captured: heard,
            });
        }
        self.packet.extend_from_slice(&self.frame);
        let begun = self.begun?;
        let is_whole = self.packet.len() >= self.encoder.frame_samples();
        let frames = (self.packet.len() / self.frame.len()) as u32;
        let encode_began = clock();
        let payload = is_whole.then(|| self.encode()).flatten();
        let encoded = clock();
        let spoken = Spoken {
            timestamp: if is_whole { begun.timestamp } else { timestamp },
            duration: opus::Frame::Ms10.duration() * if is_whole { frames } else { 1 },
            captured: if is_whole { begun.captured } else { heard },
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
            self.unsent.push_back(spoken);
            return None;
        };
        Some(Outgoing {
            payload,
            timestamp: spoken.timestamp,
            marker,
            level_dbov,
            spoken,
        })
    }

    /// The timestamp of a frame whose first sample was heard at `at`.
    fn place(&mut self, at: Instant) -> u64 {
        let late = self
            .expected
            .map_or(Duration::ZERO, |it| at.saturating_duration_since(it));
        if late > PAUSE {
            let ticks = late.as_secs_f64() * f64::from(RATE);
            self.timestamp += ticks.round() as u64;
            self.report.gaps += 1;
            // What begins in the middle of a signal begins softly.
            self.gain = 0.0;
            // Half a packet from before would be torn.
            self.packet.clear();
            self.earlier.clear();
            self.was_silent = true;
        }
        let timestamp = self.timestamp;
        self.timestamp += FRAME as u64;
        self.expected = Some(at + opus::Frame::Ms10.duration());
        timestamp
    }

    /// Fades out over a frame when muted, and in again.
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

    /// Encodes the packet that is whole, unless it is silence that need not be sent.
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

    /// RED of `primary` and what was sent before it.
    fn repeat(&mut self, red: Red, timestamp: u64, primary: Bytes) -> Bytes {
        let copies = self.earlier.iter().map(|it| red::Repeat {
            // Longer ago than a block can say is left out.
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
