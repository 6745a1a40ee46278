//! Tests of a stream's ring, of a player's position in it ([`player`]), of the writers of its
//! connection ([`connection`]) and of its datagrams ([`datagrams`]), and of the stream's reader
//! ([`reader`]).

mod connection;
mod datagrams;
mod player;
mod reader;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use glassline_media::{Codec, MediaTime, Stamps, Track, TrackIndex, UnitBuilder, VideoParameters};

use super::cursor::TrackSet;
use super::framing::HeaderTemplate;
use super::*;

const VIDEO: TrackIndex = TrackIndex(0);
const AUDIO: TrackIndex = TrackIndex(1);

const BOUNDS: Bounds = Bounds {
    bytes: 1 << 20,
    span: Duration::from_secs(10),
    lag: Duration::from_secs(1),
};

const BUDGET: Budget = Budget {
    lag: Duration::from_millis(500),
    stall: Duration::from_secs(5),
    skips_in_a_row: 2,
};

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// A stream of video and audio, whose entries have times in ms since its start.
struct Stream {
    ring: Ring,
    start: Instant,
}

impl Stream {
    fn new(bounds: Bounds) -> Self {
        Self {
            ring: Ring::new(VIDEO, bounds),
            start: Instant::now(),
        }
    }

    fn at(&self, time: u64) -> Instant {
        self.start + ms(time)
    }

    fn push(&mut self, track: TrackIndex, time: u64, keyframe: bool, bytes: usize) {
        self.push_part(track, time, keyframe, bytes, true);
    }

    /// Pushes a unit; `first`: whether it is the first one of its frame.
    fn push_part(
        &mut self,
        track: TrackIndex,
        time: u64,
        keyframe: bool,
        bytes: usize,
        first: bool,
    ) {
        let mut builder = UnitBuilder::default();
        builder.push(&vec![number(track); bytes]);
        let media_time = MediaTime::from_ticks(i64::try_from(time).expect("soon"), 1_000);
        let stamps = Stamps::arrived(self.at(time));
        let unit = builder.build(track, media_time, keyframe, stamps);
        let mut unit = unit.expect("a packet");
        unit.first = first;
        unit.first_packet = self.ring.end();
        self.ring.push_media(&Arc::new(unit), template(track));
    }

    fn report(&mut self, track: TrackIndex, time: u64) {
        let now = self.at(time);
        let packet = Bytes::from_static(&[0x80, 200, 0, 1, 0, 0, 0, 9]);
        self.ring.push_report(track, packet, template(track), now);
    }

    /// A frame of video each 40 ms from `from` on, the first one a keyframe.
    fn film(&mut self, from: u64, frames: u64) {
        for frame in 0..frames {
            self.push(VIDEO, from + frame * 40, frame == 0, 100);
        }
    }

    fn len(&self) -> u64 {
        self.ring.end() - self.ring.first()
    }
}

fn template(track: TrackIndex) -> HeaderTemplate {
    let described = match track {
        VIDEO => Track::h264(VideoParameters::default()),
        _ => Track::audio(Codec::Opus, 2),
    };
    let numbers = NumberKeys::default().track("cam", track);
    HeaderTemplate::new(&described, track, numbers)
}

fn number(track: TrackIndex) -> u8 {
    u8::try_from(track.get()).expect("few tracks")
}

fn both() -> TrackSet {
    [VIDEO, AUDIO].into_iter().collect()
}

#[test]
fn entries_are_numbered_without_gaps() {
    let mut stream = Stream::new(BOUNDS);
    assert_eq!((stream.ring.first(), stream.ring.end()), (0, 0));
    assert!(stream.ring.get(0).is_none());
    stream.film(0, 3);
    stream.push(AUDIO, 100, true, 50);
    stream.report(AUDIO, 110);
    assert_eq!((stream.ring.first(), stream.ring.end()), (0, 5));
    let tracks: Vec<_> = stream
        .ring
        .since(2)
        .map(|(at, it)| (at, it.track()))
        .collect();
    assert_eq!(tracks, [(2, VIDEO), (3, AUDIO), (4, AUDIO)]);
    let entry = stream.ring.get(4).expect("the report");
    assert!(entry.is_report() && !entry.is_start() && entry.unit().is_none());
    assert!(stream.ring.get(0).expect("a keyframe").is_start());
    assert!(!stream.ring.get(1).expect("another frame").is_start());
    assert!(stream.ring.get(5).is_none());
    assert_eq!(stream.ring.since(9).count(), 0);
}

#[test]
fn players_begin_with_the_first_unit_of_the_newest_keyframe() {
    let mut stream = Stream::new(BOUNDS);
    stream.push(AUDIO, 0, true, 50);
    assert_eq!(stream.ring.keyframe(), None, "audio is not the anchor");
    stream.film(10, 3);
    assert_eq!(stream.ring.keyframe(), Some(1));
    stream.push_part(VIDEO, 130, true, 100, true);
    stream.push_part(VIDEO, 131, true, 100, false);
    assert_eq!(stream.ring.keyframe(), Some(4), "not with its second unit");
    stream.ring.set_anchor(VIDEO);
    assert_eq!(stream.ring.keyframe(), Some(4), "the same anchor");
    stream.ring.set_anchor(AUDIO);
    assert_eq!(stream.ring.anchor(), AUDIO);
    assert_eq!(stream.ring.keyframe(), None, "none since");
    stream.push(AUDIO, 140, true, 50);
    assert_eq!(stream.ring.keyframe(), Some(6));
}

