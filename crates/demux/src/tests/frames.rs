//! Files of AAC, AC-3, AMR and MPEG audio. Sizes are those that ffprobe 5.1
//! reports of the same files (`-show_entries packet=size`).

use super::*;

const AAC: &[u8] = include_bytes!("../../samples/sine.aac");
const AC3: &[u8] = include_bytes!("../../samples/sine.ac3");
const MP3: &[u8] = include_bytes!("../../samples/sine.mp3");
const VBR: &[u8] = include_bytes!("../../samples/vbr.mp3");
const MP2: &[u8] = include_bytes!("../../samples/sine.mp2");

/// Sizes with their ADTS headers of 7 bytes.
const AAC_SIZES: [usize; 21] = [
    97, 133, 80, 87, 86, 84, 83, 85, 88, 87, 83, 88, 86, 91, 89, 94, 91, 99, 99, 134, 14,
];

fn sizes(frames: &[Frame]) -> Vec<usize> {
    frames.iter().map(|frame| frame.data.len()).collect()
}

/// Frames that follow one another tick by tick, `samples` each at `rate`.
fn assert_gapless(frames: &[Frame], samples: i64, rate: u32) {
    for (place, frame) in frames.iter().enumerate() {
        let ticks = place as i64 * samples;
        assert_eq!(frame.time.ticks(rate), ticks, "frame {place}");
        assert_eq!(frame.decode_time, frame.time);
        assert_eq!((frame.time + frame.duration).ticks(rate), ticks + samples);
        assert!(frame.keyframe);
    }
}

fn amr(frames: usize) -> Vec<u8> {
    let mut file = b"#!AMR\n".to_vec();
    for number in 0..frames {
        // 12.2 kbit/s, silence, and nothing in turn.
        let (first, bytes) = [(0x3c, 31), (0x44, 5), (0x7c, 0)][number % 3];
        file.push(first);
        file.extend(std::iter::repeat_n(number as u8 | 1, bytes));
    }
    file
}

#[test]
fn aac_is_cut_into_access_units() {
    let demuxer = opened(Format::Aac, AAC, &ONCE).expect("a good file");
    let track = &demuxer.tracks()[0];
    assert_eq!((track.codec, track.clock_rate), (Codec::Aac, 44_100));
    assert_eq!(track.channels, 2);
    assert!(track.format_parameters.ends_with(";config=1210"));
    assert_eq!(reasons(&demuxer), []);
    let frames = all(demuxer);
    assert_eq!(sizes(&frames), AAC_SIZES.map(|bytes| bytes - 7));
    assert_eq!(frames[1].data[..], AAC[97 + 7..97 + 133]);
    assert_gapless(&frames, 1024, 44_100);
}

#[test]
fn ac3_at_44100_hz_has_frames_of_two_lengths() {
    let demuxer = opened(Format::Ac3, AC3, &ONCE).expect("a good file");
    let track = &demuxer.tracks()[0];
    assert_eq!((track.codec, track.clock_rate), (Codec::Ac3, 44_100));
    assert_eq!((track.channels, track.format_parameters.as_str()), (2, ""));
    let frames = all(demuxer);
    let expected = [278, 280, 278, 278, 280, 278, 278, 280, 278];
    assert_eq!(sizes(&frames), expected);
    assert_gapless(&frames, 1536, 44_100);
}

#[test]
fn mp3_is_served_without_tags_and_directory() {
    let demuxer = opened(Format::MpegAudio, MP3, &ONCE).expect("a good file");
    let track = &demuxer.tracks()[0];
    assert_eq!((track.codec, track.clock_rate), (Codec::MpegAudio, 90_000));
    assert_eq!((track.channels, track.static_payload_type()), (1, Some(14)));
    assert_eq!(reasons(&demuxer), []);
    let frames = all(demuxer);
    let expected = [
        156, 157, 157, 157, 156, 157, 157, 157, 156, 157, 157, 157, 156,
    ];
    assert_eq!(sizes(&frames), expected);
    assert_eq!(frames[0].data[..2], [0xff, 0xfb]);
    assert_gapless(&frames, 1152, 44_100);
}

#[test]
fn mpeg2_layer_iii_and_layer_ii_have_their_own_lengths() {
    let demuxer = opened(Format::MpegAudio, VBR, &ONCE).expect("a good file");
    let frames = all(demuxer);
    let expected = [261, 104, 26, 26, 26, 26, 26, 26, 26, 26, 26, 26, 78, 26];
    assert_eq!(sizes(&frames), expected);
    assert_gapless(&frames, 576, 22_050);
    let frames = all(opened(Format::MpegAudio, MP2, &ONCE).expect("a good file"));
    assert_eq!(sizes(&frames), [192; 9]);
    assert_gapless(&frames, 1152, 48_000);
}

