//! Level bound: concealed audio is no louder than the audio that it continues, and the first
//! packets after a loss are no louder than recent speech.
//!
//! A decoder guesses while packets are missing, and then continues from its guess. Opus's
//! neural concealment rises by up to 2 dB and shifts the phases of harmonics against each
//! other. CELT codes levels as differences from the previous frame (RFC 6716 §4.3.2.1), so
//! that a wrong level is audible for three frames. If every third packet is lost, peaks are
//! half as high again as in speech.

use std::collections::VecDeque;

use crate::codec::Format;

/// Length of audio that concealment may not exceed in level, in ms: more than a period of any
/// voice.
const NEAR_MS: f64 = 20.0;
/// Length of the blocks whose peaks are measured, in ms.
const BLOCK_MS: f64 = 2.5;

/// Time constant with which the loudest peak is forgotten, in ms; longer than pauses of
/// speech.
const FORGET_MS: f64 = 10_000.0;

/// Peak below which nothing is bounded: −30 dBFS startles nobody.
const QUIET: f32 = 0.03;

/// Time after a loss in which nothing may be louder than recent speech, in ms.
const DOUBT_MS: f64 = 10.0;
/// Rise of the bound for each millisecond after [`DOUBT_MS`], in dB.
const BELIEF_DB: f64 = 0.5;
/// Time after [`DOUBT_MS`] until the bound ends, in ms: the bound has risen by 20 dB then.
const BELIEVED_MS: f64 = 40.0;

/// Time constant with which a reduced gain recovers, in ms.
const RELEASE_MS: f64 = 20.0;

/// Measures the level of decoded audio, and keeps concealed audio below it.
#[derive(Clone, Debug)]
pub(super) struct Ceiling {
    format: Format,
    /// Peaks of the last blocks that were decoded and not concealed.
    near: VecDeque<f32>,
    /// Highest of all peaks, forgotten slowly; `None` before the first.
    loudest: Option<f32>,
    /// Frames decoded since the last loss; `None` if the loss is long ago.
    recovering: Option<usize>,
    /// Gain applied to the last sample.
    gain: f32,
}

impl Ceiling {
    /// Makes a bound that has measured nothing yet.
    pub(super) fn new(format: Format) -> Self {
        Self {
            format,
            near: VecDeque::new(),
            loudest: None,
            recovering: None,
            gain: 1.0,
        }
    }

    /// Notes a loss: the decoder continues from audio that it did not receive.
    pub(super) fn on_loss(&mut self) {
        self.recovering = Some(0);
    }

    /// Bounds audio that the decoder concealed.
    pub(super) fn bound_concealed(&mut self, samples: &mut [f32]) {
        self.on_loss();
        let ceiling = self.near.iter().copied().reduce(f32::max);
        for frame in samples.chunks_exact_mut(self.format.channels()) {
            self.bound(frame, ceiling);
        }
    }

    /// Bounds audio decoded from a packet, if a loss was shortly before it, and measures its
    /// level.
    pub(super) fn bound_decoded(&mut self, samples: &mut [f32]) {
        let channels = self.format.channels();
        let block = self.format.frames(BLOCK_MS) * channels;
        for samples in samples.chunks_mut(block) {
            let ceiling = self.allowed(samples.len() / channels);
            for frame in samples.chunks_exact_mut(channels) {
                self.bound(frame, ceiling);
            }
            self.learn(samples);
        }
    }

    /// Highest peak that the next `frames` frames may have; `None` if there is no bound.
    pub(super) fn allowed(&mut self, frames: usize) -> Option<f32> {
        let decoded = self.recovering?;
        let ms = self.format.ms(decoded) - DOUBT_MS;
        self.recovering = (ms < BELIEVED_MS).then_some(decoded + frames);
        let more = 10f64.powf(BELIEF_DB * ms.max(0.0) / 20.0) as f32;
        self.loudest.map(|it| it.max(QUIET) * more)
    }

    /// Measures the level of `samples`.
    fn learn(&mut self, samples: &[f32]) {
        let peak = samples.iter().fold(0.0f32, |most, it| most.max(it.abs()));
        // Beyond full scale nothing is played.
        let peak = peak.min(1.0);
        let frames = samples.len() / self.format.channels();
        let kept = (-self.format.ms(frames) / FORGET_MS).exp() as f32;
        self.loudest = Some((self.loudest.unwrap_or(0.0) * kept).max(peak));
        self.near.push_back(peak);
        while self.near.len() > (NEAR_MS / BLOCK_MS) as usize {
            self.near.pop_front();
        }
    }

