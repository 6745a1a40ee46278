use glassline_media::{Codec, Track};
use proptest::prelude::*;

use super::*;
use crate::aac::bands::Bands;
use crate::decode::aac::raw_data_block::RawDataBlock;
use crate::{AudioSource, Decoder};

fn settings(rate: u32, channels: u8, bps: u64) -> AacSettings {
    AacSettings {
        rate,
        channels,
        bitrate: Bitrate::from_bps(bps),
    }
}

fn decoder(rate: u32, channels: u8) -> Decoder {
    let track = Track::audio(Codec::Aac, channels).with_clock_rate(rate);
    let source = AudioSource::of(&track).expect("AAC-LC");
    Decoder::new(&source).expect("a decoder")
}

/// Encodes and decodes whole frames of `signal`. Returns the decoded samples of the first channel,
/// from those of the first frame on, and the bytes of each frame.
fn there_and_back(settings: AacSettings, signal: &[f32]) -> (Vec<f32>, Vec<usize>) {
    let mut encoder = AacEncoder::new(settings).expect("settings");
    let mut decoder = decoder(settings.rate, settings.channels);
    let channels = usize::from(settings.channels);
    let (mut decoded, mut bytes) = (Vec::new(), Vec::new());
    let mut samples = Vec::new();
    let (frames, _) = signal.as_chunks::<AAC_FRAME_SAMPLES>();
    for frame in frames {
        let coded = encoder.encode(frame);
        let format = decoder.decode(&coded, &mut samples).expect("decodes");
        assert_eq!((format.rate, format.channels), (settings.rate, channels));
        assert_eq!(samples.len(), AAC_FRAME_SAMPLES * channels);
        for pair in samples.chunks_exact(channels) {
            assert!(pair.iter().all(|it| *it == pair[0]), "both channels alike");
        }
        decoded.extend(samples.iter().step_by(channels));
        bytes.push(coded.len());
    }
    (decoded.split_off(AAC_FRAME_SAMPLES), bytes)
}

/// Signal-to-noise ratio in dB.
fn snr(signal: &[f32], decoded: &[f32]) -> f64 {
    let energy = |samples: &mut dyn Iterator<Item = f32>| -> f64 {
        samples.map(|it| f64::from(it).powi(2)).sum()
    };
    let pairs = signal.iter().zip(decoded);
    let noise = energy(&mut pairs.map(|(one, other)| one - other));
    10.0 * (energy(&mut signal[..decoded.len()].iter().copied()) / noise).log10()
}

/// A tone that glides up, with harmonics, as voices have.
fn glide(rate: u32, samples: usize) -> Vec<f32> {
    let mut phase = 0.0f64;
    let sample = (0..samples).map(|n| {
        phase += std::f64::consts::TAU * (150.0 + n as f64 * 0.002) / f64::from(rate);
        let harmonics = (1..=8).map(|k| (phase * f64::from(k)).sin() / f64::from(k));
        (harmonics.sum::<f64>() * 0.3) as f32
    });
    sample.collect()
}

fn noise(seed: &mut u32) -> f32 {
    *seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    (*seed >> 8) as f32 / (1 << 23) as f32 - 1.0
}

#[test]
fn every_rate_is_heard_as_it_was() {
    for rate in RATES {
        for channels in [1, 2] {
            let signal = glide(rate, 24 * AAC_FRAME_SAMPLES);
            let bps = u64::from(rate) * 3;
            let (decoded, _) = there_and_back(settings(rate, channels, bps), &signal);
            let snr = snr(&signal, &decoded);
            assert!(snr > 30.0, "{rate} Hz, {channels} channels: {snr:.1} dB");
        }
    }
}

#[test]
fn more_bits_are_less_noise() {
    let signal = glide(16_000, 40 * AAC_FRAME_SAMPLES);
    let mut before = 5.0;
    for bps in [12_000, 24_000, 48_000, 80_000] {
        let (decoded, _) = there_and_back(settings(16_000, 1, bps), &signal);
        let snr = snr(&signal, &decoded);
        assert!(snr > before + 3.0, "{bps}: {snr:.1} dB after {before:.1}");
        before = snr;
    }
}

