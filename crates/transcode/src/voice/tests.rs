use glassline_media::{Bitrate, Track};

use super::*;
use crate::{AudioSource, Decoder};

fn aac(rate: u32) -> VoiceTarget {
    VoiceTarget::Aac(AacSettings {
        rate,
        channels: 1,
        bitrate: Bitrate::from_bps(48_000),
    })
}

fn tone(n: usize, rate: u32) -> f32 {
    0.5 * (std::f32::consts::TAU * 600.0 * n as f32 / rate as f32).sin()
}

/// Packets of 20 ms of a tone in a codec, with their timestamps.
fn packets(codec: Codec, count: usize) -> Vec<(u32, Vec<u8>)> {
    let mut packets = Vec::new();
    match codec {
        Codec::Opus => {
            let application = opusic_c::Application::Voip;
            let encoder = opusic_c::Encoder::new(Channels::Mono, SampleRate::Hz48000, application);
            let mut encoder = encoder.expect("Opus");
            for packet in 0..count {
                let samples: Vec<_> = (0..960).map(|n| tone(960 * packet + n, RATE)).collect();
                let mut data = Vec::with_capacity(1_276);
                encoder
                    .encode_float_to_vec(&samples, &mut data)
                    .expect("encoded");
                packets.push((960 * packet as u32, data));
            }
        }
        _ => {
            let law = if codec == Codec::Pcma {
                Companding::A
            } else {
                Companding::Mu
            };
            for packet in 0..count {
                let samples = (0..160).map(|n| law.encode(tone(160 * packet + n, G711_RATE)));
                packets.push((160 * packet as u32, samples.collect()));
            }
        }
    }
    packets
}

/// Decodes frames of the target, back to back.
fn decode(target: VoiceTarget, frames: &[VoiceFrame]) -> Vec<f32> {
    let VoiceTarget::Aac(settings) = target else {
        let law = if target == VoiceTarget::Pcma {
            Companding::A
        } else {
            Companding::Mu
        };
        let bytes = frames.iter().flat_map(|it| &it.data);
        return bytes.map(|byte| law.decode(*byte)).collect();
    };
    let track = Track::audio(Codec::Aac, 1).with_clock_rate(settings.rate);
    let source = AudioSource::of(&track).expect("AAC-LC");
    let mut decoder = Decoder::new(&source).expect("a decoder");
    let (mut samples, mut decoded) = (Vec::new(), Vec::new());
    for frame in frames {
        decoder.decode(&frame.data, &mut samples).expect("decodes");
        decoded.extend_from_slice(&samples);
    }
    decoded
}

/// Returns the share of the energy that is the tone of 600 Hz, 0 to 1, and the amplitude of the tone.
fn share(samples: &[f32], rate: u32) -> (f64, f64) {
    let (mut re, mut im, mut energy) = (0.0, 0.0, 0.0);
    for (n, sample) in samples.iter().enumerate() {
        let phase = std::f64::consts::TAU * 600.0 * n as f64 / f64::from(rate);
        let sample = f64::from(*sample);
        re += sample * phase.cos();
        im += sample * phase.sin();
        energy += sample * sample;
    }
    let count = samples.len() as f64;
    let power = 2.0 * (re * re + im * im) / count;
    (power / energy, 2.0 * (re * re + im * im).sqrt() / count)
}

#[test]
fn a_tone_stays_that_tone_in_every_codec_and_rate() {
    for codec in [Codec::Opus, Codec::Pcmu, Codec::Pcma] {
        for target in [
            aac(8_000),
            aac(11_025),
            aac(16_000),
            aac(44_100),
            aac(48_000),
            VoiceTarget::Pcmu,
            VoiceTarget::Pcma,
        ] {
            let mut voice = VoiceTranscoder::new(codec, target).expect("transcodes");
            let mut frames = Vec::new();
            for (timestamp, payload) in packets(codec, 100) {
                voice
                    .push(timestamp, &payload, &mut frames)
                    .expect("decodes");
            }
            let decoded = decode(target, &frames);
            let rate = target.rate();
            // Two seconds, without what waits for a whole frame.
            assert!(
                decoded.len() > rate as usize * 18 / 10,
                "{codec} to {target:?}"
            );
            let middle = &decoded[rate as usize / 2..rate as usize * 3 / 2];
            let (share, amplitude) = share(middle, rate);
            assert!(share > 0.99, "{codec} to {target:?}: {share}");
            assert!(
                (0.45..0.55).contains(&amplitude),
                "{codec} to {target:?}: {amplitude}"
            );
            let frame = voice.target.frame_samples() as u32;
            for (frames, number) in frames.iter().zip(0..) {
                assert_eq!(frames.timestamp, frame * number);
            }
        }
    }
}