    /// Applies the gain to a frame. The gain falls in time for a sample that is too loud, so
    /// that the waveform bends instead of jumping, and recovers slowly, so that the next
    /// period keeps its shape.
    fn bound(&mut self, frame: &mut [f32], ceiling: Option<f32>) {
        if self.gain == 1.0 && ceiling.is_none() {
            return;
        }
        let release = 1e3 / (RELEASE_MS * f64::from(self.format.rate()));
        self.gain += (1.0 - self.gain) * release as f32;
        if self.gain > 0.999 {
            self.gain = 1.0;
        }
        let peak = frame.iter().fold(0.0f32, |most, it| most.max(it.abs()));
        if let Some(ceiling) = ceiling.filter(|it| peak * self.gain > *it) {
            self.gain = ceiling / peak;
        }
        for sample in frame {
            *sample *= self.gain;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: Format = Format::new(48_000, 1).expect("a voice's");
    /// Samples of a packet of 10 ms.
    const PACKET: usize = 480;

    fn tone(peak: f32, packets: std::ops::Range<usize>) -> Vec<f32> {
        let turns = |frame: usize| frame as f32 * std::f32::consts::TAU * 200.0 / 48_000.0;
        let frames = packets.start * PACKET..packets.end * PACKET;
        frames.map(|frame| peak * turns(frame).sin()).collect()
    }

    fn peak(samples: &[f32]) -> f32 {
        samples.iter().fold(0.0, |most, it| most.max(it.abs()))
    }

    /// After half a second of a peak of .3, in packets.
    fn settled() -> Ceiling {
        let mut ceiling = Ceiling::new(FORMAT);
        for packet in 0..50 {
            ceiling.bound_decoded(&mut tone(0.3, packet..packet + 1));
        }
        ceiling
    }

    #[test]
    fn audio_without_losses_is_left_as_it_is() {
        let mut ceiling = Ceiling::new(FORMAT);
        for level in [0.0, 0.01, 0.9, 0.02, 1.0] {
            let audio = tone(level, 0..2);
            let mut bounded = audio.clone();
            ceiling.bound_decoded(&mut bounded);
            assert_eq!(bounded, audio);
        }
    }

    #[test]
    fn what_is_concealed_is_no_louder_than_what_it_continues() {
        let mut ceiling = settled();
        let mut played = tone(0.3, 49..50);
        for packet in 50..54 {
            // 2.5 ms at a time, as the buffer asks.
            for block in tone(0.45, packet..packet + 1).chunks(120) {
                let mut block = block.to_vec();
                ceiling.bound_concealed(&mut block);
                played.extend(block);
            }
        }
        assert!(peak(&played) <= 0.3001, "{}", peak(&played));
        // No steeper than what was too loud: no click.
        let step = played.windows(2).map(|it| (it[1] - it[0]).abs());
        let steepest = 0.45 * std::f32::consts::TAU * 200.0 / 48_000.0;
        assert!(step.fold(0.0, f32::max) < 1.01 * steepest);
        // Quiet again, it fades with it.
        ceiling.bound_decoded(&mut tone(0.01, 54..60));
        let mut quiet = tone(0.3, 60..61);
        ceiling.bound_concealed(&mut quiet);
        assert!(peak(&quiet) <= 0.0101, "{}", peak(&quiet));
    }

    #[test]
    fn a_packet_after_a_loss_is_no_louder_than_speech_was() {
        let mut ceiling = settled();
        // A softer syllable: what is heard next may be as loud as the ones before it.
        ceiling.bound_decoded(&mut tone(0.05, 50..60));
        ceiling.bound_concealed(&mut tone(0.05, 60..62));
        let mut first = tone(0.6, 62..63);
        ceiling.bound_decoded(&mut first);
        assert!((0.28..0.3).contains(&peak(&first)), "{}", peak(&first));
        // Also where nothing was concealed meanwhile.
        let mut ceiling = settled();
        ceiling.on_loss();
        let mut first = tone(0.6, 50..51);
        ceiling.bound_decoded(&mut first);
        assert!(peak(&first) <= 0.3001, "{}", peak(&first));
    }

    #[test]
    fn somebody_who_speaks_up_during_a_loss_is_heard_50_ms_later() {
        let mut ceiling = settled();
        ceiling.bound_concealed(&mut tone(0.3, 50..51));
        let mut louder = tone(0.95, 51..61);
        ceiling.bound_decoded(&mut louder);
        let after = |ms: usize| peak(&louder[ms * 48..(ms + 10) * 48]);
        // 20 ms: a fifth more already; 50 ms: within a decibel.
        assert!(after(20) > 0.45 && after(50) > 0.89 * 0.95, "{}", after(50));
        // All as it was decoded.
        let audio = tone(0.95, 61..81);
        let mut bounded = audio.clone();
        ceiling.bound_decoded(&mut bounded);
        assert_eq!(bounded[10 * PACKET..], audio[10 * PACKET..]);
        // Who speaks up from silence, too.
        let mut ceiling = Ceiling::new(FORMAT);
        ceiling.bound_decoded(&mut tone(0.0, 0..200));
        ceiling.bound_concealed(&mut tone(0.0, 0..1));
        let mut louder = tone(0.5, 201..211);
        ceiling.bound_decoded(&mut louder);
        assert!(peak(&louder[70 * 48..80 * 48]) > 0.89 * 0.5);
    }

    /// Blocks of 2.5 ms of an even level, each with what was allowed for it.
    fn allowed(ceiling: &mut Ceiling, blocks: usize) -> Vec<Option<f32>> {
        (0..blocks).map(|_| ceiling.allowed(120)).collect()
    }

    #[test]
    fn the_bound_rises_by_half_a_decibel_a_millisecond_from_10_to_50_ms() {
        let mut ceiling = Ceiling::new(FORMAT);
        ceiling.bound_decoded(&mut [0.5; 480]);
        assert_eq!(ceiling.allowed(120), None, "without a loss");
        ceiling.on_loss();
        let bounds = allowed(&mut ceiling, 25);
        for (block, bound) in bounds.iter().enumerate() {
            let ms = 2.5 * block as f64;
            let wanted = (ms <= 50.0).then(|| {
                let db = 0.5 * (ms - 10.0).max(0.0);
                0.5 * 10f64.powf(db / 20.0)
            });
            match (bound, wanted) {
                (Some(bound), Some(wanted)) => {
                    assert!(
                        (f64::from(*bound) / wanted - 1.0).abs() < 1e-5,
                        "{ms} ms: {bound}"
                    );
                }
                (bound, wanted) => assert_eq!(bound.is_some(), wanted.is_some(), "{ms} ms"),
            }
        }
        // Who was quieter than −30 dB may be as loud as that.
        let mut quiet = Ceiling::new(FORMAT);
        quiet.bound_decoded(&mut [0.001; 480]);
        quiet.on_loss();
        assert_eq!(quiet.allowed(120), Some(QUIET));
        let mut first = Ceiling::new(FORMAT);
        first.on_loss();
        assert_eq!(first.allowed(120), None, "nothing is known yet");
    }

    #[test]
    fn peaks_are_forgotten_within_ten_seconds_and_those_of_20_ms_are_near() {
        for (format, channels) in [(FORMAT, 1), (Format::new(16_000, 2).expect("stereo"), 2)] {
            let mut ceiling = Ceiling::new(format);
            let packet = |level: f32| vec![level; format.frames(10.0) * channels];
            ceiling.bound_decoded(&mut packet(-0.5));
            assert_eq!(ceiling.near.iter().copied().collect::<Vec<_>>(), [0.5; 4]);
            for _ in 0..500 {
                ceiling.bound_decoded(&mut packet(0.1));
            }
            assert_eq!(ceiling.near.iter().copied().collect::<Vec<_>>(), [0.1; 8]);
            // Five of ten seconds; the first packet's later blocks were as loud.
            let kept = 0.5 * (-0.5f32).exp();
            let loudest = ceiling.loudest.expect("measured");
            assert!((loudest / kept - 1.0).abs() < 1e-3, "{loudest} {kept}");
            ceiling.bound_decoded(&mut packet(3.0));
            assert_eq!(ceiling.loudest, Some(1.0), "full scale");
        }
    }

    #[test]
    fn a_gain_falls_at_once_and_recovers_by_20_ms() {
        for rate in [48_000, 8_000] {
            let format = Format::new(rate, 2).expect("stereo");
            let mut ceiling = Ceiling::new(format);
            let mut frame = [0.8, -0.2];
            ceiling.bound(&mut frame, Some(0.4));
            assert_eq!(frame, [0.4, -0.1], "both channels by the same gain");
            assert_eq!(ceiling.gain, 0.5);
            // What is missing shrinks by the time constant.
            let mut wanted = 0.5f64;
            for frames in 1..=format.frames(20.0) {
                let mut frame = [0.1, 0.2];
                ceiling.bound(&mut frame, None);
                wanted += (1.0 - wanted) * 1e3 / (20.0 * f64::from(rate));
                let gain = f64::from(ceiling.gain);
                assert!((gain - wanted).abs() < 1e-4, "{rate}, {frames}: {gain}");
                assert!((frame[0] - 0.1 * ceiling.gain).abs() < 1e-7);
            }
            let left = f64::from(1.0 - ceiling.gain);
            assert!(
                (left / (0.5 * (-1.0f64).exp()) - 1.0).abs() < 0.01,
                "{left}"
            );
            // Once nothing is missing that counts, audio is left as it is.
            for _ in 0..format.frames(200.0) {
                ceiling.bound(&mut [0.0; 2], None);
            }
            assert_eq!(ceiling.gain, 1.0);
            let mut frame = [0.123_456, 0.5];
            ceiling.bound(&mut frame, Some(0.5));
            assert_eq!(
                (frame, ceiling.gain),
                ([0.123_456, 0.5], 1.0),
                "just as loud"
            );
        }
        // Frames are counted once for all channels.
        let mut ceiling = Ceiling::new(Format::new(16_000, 2).expect("stereo"));
        ceiling.bound_decoded(&mut [0.1; 320]);
        ceiling.on_loss();
        ceiling.bound_decoded(&mut [0.1; 320]);
        assert_eq!(ceiling.recovering, Some(160));
        // What is concealed begins a time of doubt.
        let mut ceiling = settled();
        ceiling.bound_concealed(&mut [0.1; 480]);
        assert_eq!(ceiling.recovering, Some(0));
    }
}
