//! The half of a call that listens: from packets to what a loudspeaker plays.
//!
//! ```text
//! receive(): SSRC ─► jitter::Buffer<opus::Decoder> ─┐
//!            SSRC ─► jitter::Buffer<opus::Decoder> ─┴► loudest N ─► Limiter ─► rate, channels ─► play()
//!            (RED: its copies too)                         2.5 ms at a time       └► rendered(): for the other half's AEC
//! ```
//!
//! Buffers are pulled 2.5 ms at a time, whatever the device's period: what is pulled and
//! not played yet waits here, less than 2.5 ms of it. Each packet that is played leaves
//! its [`Heard`].

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use glassline_media::Ssrc;
use glassline_rtp::red;
use thiserror::Error;

use crate::codec::{Decoder, Format};
use crate::jitter::{self, Packet};
use crate::limit::Limiter;
use crate::meter::Meter;
use crate::mix::{Share, loudest, remix};
use crate::opus::{self, Concealment, RATE};
use crate::resample::Resampler;
use crate::stamps::{Again, CameAgain, Heard, Received, SignalDelay};

/// How to listen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// What the device takes.
    pub device: Format,
    /// How long after the device calls the first sample that it is given is heard.
    pub device_delay: Duration,
    /// Channels that are decoded and mixed, 1 or 2; the device's may differ.
    pub channels: usize,
    /// Of each stream.
    pub jitter: jitter::Config,
    /// What losses become.
    pub concealment: Concealment,
    /// So many of the loudest streams are heard.
    pub mixed_max: usize,
    /// So many streams are kept. The next takes the place of one that has said nothing
    /// for five seconds, or is refused for now: nobody knows how loud it is.
    pub streams_max: usize,
}

impl Config {
    /// The usual for `device`.
    pub fn new(device: Format) -> Self {
        Self {
            device,
            device_delay: Duration::ZERO,
            channels: 1,
            jitter: jitter::Config::default(),
            concealment: Concealment::default(),
            mixed_max: 3,
            streams_max: 16,
        }
    }
}

/// Why a packet was not taken. None of these needs an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refused {
    /// By its stream's jitter buffer, which counts it.
    #[error(transparent)]
    Packet(#[from] jitter::Refused),
    /// As many streams as there may be are heard already.
    #[error("too many streams are heard already")]
    Streams,
    /// It is not what RFC 2198 calls RED.
    #[error(transparent)]
    Red(#[from] red::NoRed),
}

/// How a stream stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StreamReport {
    /// Whose.
    pub ssrc: Ssrc,
    /// Its jitter buffer.
    pub jitter: jitter::Report,
    /// How loud it is, −dBov, falling slowly.
    pub level_dbov: u8,
    /// Whether it is among those that are heard.
    pub is_mixed: bool,
}

/// How it stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Each stream, in the order in which they began.
    pub streams: Vec<StreamReport>,
    /// How loud the mix is, −dBov, falling slowly.
    pub level_dbov: u8,
    /// What was pulled and not played.
    pub waiting: Duration,
    /// Packets of streams that there was no room for: somebody is not heard.
    pub refused: u64,
    /// Records that nobody polled in time.
    pub heard_dropped: u64,
}

/// A pull: 2.5 ms.
const PULL: usize = RATE as usize / 400;
const PULL_S: f32 = 0.0025;
const PULL_TIME: Duration = Duration::from_micros(2_500);

/// A period is filled at most so much, whatever is asked; the rest is silence.
const PERIOD_MAX: Duration = Duration::from_secs(1);

/// A stream that said nothing for so long makes room for another; one that is new has
/// as long to be heard.
const QUIET: Duration = Duration::from_secs(5);
/// Below this, in −dBov, nobody speaks.
const QUIET_DBOV: u8 = 50;

/// Records, arrivals and samples of the mix that nobody took; older ones are forgotten.
const HEARD_MAX: usize = 1_024;
const RECEIVED_MAX: usize = 512;
const RENDERED_MAX: usize = RATE as usize / 2;

/// Makes the decoder of a stream into a format at 48 kHz.
pub type MakeDecoder<D> = fn(Format, Concealment) -> Result<D, opus::Error>;