#[test]
fn amr_frames_keep_their_first_byte() {
    let demuxer = opened(Format::Amr, &amr(7), &ONCE).expect("a good file");
    let track = &demuxer.tracks()[0];
    assert_eq!((track.codec, track.clock_rate), (Codec::Amr, 8_000));
    assert_eq!(track.format_parameters, "octet-align=1");
    let frames = all(demuxer);
    assert_eq!(sizes(&frames), [32, 6, 1, 32, 6, 1, 32]);
    assert_eq!(frames[1].data[0], 0x44);
    assert_gapless(&frames, 160, 8_000);

    let wideband = [b"#!AMR-WB\n".as_slice(), &[0x44; 61], &[0x4c; 6]].concat();
    let demuxer = opened(Format::Amr, &wideband, &ONCE).expect("a good file");
    assert_eq!(demuxer.tracks()[0].codec, Codec::AmrWb);
    assert_gapless(&all(demuxer), 320, 16_000);
}

#[test]
fn a_thousand_loops_at_44100_hz_neither_jump_nor_drift() {
    let mut demuxer = opened(Format::Aac, AAC, &Options::default()).expect("a good file");
    let frames = take(&mut demuxer, 21 * 1000);
    assert_gapless(&frames, 1024, 44_100);
    assert_eq!(frames[0].data, frames[21 * 999].data);
}

#[test]
fn loops_that_end_between_two_nanoseconds_do_not_add_up_what_is_rounded() {
    let one = &AAC[..97];
    let mut demuxer = opened(Format::Aac, one, &Options::default()).expect("a good file");
    assert_gapless(&take(&mut demuxer, 40_000), 1024, 44_100);
}

#[test]
fn a_seek_finds_the_frame_that_is_played_then() {
    let mut demuxer = opened(Format::Ac3, AC3, &ONCE).expect("a good file");
    let every = all(demuxer.fork(true));
    for (place, frame) in every.iter().enumerate() {
        for inside in [0, 1_000_000, 34_000_000] {
            let time = frame.time + Duration::from_nanos(inside);
            demuxer.seek(time).expect("memory can be read");
            let found = take(&mut demuxer, 2);
            assert_eq!(found[..], every[place..every.len().min(place + 2)]);
        }
    }
    demuxer
        .seek(MediaTime::from_nanos(-5))
        .expect("memory can be read");
    assert_eq!(take(&mut demuxer, 1)[0], every[0]);
    demuxer
        .seek(MediaTime::from_nanos(i64::MAX))
        .expect("memory can be read");
    assert_eq!(take(&mut demuxer, 1), []);
}

#[test]
fn forks_read_each_for_itself() {
    let mut one = opened(Format::MpegAudio, MP3, &ONCE).expect("a good file");
    let first = take(&mut one, 5);
    let mut other = one.fork(true);
    assert_eq!(take(&mut other, 5), first);
    assert_eq!(take(&mut one, 1), take(&mut other, 1));
    assert_eq!(one.tracks(), other.tracks());
}

#[test]
fn a_cut_last_frame_is_left_out_with_a_warning() {
    for (format, file, frames) in [
        (Format::Aac, AAC, 20),
        (Format::Ac3, AC3, 8),
        (Format::MpegAudio, MP2, 8),
    ] {
        let demuxer = opened(format, &file[..file.len() - 3], &ONCE).expect("a good start");
        assert_eq!(
            reasons(&demuxer),
            [WarningReason::TruncatedFrame],
            "{format:?}"
        );
        assert_eq!(all(demuxer).len(), frames);
    }
    let demuxer = opened(Format::Amr, &amr(4)[..45], &ONCE).expect("a good start");
    assert_eq!(reasons(&demuxer), [], "cut between two frames");
    let demuxer = opened(Format::Amr, &amr(4)[..60], &ONCE).expect("a good start");
    assert_eq!(reasons(&demuxer), [WarningReason::TruncatedFrame]);
    assert_eq!(demuxer.warnings()[0].offset, Some(45));
}

#[test]
fn junk_between_frames_is_skipped_with_a_warning() {
    let junk = [0xff, 0xf1, 0xff, 0xfb, 0x0b, 0x77, 0, 1, 2, 3];
    for (format, file, at) in [
        (Format::Aac, AAC, 97 + 133),
        (Format::Ac3, AC3, 278 + 280),
        (Format::MpegAudio, MP2, 192 * 2),
    ] {
        let frames = all(opened(format, file, &ONCE).expect("a good file"));
        let with_junk = [&file[..at], &junk, &file[at..], &junk].concat();
        let demuxer = opened(format, &with_junk, &ONCE).expect("it goes on");
        assert_eq!(
            reasons(&demuxer),
            [WarningReason::Skipped(10)],
            "{format:?}"
        );
        assert_eq!(demuxer.warnings()[0].offset, Some(at as u64));
        assert_eq!(all(demuxer), frames);
        let demuxer = opened(format, &[&junk, file].concat(), &ONCE).expect("it begins later");
        assert_eq!(all(demuxer), frames);
    }
    let speech = amr(90);
    let with_junk = [&speech[..45], &[0xff; 10], &speech[45..], &[0xff; 10]].concat();
    let demuxer = opened(Format::Amr, &with_junk, &ONCE).expect("it goes on");
    assert_eq!(reasons(&demuxer), [WarningReason::Skipped(10)]);
    assert_eq!(all(demuxer).len(), 90);
}

