//! The receiving half of a call: from packets to what a loudspeaker plays.
//!
//! ```text
//! receive(): SSRC ─► jitter::Buffer<opus::Decoder> ─┐
//!            SSRC ─► jitter::Buffer<opus::Decoder> ─┴► loudest N ─► Limiter ─► rate, channels ─► play()
//!            (RED: its copies too)                         2.5 ms at a time       └► rendered(): for the other half's AEC
//! ```
//!
//! Buffers are pulled 2.5 ms at a time, whatever the device's period. Audio that is pulled
//! and not yet played waits here, less than 2.5 ms of it. Each packet that is played leaves a
//! record, [`PlayoutStamps`].

mod config;
mod report;
mod stream;
#[cfg(test)]
mod tests;

pub use config::{Config, Refused};
pub use report::{Report, StreamReport};
use stream::{PullStamps, Stream};

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use glassline_media::Ssrc;
use glassline_rtp::red;

use crate::codec::{Decoder, Format};
use crate::jitter::{self, Packet};
use crate::limit::Limiter;
use crate::meter::Meter;
use crate::mix::{Share, loudest, remix};
use crate::opus::{self, Concealment, RATE};
use crate::resample::Resampler;
use crate::stamps::{DuplicateReason, DuplicateRecord, PlayoutStamps, Received, SignalDelay};

/// Frames of one pull from the jitter buffers: 2.5 ms.
const PULL: usize = RATE as usize / 400;
/// Length of one pull, in seconds.
const PULL_S: f32 = 0.0025;
/// Length of one pull.
const PULL_TIME: Duration = Duration::from_micros(2_500);

/// Longest period that is filled, whatever the device asks for; the rest is silence.
const PERIOD_MAX: Duration = Duration::from_secs(1);

/// Silence after which a stream may be replaced by another. A new stream has the same time to
/// become audible.
const QUIET: Duration = Duration::from_secs(5);
/// Level in −dBov from which on a stream counts as silent.
const QUIET_DBOV: u8 = 50;

/// Bound on records that wait to be polled; beyond it the oldest are dropped.
const STAMPS_MAX: usize = 1_024;
/// Bound on samples of the mix that wait for [`Listener::take_rendered`]: half a second.
const RENDERED_MAX: usize = RATE as usize / 2;

/// Function that makes a stream's decoder, into a format at 48 kHz.
pub type MakeDecoder<D> = fn(Format, Concealment) -> Result<D, opus::Error>;

/// The receiving half of a call. It decodes Opus, unless the caller supplies another decoder.
#[derive(Debug)]
pub struct Listener<D = opus::Decoder> {
    config: Config,
    make: MakeDecoder<D>,
    /// Streams in the order in which they began.
    streams: Vec<Stream<D>>,
    limiter: Limiter,
    meter: Meter,
    resampler: Resampler,
    /// Audio for the loudspeaker, in the device's format, not yet taken.
    ready: VecDeque<f32>,
    /// Frames that the device has taken in total.
    taken: u64,
    /// For each packet in `ready`: the number of its first frame, counted as `taken` is, and
    /// its stamps.
    pending: VecDeque<(u64, PlayoutStamps)>,
    /// Stamps that wait for [`Self::poll_playout_stamps`].
    stamps: VecDeque<PlayoutStamps>,
    /// Mixed samples that wait for [`Self::take_rendered`].
    rendered: VecDeque<f32>,
    refused: u64,
    stamps_dropped: u64,
    /// Buffers that are kept for their memory.
    voice: Vec<Vec<f32>>,
    mix: Vec<f32>,
    resampled: Vec<f32>,
    remixed: Vec<f32>,
}

impl Listener {
    /// Makes a listener without streams.
    ///
    /// # Errors
    /// If libopus offers no such decoder.
    pub fn new(config: Config) -> Result<Self, opus::Error> {
        Self::with_decoder(config, opus::Decoder::new)
    }
}

