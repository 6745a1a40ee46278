use super::*;
use glassline_media::{Bitrate, Track};
use proptest::prelude::*;

use crate::{FRAME_SAMPLES, RATE};

/// Settings that cost little: the tests look at time, not at quality.
const CHEAP: Settings = Settings {
    bitrate: Bitrate::from_bps(32_000),
    complexity: 0,
};

const AAC_16000_1: &[u8] = include_bytes!("../../testdata/aac_16000_1.aac");
const AAC_48000_2: &[u8] = include_bytes!("../../testdata/aac_48000_2.aac");

fn source(track: &Track) -> AudioSource {
    AudioSource::of(track).expect("transcodable")
}

pub(super) fn pcm(rate: u32, channels: u8) -> AudioTranscoder {
    let track = Track::audio(Codec::L16, channels).with_clock_rate(rate);
    AudioTranscoder::new(source(&track), CHEAP)
}

/// An AAC track with the configuration that an ADTS header of `rate` and `channels` stands for.
fn aac(rate: u32, channels: u8) -> Track {
    let rates = glassline_media::aac::RATES.iter();
    let index = rates.clone().position(|it| *it == rate).expect("listed") as u16;
    let config = 2 << 11 | index << 7 | u16::from(channels) << 3;
    Track::audio(Codec::Aac, channels)
        .with_clock_rate(rate)
        .with_format_parameters(format!("config={config:04x}"))
}

/// Splits a file of ADTS frames into access units.
fn adts(mut file: &[u8]) -> Vec<&[u8]> {
    let mut units = Vec::new();
    while let [_, _, _, b3, b4, b5, ..] = file {
        let bytes = usize::from(b3 & 3) << 11 | usize::from(*b4) << 3 | usize::from(b5 >> 5);
        units.push(&file[7..bytes]);
        file = &file[bytes..];
    }
    units
}

pub(super) fn at(seconds: f64) -> MediaTime {
    MediaTime::from_nanos((seconds * 1e9).round() as i64)
}

/// Decodes frames as a viewer does: each is played at its time. Returns the samples of the first
/// channel with their times in seconds.
fn play(frames: &[OpusFrame], channels: usize) -> Vec<(f64, f32)> {
    let layout = match channels {
        1 => opusic_c::Channels::Mono,
        _ => opusic_c::Channels::Stereo,
    };
    let decoder = opusic_c::Decoder::new(layout, opusic_c::SampleRate::Hz48000);
    let mut decoder = decoder.expect("a decoder");
    let mut played = Vec::new();
    for frame in frames {
        let mut samples = vec![0.0; FRAME_SAMPLES * channels];
        let decoded = decoder.decode_float_to_slice(&frame.data, &mut samples, false);
        assert_eq!(decoded.expect("Opus"), FRAME_SAMPLES);
        let start = frame.time.nanos() as f64 / 1e9;
        let left = samples.iter().step_by(channels).zip(0u32..);
        played.extend(left.map(|(it, n)| (start + f64::from(n) / f64::from(RATE), *it)));
    }
    played
}

/// Returns the share of the energy that lies within 2 % of `hz`, 0 to 1.
fn share_of_tone(samples: &[(f64, f32)], hz: f64) -> f64 {
    let power = |hz: f64| {
        let (mut re, mut im) = (0.0, 0.0);
        for (time, value) in samples {
            let phase = std::f64::consts::TAU * hz * time;
            re += f64::from(*value) * phase.cos();
            im += f64::from(*value) * phase.sin();
        }
        2.0 * (re * re + im * im) / samples.len() as f64
    };
    let total: f64 = samples.iter().map(|(_, it)| f64::from(it * it)).sum();
    let steps = [0.98, 0.99, 1.0, 1.01, 1.02];
    steps.iter().map(|it| power(hz * it)).fold(0.0, f64::max) / total
}

fn big_endian(samples: impl IntoIterator<Item = f32>) -> Vec<u8> {
    let samples = samples.into_iter();
    samples
        .flat_map(|it| ((it * 32_000.0) as i16).to_be_bytes())
        .collect()
}

