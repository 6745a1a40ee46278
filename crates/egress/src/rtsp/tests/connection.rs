//! Tests of the writer of a player's connection.

use std::io::{self, IoSlice, Write};

use super::*;

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
    let mut stream = Stream::new(Bounds {
        bytes: 64 << 20,
        ..BOUNDS
    });
    for frame in 0..5 {
        // With both headers, a quarter of what one call writes.
        stream.push(VIDEO, frame, frame == 0, (64 << 10) - 16);
    }
    let mut client = Client::new(stream);
    let mut wire = Wire::with([Ok(1 << 20), Ok(1 << 20)]);
    assert!(matches!(client.pump(&mut wire, 300), WriteOutcome::Empty));
    assert_eq!(client.sent.calls, 2, "four frames, then one");
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

/// A client with keys of its own for the video.
fn sealed(stream: Stream) -> Client {
    let mut client = Client::new(stream);
    let ssrc = template(VIDEO).numbers.ssrc;
    let srtp = TrackSrtp::new(None, VIDEO, ssrc).expect("own keys");
    let srtp = Some(Box::new(srtp));
    let (media, control) = (0, 1);
    let channels = Channels { media, control };
    let transport = TrackTransport::Interleaved { channels, srtp };
    client.transports.set(VIDEO, transport);
    client
}

#[test]
fn sealed_frames_are_cut_nowhere_and_follow_the_responses() {
    let whole = {
        let mut client = sealed(clip());
        let mut wire = Wire::with([Ok(4096)]);
        assert!(matches!(client.pump(&mut wire, 110), WriteOutcome::Empty));
        assert_eq!(wire.parsed(), [0, 0, 0, 2, 3]);
        let Sent { bytes, packets, .. } = client.sent;
        assert_eq!((bytes, packets), (wire.taken.len() as u64, 5));
        assert_eq!(client.cursor.position(), 5);
        wire.taken.len()
    };
    let clear = 3 * 116 + 66 + 12;
    assert!(whole > clear, "with tags on the video");
    for room in (1..whole).step_by(29) {
        let mut client = sealed(clip());
        let mut wire = Wire::with([Ok(room)]);
        assert!(matches!(client.pump(&mut wire, 110), WriteOutcome::Full));
        client.writer.push(RESPONSE);
        client.stream.push(AUDIO, 115, true, 50);
        wire.rooms = vec![Ok(4096), Ok(4096), Ok(4096), Ok(1)];
        while !matches!(client.pump(&mut wire, 120), WriteOutcome::Empty) {}
        assert_eq!(wire.parsed(), [0, 0, 0, 2, 3, -1, 2], "after {room} bytes");
        assert_eq!(client.sent.packets, 6);
    }
}

#[test]
fn frames_are_sealed_64_kib_ahead_of_the_kernel() {
    let mut stream = Stream::new(Bounds {
        bytes: 64 << 20,
        ..BOUNDS
    });
    for frame in 0..9 {
        stream.push(VIDEO, frame, frame == 0, 10_000);
    }
    let mut client = sealed(stream);
    let mut wire = Wire::with([
        Err(io::ErrorKind::WouldBlock.into()),
        Ok(1 << 20),
        Ok(1 << 20),
    ]);
    assert!(matches!(client.pump(&mut wire, 20), WriteOutcome::Full));
    assert_eq!(client.cursor.position(), 7);
    assert!(matches!(client.pump(&mut wire, 20), WriteOutcome::Empty));
    assert_eq!(wire.parsed(), [0; 9]);
    assert_eq!((client.sent.calls, client.sent.packets), (3, 9));
}
