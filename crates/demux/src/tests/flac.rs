//! FLAC, held against the samples that FFmpeg decodes.

use super::containers::sample;
use super::*;

fn flac(bytes: &[u8]) -> Result<Demuxer, Error> {
    opened(Format::Flac, bytes, &ONCE)
}

/// Samples of all units, one behind the other.
fn samples(frames: &[Frame]) -> Vec<u8> {
    frames.iter().flat_map(|it| it.data.to_vec()).collect()
}

#[test]
fn samples_are_those_that_ffmpeg_decodes() {
    for (name, channels, rate) in [("stereo.flac", 2, 44_100), ("deep.flac", 1, 48_000)] {
        let demuxer = flac(&sample(name)).expect("a good file");
        assert_eq!(demuxer.warnings(), [], "{name}");
        let track = &demuxer.tracks()[0];
        assert_eq!(
            (track.codec, track.channels),
            (Codec::L16, channels),
            "{name}"
        );
        assert_eq!(track.clock_rate, rate, "{name}");
        let frames = all(demuxer);
        assert_eq!(samples(&frames), sample(&format!("{name}.s16be")), "{name}");
        for pair in frames.windows(2) {
            let gap = pair[1].time.nanos() - pair[0].time.nanos();
            assert!(
                (gap - pair[0].duration.as_nanos() as i64).abs() <= 1,
                "{name}"
            );
            assert!(pair[0].data.len() <= 1150, "{name}");
        }
    }
}

#[test]
fn flac_in_containers_has_the_samples_of_the_file() {
    let expected = sample("stereo.flac.s16be");
    for (name, format) in [
        ("flac.mkv", Format::Matroska),
        ("flac.mp4", Format::Mp4),
        ("flac.ogg", Format::Ogg),
    ] {
        let demuxer = opened(format, &sample(name), &ONCE).expect("a good file");
        assert_eq!(demuxer.warnings(), [], "{name}");
        let track = demuxer.tracks()[0].clone();
        assert_eq!((track.codec, track.channels), (Codec::L16, 2), "{name}");
        assert_eq!(track.clock_rate, 44_100, "{name}");
        let frames = all(demuxer);
        assert_eq!(samples(&frames), expected, "{name}");
        let mut at = 0;
        for frame in &frames {
            let close = (frame.time.ticks(44_100) - at).abs();
            assert!(close <= 44, "{name}: {close} samples off");
            at += frame.data.len() as i64 / 4;
        }
    }
}

#[test]
fn flac_in_containers_comes_through_pipes() {
    let expected = sample("stereo.flac.s16be");
    for name in ["flac.mkv", "flac.ogg"] {
        let pipe = Box::new(Cursor::new(sample(name)));
        let opened = crate::PipeDemuxer::open(name.as_ref(), pipe, None);
        let mut demuxer = opened.expect("a good pipe");
        assert_eq!(demuxer.tracks()[0].codec, Codec::L16, "{name}");
        let next = || demuxer.next_frame().expect("memory can be read");
        let frames: Vec<Frame> = std::iter::from_fn(next).collect();
        assert_eq!(samples(&frames), expected, "{name}");
    }
}

#[test]
fn a_seek_goes_on_in_the_middle_of_a_frame() {
    let bytes = sample("stereo.flac");
    let mut demuxer = flac(&bytes).expect("a good file");
    demuxer
        .seek(MediaTime::from_nanos(150_000_000))
        .expect("readable");
    let rest = samples(&all(demuxer));
    let whole = sample("stereo.flac.s16be");
    assert!(
        whole.ends_with(&rest) && rest.len() < whole.len() * 2 / 3,
        "{}",
        rest.len()
    );
}

#[test]
fn damage_costs_a_frame_at_most_and_never_the_file() {
    let whole = sample("stereo.flac");
    let expected = sample("stereo.flac.s16be").len();
    for at in (200..whole.len()).step_by(401) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        let played = samples(&all(flac(&bytes).expect("damage of one byte"))).len();
        // 4608 samples of two channels in a frame.
        assert!(
            (expected - 2 * 18_432..=expected).contains(&played),
            "byte {at}: {played}"
        );
    }
    for cut in (1..whole.len()).step_by(997) {
        play_damaged(Format::Flac, &whole, cut, &[]).expect("it fails with a reason, or plays");
    }
}