#[test]
fn what_is_lost_is_filled_and_later_words_keep_their_time() {
    for codec in [Codec::Opus, Codec::Pcma] {
        let all = packets(codec, 100);
        let frames_of = |lost: std::ops::Range<usize>| {
            let mut voice = VoiceTranscoder::new(codec, aac(16_000)).expect("transcodes");
            let mut frames = Vec::new();
            for (number, (timestamp, payload)) in all.iter().enumerate() {
                if !lost.contains(&number) {
                    voice
                        .push(*timestamp, payload, &mut frames)
                        .expect("decodes");
                }
            }
            frames
        };
        let (whole, holed) = (frames_of(0..0), frames_of(40..60));
        assert_eq!(whole.len(), holed.len(), "{codec}");
        let silence = decode(aac(16_000), &holed)[16_000..17_000].to_vec();
        assert!(
            silence.iter().all(|it| it.abs() < 0.01),
            "{codec}: {silence:?}"
        );
    }
}

#[test]
fn a_packet_that_comes_late_or_twice_is_dropped() {
    let all = packets(Codec::Pcmu, 10);
    let mut voice = VoiceTranscoder::new(Codec::Pcmu, aac(8_000)).expect("transcodes");
    let mut frames = Vec::new();
    for number in [0, 1, 1, 3, 2, 4, 5, 6, 7, 8, 9] {
        let (timestamp, payload) = &all[number];
        voice
            .push(*timestamp, payload, &mut frames)
            .expect("decodes");
    }
    assert_eq!((voice.late(), frames.len()), (2, 1));
    assert_eq!(voice.pending.len(), 1_600 - 1_024);
}

#[test]
fn a_pause_is_a_jump_of_the_timestamps() {
    let mut voice = VoiceTranscoder::new(Codec::Pcmu, aac(16_000)).expect("transcodes");
    let mut frames = Vec::new();
    let near = u32::MAX - 100;
    voice
        .push(near, &[0xff; 800], &mut frames)
        .expect("decodes");
    // Ten seconds later; the source's timestamps wrap around.
    let later = near.wrapping_add(80_000);
    for packet in 0..10 {
        let timestamp = later.wrapping_add(160 * packet);
        voice
            .push(timestamp, &[0xff; 160], &mut frames)
            .expect("decodes");
    }
    let timestamps: Vec<_> = frames.iter().map(|it| it.timestamp).collect();
    assert_eq!(
        timestamps[..2],
        [0, 1_024],
        "the frame before the pause is filled"
    );
    // The filter keeps a few samples, which belong to the pause.
    assert!(timestamps[2].abs_diff(160_000) < 512, "{timestamps:?}");
    // A source that begins anew goes on behind.
    let count = frames.len();
    voice.push(7, &[0xff; 1_000], &mut frames).expect("decodes");
    assert!(frames.len() > count);
    assert_eq!(frames[count].timestamp, frames[count - 1].timestamp + 1_024);
}

#[test]
fn what_is_no_opus_is_an_error_and_silence() {
    let mut voice = VoiceTranscoder::new(Codec::Opus, aac(48_000)).expect("transcodes");
    let mut frames = Vec::new();
    let broken: [&[u8]; 3] = [&[], &[0xff; 3], &[0x0b, 0xff]];
    for (number, payload) in (0..).zip(broken) {
        voice
            .push(960 * number, payload, &mut frames)
            .expect_err("no Opus");
    }
    assert_eq!(frames.len(), 2, "60 ms");
    assert_eq!(voice.late(), 0);
}

#[test]
fn a_voice_in_another_codec_is_refused() {
    let refused = VoiceTranscoder::new(Codec::Aac, aac(16_000)).expect_err("no decoder");
    assert!(refused.to_string().contains("AAC"), "{refused}");
    let refused = VoiceTranscoder::new(Codec::Opus, aac(10_000)).expect_err("no such rate");
    assert!(refused.to_string().contains("10000 Hz"), "{refused}");
}