impl<D: Decoder> Listener<D> {
    /// Makes a listener without streams; `make` makes each stream's decoder.
    ///
    /// # Errors
    /// If `make` cannot make a decoder for the configuration.
    pub fn with_decoder(config: Config, make: MakeDecoder<D>) -> Result<Self, opus::Error> {
        // Fails now rather than when the first packet arrives.
        decoder(config, make)?;
        Ok(Self {
            make,
            streams: Vec::new(),
            limiter: Limiter::default(),
            meter: Meter::default(),
            resampler: Resampler::new(RATE, config.device.rate(), config.channels),
            ready: VecDeque::new(),
            taken: 0,
            pending: VecDeque::new(),
            stamps: VecDeque::new(),
            rendered: VecDeque::new(),
            refused: 0,
            stamps_dropped: 0,
            voice: Vec::new(),
            mix: vec![0.0; PULL * config.channels],
            resampled: Vec::new(),
            remixed: Vec::new(),
            config,
        })
    }

    /// Takes a packet of the codec (Opus).
    ///
    /// # Errors
    /// [`Refused`] says why the packet will not be played; the stream continues.
    pub fn receive(
        &mut self,
        ssrc: Ssrc,
        packet: Packet,
        received: Received,
    ) -> Result<(), Refused> {
        self.stream(ssrc, received)?.insert(packet, &[], received)
    }

    /// Takes a packet of RED (RFC 2198) with Opus inside, and the earlier packets that it
    /// repeats.
    ///
    /// # Errors
    /// As [`Self::receive`], and if the payload is not RED.
    pub fn receive_red(
        &mut self,
        ssrc: Ssrc,
        mut packet: Packet,
        received: Received,
    ) -> Result<(), Refused> {
        if packet.payload.is_empty() {
            return self.receive(ssrc, packet, received);
        }
        let payload = packet.payload;
        let mut blocks = red::blocks(&payload)?;
        let Some(primary) = blocks.pop() else {
            return Ok(());
        };
        packet.payload = payload.slice_ref(primary.payload);
        let earlier: Vec<(u32, bytes::Bytes)> = blocks
            .into_iter()
            .map(|block| (block.offset, payload.slice_ref(block.payload)))
            .collect();
        self.stream(ssrc, received)?
            .insert(packet, &earlier, received)
    }

    /// Fills `out` with interleaved samples of [`Config::device`], for the device that called
    /// back at `now`. `clock` returns the current time; it is called several times, because
    /// each step is timed.
    pub fn play(&mut self, out: &mut [f32], now: Instant, clock: &mut impl FnMut() -> Instant) {
        let channels = self.config.device.channels();
        let frames = out.len() / channels;
        let most = self.config.device.frames(PERIOD_MAX.as_secs_f64() * 1e3);
        let wanted = frames.min(most) * channels;
        let period = self.config.device.ms(frames.min(most));
        for stream in &mut self.streams {
            stream
                .buffer
                .set_period(Duration::from_secs_f64(period / 1e3).max(PULL_TIME));
        }
        let mut at = now;
        while self.ready.len() < wanted {
            self.pull(at, now, clock);
            at += PULL_TIME;
        }
        let (played, rest) = out.split_at_mut(wanted);
        let (first, second) = self.ready.as_slices();
        let (from_first, from_second) = played.split_at_mut(wanted.min(first.len()));
        from_first.copy_from_slice(&first[..from_first.len()]);
        from_second.copy_from_slice(&second[..from_second.len()]);
        self.ready.drain(..wanted);
        rest.fill(0.0);
        self.emit_stamps(frames.min(most), now);
    }

    /// Returns the stamps of the next packet whose first sample the device has taken.
    pub fn poll_playout_stamps(&mut self) -> Option<PlayoutStamps> {
        self.stamps.pop_front()
    }

    /// Returns the record of the next packet that was accepted and then not played.
    pub fn poll_unplayed(&mut self) -> Option<DuplicateRecord> {
        self.streams.iter_mut().find_map(|stream| {
            let unplayed = stream.buffer.poll_unplayed()?;
            Some(DuplicateRecord {
                ssrc: stream.ssrc,
                timestamp: unplayed.timestamp as u32,
                at: stream.received(unplayed.arrival).arrived,
                why: DuplicateReason::Late,
            })
        })
    }

