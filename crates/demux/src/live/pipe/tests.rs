//! Tests of [`PipeDemuxer`]: what it hands out is what [`Demuxer`] reads of the same bytes as a
//! file.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use glassline_media::TrackIndex;
use proptest::prelude::*;

use super::*;
use crate::{Demuxer, Format, Input, Options, WarningReason};

/// Samples of every format that a pipe may have.
const SAMPLES: &[&str] = &[
    "h264-aac.flv",
    "mp3.flv",
    "h264-aac-text.mkv",
    "h265-mp3.mkv",
    "av1-ac3.mkv",
    "mpeg4-pcm.mkv",
    "live.webm",
    "vp8-vorbis.webm",
    "vp9-opus.webm",
    "surround.mkv",
    "theora-vorbis.ogv",
    "vorbis.ogg",
    "sine.aac",
    "sine.ac3",
    "sine.mp2",
    "sine.mp3",
];

fn sample(name: &str) -> Vec<u8> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/samples/");
    std::fs::read(format!("{folder}{name}")).expect("a committed sample")
}

/// A pipe that brings a few bytes at a time.
struct Dribble {
    bytes: Vec<u8>,
    at: Arc<AtomicUsize>,
    step: usize,
}

impl Read for Dribble {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let at = self.at.load(Ordering::Relaxed);
        let count = self.step.min(out.len()).min(self.bytes.len() - at);
        out[..count].copy_from_slice(&self.bytes[at..at + count]);
        self.at.store(at + count, Ordering::Relaxed);
        Ok(count)
    }
}

fn pipe(bytes: &[u8], step: usize) -> (Box<dyn Read + Send>, Arc<AtomicUsize>) {
    let at = Arc::new(AtomicUsize::new(0));
    let dribble = Dribble {
        bytes: bytes.to_vec(),
        at: Arc::clone(&at),
        step,
    };
    (Box::new(dribble), at)
}

fn open(bytes: &[u8], step: usize) -> Result<PipeDemuxer, Error> {
    PipeDemuxer::open(Path::new("pipe"), pipe(bytes, step).0, None)
}

fn frames(demuxer: PipeDemuxer) -> (Vec<Track>, Vec<Frame>) {
    let (tracks, frames, _) = all(demuxer);
    (tracks, frames)
}

fn all(mut demuxer: PipeDemuxer) -> (Vec<Track>, Vec<Frame>, Vec<WarningReason>) {
    let tracks = demuxer.tracks().to_vec();
    let mut frames = Vec::new();
    while let Some(frame) = demuxer.next_frame().expect("no damage") {
        frames.push(frame);
    }
    let warnings = demuxer.take_warnings().into_iter();
    (tracks, frames, warnings.map(|it| it.reason).collect())
}

/// Reads the same bytes as a file.
fn of_file(name: &str, bytes: &[u8]) -> (Vec<Track>, Vec<Frame>) {
    let input = Input {
        name: name.into(),
        format: Format::of(name.as_ref()).expect("a known extension"),
        data: Box::new(Cursor::new(bytes.to_vec())),
    };
    let options = Options {
        once: true,
        ..Options::default()
    };
    let mut demuxer = Demuxer::new(vec![input], &options).expect("a good file");
    let mut frames = Vec::new();
    while let Some(frame) = demuxer.next_frame().expect("readable") {
        frames.push(frame);
    }
    (demuxer.tracks().to_vec(), frames)
}

/// Divides at start codes, which may have three or four bytes; other data stays whole.
fn nals(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_annexb = data.starts_with(&[0, 0, 1]) || data.starts_with(&[0, 0, 0, 1]);
    let whole = (!is_annexb).then_some(data);
    let nals = is_annexb.then(|| crate::annexb::nals(data));
    whole.into_iter().chain(nals.into_iter().flatten())
}