#[test]
fn the_tone_of_every_framing_is_heard() {
    let mpeg = |file: &'static [u8], bytes: &[usize]| {
        let mut rest = file;
        let mut frames = Vec::new();
        for bytes in bytes.iter().cycle() {
            if rest.len() < *bytes {
                break;
            }
            frames.push(&rest[..*bytes]);
            rest = &rest[*bytes..];
        }
        frames
    };
    let mp2: &[u8] = include_bytes!("../../testdata/mp2_48000_2.mp2");
    let mp3: &[u8] = include_bytes!("../../testdata/mp3_22050_1.mp3");
    let mpeg_track = |channels| Track::audio(Codec::MpegAudio, channels);
    // At 22.05 kHz a frame of 32 kbit/s has 104.49 bytes, so that every other one is padded.
    let padded: Vec<usize> = mp3_lengths(mp3);
    let cases = [
        (
            "AAC 8 kHz",
            aac(8_000, 1),
            adts(include_bytes!("../../testdata/aac_8000_1.aac")),
            0.128,
            1,
        ),
        ("AAC 16 kHz", aac(16_000, 1), adts(AAC_16000_1), 0.064, 1),
        (
            "AAC 44.1 kHz",
            aac(44_100, 2),
            adts(include_bytes!("../../testdata/aac_44100_2.aac")),
            1024.0 / 44_100.0,
            2,
        ),
        (
            "AAC 48 kHz",
            aac(48_000, 2),
            adts(AAC_48000_2),
            1024.0 / 48_000.0,
            2,
        ),
        ("MP2 48 kHz", mpeg_track(2), mpeg(mp2, &[288]), 0.024, 2),
        (
            "MP3 22.05 kHz",
            mpeg_track(1),
            mpeg(mp3, &padded),
            576.0 / 22_050.0,
            1,
        ),
    ];
    for (name, track, units, seconds, channels) in cases {
        let mut transcoder = AudioTranscoder::new(source(&track), CHEAP);
        let mut frames = Vec::new();
        for (unit, number) in units.iter().zip(0u32..) {
            let pushed = transcoder.push(unit, at(seconds * f64::from(number)), &mut frames);
            pushed.unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        assert_eq!(transcoder.decoded().expect("decoded").1, channels, "{name}");
        let length = seconds * units.len() as f64;
        assert!(
            frames.len() as f64 * 0.02 > length - 0.03,
            "{name}: all of it"
        );
        let played = play(&frames, channels);
        let middle: Vec<_> = played
            .into_iter()
            .filter(|(time, _)| (0.2..0.5).contains(time))
            .collect();
        let share = share_of_tone(&middle, 1_000.0);
        assert!(share > 0.9, "{name}: {share} of it is the tone");
    }
}

fn mp3_lengths(file: &[u8]) -> Vec<usize> {
    let mut lengths = Vec::new();
    let mut offset = 0;
    while let Some(header) = file.get(offset..offset + 4) {
        let bytes = 104 + usize::from(header[2] >> 1 & 1);
        lengths.push(bytes);
        offset += bytes;
    }
    lengths
}

/// Samples of a mono source in which every minute begins with a burst of 20 ms.
fn bursts(source_index: u64, count: usize, rate: u64) -> Vec<u8> {
    let samples = (source_index..).take(count).map(|index| {
        let of_minute = index % (60 * rate);
        let on = of_minute < rate / 50;
        let phase = std::f64::consts::TAU * 1_000.0 * index as f64 / rate as f64;
        if on { 0.8 * phase.sin() as f32 } else { 0.0 }
    });
    big_endian(samples)
}

/// Plays the audio of a camera for `minutes` minutes, whose sampling clock differs from its timestamps
/// by `ppm`, and whose timestamps jump five times in the first eleven. Each burst must be heard within
/// 20 ms of its time on the video's timeline.
fn stays_on_time(ppm: f64, minutes: u64) {
    const CAMERA: u64 = 8_000;
    let mut transcoder = pcm(8_000, 1);
    let (mut frames, mut recent) = (Vec::new(), Vec::<OpusFrame>::new());
    let (mut worst, mut heard) = (0.0_f64, 0);
    let mut jumped = 0.0;
    for number in 0..minutes * 3_000 {
        let index = number * 160;
        // Lost packets, and an encoder that stepped its clock back.
        jumped += match number {
            7_500 => 0.060,
            13_500 => -0.045,
            19_500 => 0.350,
            25_500 => 0.900,
            31_500 => -0.700,
            _ => 0.0,
        };
        let of_source = |index: u64| index as f64 / CAMERA as f64 * (1.0 + ppm / 1e6);
        let payload = bursts(index, 160, CAMERA);
        let pushed = transcoder.push(&payload, at(of_source(index) + jumped), &mut frames);
        pushed.expect("samples");
        recent.append(&mut frames);
        // Behind each burst, look for it in the last second.
        if number % 3_000 == 25 && number > 25 {
            let due = of_source(index - index % (60 * CAMERA)) + jumped;
            let played = play(&recent, 1);
            let onset = played.iter().find(|(_, value)| value.abs() > 0.3);
            let onset = onset.expect("the burst is heard").0;
            worst = worst.max((onset - due).abs());
            heard += 1;
        }
        if recent.len() > 50 {
            recent.drain(..recent.len() - 50);
        }
    }
    assert_eq!(heard, minutes - 1);
    println!("{ppm} ppm, {minutes} min: {:.1} ms at most", worst * 1e3);
    assert!(worst < 0.020, "{ppm} ppm: {:.1} ms", worst * 1e3);
    let counts = transcoder.counts();
    assert_eq!((counts.restarts, counts.undecodable), (2, 0));
    assert!((3..=6).contains(&counts.steps), "{}", counts.steps);
    assert_eq!(transcoder.trouble(), None);
}

