//! Tests of a stream's ring, of a player's position in it, and of the writer of its connection.

use std::io::{self, IoSlice, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use glassline_media::{Codec, MediaTime, Stamps, Track, TrackIndex, UnitBuilder, VideoParameters};

use super::cursor::{LagOutcome, TrackSet};
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
        self.ring.push_media(Arc::new(unit), template(track));
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
    stream.push(VIDEO, 11_001, false, 100);
    assert_eq!(stream.ring.keyframe(), None, "until it is 10 s old");
}

#[test]
fn entries_leave_by_size_which_counts_what_is_made_of_them() {
    let mut stream = Stream::new(Bounds {
        bytes: 100_000,
        ..BOUNDS
    });
    for frame in 0..50 {
        stream.push(VIDEO, frame, false, 10_000);
        assert!(stream.len() <= 4, "each takes 20,000 bytes and a little");
    }
    assert_eq!(stream.len(), 4);
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
fn a_player_gets_each_track_from_an_entry_that_a_decoder_can_start_with() {
    let mut stream = Stream::new(BOUNDS);
    stream.film(0, 2);
    stream.film(80, 2);
    let begin = |anchored| Cursor::begin(&stream.ring, both(), anchored, stream.start).position();
    assert_eq!((begin(true), begin(false)), (2, 4));
    let mut cursor = Cursor::begin_at(1, both(), stream.start);
    stream.report(AUDIO, 150);
    stream.push(AUDIO, 160, true, 50);
    stream.report(AUDIO, 170);
    let first_of = |cursor: &Cursor, track| {
        let entry = cursor.first_of(&stream.ring, track);
        entry.map(|entry| entry.at.duration_since(stream.start))
    };
    assert_eq!(first_of(&cursor, VIDEO), Some(ms(80)));
    assert_eq!(first_of(&cursor, AUDIO), Some(ms(160)));
    let taken: Vec<_> = stream
        .ring
        .since(0)
        .filter(|(_, entry)| cursor.takes(entry))
        .map(|(number, _)| number)
        .collect();
    // Entry 0 is a keyframe, too; the caller begins at the cursor's position.
    assert_eq!(
        taken,
        [0, 1, 2, 3, 5, 6],
        "no report before its track begins"
    );
    assert!(!cursor.is_waiting());
    let mut late = Cursor::begin_at(1, both(), stream.start);
    let taken: Vec<_> = stream.ring.since(1).map(|(_, it)| late.takes(it)).collect();
    assert_eq!(taken, [false, true, true, false, true, true]);
    let mut silent = Cursor::begin_at(0, [VIDEO].into_iter().collect(), stream.start);
    let taken = stream
        .ring
        .since(0)
        .filter(|(_, it)| silent.takes(it))
        .count();
    assert_eq!(taken, 4, "a track that is not set up is not sent");
}

#[test]
fn tracks_come_and_go_while_a_player_plays() {
    let mut stream = Stream::new(BOUNDS);
    stream.film(0, 2);
    stream.push(AUDIO, 80, true, 50);
    let video: TrackSet = [VIDEO].into_iter().collect();
    let mut cursor = Cursor::begin_at(0, video, stream.start);
    let takes = |cursor: &mut Cursor, number| cursor.takes(stream.ring.get(number).expect("there"));
    assert!(takes(&mut cursor, 0));
    assert!(!takes(&mut cursor, 2));
    cursor.add(both());
    assert!(cursor.is_waiting(), "the new track waits");
    assert!(takes(&mut cursor, 1), "the old one goes on");
    assert!(takes(&mut cursor, 2));
    assert!(!cursor.is_waiting());
    cursor.keep([AUDIO].into_iter().collect());
    assert!(!takes(&mut cursor, 0) && takes(&mut cursor, 2));
    cursor.add(both());
    cursor.keep([AUDIO].into_iter().collect());
    assert!(!cursor.is_waiting(), "what is dropped waits for nothing");
    let high = TrackIndex(TRACKS_MAX);
    let set: TrackSet = [high].into_iter().collect();
    assert!(set.is_empty() && !set.contains(high));
    let last = TrackIndex(TRACKS_MAX - 1);
    let set: TrackSet = [last].into_iter().collect();
    assert!(set.contains(last) && !set.contains(VIDEO));
}

#[test]
fn a_late_player_skips_to_a_keyframe_ahead_and_else_goes_on() {
    let mut stream = Stream::new(BOUNDS);
    stream.film(0, 5);
    let mut cursor = Cursor::begin_at(0, both(), stream.start);
    let (on_time, late) = (stream.at(500), stream.at(501));
    assert_eq!(cursor.lag(&stream.ring, on_time), ms(500));
    let checked = cursor.check_lag(&stream.ring, &BUDGET, on_time);
    assert_eq!(checked, LagOutcome::Steady);
    let checked = cursor.check_lag(&stream.ring, &BUDGET, late);
    assert_eq!(checked, LagOutcome::Steady, "no keyframe is ahead");
    assert_eq!(cursor.position(), 0);
    stream.push(AUDIO, 200, true, 50);
    stream.film(480, 2);
    cursor.pass_to(1);
    let mut video = Cursor::begin_at(1, [VIDEO].into_iter().collect(), stream.start);
    let checked = video.check_lag(&stream.ring, &BUDGET, stream.at(600));
    assert_eq!(checked, LagOutcome::Skipped(4), "audio was not to be sent");
    let checked = cursor.check_lag(&stream.ring, &BUDGET, stream.at(600));
    assert_eq!(checked, LagOutcome::Skipped(5));
    assert_eq!(
        (cursor.position(), cursor.skips(), cursor.skipped()),
        (6, 1, 5)
    );
    assert!(cursor.is_waiting());
    assert_eq!(cursor.lag(&stream.ring, stream.at(600)), Duration::ZERO);
    let checked = cursor.check_lag(&stream.ring, &BUDGET, stream.at(1_100));
    assert_eq!(checked, LagOutcome::Steady, "lag counts from the skip");
    let end = stream.ring.end();
    cursor.advance(end, &stream.ring);
    let lag = cursor.lag(&stream.ring, stream.at(5_000));
    assert_eq!(lag, Duration::ZERO, "nothing waits");
}

#[test]
fn a_player_whose_entry_is_gone_goes_on_at_the_keyframe_or_the_end() {
    let mut stream = Stream::new(Bounds {
        span: ms(100),
        ..BOUNDS
    });
    stream.film(0, 5);
    assert_eq!(stream.ring.first(), 2);
    let mut cursor = Cursor::begin_at(0, both(), stream.start);
    let checked = cursor.check_lag(&stream.ring, &BUDGET, stream.at(160));
    assert_eq!(
        checked,
        LagOutcome::Skipped(5),
        "two are gone, three waited"
    );
    assert_eq!(cursor.position(), 5);
    stream.film(200, 1);
    stream.push(VIDEO, 280, false, 100);
    stream.push(VIDEO, 299, false, 100);
    let mut cursor = Cursor::begin_at(0, both(), stream.start);
    let checked = cursor.check_lag(&stream.ring, &BUDGET, stream.at(299));
    assert_eq!(checked, LagOutcome::Skipped(5));
    assert_eq!(cursor.position(), 5, "the keyframe");
}

#[test]
fn a_player_that_skips_again_and_again_is_too_slow() {
    for catches_up in [true, false] {
        let mut stream = Stream::new(BOUNDS);
        stream.film(0, 1);
        let mut cursor = Cursor::begin_at(0, both(), stream.start);
        let mut outcomes = Vec::new();
        for round in 1..=3_u64 {
            stream.push(VIDEO, round * 1000, true, 100);
            let now = stream.at(round * 1000);
            if catches_up {
                let end = stream.ring.end();
                cursor.advance(end, &stream.ring);
                cursor.pass_to(end - 2);
            }
            let outcome = cursor.check_lag(&stream.ring, &BUDGET, now);
            outcomes.push(outcome);
        }
        let third = if catches_up {
            LagOutcome::Skipped(1)
        } else {
            LagOutcome::TooSlow
        };
        let skipped = LagOutcome::Skipped(1);
        assert_eq!(outcomes, [skipped, skipped, third], "{catches_up}");
    }
}

/// A connection that takes as many bytes as each of its calls allows, then no more.
#[derive(Default)]
struct Wire {
    taken: Vec<u8>,
    rooms: Vec<io::Result<usize>>,
}

impl Wire {
    fn with(rooms: impl IntoIterator<Item = io::Result<usize>>) -> Self {
        let mut rooms: Vec<_> = rooms.into_iter().collect();
        rooms.reverse();
        Self {
            taken: Vec::new(),
            rooms,
        }
    }

    /// Returns the channels of the frames, and -1 for each response; nothing may be cut.
    fn parsed(&self) -> Vec<i16> {
        let mut rest = &self.taken[..];
        let mut found = Vec::new();
        while let Some((&first, _)) = rest.split_first() {
            if first == b'$' {
                let length = usize::from(u16::from_be_bytes([rest[2], rest[3]]));
                found.push(i16::from(rest[1]));
                rest = &rest[4 + length..];
            } else {
                rest = rest.strip_prefix(RESPONSE).expect("a response");
                found.push(-1);
            }
        }
        found
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = self.rooms.pop();
        let room = room.unwrap_or(Err(io::ErrorKind::WouldBlock.into()))?;
        let taken = room.min(bytes.len());
        self.taken.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let all: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
        self.write(&all)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

const RESPONSE: &[u8] = b"RTSP/1.0 200 OK\r\n\r\n";

/// A client that plays both tracks within its connection.
struct Client {
    stream: Stream,
    cursor: Cursor,
    transports: TrackTransports,
    writer: ConnectionWriter,
    sent: Sent,
}

impl Client {
    fn new(stream: Stream) -> Self {
        let mut transports = TrackTransports::default();
        for track in [VIDEO, AUDIO] {
            let media = 2 * number(track);
            let channels = Channels {
                media,
                control: media + 1,
            };
            let transport = TrackTransport::Interleaved {
                channels,
                srtp: None,
            };
            transports.set(track, transport);
        }
        let cursor = Cursor::begin_at(stream.ring.first(), both(), stream.start);
        Self {
            stream,
            cursor,
            transports,
            writer: ConnectionWriter::default(),
            sent: Sent::default(),
        }
    }

    fn pump(&mut self, wire: &mut Wire, time: u64) -> WriteOutcome {
        let now = self.stream.at(time);
        let playing = Playing {
            ring: &mut self.stream.ring,
            cursor: &mut self.cursor,
            transports: &mut self.transports,
            budget: &BUDGET,
        };
        self.writer.pump(wire, Some(playing), now, &mut self.sent)
    }
}

/// Three frames of video, one of audio, and a report: 4 + 12 + 100 bytes each, 66, and 12.
fn clip() -> Stream {
    let mut stream = Stream::new(BOUNDS);
    stream.film(0, 3);
    stream.push(AUDIO, 100, true, 50);
    stream.report(AUDIO, 110);
    stream
}

#[test]
fn responses_stand_between_frames_wherever_the_kernel_stopped() {
    let all = 3 * 116 + 66 + 12;
    for room in 1..all {
        let mut client = Client::new(clip());
        let mut wire = Wire::with([Ok(room)]);
        assert!(matches!(client.pump(&mut wire, 110), WriteOutcome::Full));
        assert_eq!((wire.taken.len(), client.sent.calls), (room, 1));
        client.writer.push(RESPONSE);
        assert_eq!(client.writer.between_bytes(), RESPONSE.len());
        // Byte by byte, and then the rest.
        wire.rooms = vec![Ok(4096), Ok(7), Ok(1), Ok(1)];
        while !matches!(client.pump(&mut wire, 120), WriteOutcome::Empty) {}
        assert_eq!(client.writer.between_bytes(), 0);
        let found = wire.parsed();
        let frames: Vec<_> = found.iter().copied().filter(|it| *it >= 0).collect();
        assert_eq!(frames, [0, 0, 0, 2, 3], "after {room} bytes");
        let place = found.iter().position(|it| *it < 0);
        let begins = [0, 116, 232, 348, 414];
        let expected = begins.iter().filter(|begin| **begin < room).count();
        assert_eq!(place, Some(expected), "at once after {room} bytes");
        assert_eq!(client.sent.packets, 5);
        assert_eq!(client.sent.bytes, (all + RESPONSE.len()) as u64);
    }
}

#[test]
fn a_response_to_a_client_that_does_not_play_is_written_alone() {
    let mut writer = ConnectionWriter::default();
    let mut sent = Sent::default();
    writer.push(RESPONSE);
    let now = Instant::now();
    let mut wire = Wire::with([Err(io::ErrorKind::Interrupted.into()), Ok(5)]);
    let ended = writer.pump(&mut wire, None, now, &mut sent);
    assert!(matches!(ended, WriteOutcome::Full));
    assert_eq!(writer.between_bytes(), RESPONSE.len() - 5);
    wire.rooms.push(Ok(100));
    let ended = writer.pump(&mut wire, None, now, &mut sent);
    assert!(matches!(ended, WriteOutcome::Empty));
    assert_eq!(wire.taken, RESPONSE);
    assert_eq!((sent.bytes, sent.packets), (RESPONSE.len() as u64, 0));
    let calls = sent.calls;
    let ended = writer.pump(&mut wire, None, now, &mut sent);
    assert!(matches!(ended, WriteOutcome::Empty));
    assert_eq!(sent.calls, calls, "nothing to write");
}

#[test]
fn one_call_writes_at_most_sixteen_frames() {
    let mut stream = Stream::new(BOUNDS);
    stream.film(0, 40);
    let mut client = Client::new(stream);
    let mut wire = Wire::with([Ok(1 << 20), Ok(1 << 20), Ok(1 << 20)]);
    assert!(matches!(client.pump(&mut wire, 300), WriteOutcome::Empty));
    assert_eq!(wire.parsed().len(), 40);
    assert_eq!((client.sent.calls, client.sent.packets), (3, 40));
    assert_eq!(client.cursor.position(), 40);
}

#[test]
fn one_call_writes_little_more_than_a_quarter_of_a_megabyte() {
    let mut stream = Stream::new(Bounds {
        bytes: 64 << 20,
        ..BOUNDS
    });
    for frame in 0..9 {
        stream.push(VIDEO, frame, frame == 0, 60_000);
    }
    let mut client = Client::new(stream);
    let mut wire = Wire::with([Ok(1 << 20), Ok(1 << 20)]);
    assert!(matches!(client.pump(&mut wire, 300), WriteOutcome::Empty));
    assert_eq!(client.sent.calls, 2, "five frames, then four");
    assert_eq!(wire.parsed().len(), 9);
}

#[test]
fn a_failed_connection_and_a_client_that_is_too_slow_are_told_apart() {
    let broken = |error: io::Result<usize>| {
        let mut client = Client::new(clip());
        let ended = client.pump(&mut Wire::with([error]), 110);
        match ended {
            WriteOutcome::Broken(error) => error.kind(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(broken(Ok(0)), io::ErrorKind::WriteZero);
    let reset = io::ErrorKind::ConnectionReset;
    assert_eq!(broken(Err(reset.into())), reset);
    let mut client = Client::new(clip());
    let mut outcomes = Vec::new();
    for round in 1..=3 {
        client.stream.film(round * 1000, 1);
        // The ring keeps what is before the keyframe for a second.
        outcomes.push(client.pump(&mut Wire::default(), round * 1000));
    }
    let full = |it: &WriteOutcome| matches!(it, WriteOutcome::Full);
    assert!(full(&outcomes[0]) && full(&outcomes[1]), "{outcomes:?}");
    assert!(matches!(outcomes[2], WriteOutcome::TooSlow), "{outcomes:?}");
    assert_eq!((client.sent.skips, client.cursor.skips()), (2, 3));
    assert_eq!(client.sent.skipped, 5 + 1);
}

#[test]
fn a_partial_frame_is_finished_even_if_the_client_skips() {
    let mut client = Client::new(clip());
    let mut wire = Wire::with([Ok(150)]);
    assert!(matches!(client.pump(&mut wire, 110), WriteOutcome::Full));
    client.stream.film(1_000, 1);
    wire.rooms.push(Ok(4096));
    assert!(matches!(client.pump(&mut wire, 1_000), WriteOutcome::Empty));
    assert_eq!(wire.parsed(), [0, 0, 0], "two frames, and the keyframe");
    assert_eq!((client.sent.skips, client.sent.skipped), (1, 3));
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