#[test]
fn tags_are_skipped_in_silence() {
    let id3v2 = [b"ID3\x03\0\0\0\0\x01\0".as_slice(), &[0xff; 128]].concat();
    let id3v1 = [b"TAG".as_slice(), &[b' '; 125]].concat();
    let parts = [&id3v2, AAC, &id3v2, AAC, &id3v1];
    let demuxer = opened(Format::Aac, &parts.concat(), &ONCE).expect("a good file");
    assert_eq!(reasons(&demuxer), []);
    assert_eq!(all(demuxer).len(), 42);
}

#[test]
fn a_change_of_the_audio_is_an_error_where_it_happens() {
    let error = failure(opened(Format::MpegAudio, &[VBR, MP2].concat(), &ONCE));
    assert_eq!(error.offset, Some(VBR.len() as u64));
    let text = error.to_string();
    assert!(text.contains("22050 Hz, 1 channels") && text.contains("48000 Hz, 2 channels"));
}

#[test]
fn files_without_a_frame_say_so() {
    for format in [Format::Aac, Format::Ac3, Format::MpegAudio] {
        let error = failure(opened(format, &[0x55; 5000], &ONCE));
        assert!(
            matches!(error.reason, Reason::NoFrame { searched: 5000, .. }),
            "{error}"
        );
        let error = failure(opened(format, b"", &ONCE));
        assert!(matches!(error.reason, Reason::Empty), "{error}");
    }
    let endless = vec![0x55; 3 << 20];
    let error = failure(opened(Format::Aac, &[AAC, &endless].concat(), &ONCE));
    assert_eq!(error.offset, Some(AAC.len() as u64));
    let error = failure(opened(Format::Amr, b"#!AMR\n", &ONCE));
    assert!(matches!(error.reason, Reason::NothingToPlay(_)), "{error}");
    let error = failure(opened(Format::Amr, b"#!AMS\n\x7c", &ONCE));
    assert!(matches!(error.reason, Reason::Damaged(_)), "{error}");
}

#[test]
fn forms_that_nobody_could_be_sent_are_refused_by_name() {
    let refused = |format, bytes: &[u8], name: &str| {
        let text = failure(opened(format, bytes, &ONCE)).to_string();
        assert!(text.contains(name), "{text}");
    };
    refused(Format::Aac, b"ADIF\x40\0\0\0", "ADIF");
    refused(Format::Ac3, b"\x0b\x77\x01\x7f\x34\x80\0\0\0", "E-AC-3");
    refused(
        Format::Amr,
        b"#!AMR-WB_MC1.0\n\0\0\0\x02",
        "several channels",
    );
    refused(
        Format::MpegAudio,
        &[0xff, 0xfb, 0x00, 0x64, 0, 0],
        "free bit rate",
    );
    let mut several = AAC.to_vec();
    several[6] |= 1;
    refused(Format::Aac, &several, "several access units");
    let mut unsaid = AAC.to_vec();
    unsaid[3] &= 0x3f;
    refused(Format::Aac, &unsaid, "only a program config element states");
}

#[test]
fn audio_in_which_three_bytes_look_like_packets_is_audio() {
    // 1044 bytes each, of which the first frame's are a transport stream's first ones.
    let frame = |fill: u8| {
        let mut frame = vec![0xff, 0xfb, 0xe0, 0];
        frame.resize(1044, fill);
        frame
    };
    let file = [frame(0x47), frame(0x55), frame(0x11)].concat();
    let demuxer = opened(Format::MpegAudio, &file, &ONCE).expect("a good file");
    assert_eq!(all(demuxer).len(), 3);
}