/// The listening half. Opus, unless it is given another decoder.
#[derive(Debug)]
pub struct Listener<D = opus::Decoder> {
    config: Config,
    make: MakeDecoder<D>,
    /// In the order in which they began.
    streams: Vec<Stream<D>>,
    limiter: Limiter,
    meter: Meter,
    resampler: Resampler,
    /// What the loudspeaker is to play, in the device's format, and how many frames of it
    /// were ever taken.
    ready: VecDeque<f32>,
    taken: u64,
    /// Of each packet in `ready`: which frame is its first.
    leaving: VecDeque<(u64, Heard)>,
    heard: VecDeque<Heard>,
    rendered: VecDeque<f32>,
    refused: u64,
    heard_dropped: u64,
    /// Kept for their memory.
    voice: Vec<Vec<f32>>,
    mix: Vec<f32>,
    resampled: Vec<f32>,
    remixed: Vec<f32>,
}

#[derive(Debug)]
struct Stream<D> {
    ssrc: Ssrc,
    buffer: jitter::Buffer<D>,
    /// By when it was inserted.
    received: VecDeque<Received>,
    /// When it was loud, or began.
    spoke: Instant,
    meter: Meter,
    share: Share,
    is_mixed: bool,
}

impl Listener {
    /// Nobody is heard yet.
    ///
    /// # Errors
    /// If there is no such decoder.
    pub fn new(config: Config) -> Result<Self, opus::Error> {
        Self::with_decoder(config, opus::Decoder::new)
    }
}

impl<D: Decoder> Listener<D> {
    /// Nobody is heard yet; each stream is given a decoder by `make`.
    ///
    /// # Errors
    /// If there is no such decoder.
    pub fn with_decoder(config: Config, make: MakeDecoder<D>) -> Result<Self, opus::Error> {
        // What `receive` will need later.
        decoder(config, make)?;
        Ok(Self {
            make,
            streams: Vec::new(),
            limiter: Limiter::default(),
            meter: Meter::default(),
            resampler: Resampler::new(RATE, config.device.rate(), config.channels),
            ready: VecDeque::new(),
            taken: 0,
            leaving: VecDeque::new(),
            heard: VecDeque::new(),
            rendered: VecDeque::new(),
            refused: 0,
            heard_dropped: 0,
            voice: Vec::new(),
            mix: vec![0.0; PULL * config.channels],
            resampled: Vec::new(),
            remixed: Vec::new(),
            config,
        })
    }

    /// Takes a packet of Opus.
    ///
    /// # Errors
    /// Says why it will not be played; all goes on.
    pub fn receive(
        &mut self,
        ssrc: Ssrc,
        packet: Packet,
        received: Received,
    ) -> Result<(), Refused> {
        self.stream(ssrc, received)?.take(packet, &[], received)
    }

