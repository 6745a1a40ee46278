//! Tests of WAV files with PCM samples and with G.711.

use super::*;

/// Format code `WAVE_FORMAT_PCM` of a WAV file.
const PCM: u16 = 1;
const FLOAT: u16 = 3;
const A_LAW: u16 = 6;
const MU_LAW: u16 = 7;

#[derive(Clone, Copy)]
struct Form {
    tag: u16,
    channels: u16,
    rate: u32,
    bits: u16,
}

const STEREO: Form = Form {
    tag: PCM,
    channels: 2,
    rate: 44_100,
    bits: 16,
};

const PHONE: Form = Form {
    tag: MU_LAW,
    channels: 1,
    rate: 8_000,
    bits: 8,
};

fn chunk(name: &[u8; 4], size: u32, body: &[u8]) -> Vec<u8> {
    let mut chunk = [name.as_slice(), &size.to_le_bytes(), body].concat();
    chunk.extend(std::iter::repeat_n(0, body.len() % 2));
    chunk
}

fn whole(name: &[u8; 4], body: &[u8]) -> Vec<u8> {
    chunk(name, body.len() as u32, body)
}

fn fmt(form: Form) -> Vec<u8> {
    let block = form.channels * form.bits.div_ceil(8);
    let mut body = form.tag.to_le_bytes().to_vec();
    body.extend(form.channels.to_le_bytes());
    body.extend(form.rate.to_le_bytes());
    body.extend((form.rate * u32::from(block)).to_le_bytes());
    body.extend(block.to_le_bytes());
    body.extend(form.bits.to_le_bytes());
    whole(b"fmt ", &body)
}

/// A form as `WAVE_FORMAT_EXTENSIBLE`.
fn extensible(form: Form) -> Vec<u8> {
    let mut chunk = fmt(Form {
        tag: 0xfffe,
        ..form
    });
    chunk[4] = 40;
    chunk.extend([22, 0, 24, 0, 3, 0, 0, 0]);
    chunk.extend(form.tag.to_le_bytes());
    chunk.extend([0, 0, 0, 0, 0x10, 0, 0x80, 0, 0, 0xaa, 0, 0x38, 0x9b, 0x71]);
    chunk
}

fn riff(chunks: &[Vec<u8>]) -> Vec<u8> {
    let body = [b"WAVE".to_vec(), chunks.concat()].concat();
    whole(b"RIFF", &body)
}

fn wav(form: Form, samples: &[u8]) -> Vec<u8> {
    riff(&[fmt(form), whole(b"data", samples)])
}

fn played(file: &[u8]) -> Vec<u8> {
    let demuxer = opened(Format::Wav, file, &ONCE).expect("a good file");
    let frames = all(demuxer);
    frames
        .iter()
        .flat_map(|frame| frame.data.to_vec())
        .collect()
}

/// Little-endian samples with consecutive numbers.
fn counting(samples: u16) -> Vec<u8> {
    (0..samples).flat_map(u16::to_le_bytes).collect()
}

fn big_endian(bytes: &[u8]) -> Vec<u8> {
    bytes
        .chunks_exact(2)
        .flat_map(|it| [it[1], it[0]])
        .collect()
}

#[test]
fn samples_become_l16_in_packets_of_at_most_20_ms() {
    let samples = counting(4410);
    let demuxer = opened(Format::Wav, &wav(STEREO, &samples), &ONCE).expect("a good file");
    let track = &demuxer.tracks()[0];
    assert_eq!((track.codec, track.clock_rate), (Codec::L16, 44_100));
    assert_eq!((track.channels, track.static_payload_type()), (2, Some(10)));
    assert_eq!(demuxer.duration(), Duration::from_millis(50));
    let frames = all(demuxer);
    let sizes: Vec<_> = frames.iter().map(|frame| frame.data.len()).collect();
    assert_eq!(sizes, [1148, 1148, 1148, 1148, 1148, 1148, 1148, 784]);
    let bytes: Vec<u8> = frames
        .iter()
        .flat_map(|frame| frame.data.to_vec())
        .collect();
    assert_eq!(bytes, big_endian(&samples));
    for (place, frame) in frames.iter().enumerate() {
        assert_eq!(frame.time.ticks(44_100), place as i64 * 287);
    }

    let mono = Form {
        channels: 1,
        rate: 8_000,
        ..STEREO
    };
    let frames = all(opened(Format::Wav, &wav(mono, &samples), &ONCE).expect("a good file"));
    assert_eq!(frames[0].data.len(), 320, "20 ms");
    assert_eq!(frames[1].time, MediaTime::from_nanos(20_000_000));
}