#[test]
fn mislabelled_audio_is_named_for_what_it_is() {
    let wav = b"RIFF\x24\0\0\0WAVEfmt ";
    for (format, bytes, found) in [
        (Format::Aac, MP2, "MPEG audio"),
        (Format::MpegAudio, AAC, "AAC"),
        (Format::Ac3, AAC, "AAC"),
        (Format::MpegAudio, AC3, "AC-3"),
        (Format::Aac, MP3, "MPEG audio"),
        (Format::MpegAudio, wav, "a WAV file"),
        (Format::Amr, DEMO_AUDIO, "an Ogg file"),
        (Format::Ogg, AC3, "AC-3"),
        (Format::H264, MP3, "MPEG audio"),
    ] {
        let error = failure(opened(format, bytes, &ONCE));
        assert!(matches!(error.reason, Reason::Mislabeled { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains(&format!("looks like {found}")), "{text}");
    }
}

/// An ADTS frame of MPEG-4 AAC-LC, in stereo.
fn adts(rate_index: u8, audio: &[u8]) -> Vec<u8> {
    let bytes = audio.len() + 7;
    let header = [
        0xff,
        0xf1,
        0x40 | rate_index << 2,
        0x80 | (bytes >> 11) as u8,
        (bytes >> 3) as u8,
        (bytes << 5) as u8 | 0x1f,
        0xfc,
    ];
    [header.as_slice(), audio].concat()
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        units in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..300), 3..40),
        rate_index in 0u8..13,
    ) {
        let file: Vec<u8> = units.iter().flat_map(|unit| adts(rate_index, unit)).collect();
        let demuxer = opened(Format::Aac, &file, &ONCE).expect("a good file");
        prop_assert_eq!(reasons(&demuxer), []);
        let read: Vec<_> = all(demuxer).iter().map(|frame| frame.data.to_vec()).collect();
        prop_assert_eq!(read, units);
    }

    #[test]
    fn frames_of_every_bit_rate_follow_one_another(
        // Version and layer; index of the sampling rate; bit rate and padding of each.
        second in prop::sample::select(vec![0xffu8, 0xfd, 0xfb, 0xf7, 0xf5, 0xf3, 0xe3]),
        rate in 0u8..3,
        frames in prop::collection::vec((1u8..15, any::<bool>(), any::<u8>()), 3..40),
    ) {
        let frame = |&(bit_rate, padded, fill): &(u8, bool, u8)| {
            let third = bit_rate << 4 | rate << 2 | u8::from(padded) << 1;
            let header = [0xff, second, third, 0];
            let parsed = crate::audio::mpeg_audio::Header::parse(&header).expect("a header");
            let mut frame = header.to_vec();
            frame.resize(parsed.frame_bytes.into(), fill);
            frame
        };
        let frames: Vec<_> = frames.iter().map(frame).collect();
        let demuxer = opened(Format::MpegAudio, &frames.concat(), &ONCE).expect("a good file");
        prop_assert_eq!(reasons(&demuxer), []);
        let read: Vec<_> = all(demuxer).iter().map(|frame| frame.data.to_vec()).collect();
        prop_assert_eq!(read, frames);
    }

    #[test]
    fn speech_of_every_rate_follows_one_another(
        kinds in prop::collection::vec(prop::sample::select(vec![
            (0u8, 12usize), (1, 13), (2, 15), (3, 17), (4, 19), (5, 20), (6, 26), (7, 31), (8, 5), (15, 0),
        ]), 1..80),
    ) {
        let frame = |&(kind, bytes): &(u8, usize)| {
            let mut frame = vec![kind << 3 | 4];
            frame.resize(1 + bytes, 0xff);
            frame
        };
        let frames: Vec<_> = kinds.iter().map(frame).collect();
        let file = [b"#!AMR\n".to_vec(), frames.concat()].concat();
        let demuxer = opened(Format::Amr, &file, &ONCE).expect("a good file");
        prop_assert_eq!(reasons(&demuxer), []);
        let read: Vec<_> = all(demuxer).iter().map(|frame| frame.data.to_vec()).collect();
        prop_assert_eq!(read, frames);
    }

    #[test]
    fn damage_never_panics(
        file in 0usize..6,
        cut in 0usize..3000,
        damage in prop::collection::vec((0usize..3000, any::<u8>()), 0..8),
    ) {
        let speech = amr(60);
        let (format, bytes) = [
            (Format::Aac, AAC),
            (Format::Ac3, AC3),
            (Format::MpegAudio, MP3),
            (Format::MpegAudio, VBR),
            (Format::MpegAudio, MP2),
            (Format::Amr, &speech),
        ][file];
        play_damaged(format, bytes, cut, &damage)?;
    }

    #[test]
    fn any_bytes_fail_or_play(
        format in prop::sample::select(vec![
            Format::Aac, Format::Ac3, Format::MpegAudio, Format::Amr,
        ]),
        bytes in prop::collection::vec(
            prop::sample::select(vec![0xffu8, 0xfb, 0xf1, 0x90, 0x50, 0x80, 0x0b, 0x77, 0x3c, 0, 1]),
            1..600,
        ),
    ) {
        play_damaged(format, &bytes, bytes.len(), &[])?;
    }
}