/// Checks that the frames of a pipe are those of the file. A file leaves out what lies before its
/// start.
fn check_same(name: &str, bytes: &[u8], step: usize) {
    let (tracks, piped, warnings) = all(open(bytes, step).expect(name));
    assert_eq!(warnings, [], "{name}");
    let (wanted_tracks, wanted) = of_file(name, bytes);
    let codecs = |tracks: &[Track]| tracks.iter().map(|it| it.codec).collect::<Vec<_>>();
    assert_eq!(codecs(&tracks), codecs(&wanted_tracks), "{name}");
    for track in TrackIndex::first(tracks.len()) {
        let of = |frames: &[Frame]| -> Vec<Frame> {
            let frames = frames.iter().filter(|frame| frame.track == track);
            frames.cloned().collect()
        };
        let (piped, wanted) = (of(&piped), of(&wanted));
        let skipped = piped.len().checked_sub(wanted.len());
        let skipped = skipped.unwrap_or_else(|| panic!("{name}: {} frames", piped.len()));
        assert!(skipped <= 2, "{name}: {skipped} more");
        let piped = &piped[skipped..];
        let shift = piped[0].time.nanos() - wanted[0].time.nanos();
        for (piped, wanted) in piped.iter().zip(&wanted) {
            assert!(nals(&piped.data).eq(nals(&wanted.data)), "{name}");
            assert_eq!(piped.keyframe, wanted.keyframe, "{name}");
            let apart = (piped.time.nanos() - shift).abs_diff(wanted.time.nanos());
            assert!(apart < 1_000_000, "{name}: {apart} ns");
        }
        let decodes: Vec<_> = piped.iter().map(|frame| frame.decode_time).collect();
        assert!(decodes.is_sorted(), "{name}");
        assert!(piped.iter().all(|it| it.decode_time <= it.time), "{name}");
    }
}

#[test]
fn a_pipe_brings_the_frames_of_the_file() {
    for name in SAMPLES {
        check_same(name, &sample(name), 4096);
    }
    let h264 = include_bytes!("../../../../../assets/demo.h264");
    check_same("demo.h264", h264, 4096);
    let ogg = include_bytes!("../../../../../assets/demo.ogg");
    check_same("demo.ogg", ogg, 4096);
}

#[test]
fn the_size_of_the_pieces_does_not_matter() {
    for name in SAMPLES {
        for step in [1, 7, 1000, 1 << 20] {
            check_same(name, &sample(name), step);
        }
    }
}

#[test]
fn frames_of_audio_that_state_their_length_follow_each_other() {
    let adts = [0xff, 0xf1, 0x4c, 0x80, 0x02, 0x1f, 0xfc];
    let frame = [&adts[..], &[7; 9]].concat();
    let mut bytes = b"ID3\x04\0\0\0\0\0\x05title".to_vec();
    for _ in 0..3 {
        bytes.extend_from_slice(&frame);
    }
    bytes.extend_from_slice(b"noise");
    for _ in 0..3 {
        bytes.extend_from_slice(&frame);
    }
    bytes.extend_from_slice(&frame[..9]);
    // A tag in front hides the format, as of a file.
    let mut demuxer = open(&bytes[15..], 3).expect("AAC");
    let mut times = Vec::new();
    while let Some(frame) = demuxer.next_frame().expect("no damage") {
        assert_eq!(frame.data[..], [7; 9]);
        times.push(frame.time.nanos() / 1_000);
    }
    assert_eq!(times, [0, 21_333, 42_666, 64_000, 85_333, 106_666]);
    let warnings = demuxer.take_warnings();
    let reasons: Vec<_> = warnings.iter().map(|it| it.reason.clone()).collect();
    assert_eq!(reasons, [WarningReason::Skipped(5)]);
}

#[test]
fn a_frame_is_handed_out_before_the_next_arrives() {
    let bytes = sample("live.webm");
    let (from, at) = pipe(&bytes, 64);
    let mut demuxer = PipeDemuxer::open(Path::new("pipe"), from, None).expect("VP8");
    let mut end = 0;
    for _ in 0..20 {
        let frame = demuxer.next_frame().expect("readable").expect("50 frames");
        let place = bytes[end..].windows(frame.data.len());
        let place = place.into_iter().position(|it| it == &frame.data[..]);
        end += place.expect("it is in the file") + frame.data.len();
        let ahead = at.load(Ordering::Relaxed).saturating_sub(end);
        assert!(ahead < 1024, "{ahead} bytes were waited for");
    }
}