    /// Takes a packet of RED (RFC 2198) with Opus inside, and what it repeats.
    ///
    /// # Errors
    /// As [`Self::receive`], and if it is not RED.
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
            .take(packet, &earlier, received)
    }

    /// The device is called back at `now` and wants `out`: interleaved samples of
    /// [`Config::device`]. `clock` says what time it is, several times: each step is
    /// timed.
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
        self.tell(frames.min(most), now);
    }

    /// The next packet whose first sample was given to the device.
    pub fn poll_heard(&mut self) -> Option<Heard> {
        self.heard.pop_front()
    }

    /// The next packet that was taken, and then was not played.
    pub fn poll_unplayed(&mut self) -> Option<CameAgain> {
        self.streams.iter_mut().find_map(|stream| {
            let unplayed = stream.buffer.poll_unplayed()?;
            Some(CameAgain {
                ssrc: stream.ssrc,
                timestamp: unplayed.timestamp as u32,
                at: stream.received(unplayed.arrival).arrived,
                why: Again::Late,
            })
        })
    }

    /// Appends what the loudspeaker was given since the last time: one channel at 48 kHz,
    /// for [`Speaker::rendered`](crate::Speaker::rendered). Half a second of it at most.
    pub fn take_rendered(&mut self, out: &mut Vec<f32>) {
        out.extend(self.rendered.drain(..));
    }

    /// The device is another, or its rate has changed: what it takes from now on.
    pub fn set_device(&mut self, device: Format, delay: Duration) {
        if device != self.config.device {
            self.resampler = Resampler::new(RATE, device.rate(), self.config.channels);
            // Less than 2.5 ms, at another rate.
            self.ready.clear();
        }
        self.config.device = device;
        self.config.device_delay = delay;
    }

    /// Forgets a stream, as when its sender left. False if there is none.
    pub fn remove(&mut self, ssrc: Ssrc) -> bool {
        let before = self.streams.len();
        self.streams.retain(|stream| stream.ssrc != ssrc);
        self.streams.len() < before
    }

    /// How it stands at `now`.
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
            heard_dropped: self.heard_dropped,
        }
    }

    /// The stream of `ssrc`, new if it must be.
    fn stream(&mut self, ssrc: Ssrc, received: Received) -> Result<&mut Stream<D>, Refused> {
        let found = self.streams.iter().position(|it| it.ssrc == ssrc);
        let place = match found {
            Some(place) => place,
            None => self.begin(ssrc, received.inserted)?,
        };
        Ok(&mut self.streams[place])
    }

    fn begin(&mut self, ssrc: Ssrc, now: Instant) -> Result<usize, Refused> {
        if self.streams.len() >= self.config.streams_max {
            let quiet = |it: &Stream<D>| now.saturating_duration_since(it.spoke);
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
            spoke: now,
            meter: Meter::default(),
            share: Share::default(),
            is_mixed: false,
        });
        Ok(self.streams.len() - 1)
    }

    /// 2.5 ms of everybody, to be played from `at` on, asked for at `now`.
    fn pull(&mut self, at: Instant, now: Instant, clock: &mut impl FnMut() -> Instant) {
        let channels = self.config.channels;
        let begun = clock();
        let samples = PULL * channels;
        self.voice.resize_with(self.streams.len(), Vec::new);
        for (stream, voice) in self.streams.iter_mut().zip(&mut self.voice) {
            voice.resize(samples, 0.0);
            stream.buffer.pull(at, voice);
            stream.meter.hear(voice, PULL_S);
            if stream.meter.dbov() < QUIET_DBOV {
                stream.spoke = now;
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
        let heard = Template {
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
                let heard = stream.heard(&played, heard);
                self.leaving.push_back((place, heard));
            }
        }
        while self.leaving.len() > HEARD_MAX {
            self.leaving.pop_front();
            self.heard_dropped += 1;
        }
    }

    /// The loudest of what was pulled, within full scale.
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
        self.meter.hear(&self.mix, PULL_S);
        self.resampled.clear();
        remix(&self.mix, channels, 1, &mut self.resampled);
        self.rendered.extend(&self.resampled);
        let over = self.rendered.len().saturating_sub(RENDERED_MAX);
        self.rendered.drain(..over);
    }

    /// Makes records of what `frames` that the device took at `now` begin.
    fn tell(&mut self, frames: usize, now: Instant) {
        let end = self.taken + frames as u64;
        // Of several streams they are not in order.
        let mut index = 0;
        while let Some((place, _)) = self.leaving.get(index) {
            if *place >= end {
                index += 1;
                continue;
            }
            let Some((place, mut heard)) = self.leaving.remove(index) else {
                break;
            };
            let ahead = place.saturating_sub(self.taken);
            let ahead = self.config.device.ms(ahead as usize) / 1e3;
            heard.called = now;
            heard.played = now + self.config.device_delay + Duration::from_secs_f64(ahead);
            if self.heard.len() == HEARD_MAX {
                self.heard.pop_front();
                self.heard_dropped += 1;
            }
            self.heard.push_back(heard);
        }
        self.taken = end;
    }
}

/// What all packets of a pull have in common.
#[derive(Clone, Copy)]
struct Template {
    pulled: Instant,
    decode: Duration,
    mix: Duration,
    resample: Duration,
    signal: SignalDelay,
}

impl<D: Decoder> Stream<D> {
    fn take(
        &mut self,
        packet: Packet,
        earlier: &[(u32, bytes::Bytes)],
        received: Received,
    ) -> Result<(), Refused> {
        if self.received.len() == RECEIVED_MAX {
            self.received.pop_front();
        }
        self.received.push_back(received);
        self.buffer
            .insert_with(packet, earlier, received.inserted)?;
        Ok(())
    }

    /// The arrival of what was inserted then.
    fn received(&self, inserted: Instant) -> Received {
        let mut received = self.received.iter().rev();
        let found = received.find(|it| it.inserted == inserted);
        found.copied().unwrap_or(Received::at(inserted))
    }

    fn heard(&self, played: &jitter::Played, of: Template) -> Heard {
        let received = self.received(played.arrival);
        Heard {
            ssrc: self.ssrc,
            timestamp: u64::try_from(played.timestamp).unwrap_or_default(),
            sequence: played.sequence,
            arrived: received.arrived,
            opened: received.opened,
            inserted: received.inserted,
            pulled: of.pulled,
            decode: of.decode,
            mix: of.mix,
            resample: of.resample,
            called: of.pulled,
            played: of.pulled,
            operation: played.operation,
            signal: of.signal,
        }
    }
}

fn decoder<D>(config: Config, make: MakeDecoder<D>) -> Result<D, opus::Error> {
    let channels = config.channels;
    let format = Format::new(RATE, channels).ok_or(opus::Error::Channels(channels))?;
    make(format, config.concealment)
}

#[cfg(test)]
mod tests;
