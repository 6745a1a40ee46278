//! Tests of Matroska files with PCM samples, which are written here: there are many forms of them,
//! and hardly a program that writes them all.

use super::*;

/// Format tags of a WAVEFORMATEX.
const A_LAW: u16 = 6;
const MU_LAW: u16 = 7;

/// An element with a size of eight bytes (RFC 8794 §5, §6).
fn element(id: u32, body: &[u8]) -> Vec<u8> {
    let id = id.to_be_bytes();
    let used = id.iter().position(|byte| *byte != 0).expect("an id");
    let size = (body.len() as u64 | 1 << 56).to_be_bytes();
    [&id[used..], &size, body].concat()
}

/// A file with one track of audio at 8 kHz, and one block that holds `samples`.
fn file(codec: &str, bits: u8, channels: u8, private: &[u8], samples: &[u8]) -> Vec<u8> {
    let audio = [
        element(0xb5, &8000_f64.to_be_bytes()),
        element(0x9f, &[channels]),
        element(0x6264, &[bits]),
    ];
    let entry = [
        element(0xd7, &[1]),
        element(0x83, &[2]),
        element(0x86, codec.as_bytes()),
        element(0x63a2, private),
        element(0xe1, &audio.concat()),
    ];
    let tracks = element(0x1654_ae6b, &element(0xae, &entry.concat()));
    // Track 1, no ticks after the cluster, a keyframe.
    let block = [&[0x81, 0, 0, 0x80], samples].concat();
    let cluster = [element(0xe7, &[0]), element(0xa3, &block)];
    let segment = [tracks, element(0x1f43_b675, &cluster.concat())];
    [
        element(0x1a45_dfa3, &element(0x4282, b"matroska")),
        element(0x1853_8067, &segment.concat()),
    ]
    .concat()
}

/// Codec and bytes of the frames of a file.
fn played(file: &[u8]) -> (Codec, u8, Vec<u8>) {
    let demuxer = opened(Format::Matroska, file, &ONCE).expect("a good file");
    let track = &demuxer.tracks()[0];
    assert_eq!(track.clock_rate, 8_000);
    let (codec, channels) = (track.codec, track.channels);
    let data = all(demuxer)
        .iter()
        .flat_map(|it| it.data.to_vec())
        .collect();
    (codec, channels, data)
}

#[test]
fn samples_of_all_forms_become_l16() {
    let floats = |sample: f64, bits| match bits {
        32 => (sample as f32).to_le_bytes().to_vec(),
        _ => sample.to_le_bytes().to_vec(),
    };
    // 0x1234, then 0x8765, of which eight bits have the upper ones only.
    let cases: [(&str, u8, Vec<u8>); 11] = [
        ("A_PCM/INT/LIT", 8, vec![0x92, 0x07]),
        ("A_PCM/INT/BIG", 8, vec![0x92, 0x07]),
        ("A_PCM/INT/LIT", 16, vec![0x34, 0x12, 0x65, 0x87]),
        ("A_PCM/INT/BIG", 16, vec![0x12, 0x34, 0x87, 0x65]),
        ("A_PCM/INT/LIT", 24, vec![9, 0x34, 0x12, 9, 0x65, 0x87]),
        ("A_PCM/INT/BIG", 24, vec![0x12, 0x34, 9, 0x87, 0x65, 9]),
        (
            "A_PCM/INT/LIT",
            32,
            vec![9, 8, 0x34, 0x12, 9, 8, 0x65, 0x87],
        ),
        (
            "A_PCM/INT/BIG",
            32,
            vec![0x12, 0x34, 8, 9, 0x87, 0x65, 8, 9],
        ),
        ("A_PCM/FLOAT/IEEE", 32, {
            [0x1234, 0x8765_u16.cast_signed()]
                .map(|it| floats(f64::from(it) / 32_768.0, 32))
                .concat()
        }),
        ("A_PCM/FLOAT/IEEE", 64, {
            [0x1234, 0x8765_u16.cast_signed()]
                .map(|it| floats(f64::from(it) / 32_768.0, 64))
                .concat()
        }),
        ("A_PCM/INT/BIG", 16, vec![0x12, 0x34, 0x87, 0x65, 0x55]),
    ];
    for (codec, bits, samples) in cases {
        let expected: &[u8] = match bits {
            8 => &[0x12, 0, 0x87, 0],
            _ => &[0x12, 0x34, 0x87, 0x65],
        };
        for channels in [1, 2] {
            let file = file(codec, bits, channels, &[], &samples);
            let wanted = (Codec::L16, channels, expected.to_vec());
            assert_eq!(played(&file), wanted, "{codec} of {bits} bits");
        }
    }
}