#[test]
fn the_bit_rate_is_held_on_noise_at_full_scale() {
    let mut seed = 7;
    let frames = 60;
    let signal: Vec<_> = (0..frames * AAC_FRAME_SAMPLES)
        .map(|_| noise(&mut seed))
        .collect();
    for (rate, bps) in [(8_000, 12_000), (16_000, 48_000), (48_000, 64_000)] {
        let (_, bytes) = there_and_back(settings(rate, 1, bps), &signal);
        let seconds = signal.len() as f64 / f64::from(rate);
        let made = 8.0 * bytes.iter().sum::<usize>() as f64 / seconds;
        let share = made / bps as f64;
        assert!((0.9..=1.01).contains(&share), "{rate} Hz: {made:.0} bit/s");
    }
}

#[test]
fn silence_takes_a_few_bytes_and_what_it_saves_is_bounded() {
    let mut encoder = AacEncoder::new(settings(16_000, 1, 48_000)).expect("settings");
    for _ in 0..50 {
        assert!(encoder.encode(&[0.0; LINES]).len() <= 4);
    }
    assert!(encoder.saved <= FRAME_BITS_MAX);
    let mut seed = 3;
    for _ in 0..4 {
        let loud = [(); LINES].map(|()| noise(&mut seed));
        assert!(encoder.encode(&loud).len() * 8 <= FRAME_BITS_MAX as usize);
    }
}

#[test]
fn the_same_samples_are_the_same_bits() {
    let signal = glide(8_000, 6 * AAC_FRAME_SAMPLES);
    let encode = || -> Vec<_> {
        let mut encoder = AacEncoder::new(settings(8_000, 1, 32_000)).expect("settings");
        let (frames, _) = signal.as_chunks::<AAC_FRAME_SAMPLES>();
        frames.iter().map(|it| encoder.encode(it)).collect()
    };
    assert_eq!(encode(), encode());
}

#[test]
fn settings_that_aac_does_not_have_are_named() {
    let refused = |settings| AacEncoder::new(settings).expect_err("refused");
    assert_eq!(
        refused(settings(10_000, 1, 48_000)),
        AacSettingsError::Rate(10_000)
    );
    assert_eq!(
        refused(settings(16_000, 3, 48_000)),
        AacSettingsError::Channels(3)
    );
    // Bit rates are clamped to what frames can have.
    for bps in [0, u64::MAX] {
        let mut encoder = AacEncoder::new(settings(16_000, 1, bps)).expect("clamped");
        let mut seed = 1;
        let loud = [(); LINES].map(|()| noise(&mut seed));
        let bits = 8 * encoder.encode(&loud).len();
        assert!((100..=6_144).contains(&bits), "{bps}: {bits}");
    }
}

/// A stretch of a drawn signal: what it is, and how loud.
fn stretch() -> impl Strategy<Value = (u8, f32)> {
    let loudness = prop_oneof![Just(1.0f32), Just(3.0), 0.0f32..1.0, Just(1e-5)];
    (0u8..7, loudness)
}

fn sample(kind: u8, n: usize, seed: &mut u32) -> f32 {
    match kind {
        0 => 0.0,
        1 => noise(seed),
        // Full scale, clicks, a square wave, and what is no number.
        2 => 1.0,
        3 => f32::from(n % 700 == 5),
        4 => [1.0, -1.0][n / 37 % 2],
        5 => (n as f32 * 0.3).sin(),
        _ => [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30][n % 4],
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn frames_of_any_signal_decode_and_stay_within_their_bounds(
        rate in 0..RATES.len(),
        channels in 1u8..=2,
        bps in 1_000u64..300_000,
        stretches in prop::collection::vec(stretch(), 1..6),
        mut seed: u32,
    ) {
        let rate = RATES[rate];
        let mut encoder = AacEncoder::new(settings(rate, channels, bps)).expect("settings");
        let mut decoder = decoder(rate, channels);
        let bands = Bands::at(rate);
        let mut samples = Vec::new();
        for (kind, loudness) in stretches {
            let mut frame = [0.0; LINES];
            for (n, value) in frame.iter_mut().enumerate() {
                *value = loudness * sample(kind, n, &mut seed);
            }
            let coded = encoder.encode(&frame);
            prop_assert!(8 * coded.len() <= FRAME_BITS_MAX as usize, "{} bytes", coded.len());
            let block = RawDataBlock::parse(&coded, &bands).expect("elements");
            prop_assert_eq!(block.elements.len(), 1);
            // The end's three bits, and less than a byte of zeros.
            let left = 8 * coded.len() - block.elements[0].bits.end;
            prop_assert!((3..11).contains(&left), "{} bits behind the element", left);
            decoder.decode(&coded, &mut samples).expect("decodes");
            prop_assert_eq!(samples.len(), LINES * usize::from(channels));
        }
    }
}