    /// Appends the audio that the loudspeaker was given since the last call: one channel at
    /// 48 kHz, at most half a second, for [`Speaker::rendered`](crate::Speaker::rendered).
    pub fn take_rendered(&mut self, out: &mut Vec<f32>) {
        out.extend(self.rendered.drain(..));
    }

    /// Changes the loudspeaker's format and delay, as when another device is chosen.
    pub fn set_device(&mut self, device: Format, delay: Duration) {
        if device != self.config.device {
            self.resampler = Resampler::new(RATE, device.rate(), self.config.channels);
            // Audio at the old rate is dropped; it is less than 2.5 ms.
            self.ready.clear();
        }
        self.config.device = device;
        self.config.device_delay = delay;
    }

    /// Forgets a stream, as when its sender left. Returns false if there is none.
    pub fn remove(&mut self, ssrc: Ssrc) -> bool {
        let before = self.streams.len();
        self.streams.retain(|stream| stream.ssrc != ssrc);
        self.streams.len() < before
    }

    /// Returns counts, levels and the state of each stream at `now`.
    pub fn report(&self, now: Instant) -> Report {
        let stream = |it: &Stream<D>| StreamReport {
            ssrc: it.ssrc,
            jitter: it.buffer.report(now),
            level_dbov: it.meter.dbov(),
            is_mixed: it.is_mixed,
        };
        let frames = self.ready.len() / self.config.device.channels();
        Report {
            streams: self.streams.iter().map(stream).collect(),
            level_dbov: self.meter.dbov(),
            waiting: Duration::from_secs_f64(self.config.device.ms(frames) / 1e3),
            refused: self.refused,
            stamps_dropped: self.stamps_dropped,
        }
    }

    /// Returns the stream of `ssrc`, which begins if it is new.
    fn stream(&mut self, ssrc: Ssrc, received: Received) -> Result<&mut Stream<D>, Refused> {
        let found = self.streams.iter().position(|it| it.ssrc == ssrc);
        let place = match found {
            Some(place) => place,
            None => self.begin(ssrc, received.inserted)?,
        };
        Ok(&mut self.streams[place])
    }

    /// Begins a stream and returns its index; replaces the longest silent stream if there is
    /// no room.
    fn begin(&mut self, ssrc: Ssrc, now: Instant) -> Result<usize, Refused> {
        if self.streams.len() >= self.config.streams_max {
            let quiet = |it: &Stream<D>| now.saturating_duration_since(it.active_at);
            let longest = (0..self.streams.len()).max_by_key(|it| quiet(&self.streams[*it]));
            match longest.filter(|it| quiet(&self.streams[*it]) >= QUIET) {
                Some(place) => drop(self.streams.remove(place)),
                None => {
                    self.refused += 1;
                    return Err(Refused::Streams);
                }
            }
        }
        let Ok(decoder) = decoder(self.config, self.make) else {
            self.refused += 1;
            return Err(Refused::Streams);
        };
        let jitter = jitter::Config {
            clock_rate: Some(RATE),
            ..self.config.jitter
        };
        self.streams.push(Stream {
            ssrc,
            buffer: jitter::Buffer::new(jitter, decoder),
            received: VecDeque::new(),
            active_at: now,
            meter: Meter::default(),
            share: Share::default(),
            is_mixed: false,
        });
        Ok(self.streams.len() - 1)
    }