#[test]
fn g711_stays_as_it_is() {
    for (tag, codec) in [(A_LAW, Codec::Pcma), (MU_LAW, Codec::Pcmu)] {
        let private = [&tag.to_le_bytes()[..], &[0; 16]].concat();
        let file = file("A_MS/ACM", 8, 1, &private, &[1, 2, 3, 0xff]);
        assert_eq!(played(&file), (codec, 1, vec![1, 2, 3, 0xff]));
    }
}

/// mediamtx#2848: A-law of 16 kHz as PCMA is heard an octave too low.
#[test]
fn g711_of_another_rate_or_two_channels_is_expanded() {
    let private = [&A_LAW.to_le_bytes()[..], &[0; 16]].concat();
    let expanded = vec![0x7e, 0, 0, 8];
    let stereo = file("A_MS/ACM", 8, 2, &private, &[0xaa, 0xd5]);
    assert_eq!(played(&stereo), (Codec::L16, 2, expanded.clone()));
    let mut fast = file("A_MS/ACM", 8, 1, &private, &[0xaa, 0xd5]);
    let rate = 8000_f64.to_be_bytes();
    let at = fast
        .windows(8)
        .position(|it| it == rate)
        .expect("it is there");
    fast[at..at + 8].copy_from_slice(&16_000_f64.to_be_bytes());
    let demuxer = opened(Format::Matroska, &fast, &ONCE).expect("a good file");
    let track = &demuxer.tracks()[0];
    assert_eq!((track.codec, track.clock_rate), (Codec::L16, 16_000));
    assert_eq!(all(demuxer)[0].data[..], expanded);
}

#[test]
fn samples_of_no_known_form_are_named() {
    for (codec, bits, private) in [
        ("A_PCM/INT/LIT", 20, &[][..]),
        ("A_PCM/INT/BIG", 12, &[]),
        ("A_PCM/FLOAT/IEEE", 16, &[]),
        ("A_MS/ACM", 8, &[1, 0]),
        ("A_MS/ACM", 8, &[6]),
    ] {
        let file = file(codec, bits, 1, private, &[0; 8]);
        let error = failure(opened(Format::Matroska, &file, &ONCE));
        assert!(matches!(error.reason, Reason::NothingToPlay(_)), "{error}");
        assert!(error.to_string().contains(codec), "{error}");
    }
}

#[test]
fn audio_without_channels_or_a_rate_is_damaged() {
    let good = file("A_PCM/INT/LIT", 16, 2, &[], &[0; 8]);
    let at = |what: &[u8]| {
        let found = good.windows(what.len()).position(|it| it == what);
        found.expect("it is there")
    };
    let rate = at(&8000_f64.to_be_bytes());
    for (place, value) in [
        (rate, 0.0_f64.to_be_bytes()),
        (rate, 0.4_f64.to_be_bytes()),
        (rate, 1e9_f64.to_be_bytes()),
        (rate, f64::NAN.to_be_bytes()),
    ] {
        let mut bytes = good.clone();
        bytes[place..place + 8].copy_from_slice(&value);
        let error = failure(opened(Format::Matroska, &bytes, &ONCE));
        assert!(matches!(error.reason, Reason::Damaged(_)), "{error}");
    }
    let none = file("A_PCM/INT/LIT", 16, 0, &[], &[0; 8]);
    let error = failure(opened(Format::Matroska, &none, &ONCE));
    assert!(matches!(error.reason, Reason::Damaged(_)), "{error}");
}