#[test]
fn a_clock_that_is_off_stays_within_20_ms_of_the_video() {
    for ppm in [-100.0, 100.0] {
        stays_on_time(ppm, 12);
    }
}

mod soak {
    use super::stays_on_time;

    #[test]
    #[ignore = "takes minutes; `cargo xtask soak` runs it"]
    fn an_hour_of_a_clock_that_is_off_stays_within_20_ms_of_the_video() {
        for ppm in [-100.0, 100.0] {
            stays_on_time(ppm, 60);
        }
    }
}

#[test]
fn frames_follow_each_other_without_a_gap_or_an_overlap() {
    let mut transcoder = pcm(44_100, 2);
    let mut frames = Vec::new();
    for number in 0..500u32 {
        let payload = big_endian((0..441 * 2).map(|n| (n as f32 * 0.01).sin()));
        // The timestamps vary by up to 9 ms.
        let time = f64::from(number) * 0.010 + f64::from(number * 7 % 10) * 0.001;
        let pushed = transcoder.push(&payload, at(time), &mut frames);
        pushed.expect("samples");
    }
    assert!((248..=250).contains(&frames.len()), "{}", frames.len());
    for pair in frames.windows(2) {
        let step = pair[1].time.nanos() - pair[0].time.nanos();
        assert!((step - 20_000_000).abs() <= 1, "{step}");
    }
    assert_eq!(transcoder.counts().steps, 0);
}

#[test]
fn added_delay_is_below_60_ms() {
    // What a frame waits for: the samples behind it up to the end of the access unit.
    let mut transcoder = AudioTranscoder::new(source(&aac(48_000, 2)), CHEAP);
    let (mut frames, mut worst) = (Vec::new(), 0);
    for (unit, number) in adts(AAC_48000_2).iter().zip(0u32..) {
        let time = at(f64::from(number) * 1024.0 / 48_000.0);
        let before = frames.len();
        transcoder.push(unit, time, &mut frames).expect("AAC");
        for frame in &frames[before..] {
            worst = worst.max(time.nanos() - frame.time.nanos());
        }
    }
    assert!(
        worst < 30_000_000,
        "a frame begins {worst} ns before the unit that ended it"
    );
}

#[test]
fn a_wrong_number_of_channels_is_corrected_by_the_frames() {
    for (stated, file, rate, real) in [(2, AAC_16000_1, 16_000, 1), (1, AAC_48000_2, 48_000, 2)] {
        let mut transcoder = AudioTranscoder::new(source(&aac(rate, stated)), CHEAP);
        let mut frames = Vec::new();
        for (unit, number) in adts(file).iter().zip(0u32..) {
            let time = at(f64::from(number) * 1024.0 / f64::from(rate));
            let pushed = transcoder.push(unit, time, &mut frames);
            pushed.expect("decoded as what it is");
        }
        assert_eq!(transcoder.decoded(), Some((rate, real)));
        assert_eq!(transcoder.counts().changes, 1);
        let share = share_of_tone(&play(&frames, real)[9_600..], 1_000.0);
        assert!(share > 0.9, "{share}");
    }
}

#[test]
fn a_wrong_sample_rate_is_named() {
    // The camera says 8 kHz and sends 16 kHz.
    let mut transcoder = pcm(8_000, 1);
    let mut frames = Vec::new();
    for number in 0..200u32 {
        let payload = big_endian((0..640).map(|n| (n as f32 * 0.3).sin()));
        let pushed = transcoder.push(&payload, at(f64::from(number) * 0.040), &mut frames);
        pushed.expect("samples");
    }
    let trouble = transcoder.trouble().expect("the timestamps tell");
    let Trouble::Pace { stated, measured } = trouble.clone() else {
        panic!("{trouble}");
    };
    assert_eq!((stated, measured), (8_000, 16_000));
    assert!(
        trouble.to_string().contains("correct the sample rate"),
        "{trouble}"
    );
}