#[test]
fn loops_of_samples_neither_jump_nor_drift() {
    let file = wav(STEREO, &counting(2001 * 2));
    let mut demuxer = opened(Format::Wav, &file, &Options::default()).expect("a good file");
    let mut next = 0;
    for frame in take(&mut demuxer, 7000) {
        assert_eq!(frame.time.ticks(44_100), next);
        next += frame.data.len() as i64 / 4;
    }
    assert!(next > 2001 * 990);
}

#[test]
fn g711_of_8_khz_stays_as_it_is_and_other_g711_is_expanded() {
    let bytes: Vec<u8> = (0..=255).collect();
    for (tag, codec) in [(MU_LAW, Codec::Pcmu), (A_LAW, Codec::Pcma)] {
        let file = wav(Form { tag, ..PHONE }, &bytes);
        let demuxer = opened(Format::Wav, &file, &ONCE).expect("a good file");
        assert_eq!(demuxer.tracks()[0].codec, codec);
        let frames = all(demuxer);
        assert_eq!(frames[0].data[..], bytes[..160]);
        assert_eq!(frames[1].data[..], bytes[160..]);
    }
    let fast = Form {
        rate: 11_025,
        ..PHONE
    };
    let demuxer = opened(Format::Wav, &wav(fast, &bytes), &ONCE).expect("a good file");
    let track = &demuxer.tracks()[0];
    assert_eq!((track.codec, track.clock_rate), (Codec::L16, 11_025));
    assert_eq!(all(demuxer)[0].data[..2], (-32_124i16).to_be_bytes());
}

#[test]
fn every_width_keeps_its_upper_16_bits() {
    let form = |tag, bits| Form {
        tag,
        bits,
        ..STEREO
    };
    assert_eq!(played(&wav(form(PCM, 8), &[0, 255])), [0x80, 0, 0x7f, 0]);
    let wide = [9, 2, 1, 9, 0xfe, 0xff];
    assert_eq!(played(&wav(form(PCM, 24), &wide)), [1, 2, 0xff, 0xfe]);
    let wide = [9, 9, 2, 1, 9, 9, 0xfe, 0xff];
    assert_eq!(played(&wav(form(PCM, 32), &wide)), [1, 2, 0xff, 0xfe]);
    let floats = [0.5f32.to_le_bytes(), (-2.0f32).to_le_bytes()].concat();
    assert_eq!(played(&wav(form(FLOAT, 32), &floats)), [0x40, 0, 0x80, 0]);
    let file = riff(&[
        extensible(form(PCM, 24)),
        whole(b"data", &[9, 2, 1, 9, 4, 3]),
    ]);
    assert_eq!(played(&file), [1, 2, 3, 4]);
}

#[test]
fn other_chunks_may_lie_anywhere() {
    let samples = counting(10);
    let list = whole(b"LIST", b"INFOISFT\x05\0\0\0odd");
    let data = whole(b"data", &samples);
    for chunks in [
        vec![
            list.clone(),
            fmt(STEREO),
            list.clone(),
            data.clone(),
            list.clone(),
        ],
        vec![data.clone(), list, fmt(STEREO)],
    ] {
        assert_eq!(played(&riff(&chunks)), big_endian(&samples));
    }
}

