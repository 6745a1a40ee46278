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