#[test]
fn entries_leave_by_age_and_the_newest_stays() {
    let mut stream = Stream::new(BOUNDS);
    for second in 0..=10 {
        stream.push(VIDEO, second * 1000, false, 100);
    }
    assert_eq!(stream.ring.first(), 0, "10 s are kept");
    stream.push(VIDEO, 10_001, false, 100);
    assert_eq!(stream.ring.first(), 1, "and no longer");
    stream.push(VIDEO, 60_000, false, 100);
    assert_eq!(stream.len(), 1, "the newest");
}

#[test]
fn entries_before_the_keyframe_leave_once_no_player_may_lag_as_far() {
    let mut stream = Stream::new(BOUNDS);
    stream.push(VIDEO, 0, true, 100);
    stream.push(VIDEO, 500, false, 100);
    stream.push(VIDEO, 1_000, true, 100);
    assert_eq!(stream.ring.first(), 0, "1 s behind is not too late");
    stream.push(VIDEO, 1_001, false, 100);
    assert_eq!(stream.ring.first(), 1);
    stream.push(VIDEO, 1_501, false, 100);
    assert_eq!(stream.ring.first(), 2);
    stream.push(VIDEO, 9_000, false, 100);
    assert_eq!(stream.ring.first(), 2, "the keyframe itself stays");
    assert_eq!(stream.ring.keyframe(), Some(2));
    stream.push(VIDEO, 90_000, false, 100);
    assert_eq!(stream.ring.keyframe(), Some(2), "however old");
    assert!(stream.ring.lacks_recent_keyframe(stream.at(90_000)));
    assert!(!stream.ring.lacks_recent_keyframe(stream.at(9_000)));
    assert_eq!(stream.ring.end(), 7, "with what follows");
}

#[test]
fn entries_leave_by_size_which_counts_what_is_made_of_them() {
    let mut stream = Stream::new(Bounds {
        bytes: 100_000,
        ..BOUNDS
    });
    for frame in 0..50 {
        stream.push(VIDEO, frame, false, 10_000);
        assert!(stream.len() <= 9, "each takes 10,000 bytes and a little");
    }
    assert_eq!(stream.len(), 9);
    // For a client by UDP, and for clients by TCP with two channels.
    for number in stream.ring.first()..stream.ring.end() {
        stream.ring.prepare_datagrams(number);
        stream.ring.prepare(number, 0);
        stream.ring.prepare(number, 0);
        stream.ring.prepare(number, 6);
    }
    stream.push(VIDEO, 55, false, 10_000);
    assert_eq!(stream.len(), 3, "those with made bytes take 40,000 each");
    stream.push(VIDEO, 60, false, 200_000);
    assert_eq!(stream.len(), 1, "the newest stays, whatever its size");
    for frame in 0..50 {
        stream.push(VIDEO, 70 + frame, false, 100);
    }
    assert_eq!(stream.len(), 50, "nothing stays counted");
}

#[test]
fn the_bytes_of_an_entry_are_made_once_for_each_channel() {
    let mut stream = Stream::new(BOUNDS);
    stream.film(0, 1);
    stream.report(VIDEO, 10);
    assert!(
        stream
            .ring
            .get(0)
            .expect("a frame")
            .interleaved(0)
            .is_none()
    );
    let made = |stream: &mut Stream, number, channel| {
        stream.ring.prepare(number, channel);
        let entry = stream.ring.get(number).expect("an entry");
        entry.interleaved(channel).expect("made").clone()
    };
    let first = made(&mut stream, 0, 0);
    let again = made(&mut stream, 0, 0);
    assert_eq!(first.as_ptr(), again.as_ptr());
    let other = made(&mut stream, 0, 6);
    assert_eq!(
        (first[..2].to_vec(), other[..2].to_vec()),
        (vec![b'$', 0], vec![b'$', 6])
    );
    assert_eq!(first[2..], other[2..]);
    assert_eq!(made(&mut stream, 0, 0).as_ptr(), first.as_ptr());
    let report = made(&mut stream, 1, 1);
    assert_eq!(report[..], [b'$', 1, 0, 8, 0x80, 200, 0, 1, 0, 0, 0, 9]);
    assert!(stream.ring.get(1).expect("a report").datagrams().is_none());
    stream.ring.prepare_datagrams(1);
    let datagrams = stream
        .ring
        .get(1)
        .and_then(|it| it.datagrams())
        .expect("made");
    assert_eq!(datagrams.len(), 8);
    stream.ring.prepare_datagrams(0);
    let datagrams = stream
        .ring
        .get(0)
        .and_then(|it| it.datagrams())
        .expect("made");
    assert_eq!(datagrams.len(), first.len() - 4);
}

#[test]
fn sealed_frames_of_one_client_are_made_in_memory_of_their_exact_size() {
    let mut stream = Stream::new(BOUNDS);
    stream.push(VIDEO, 0, true, 1000);
    let mut srtp = TrackSrtp::new(None, VIDEO, template(VIDEO).numbers.ssrc).expect("own keys");
    let mut out = Vec::new();
    let entry = stream.ring.get(0).expect("a frame");
    entry.seal_interleaved(&mut srtp, 2, &mut out);
    assert_eq!(out[..2], [b'$', 2]);
    let length = usize::from(u16::from_be_bytes([out[2], out[3]]));
    assert_eq!(out.len(), 4 + length);
    assert!(length > 12 + 1000, "with a tag");
    assert_eq!(out.capacity(), out.len());
    let datagrams = entry.seal_datagrams(&mut srtp);
    assert_eq!((datagrams.len(), datagrams.count()), (length, 1));
    let sizes: Vec<_> = datagrams
        .runs()
        .map(|(bytes, size)| (bytes.len(), size))
        .collect();
    assert_eq!(sizes, [(length, length)]);
}
