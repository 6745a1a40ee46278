//! The samples of containers, held against what `ffprobe -show_packets` says of them.

use super::*;

use std::ops::Range;

pub(super) fn sample(name: &str) -> Vec<u8> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/samples/");
    std::fs::read(format!("{folder}{name}")).expect("a committed sample")
}

pub(super) fn container(name: &str, bytes: &[u8], options: &Options) -> Result<Demuxer, Error> {
    let input = Input {
        name: PathBuf::from(name),
        format: Format::of(name.as_ref()).expect("a known extension"),
        data: Box::new(Cursor::new(Bytes::copy_from_slice(bytes))),
    };
    Demuxer::new(vec![input], options)
}

pub(super) fn good(name: &str, options: &Options) -> Demuxer {
    container(name, &sample(name), options).expect("a good sample")
}

/// File, coding, packets; of those the ones before the first video frame, or, without
/// video, before time zero; bytes of the rest, milliseconds from there to the
/// first and the last, indexes of keyframes among the video frames.
type Figures = (
    &'static str,
    Codec,
    usize,
    usize,
    usize,
    Range<f64>,
    &'static [usize],
);

#[rustfmt::skip]
const FIGURES: &[Figures] = &[
    ("aac.mov", Codec::H264, 25, 0, 3907, 0.0..960.0, &[0, 20]),
    ("aac.mov", Codec::Aac, 48, 1, 3950, 0.0..981.0, &[]),
    ("av1-ac3.mkv", Codec::Av1, 50, 0, 5487, 0.0..1960.0, &[0, 20, 40]),
    ("av1-ac3.mkv", Codec::Ac3, 63, 1, 15872, 27.0..1979.0, &[]),
    ("av1.mp4", Codec::Av1, 50, 0, 5487, 0.0..1960.0, &[0, 20, 40]),
    ("fragments.mp4", Codec::H264, 50, 0, 7582, 0.0..1960.0, &[0, 20, 25, 45]),
    ("fragments.mp4", Codec::Aac, 95, 1, 7986, 0.0..1984.0, &[]),
    ("h264-aac-text.mkv", Codec::H264, 50, 0, 7582, 0.0..1960.0, &[0, 20, 25, 45]),
    ("h264-aac-text.mkv", Codec::Aac, 95, 1, 7986, 0.0..1984.0, &[]),
    ("h264-aac-text.mkv", Codec::T140, 2, 0, 13, 200.0..1000.0, &[]),
    ("h264-aac.mp4", Codec::H264, 50, 0, 7582, 0.0..1960.0, &[0, 20, 25, 45]),
    ("h264-aac.mp4", Codec::Aac, 95, 1, 7986, 0.0..1984.0, &[]),
    ("h264-aac.flv", Codec::H264, 25, 0, 3477, 0.0..960.0, &[0, 20]),
    ("h264-aac.flv", Codec::Aac, 48, 1, 3950, 0.0..981.0, &[]),
    ("h265-mp3.mkv", Codec::H265, 50, 0, 4691, 0.0..1960.0, &[0, 18, 39]),
    ("h265-mp3.mkv", Codec::MpegAudio, 85, 1, 8064, 1.0..1993.0, &[]),
    ("h265-opus.mp4", Codec::H265, 50, 0, 4691, 0.0..1960.0, &[0, 18, 39]),
    ("h265-opus.mp4", Codec::Opus, 101, 1, 7670, 13.5..1993.5, &[]),
    ("jpeg-pcm.mov", Codec::Jpeg, 10, 0, 10013, 0.0..360.0, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
    ("jpeg-pcm.mov", Codec::L16, 19, 0, 38400, 0.0..384.0, &[]),
    ("jpeg-ulaw.avi", Codec::Jpeg, 10, 0, 10013, 0.0..360.0, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
    ("jpeg-ulaw.avi", Codec::Pcmu, 19, 0, 3200, 0.0..382.0, &[]),
    ("live.webm", Codec::Vp8, 50, 0, 15583, 0.0..1960.0, &[0, 20, 40]),
    ("mp3.flv", Codec::MpegAudio, 40, 0, 4180, 0.0..1019.0, &[]),
    ("mp3.mp4", Codec::MpegAudio, 85, 1, 8064, 1.0..1993.0, &[]),
    ("mpeg4-ac3.mp4", Codec::Mpeg4Visual, 50, 0, 20379, 0.0..1960.0, &[0, 20, 40]),
    ("mpeg4-ac3.mp4", Codec::Ac3, 63, 1, 15872, 26.7..1978.7, &[]),
    ("mpeg4-mp3.avi", Codec::MpegAudio, 43, 0, 4128, 0.0..1008.0, &[]),
    ("mpeg4-pcm.mkv", Codec::Mpeg4Visual, 13, 0, 7992, 0.0..480.0, &[0, 10]),
    ("mpeg4-pcm.mkv", Codec::L16, 24, 0, 48000, 0.0..491.0, &[]),
    ("negative-ctts.mp4", Codec::H264, 50, 0, 7582, 0.0..1960.0, &[0, 20, 25, 45]),
    ("negative-ctts.mp4", Codec::Aac, 95, 1, 7986, 0.0..1984.0, &[]),
    ("sound.m4a", Codec::Aac, 95, 1, 7986, 0.0..1984.0, &[]),
    ("theora-vorbis.ogv", Codec::Theora, 50, 0, 14117, 0.0..1960.0, &[0, 20, 40]),
    ("theora-vorbis.ogv", Codec::Vorbis, 96, 0, 5483, 0.0..1996.0, &[]),
    ("vorbis.ogg", Codec::Vorbis, 96, 0, 5483, 0.0..1996.0, &[]),
    ("vp8-vorbis.webm", Codec::Vp8, 50, 0, 15583, 0.0..1960.0, &[0, 20, 40]),
    ("vp8-vorbis.webm", Codec::Vorbis, 96, 1, 5456, 0.0..1996.0, &[]),
    ("vp9-opus.webm", Codec::Vp9, 50, 0, 12226, 0.0..1960.0, &[0, 20, 40]),
    ("vp9-opus.webm", Codec::Opus, 101, 1, 7670, 7.0..1987.0, &[]),
    ("vp9.mp4", Codec::Vp9, 50, 0, 12226, 0.0..1960.0, &[0, 20, 40]),
];

pub(super) const SAMPLES: &[&str] = &[
    "aac.mov",
    "av1-ac3.mkv",
    "av1.mp4",
    "fragments.mp4",
    "h264-aac-text.mkv",
    "h264-aac.flv",
    "h264-aac.mp4",
    "h264-pcm.avi",
    "h265-mp3.mkv",
    "h265-opus.mp4",
    "jpeg-pcm.mov",
    "jpeg-ulaw.avi",
    "live.webm",
    "mp3.flv",
    "mp3.mp4",
    "mpeg4-ac3.mp4",
    "mpeg4-mp3.avi",
    "mpeg4-pcm.mkv",
    "negative-ctts.mp4",
    "sound.m4a",
    "theora-vorbis.ogv",
    "vorbis.ogg",
    "vp8-vorbis.webm",
    "vp9-opus.webm",
    "vp9.mp4",
];

#[test]
fn packets_are_those_that_ffprobe_lists() {
    for (name, codec, packets, before, bytes, times, keyframes) in FIGURES {
        let demuxer = good(name, &ONCE);
        assert_eq!(demuxer.warnings(), [], "{name}");
        let tracks = demuxer.tracks().to_vec();
        let track = tracks.iter().position(|track| track.codec == *codec);
        let track = track.expect("the coding is played");
        let mut frames = all(demuxer);
        frames.retain(|frame| frame.track == TrackIndex(track));
        let ms = |frame: &Frame| frame.time.nanos() as f64 / 1e6;
        let first = frames.iter().map(ms).fold(f64::MAX, f64::min);
        let last = frames.iter().map(ms).fold(f64::MIN, f64::max);
        // Matroska's own times are whole milliseconds.
        assert!(
            (first - times.start).abs() <= 1.0,
            "{name} {codec}: {first}"
        );
        let found: usize = frames.iter().map(|frame| frame.data.len()).sum();
        match codec {
            // Cut into packets: 1150 bytes, then the rest.
            Codec::L16 => {
                assert_eq!(found, *bytes, "{name}");
                assert!(frames.iter().all(|frame| frame.data.len() <= 1150));
                continue;
            }
            Codec::T140 => assert_eq!(found, *bytes + 4, "{name}: ends of lines"),
            // Keyframes get parameter sets.
            Codec::H264 => {
                let sets = frames
                    .iter()
                    .filter(|f| f.keyframe && types(f).contains(&7));
                assert_eq!(sets.count(), keyframes.len(), "{name}");
                let [sps, pps] = [&tracks[track].video.sps, &tracks[track].video.pps];
                let added = keyframes.len() * (8 + sps.len() + pps.len());
                assert_eq!(found, *bytes + added, "{name}");
            }
            Codec::H265 | Codec::Mpeg4Visual => {
                let added = found - bytes;
                assert!(
                    added > 0 && added.is_multiple_of(keyframes.len()),
                    "{name}: {added}"
                );
            }
            _ => assert_eq!(found, *bytes, "{name} {codec}"),
        }
        assert_eq!(frames.len(), packets - before, "{name} {codec}");
        assert!((last - times.end).abs() <= 1.0, "{name} {codec}: {last}");
        if codec.kind() == Kind::Video {
            let keys = frames
                .iter()
                .enumerate()
                .filter(|(_, frame)| frame.keyframe);
            let keys: Vec<_> = keys.map(|(place, _)| place).collect();
            assert_eq!(keys, *keyframes, "{name}");
            assert_eq!(
                good(name, &ONCE).frame_rate().is_some(),
                !["fragments.mp4", "h264-aac.flv"].contains(name)
            );
        }
    }
}

#[test]
fn video_and_audio_have_exact_times() {
    for name in [
        "h264-aac-text.mkv",
        "h264-aac.mp4",
        "fragments.mp4",
        "negative-ctts.mp4",
    ] {
        let demuxer = good(name, &ONCE);
        assert_eq!(demuxer.duration(), Duration::from_secs(2), "{name}");
        let frames = all(demuxer);
        let of = |track| {
            frames
                .iter()
                .filter(move |frame| frame.track == TrackIndex(track))
        };
        let mut shown: Vec<_> = of(0).map(|frame| frame.time.ticks(90_000)).collect();
        // I P B B: the second to be decoded is the fourth to be shown.
        assert_eq!(shown[..4], [0, 10_800, 3600, 7200], "{name}");
        shown.sort_unstable();
        assert!(
            shown
                .iter()
                .enumerate()
                .all(|(place, &at)| at == place as i64 * 3600)
        );
        let decoded: Vec<_> = of(0).map(|frame| frame.decode_time.ticks(90_000)).collect();
        assert!(
            decoded.windows(2).all(|pair| pair[1] - pair[0] == 3600),
            "{name}: {decoded:?}"
        );
        assert!(of(0).all(|frame| frame.decode_time <= frame.time));
        assert!(of(0).all(|frame| frame.duration == Duration::from_millis(40)));
        let played: Vec<_> = of(1).map(|frame| frame.time.ticks(48_000)).collect();
        assert!(
            played.windows(2).all(|pair| pair[1] - pair[0] == 1024),
            "{name}"
        );
    }
}

#[test]
fn tracks_say_what_sdp_needs() {
    let track = |name: &str, place: usize| good(name, &ONCE).tracks()[place].clone();
    for name in ["h264-aac-text.mkv", "h264-aac.mp4"] {
        let video = track(name, 0).video;
        assert_eq!((video.width, video.height, video.reordered), (96, 64, true));
        assert_eq!(video.profile_level_id(), Some([100, 0, 9]));
        let audio = track(name, 1);
        assert_eq!((audio.clock_rate, audio.channels), (48_000, 2));
        let expected = "streamtype=5;profile-level-id=1;mode=AAC-hbr;sizelength=13;\
                        indexlength=3;indexdeltalength=3;config=119056E500";
        assert_eq!(audio.format_parameters, expected);
    }
    assert_eq!(track("h264-aac-text.mkv", 2).codec, Codec::T140);
    for name in ["h265-mp3.mkv", "h265-opus.mp4"] {
        let parameters = track(name, 0).format_parameters;
        let names: Vec<_> = parameters
            .split(';')
            .filter_map(|part| part.split_once('=').map(|(name, _)| name))
            .collect();
        assert!(names.contains(&"profile-id") && names.contains(&"level-id"));
        assert!(names.ends_with(&["sprop-vps", "sprop-sps", "sprop-pps"]));
    }
    assert_eq!(
        track("av1.mp4", 0).format_parameters,
        "profile=0;level-idx=0;tier=0"
    );
    assert_eq!(track("vp9-opus.webm", 0).format_parameters, "profile-id=0");
    let vorbis = track("vp8-vorbis.webm", 1);
    assert!(vorbis.format_parameters.starts_with("configuration=AAAAAQ"));
    assert_eq!((vorbis.clock_rate, vorbis.channels), (48_000, 2));
    let theora = track("theora-vorbis.ogv", 0);
    let size = "sampling=YCbCr-4:2:0;width=96;height=64;delivery-method=inline;";
    assert!(theora.format_parameters.starts_with(size));
    let vorbis = track("theora-vorbis.ogv", 1);
    assert!(vorbis.format_parameters.starts_with("configuration=AAAAAQ"));
    let visual = track("mpeg4-ac3.mp4", 0).format_parameters;
    assert!(
        visual.starts_with("profile-level-id=1;config=000001B001"),
        "{visual}"
    );
    assert_eq!(track("mpeg4-ac3.mp4", 1).clock_rate, 48_000);
    let size = track("vp9.mp4", 0).video;
    assert_eq!((size.width, size.height, size.reordered), (96, 64, false));
}

#[test]
fn text_comes_when_it_is_shown() {
    let frames = all(good("h264-aac-text.mkv", &ONCE));
    let lines: Vec<_> = frames
        .iter()
        .filter(|frame| frame.track == TrackIndex(2))
        .collect();
    let ms = |frame: &&Frame| (frame.time.nanos() / 1_000_000, frame.duration.as_millis());
    assert_eq!(
        lines.iter().map(ms).collect::<Vec<_>>(),
        [(200, 700), (1000, 800)]
    );
    assert_eq!(&lines[0].data[..], b"one\r\n");
    assert_eq!(&lines[1].data[..], b"two\r\nlines\r\n");
}

#[test]
fn loops_go_on_without_a_jump_or_a_fall() {
    for &name in SAMPLES {
        let mut demuxer = good(name, &Options::default());
        let tracks = demuxer.tracks().to_vec();
        let frames = take(&mut demuxer, 700);
        for (place, track) in tracks.iter().enumerate() {
            let of: Vec<_> = frames
                .iter()
                .filter(|frame| frame.track == TrackIndex(place))
                .collect();
            let falls = of
                .windows(2)
                .any(|pair| pair[1].decode_time < pair[0].decode_time);
            assert!(!falls, "{name} {}", track.codec);
            // One tick of this file has no frame.
            if track.kind() == Kind::Video && name != "mpeg4-mp3.avi" {
                let mut shown: Vec<_> = of.iter().map(|f| f.time.ticks(90_000)).collect();
                // The last may still miss frames that are shown before them.
                shown.truncate(shown.len() - 5);
                shown.sort_unstable();
                let steady = shown.windows(2).take(shown.len() - 6);
                assert!(
                    steady.clone().all(|pair| pair[1] - pair[0] == 3600),
                    "{name}: {shown:?}"
                );
            }
            if track.kind() == Kind::Audio {
                let gaps = of.windows(2).map(|pair| {
                    let end = pair[0].time + pair[0].duration;
                    pair[1].time.nanos() - end.nanos()
                });
                // Where loops join a part of a packet may be silent.
                assert!(
                    gaps.into_iter()
                        .all(|gap| (-1000..45_000_000).contains(&gap)),
                    "{name}"
                );
            }
        }
    }
}

#[test]
fn a_seek_goes_on_at_the_keyframe_before() {
    // When keyframes are shown: of those around a second, and of the next.
    for (name, before, at, after) in [
        ("h264-aac.mp4", 800, 1000, 1800),
        ("h264-aac-text.mkv", 800, 1000, 1800),
        ("fragments.mp4", 800, 1000, 1800),
        ("theora-vorbis.ogv", 0, 800, 1600),
        ("vp8-vorbis.webm", 0, 800, 1600),
    ] {
        let mut demuxer = good(name, &ONCE);
        let ms = |ms: i64| MediaTime::from_nanos(ms * 1_000_000);
        assert_eq!(
            demuxer.keyframe_at_or_before(ms(at - 1)),
            Some(ms(before)),
            "{name}"
        );
        assert_eq!(demuxer.keyframe_at_or_before(ms(at)), Some(ms(at)));
        assert_eq!(demuxer.keyframe_after(ms(at)), Some(ms(after)));
        assert_eq!(demuxer.keyframe_after(ms(after)), None);
        demuxer.seek(ms(at + 234)).expect("memory");
        let frames = take(&mut demuxer, 6);
        let first = frames
            .iter()
            .find(|frame| frame.track == TrackIndex(0))
            .expect("a frame");
        assert!(first.keyframe && first.time == ms(at), "{name}");
        let audio = frames
            .iter()
            .find(|frame| frame.track == TrackIndex(1))
            .expect("audio");
        let played = audio.time.nanos()..(audio.time + audio.duration).nanos();
        assert!(played.contains(&ms(at).nanos()), "{name}: {played:?}");
        demuxer.seek(MediaTime::ZERO).expect("memory");
        let again = all(demuxer);
        assert_eq!(again, all(good(name, &ONCE)), "{name}");
    }
}

#[test]
fn links_of_a_chain_follow_each_other_with_all_their_tracks() {
    let one = sample("theora-vorbis.ogv");
    let chain = [one.clone(), one].concat();
    let demuxer = container("a.ogv", &chain, &ONCE).expect("a good chain");
    assert_eq!(demuxer.warnings(), []);
    let frames = all(demuxer);
    let of = |track| {
        frames
            .iter()
            .filter(move |frame| frame.track == TrackIndex(track))
    };
    let video_frames: Vec<_> = of(0).map(|frame| frame.time.ticks(25)).collect();
    assert_eq!(video_frames, (0..100).collect::<Vec<_>>());
    // A decoder makes 16 ms more of the first link's last packet than are to be
    // heard; what begins before it is done is left out.
    let audio: Vec<_> = of(1).collect();
    assert_eq!(audio.len(), 96 + 93);
    let ms = |frame: &&Frame| frame.time.nanos() / 1_000_000;
    let second = audio.iter().find(|frame| ms(frame) >= 2000);
    assert_eq!(second.map(ms), Some(2033));
    assert!(
        audio
            .windows(2)
            .all(|pair| ms(&pair[1]) - ms(&pair[0]) <= 38)
    );
}

#[test]
fn forks_read_each_for_itself() {
    for name in SAMPLES {
        let mut demuxer = good(name, &ONCE);
        let whole = all(good(name, &ONCE));
        take(&mut demuxer, 7);
        let mut fork = demuxer.fork(true);
        assert_eq!(fork.tracks(), demuxer.tracks());
        take(&mut fork, 3);
        assert_eq!(all(demuxer), whole[7..], "{name}");
        assert_eq!(all(fork), whole[3..], "{name}");
    }
}

#[test]
fn a_film_with_opus_of_six_channels_names_its_streams() {
    for name in ["surround.mkv", "surround.mp4"] {
        let demuxer = good(name, &ONCE);
        let kinds: Vec<_> = demuxer
            .tracks()
            .iter()
            .map(glassline_media::Track::kind)
            .collect();
        assert_eq!(kinds, [Kind::Video, Kind::Audio], "{name}");
        let audio = &demuxer.tracks()[1];
        assert_eq!((audio.codec, audio.channels), (Codec::MultiOpus, 6));
        assert_eq!(
            audio.format_parameters, "num_streams=4;coupled_streams=2;channel_mapping=0,4,1,2,3,5",
            "{name}"
        );
        assert!(demuxer.warnings().is_empty(), "{name}");
    }
}

#[test]
fn mislabelled_files_are_told_apart() {
    for (name, of, found) in [
        ("a.mkv", "h264-aac.mp4", "an MP4 file"),
        ("a.mp4", "live.webm", "a Matroska or WebM file"),
        ("a.webm", "vorbis.ogg", "an Ogg file"),
    ] {
        let error = failure(container(name, &sample(of), &ONCE)).to_string();
        assert!(error.contains(&format!("looks like {found}")), "{error}");
    }
}