    /// Pulls 2.5 ms from every stream at `now`, to be played from `at` on.
    fn pull(&mut self, at: Instant, now: Instant, clock: &mut impl FnMut() -> Instant) {
        let channels = self.config.channels;
        let begun = clock();
        let samples = PULL * channels;
        self.voice.resize_with(self.streams.len(), Vec::new);
        for (stream, voice) in self.streams.iter_mut().zip(&mut self.voice) {
            voice.resize(samples, 0.0);
            stream.buffer.pull(at, voice);
            stream.meter.update(voice, PULL_S);
            if stream.meter.dbov() < QUIET_DBOV {
                stream.active_at = now;
            }
        }
        let decoded = clock();
        self.mix();
        let mixed = clock();
        let first = self.taken + (self.ready.len() / self.config.device.channels()) as u64;
        self.resampled.clear();
        self.resampler.push(&self.mix, &mut self.resampled);
        self.remixed.clear();
        let (from, to) = (channels, self.config.device.channels());
        remix(&self.resampled, from, to, &mut self.remixed);
        for sample in &mut self.remixed {
            *sample = sample.clamp(-1.0, 1.0);
        }
        self.ready.extend(&self.remixed);
        let resampled = clock();
        let took = |from: Instant, to: Instant| to.saturating_duration_since(from);
        let stamps = PullStamps {
            pulled: now,
            decode: took(begun, decoded),
            mix: took(decoded, mixed),
            resample: took(mixed, resampled),
            signal: SignalDelay {
                resample: self.resampler.delay(),
                ..SignalDelay::default()
            },
        };
        let (_, rate) = self.resampler.rates();
        for stream in &mut self.streams {
            while let Some(played) = stream.buffer.poll_played() {
                let frames = played.offset.as_secs_f64() * f64::from(rate);
                let place = first + frames.round() as u64;
                let stamps = stream.playout_stamps(&played, stamps);
                self.pending.push_back((place, stamps));
            }
        }
        while self.pending.len() > STAMPS_MAX {
            self.pending.pop_front();
            self.stamps_dropped += 1;
        }
    }

    /// Mixes the loudest streams and limits the mix to full scale.
    fn mix(&mut self) {
        let channels = self.config.channels;
        let weights: Vec<f32> = self
            .streams
            .iter()
            .map(|it| it.share.weight(it.meter.level()))
            .collect();
        let is_mixed = loudest(&weights, self.config.mixed_max);
        self.mix.fill(0.0);
        for ((stream, voice), is_mixed) in self.streams.iter_mut().zip(&self.voice).zip(is_mixed) {
            stream.is_mixed = is_mixed;
            stream.share.add(voice, &mut self.mix, channels, is_mixed);
        }
        if self.streams.len() > 1 {
            self.limiter.limit(&mut self.mix, channels, PULL_S);
        }
        self.meter.update(&self.mix, PULL_S);
        self.resampled.clear();
        remix(&self.mix, channels, 1, &mut self.resampled);
        self.rendered.extend(&self.resampled);
        let over = self.rendered.len().saturating_sub(RENDERED_MAX);
        self.rendered.drain(..over);
    }

    /// Emits the stamps of packets that begin in the `frames` frames which the device took at
    /// `now`.
    fn emit_stamps(&mut self, frames: usize, now: Instant) {
        let end = self.taken + frames as u64;
        // Packets of several streams are not in order.
        let mut index = 0;
        while let Some((place, _)) = self.pending.get(index) {
            if *place >= end {
                index += 1;
                continue;
            }
            let Some((place, mut stamps)) = self.pending.remove(index) else {
                break;
            };
            let ahead = place.saturating_sub(self.taken);
            let ahead = self.config.device.ms(ahead as usize) / 1e3;
            stamps.called = now;
            stamps.played = now + self.config.device_delay + Duration::from_secs_f64(ahead);
            if self.stamps.len() == STAMPS_MAX {
                self.stamps.pop_front();
                self.stamps_dropped += 1;
            }
            self.stamps.push_back(stamps);
        }
        self.taken = end;
    }
}

/// Makes a decoder for one stream.
fn decoder<D>(config: Config, make: MakeDecoder<D>) -> Result<D, opus::Error> {
    let channels = config.channels;
    let format = Format::new(RATE, channels).ok_or(opus::Error::Channels(channels))?;
    make(format, config.concealment)
}
