//! Opus (RFC 6716; in RTP: RFC 7587): encoder and decoder as the engine needs them.
//!
//! The decoder conceals in steps of 10 ms, the shortest that all Opus modes can continue by
//! without losing their state. Concealed audio that was not asked for yet is kept, and fades
//! into what is decoded next.

use std::fmt;
use std::time::Duration;

use glassline_media::Bitrate;
use glassline_rtp::opus;
use opusic_c::{Application, Channels, InbandFec, SampleRate, Signal};
use thiserror::Error;

use crate::codec::{self, Format, Undecodable, Unencodable};

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

/// Why an encoder or decoder cannot be made.
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

impl fmt::Debug for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encoder")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

/// Whether `packet` only announces silence and need not be sent, except the first one, which
/// carries the announcement (RFC 7587 §3.1.3).
const fn is_silence(packet: &[u8]) -> bool {
    packet.len() <= 2
}

/// Opus decoder of libopus.
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

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder")
            .field("format", &self.format)
            .field("spare", &self.spare.len())
            .finish_non_exhaustive()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{Decoder as _, Encoder as _};

    /// A packet's first byte (RFC 6716 §3.1).
    const fn toc(config: u8, is_stereo: bool, code: u8) -> u8 {
        config << 3 | (is_stereo as u8) << 2 | code
    }

    #[test]
    fn the_bit_of_redundancy_follows_the_bits_of_activity() {
        // Frames of 20 ms in a packet, by configuration (RFC 6716 table 2); CELT has no bits.
        let frames = |config: u8| match config {
            2 | 6 | 10 => 2,
            3 | 7 | 11 => 3,
            _ => 1,
        };
        for config in 0..32 {
            for bit in 0..8 {
                // Mid: a bit for each frame, then the flag; then the side, in the same way.
                let mid = 7 - frames(config);
                let side = 6 - 2 * frames(config);
                let packet = |is_stereo| [toc(config, is_stereo, 0), 1 << bit, 0xff];
                let is_silk = config < 16;
                let what = format!("{config}, bit {bit}");
                let mono = has_redundancy(&packet(false));
                assert_eq!(mono, is_silk && bit == mid, "{what}");
                let stereo = has_redundancy(&packet(true));
                assert_eq!(stereo, is_silk && (bit == mid || bit == side), "{what}");
            }
        }
        assert!(!has_redundancy(&[]) && !has_redundancy(&[toc(1, false, 0)]));
    }

    #[test]
    fn the_first_frame_lies_behind_counts_paddings_and_lengths() {
        // RFC 6716 §3.2.2 to §3.2.5.
        let cases: [(&[u8], Option<usize>); 17] = [
            (&[], None),
            (&[0], Some(1)),
            (&[1], Some(1)),
            (&[2], None),
            (&[2, 251], Some(2)),
            (&[2, 252], Some(3)),
            (&[3], None),
            (&[3, 2], Some(2)),
            (&[3, 0x42], None),
            (&[3, 0x42, 254], Some(3)),
            (&[3, 0x42, 255], None),
            (&[3, 0x42, 255, 255, 0], Some(5)),
            (&[3, 0x81], Some(2)),
            (&[3, 0x82, 10], Some(3)),
            (&[3, 0x83, 10, 252, 1], Some(5)),
            (&[3, 0x83, 10], None),
            (&[3, 0xc2, 1, 253, 7], Some(5)),
        ];
        for (packet, at) in cases {
            assert_eq!(first_frame(packet), at, "{packet:?}");
        }
        let silences: [&[u8]; 4] = [&[], &[8], &[8, 0], &[8, 0, 0]];
        assert_eq!(silences.map(is_silence), [true, true, true, false]);
    }

    /// A vowel of 150 Hz that comes and goes, `frames` frames of it; the right channel, if
    /// there is one, is silent.
    fn vowel(frames: usize, channels: usize) -> Vec<f32> {
        let sample = |at: usize| {
            let turns = at as f32 * 150.0 / 48_000.0;
            let level = 0.3 + 0.2 * (turns / 30.0 * std::f32::consts::TAU).sin();
            // A pulse with 20 harmonics.
            (1..=20)
                .map(|it| (std::f32::consts::TAU * turns * it as f32).sin() / it as f32)
                .sum::<f32>()
                * level
                / 2.0
        };
        let frame = |at| (0..channels).map(move |it| if it == 0 { sample(at) } else { 0.0 });
        (0..frames).flat_map(frame).collect()
    }

    fn packets(config: Config, count: usize) -> Vec<Vec<u8>> {
        let mut encoder = Encoder::new(config).expect("an encoder");
        let samples = encoder.frame_samples();
        let audio = vowel(count * samples / config.channels, config.channels);
        let frames = audio.chunks_exact(samples);
        let packet = |frame| {
            let mut packet = vec![1, 2, 3];
            encoder.encode(frame, &mut packet).expect("a frame");
            packet
        };
        frames.map(packet).collect()
    }

    fn speech() -> Config {
        Config {
            purpose: Purpose::Voip,
            frame: Frame::Ms20,
            bitrate: Bitrate::from_bps(32_000),
            ..Config::default()
        }
    }

    #[test]
    fn an_encoder_takes_whole_frames_and_makes_the_bytes_that_its_bitrate_allows() {
        for (frame, channels, samples) in [
            (Frame::Ms10, 1, 480),
            (Frame::Ms10, 2, 960),
            (Frame::Ms20, 1, 960),
            (Frame::Ms20, 2, 1_920),
        ] {
            let config = Config {
                frame,
                channels,
                ..Config::default()
            };
            let mut encoder = Encoder::new(config).expect("an encoder");
            assert_eq!(encoder.frame_samples(), samples);
            let mut payload = vec![9];
            for wrong in [0, samples - 1, samples + 1] {
                let refused = encoder.encode(&vec![0.0; wrong], &mut payload);
                assert_eq!(refused, Err(Unencodable { samples: wrong }));
                assert!(payload.is_empty());
            }
            assert_eq!(encoder.encode(&vec![0.0; samples], &mut payload), Ok(()));
            assert!(encoder.is_silence(&[8]) && !encoder.is_silence(&payload[..3]));
        }
        for (kbps, fills) in [(16, 40), (64, 160), (1, 15)] {
            let config = Config {
                bitrate: Bitrate::from_bps(kbps * 1_000),
                ..speech()
            };
            let packets = packets(config, 50);
            let mean = packets.iter().map(Vec::len).sum::<usize>() / packets.len();
            // Variable by a third; 6 kbit/s is the least.
            assert!(mean.abs_diff(fills) <= 1 + fills / 3, "{kbps}: {mean}");
        }
        for channels in [0, 3] {
            let config = Config {
                channels,
                ..Config::default()
            };
            assert_eq!(Encoder::new(config).err(), Some(Error::Channels(channels)));
        }
    }

    #[test]
    fn what_is_set_is_what_the_configuration_says() {
        let mut encoder = Encoder::new(speech()).expect("an encoder");
        assert_eq!(encoder.config(), speech());
        assert_eq!(encoder.look_ahead(), Duration::from_micros(6_500));
        encoder.set_bitrate(Bitrate::from_bps(20_000));
        encoder.set_expected_loss(0.25);
        let wanted = Config {
            bitrate: Bitrate::from_bps(20_000),
            expected_loss: 0.25,
            ..speech()
        };
        assert_eq!(encoder.config(), wanted);
        let quick = Encoder::new(Config::default()).expect("an encoder");
        assert_eq!(quick.look_ahead(), Duration::from_micros(2_500));
        let lengths = [Frame::Ms10, Frame::Ms20].map(Frame::duration);
        assert_eq!(lengths, [10, 20].map(Duration::from_millis));
    }

    #[test]
    fn packets_repeat_their_predecessor_where_a_loss_is_expected_and_that_is_wanted() {
        let share = |fec, expected_loss| {
            let config = Config {
                fec,
                expected_loss,
                ..speech()
            };
            let packets = packets(config, 50);
            let repeats = packets.iter().filter(|it| has_redundancy(it)).count();
            repeats as f64 / 50.0
        };
        assert_eq!([share(true, 0.0), share(false, 0.2)], [0.0; 2]);
        // Less than a hundredth counts as one, and more than all as all.
        for loss in [0.001, 0.2, 7.0] {
            assert!(share(true, loss) > 0.5, "{loss}: {}", share(true, loss));
        }
    }

    #[test]
    fn a_lost_packet_comes_back_from_the_next_one() {
        for (rate, channels) in [(48_000, 1), (16_000, 1), (48_000, 2)] {
            let config = Config {
                expected_loss: 0.3,
                channels,
                ..speech()
            };
            let packets = packets(config, 20);
            let format = Format::new(rate, channels).expect("a voice's");
            let decoder = || Decoder::new(format, Concealment::Classic).expect("a decoder");
            let (mut whole, mut other) = (decoder(), decoder());
            let frames = rate as usize / 50;
            let (mut heard, mut recovered) = (Vec::new(), vec![0.25]);
            let mut repeated = (10..20).filter(|it| has_redundancy(&packets[*it]));
            let next = repeated.next().expect("a packet that repeats another");
            for (number, packet) in packets.iter().enumerate() {
                assert_eq!(whole.frames(packet), Some(frames));
                heard.clear();
                whole.decode(packet, &mut heard).expect("a packet");
                assert_eq!(heard.len(), frames * channels);
                if number + 1 == next {
                    assert!(other.recover(&packets[next], frames, &mut recovered));
                    break;
                }
                other.decode(packet, &mut Vec::new()).expect("a packet");
            }
            assert_eq!(
                (recovered.len(), recovered[0]),
                (1 + frames * channels, 0.25)
            );
            let (was, is) = (
                crate::pitch::level(&heard),
                crate::pitch::level(&recovered[1..]),
            );
            assert!((is / was).log10().abs() < 0.3, "within 6 dB: {was} {is}");
            // Nothing comes from a packet without redundancy or of another length.
            let before = recovered.clone();
            assert!(!other.recover(&[toc(16, false, 0), 0, 0], frames, &mut recovered));
            assert!(!other.recover(&packets[next], frames + 1, &mut recovered));
            assert_eq!(recovered, before);
        }
    }

    #[test]
    fn a_decoder_has_the_rates_of_opus_and_refuses_what_is_none() {
        for rate in [8_000, 12_000, 16_000, 24_000, 48_000] {
            let format = Format::new(rate, 1).expect("a voice's");
            let mut decoder = Decoder::new(format, Concealment::Deep).expect("a decoder");
            assert_eq!(decoder.format(), format);
            assert_eq!(decoder.step(), rate as usize / 100);
            // 10 ms of CELT.
            let packet = packets(Config::default(), 1).remove(0);
            assert_eq!(decoder.frames(&packet), Some(rate as usize / 100));
            let mut out = vec![0.5];
            assert_eq!(decoder.decode(&packet, &mut out), Ok(()));
            assert_eq!((out.len(), out[0]), (1 + rate as usize / 100, 0.5));
            // A length that is none.
            assert_eq!(decoder.decode(&[3], &mut out), Err(Undecodable));
            assert_eq!(out.len(), 1 + rate as usize / 100);
            assert!(decoder.begins_silence(&[1]) && !decoder.begins_silence(&packet));
        }
        let other = Format::new(44_100, 1).expect("a voice's");
        let refused = Decoder::new(other, Concealment::Classic).err();
        assert_eq!(refused, Some(Error::Rate(44_100)));
    }

    #[test]
    fn what_is_concealed_in_steps_is_given_out_in_any_lengths() {
        for (rate, channels) in [(48_000, 1), (16_000, 2)] {
            let format = Format::new(rate, channels).expect("a voice's");
            let mut decoder = Decoder::new(format, Concealment::Classic).expect("a decoder");
            let config = Config {
                channels,
                ..Config::default()
            };
            for packet in packets(config, 20) {
                decoder.decode(&packet, &mut Vec::new()).expect("a packet");
            }
            let step = rate as usize / 100;
            let mut out = vec![0.5];
            // A quarter, and two steps: three are made, of which three quarters are left.
            assert!(decoder.conceal(step / 4, &mut out));
            assert_eq!(decoder.spare.len(), 3 * step / 4 * channels);
            assert!(decoder.comfort(2 * step, &mut out));
            assert_eq!(decoder.spare.len(), 3 * step / 4 * channels);
            assert_eq!(out.len(), 1 + 9 * step / 4 * channels);
            assert!(crate::pitch::level(&out[1..]) > 0.05, "the vowel goes on");
            decoder.reset();
            assert!(decoder.spare.is_empty());
        }
    }

    #[test]
    fn concealed_audio_that_is_left_fades_over_5_ms_into_what_follows() {
        for (rate, channels) in [(48_000, 1), (16_000, 2)] {
            let format = Format::new(rate, channels).expect("a voice's");
            let half = rate as usize / 200;
            for (spare, length) in [(3 * half, 4 * half), (half / 2, 4 * half), (half, half / 4)] {
                let mut decoder = Decoder::new(format, Concealment::Classic).expect("a decoder");
                decoder.spare = vec![0.5; spare * channels];
                let mut out = vec![-0.25; length * channels];
                decoder.fade_in(&mut out);
                assert!(decoder.spare.is_empty());
                let fades = spare.min(length).min(half);
                for (frame, samples) in out.chunks_exact(channels).enumerate() {
                    let share = ((frame as f32 + 0.5) / fades as f32).min(1.0);
                    let wanted = 0.5 - 0.75 * share;
                    let is_near = |it: &f32| (it - wanted).abs() < 1e-6;
                    assert!(samples.iter().all(is_near), "{spare}, {frame}: {samples:?}");
                }
            }
        }
    }
}