#[test]
fn sizes_that_nobody_could_write_mean_the_rest_of_the_file() {
    let samples = counting(10);
    for size in [0, u32::MAX] {
        let chunks = [fmt(STEREO), chunk(b"data", size, &samples)].concat();
        for riff_size in [0, u32::MAX, 36] {
            let file = chunk(b"RIFF", riff_size, &[b"WAVE".as_slice(), &chunks].concat());
            let demuxer = opened(Format::Wav, &file, &ONCE).expect("a good file");
            assert_eq!(reasons(&demuxer), []);
            assert_eq!(all(demuxer)[0].data, big_endian(&samples));
        }
    }
    let long = [60u64.to_le_bytes(), 40u64.to_le_bytes(), [0; 8]].concat();
    let chunks = [
        b"WAVE".to_vec(),
        whole(b"ds64", &long),
        fmt(STEREO),
        chunk(b"data", u32::MAX, &counting(20)),
        whole(b"LIST", b"INFO"),
    ];
    let file = chunk(b"RF64", u32::MAX, &chunks.concat());
    assert_eq!(played(&file), big_endian(&counting(20)));
}

#[test]
fn a_file_that_ends_too_early_is_played_to_there_with_a_warning() {
    let file = wav(STEREO, &counting(100));
    let demuxer = opened(Format::Wav, &file[..file.len() - 6], &ONCE).expect("a good start");
    let expected = [
        WarningReason::TruncatedSamples(6),
        WarningReason::TruncatedFrame,
    ];
    assert_eq!(reasons(&demuxer), expected);
    assert_eq!(all(demuxer)[0].data.len(), 192);
}

#[test]
fn what_is_no_audio_is_refused_by_name_and_place() {
    let fails = |file: &[u8], text: &str| {
        let error = failure(opened(Format::Wav, file, &ONCE)).to_string();
        assert!(error.contains(text), "{error}");
    };
    let with = |form| wav(form, &[0; 64]);
    fails(
        &with(Form {
            tag: 0x55,
            ..STEREO
        }),
        "byte 20: this is WAV with MPEG audio",
    );
    fails(&with(Form { tag: 2, ..STEREO }), "Microsoft ADPCM");
    fails(&with(Form { rate: 0, ..STEREO }), "sampling rate");
    fails(
        &with(Form {
            channels: 0,
            ..STEREO
        }),
        "channels are not 1 to 16",
    );
    fails(
        &with(Form { bits: 40, ..STEREO }),
        "no usual number of bytes",
    );
    fails(
        &wav(STEREO, &[]),
        "byte 44: the file holds nothing that can be played",
    );
    fails(&riff(&[whole(b"data", &[0; 8])]), "no fmt chunk");
    fails(&riff(&[fmt(STEREO)]), "no data chunk");
    fails(&riff(&[whole(b"fmt ", &[1, 0])]), "fewer than 16 bytes");
    let endless = vec![whole(b"LIST", b""); 5000].concat();
    fails(&riff(&[endless]), "no fmt chunk");
    fails(b"RIFX\0\0\0\x24WAVE", "big-endian WAV");
}

#[test]
fn a_seek_finds_the_packet_that_is_played_then() {
    let file = wav(STEREO, &counting(4410));
    let mut demuxer = opened(Format::Wav, &file, &ONCE).expect("a good file");
    let every = all(demuxer.fork(true));
    for (place, frame) in every.iter().enumerate() {
        let inside = frame.time + Duration::from_millis(3);
        demuxer.seek(inside).expect("memory can be read");
        assert_eq!(take(&mut demuxer, 99), every[place..]);
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        samples in prop::collection::vec(any::<u8>(), 4..5000),
        channels in 1u16..5,
    ) {
        let form = Form { channels, ..STEREO };
        let block = usize::from(channels) * 2;
        let kept = samples.len() / block * block;
        prop_assume!(kept > 0);
        prop_assert_eq!(played(&wav(form, &samples)), big_endian(&samples[..kept]));
    }

    #[test]
    fn damage_never_panics(
        extended in any::<bool>(),
        cut in 0usize..300,
        damage in prop::collection::vec((0usize..80, any::<u8>()), 0..8),
    ) {
        let form = if extended { extensible(STEREO) } else { fmt(STEREO) };
        let file = riff(&[form, whole(b"data", &counting(100))]);
        play_damaged(Format::Wav, &file, cut, &damage)?;
    }
}