#[test]
fn a_pipe_that_ends_within_a_frame_ends_with_the_frame_before() {
    for name in SAMPLES {
        let bytes = sample(name);
        let (_, whole) = frames(open(&bytes, 4096).expect(name));
        let cut = &bytes[..bytes.len() * 3 / 4];
        let (_, frames) = frames(open(cut, 4096).expect(name));
        assert!(frames.len() > 2 && frames.len() < whole.len(), "{name}");
        let mut pairs = frames.iter().zip(&whole);
        assert!(pairs.all(|(one, other)| one.data == other.data), "{name}");
    }
}

#[test]
fn a_second_recording_in_one_pipe_goes_on_behind_the_first() {
    let name = "h264-aac.flv";
    let first = sample(name);
    // Behind the header and its empty tag length: tags of 0 s on.
    let bytes = [&first[..], &first[13..]].concat();
    let once = frames(open(&first, 999).expect(name)).1.len();
    let mut demuxer = open(&bytes, 999).expect(name);
    let mut latest = [i64::MIN; 2];
    let mut count = 0;
    while let Some(frame) = demuxer.next_frame().expect("no damage") {
        let track = frame.track.get();
        assert!(frame.decode_time.nanos() >= latest[track]);
        latest[track] = frame.decode_time.nanos();
        count += 1;
    }
    assert!(count >= 2 * once - 2, "{count} of {}", 2 * once);
}

#[test]
fn a_second_file_in_one_pipe_is_read_as_one() {
    for (one, other) in [
        ("live.webm", "h264-aac-text.mkv"),
        ("mp3.flv", "h264-aac.flv"),
    ] {
        let bytes = [sample(one), sample(other)].concat();
        let mut demuxer = open(&bytes, 777).expect(one);
        let mut count = 0;
        while demuxer.next_frame().expect("no damage").is_some() {
            count += 1;
        }
        assert_eq!(count, frames(open(&sample(one), 777).expect(one)).1.len());
        let rest = demuxer.into_rest().expect("a second file");
        let demuxer = PipeDemuxer::open(Path::new("pipe"), rest, None).expect(other);
        let wanted = frames(open(&sample(other), 777).expect(other));
        let (tracks, found) = frames(demuxer);
        assert!((tracks, found) == wanted, "{other}");
        let mut alone = open(&sample(one), 777).expect(one);
        while alone.next_frame().expect("no damage").is_some() {}
        assert!(alone.into_rest().is_none());
    }
}

#[test]
fn what_cannot_be_played_from_a_pipe_is_refused_with_the_reason() {
    let refused = |bytes: &[u8]| open(bytes, 100).err().expect("refused").to_string();
    let mp4 = refused(&sample("h264-aac.mp4"));
    assert!(mp4.contains("(moov) may come last"), "{mp4}");
    assert!(mp4.contains("-f matroska"), "{mp4}");
    let avi = refused(&sample("mpeg4-mp3.avi"));
    assert!(
        avi.contains("an AVI file cannot be played from a pipe"),
        "{avi}"
    );
    assert!(refused(b"").contains("empty"));
    assert!(refused(b"hello, world").contains("no known format"));
    let head = &sample("live.webm")[..300];
    assert!(refused(head).contains("pipe"));
    let noise = vec![0x55; 40_000];
    assert!(refused(&noise).contains("no known format"));
}

#[test]
fn a_length_without_an_end_is_not_kept_in_memory() {
    let mut bytes = sample("live.webm");
    // A block that claims 256 TiB.
    bytes.extend([0xa3, 0x01, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe]);
    bytes.extend(vec![0x81; 40 << 20]);
    let mut demuxer = open(&bytes, 1 << 16).expect("VP8");
    let mut count = 0;
    while let Ok(Some(_)) = demuxer.next_frame() {
        count += 1;
    }
    assert!(count >= 49, "{count}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn damage_ends_a_pipe_or_is_passed(
        sample_place in 0..SAMPLES.len(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20),
        step in 1usize..5000,
    ) {
        let mut bytes = sample(SAMPLES[sample_place]);
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let played = |step| {
            let mut frames = Vec::new();
            if let Ok(mut demuxer) = open(&bytes, step) {
                while let Ok(Some(frame)) = demuxer.next_frame() {
                    frames.push(frame);
                }
            }
            frames
        };
        let frames = played(step);
        prop_assert!(frames.len() <= bytes.len());
        prop_assert!(frames == played(bytes.len()), "whatever the pieces");
    }
}