#[test]
fn frames_that_are_no_audio_are_named_and_audio_goes_on_behind_them() {
    let mut transcoder = AudioTranscoder::new(source(&aac(48_000, 2)), CHEAP);
    let mut frames = Vec::new();
    for number in 0..20u32 {
        let time = at(f64::from(number) * 0.0213);
        let error = transcoder.push(b"\x21no AAC at all", time, &mut frames);
        let error = error.expect_err("not AAC").to_string();
        assert!(error.starts_with("AAC cannot be decoded: "), "{error}");
    }
    assert!(frames.is_empty());
    let trouble = transcoder
        .trouble()
        .expect("nothing but errors")
        .to_string();
    assert!(trouble.starts_with("no audio, or"), "{trouble}");
    for (unit, number) in adts(AAC_48000_2).iter().zip(20u32..) {
        let time = at(f64::from(number) * 1024.0 / 48_000.0);
        transcoder.push(unit, time, &mut frames).expect("AAC");
    }
    assert!(!frames.is_empty());
    assert_eq!(transcoder.trouble(), None);
    assert_eq!(transcoder.counts().undecodable, 20);
}

#[test]
fn a_source_that_changes_all_the_time_is_refused_most_of_the_time() {
    let mut transcoder = AudioTranscoder::new(source(&aac(48_000, 2)), CHEAP);
    let (mono, stereo) = (adts(AAC_16000_1), adts(AAC_48000_2));
    let mut frames = Vec::new();
    let mut unsteady = 0;
    for number in 0..200usize {
        let unit = match number % 2 {
            0 => stereo[1],
            _ => mono[1],
        };
        let pushed = transcoder.push(unit, at(number as f64 * 0.0213), &mut frames);
        unsteady += usize::from(matches!(pushed, Err(FrameError::Unsteady { .. })));
    }
    let changes = transcoder.counts().changes;
    assert!(
        changes <= 17 && unsteady > 60,
        "{changes} changes, {unsteady} refused"
    );
}

#[test]
fn mpeg_audio_may_change_its_rate() {
    let mp2: &[u8] = include_bytes!("../../testdata/mp2_48000_2.mp2");
    let mp3: &[u8] = include_bytes!("../../testdata/mp3_22050_1.mp3");
    let track = Track::audio(Codec::MpegAudio, 2);
    let mut transcoder = AudioTranscoder::new(source(&track), CHEAP);
    let mut frames = Vec::new();
    let mut time = 0.0;
    for unit in mp2.chunks(288) {
        transcoder.push(unit, at(time), &mut frames).expect("MP2");
        time += 0.024;
    }
    let mut rest = mp3;
    for bytes in mp3_lengths(mp3) {
        let Some((unit, behind)) = rest.split_at_checked(bytes) else {
            break;
        };
        transcoder.push(unit, at(time), &mut frames).expect("MP3");
        rest = behind;
        time += 576.0 / 22_050.0;
    }
    assert_eq!(transcoder.decoded(), Some((22_050, 1)));
    for pair in frames.windows(2) {
        let step = pair[1].time.nanos() - pair[0].time.nanos();
        assert!((19_999_999..40_000_000).contains(&step), "{step}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever a source sends at whatever times, Opus frames do not overlap while the source's
    /// times stay within five seconds, and a unit makes a bounded number of them.
    #[test]
    fn any_frames_at_any_times(
        codec in prop::sample::select(vec![Codec::Aac, Codec::MpegAudio, Codec::L16]),
        units in prop::collection::vec(
            (prop::collection::vec(any::<u8>(), 0..400), -1_500i64..1_500),
            1..40,
        ),
    ) {
        let track = match codec {
            Codec::Aac => aac(16_000, 1),
            _ => Track::audio(codec, 2).with_clock_rate(48_000),
        };
        let mut transcoder = AudioTranscoder::new(source(&track), CHEAP);
        let mut frames = Vec::new();
        for (unit, ms) in &units {
            let before = frames.len();
            let _ = transcoder.push(unit, MediaTime::from_nanos(ms * 1_000_000), &mut frames);
            prop_assert!(frames.len() - before < 200);
        }
        for pair in frames.windows(2) {
            prop_assert!(pair[1].time.nanos() - pair[0].time.nanos() >= 19_999_990);
        }
    }
}
