//! Frames of FFmpeg with a tone of its own in each channel, and bits that are no frames.

use glassline_media::aac::Placement;
use proptest::prelude::*;

use super::*;
use crate::decode::SAMPLES_MAX;

const SURROUND: &[u8] = include_bytes!("../../../testdata/aac_48000_6.aac");
const SEVEN_AND_ONE: &[u8] = include_bytes!("../../../testdata/aac_32000_8.aac");

/// The access units of a file with ADTS headers.
fn adts(mut file: &[u8]) -> Vec<&[u8]> {
    let mut units = Vec::new();
    while let [_, _, _, b3, b4, b5, ..] = file {
        let bytes = usize::from(b3 & 3) << 11 | usize::from(*b4) << 3 | usize::from(b5 >> 5);
        units.push(&file[7..bytes]);
        file = &file[bytes..];
    }
    units
}

/// Decodes frames into left and right.
fn decode(decoder: &mut SurroundDecoder, frames: &[&[u8]]) -> Vec<[f32; 2]> {
    let mut all = Vec::new();
    for frame in frames {
        let mut mixed = Vec::new();
        let format = decoder.decode(frame, &mut mixed).expect("AAC");
        assert_eq!(format.channels, 2);
        all.extend_from_slice(mixed.as_chunks().0);
    }
    all
}

/// Amplitude of a tone in samples at `rate`.
fn amplitude(samples: impl Iterator<Item = f32>, hz: f64, rate: f64) -> f64 {
    let (mut re, mut im, mut count) = (0.0, 0.0, 0.0);
    for (index, value) in (0u32..).zip(samples) {
        let phase = std::f64::consts::TAU * hz * f64::from(index) / rate;
        re += f64::from(value) * phase.cos();
        im += f64::from(value) * phase.sin();
        count += 1.0;
    }
    2.0 * f64::hypot(re, im) / count
}

/// The tones are 400, 700, 1000… Hz, each with an amplitude of a fifth, in FFmpeg's order: front left
/// and right, centre, low frequencies, back left and right, side left and right.
#[test]
fn each_channel_is_heard_with_its_share() {
    let near_and_far = |shares: [f64; 5]| {
        let [front, centre, low, near, far] = shares;
        let pairs = [[near, far], [far, near]];
        let mut all = vec![[front, 0.0], [0.0, front], [centre; 2], [low; 2]];
        all.extend(pairs);
        all.extend(pairs);
        all
    };
    // RFC 7845, figures 7 and 9.
    let six = near_and_far([0.529_067, 0.374_107, 0.374_107, 0.458_186, 0.264_534]);
    let eight = near_and_far([0.388_631, 0.274_804, 0.274_804, 0.336_565, 0.194_316]);
    for (file, rate, channels, shares) in [
        (SURROUND, 48_000, 6, six),
        (SEVEN_AND_ONE, 32_000, 8, eight),
    ] {
        let program = Program::of_channels(channels).expect("a usual one");
        let mut decoder = SurroundDecoder::new(rate, program);
        let samples = decode(&mut decoder, &adts(file));
        let middle = &samples[4_096..][..8_000];
        for (channel, shares) in (0u32..channels.into()).zip(shares) {
            if channel == 3 {
                // Encoders cut the band of low frequencies.
                continue;
            }
            let hz = f64::from(400 + 300 * channel);
            for (side, share) in shares.into_iter().enumerate() {
                let heard = amplitude(middle.iter().map(|it| it[side]), hz, rate.into()) / 0.2;
                assert!(
                    (heard - share).abs() < 0.03,
                    "{channel}: {heard} for {share}"
                );
            }
        }
    }
}

#[test]
fn elements_end_where_the_next_ones_begin() {
    for (file, rate, pairs) in [(SURROUND, 48_000, 2), (SEVEN_AND_ONE, 32_000, 3)] {
        for frame in adts(file) {
            let block = RawDataBlock::parse(frame, &Bands::at(rate)).expect("AAC");
            // Behind the last element are the end and zeros up to the next byte.
            let end = block.elements.last().map_or(0, |it| it.bits.end);
            assert_eq!((end + 3).div_ceil(8), frame.len());
            let counted = block.elements.iter().filter(|it| it.is_pair).count();
            assert_eq!((counted, block.elements.len()), (pairs, pairs + 2));
            assert!(block.elements.last().is_some_and(|it| it.is_low_frequency));
        }
    }
}

#[test]
fn elements_that_are_not_in_the_program_are_named() {
    let mut decoder = SurroundDecoder::new(48_000, Program::of_channels(3).expect("3.0"));
    let mut mixed = Vec::new();
    let error = decoder.decode(adts(SURROUND)[3], &mut mixed);
    let error = error.expect_err("six channels").to_string();
    assert!(error.contains("not those of its configuration"), "{error}");
    let error = decoder.decode(&[0b1110_0000], &mut mixed);
    assert!(error.is_err(), "nothing but an end");
}

#[test]
fn frames_that_change_all_the_time_are_refused_most_of_the_time() {
    let mut decoder = SurroundDecoder::new(48_000, Program::of_channels(8).expect("7.1"));
    let (six, eight) = (adts(SURROUND), adts(SEVEN_AND_ONE));
    let mut decoded = 0;
    for number in 0..100 {
        let frame = [six[5], eight[5]][number % 2];
        decoded += u32::from(decoder.decode(frame, &mut Vec::new()).is_ok());
    }
    assert!(decoded > 40 && decoded < 60, "{decoded}");
}

#[test]
fn channels_change_after_25_frames_at_the_earliest() {
    for (steady, is_decoded) in [(24, false), (25, true)] {
        let mut decoder = SurroundDecoder::new(48_000, Program::of_channels(8).expect("7.1"));
        let (six, eight) = (adts(SURROUND), adts(SEVEN_AND_ONE));
        let mut decode = |frame: &[u8]| decoder.decode(frame, &mut Vec::new()).is_ok();
        assert!(decode(eight[5]));
        for _ in 1..steady {
            assert!(decode(eight[6]));
        }
        // The frame that changes counts, too.
        assert_eq!(decode(six[5]), is_decoded, "{steady}");
    }
}

#[test]
fn an_element_keeps_its_bits() {
    let frame = [0b0001_0110, 0b1110_0111];
    let element = |bits| Element {
        is_pair: false,
        is_low_frequency: false,
        tag: 0,
        bits,
    };
    let mut cut = Vec::new();
    cut_out(&frame, &element(3..8), &mut cut);
    assert_eq!(cut, [0b1011_0111, 0]);
    cut_out(&frame, &element(0..16), &mut cut);
    assert_eq!(cut, [0b0001_0110, 0b1110_0111, 0b1110_0000, 0]);
    cut_out(&frame, &element(2..9), &mut cut);
    assert_eq!(cut, [0b0101_1011, 0b1100_0000]);
}

#[test]
fn a_decoder_is_for_elements_of_one_kind_and_tag() {
    let made_for = ProgramElement {
        placement: Placement::Front,
        is_pair: true,
        tag: Some(3),
    };
    for (is_pair, tag, expected) in [(true, 3, true), (false, 3, false), (true, 2, false)] {
        let element = Element {
            is_pair,
            is_low_frequency: false,
            tag,
            bits: 0..0,
        };
        assert_eq!(is_of(made_for, &element), expected, "{element:?}");
    }
    let untagged = ProgramElement {
        tag: None,
        ..made_for
    };
    let element = Element {
        is_pair: true,
        is_low_frequency: false,
        tag: 0,
        bits: 0..0,
    };
    assert!(!is_of(untagged, &element));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// Any bits end in elements within them or in an error; what is decoded of them is bounded.
    #[test]
    fn any_bits(
        mut bytes in prop::collection::vec(any::<u8>(), 0..600),
        real in 0usize..20,
        flips in prop::collection::vec((0usize..600, any::<u8>()), 0..4),
        cut in 0usize..1_200,
    ) {
        // Half of the frames are real ones with some bits turned over, or cut off.
        if let Some(frame) = adts(SURROUND).get(real) {
            bytes = frame.to_vec();
            for (at, flip) in flips {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= flip;
                }
            }
            bytes.truncate(cut);
        }
        for rate in [48_000, 8_000] {
            if let Ok(block) = RawDataBlock::parse(&bytes, &Bands::at(rate)) {
                let mut end = 0;
                for element in &block.elements {
                    prop_assert!(element.bits.start >= end && element.bits.len() > 10);
                    end = element.bits.end;
                }
                prop_assert!(end <= bytes.len() * 8);
                prop_assert!(block.elements.len() <= 8);
            }
            let mut decoder = SurroundDecoder::new(rate, Program::of_channels(6).expect("5.1"));
            let mut mixed = Vec::new();
            let _ = decoder.decode(&bytes, &mut mixed);
            prop_assert!(mixed.len() <= 2 * SAMPLES_MAX);
        }
    }
}

#[test]
fn places_of_a_program_are_taken_in_order() {
    let element = |is_pair, is_low_frequency, tag| Element {
        is_pair,
        is_low_frequency,
        tag,
        bits: 0..0,
    };
    let program = Program::of_configuration(6).expect("5.1");
    // The elements come in an unusual order, with tags of their own.
    let elements = [
        element(false, true, 3),
        element(true, false, 9),
        element(false, false, 3),
        element(true, false, 1),
    ];
    let placed = placed(&elements, &program).expect("all are in it");
    let places: Vec<_> = placed.iter().map(|it| it.placement).collect();
    let expected = [
        Placement::LowFrequency,
        Placement::Front,
        Placement::Front,
        Placement::Back,
    ];
    assert_eq!(places, expected);
    assert_eq!(super::placed(&elements[..0], &program), None);
}
