//! Tests of the writer of datagrams.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};

use glassline_net::{SendError, Transmit};
use glassline_runtime::{Key, Slots};

use super::*;
use crate::rtsp::datagram_writer::DatagramSink;

/// Sockets that stop calls at an error, and then take everything.
#[derive(Debug, Default)]
struct Sockets {
    /// Of each call: how many messages are taken before the error.
    stops: RefCell<VecDeque<(usize, SendError)>>,
    /// Of each message: whether it went to the port of reports, its destination and its size.
    taken: RefCell<Vec<(bool, SocketAddr, usize)>>,
}

impl DatagramSink for Sockets {
    fn send_batch(&self, is_report: bool, transmits: &[Transmit<'_>]) -> glassline_net::Sent {
        let stop = self.stops.borrow_mut().pop_front();
        let (count, stopped) = match stop {
            Some((count, error)) => (count, Some(error)),
            None => (transmits.len(), None),
        };
        let taken = &transmits[..count];
        for it in taken {
            let message = (is_report, it.destination, it.contents.len());
            self.taken.borrow_mut().push(message);
        }
        glassline_net::Sent {
            transmits: count,
            offset: 0,
            bytes: taken.iter().map(|it| it.contents.len()).sum(),
            stopped,
        }
    }
}

/// A client that plays tracks by UDP.
struct Viewer {
    key: Key,
    transports: TrackTransports,
    cursor: Cursor,
    paced_until: Option<Instant>,
    bytes: u64,
}

/// Address of a client's port: media of a track, or the port of its reports above.
fn port(track: TrackIndex, is_report: bool) -> SocketAddr {
    let port = 5000 + 2 * u16::from(number(track)) + u16::from(is_report);
    (Ipv4Addr::LOCALHOST, port).into()
}

fn transport(track: TrackIndex, srtp: Option<Box<TrackSrtp>>) -> TrackTransport {
    let addresses = UdpAddresses {
        media: port(track, false),
        control: port(track, true),
    };
    TrackTransport::Udp { addresses, srtp }
}

struct Scene {
    stream: Stream,
    writer: DatagramWriter<Sockets>,
    viewers: Slots<()>,
    counters: SendCounters,
    sent: Sent,
}

impl Scene {
    fn new(stream: Stream) -> Self {
        Self {
            stream,
            writer: DatagramWriter::new(Sockets::default()),
            viewers: Slots::default(),
            counters: SendCounters::default(),
            sent: Sent::default(),
        }
    }

    fn viewer(&mut self, tracks: &[TrackIndex]) -> Viewer {
        let mut transports = TrackTransports::default();
        for track in tracks {
            transports.set(*track, transport(*track, None));
        }
        Viewer {
            key: self.viewers.insert(()),
            transports,
            cursor: Cursor::begin_at(0, tracks.iter().copied().collect(), self.stream.start),
            paced_until: None,
            bytes: 0,
        }
    }

    fn plan(&mut self, viewer: &mut Viewer, time: u64) -> bool {
        let now = self.stream.at(time);
        let recipient = Recipient {
            client: viewer.key,
            from: None,
            transports: &mut viewer.transports,
            cursor: &mut viewer.cursor,
            paced_until: &mut viewer.paced_until,
            bytes: &mut viewer.bytes,
        };
        let ring = &mut self.stream.ring;
        let sent = &mut self.sent;
        self.writer.plan(recipient, ring, &BUDGET, now, sent)
    }

    /// Sends what is planned; returns the entries that clients must begin again at.
    fn flush(&mut self) -> Vec<(Key, u64)> {
        let mut left = Vec::new();
        let (ring, sent) = (&self.stream.ring, &mut self.sent);
        self.writer.flush(ring, &self.counters, sent, &mut left);
        left
    }

    fn stop(&self, taken: usize, error: SendError) {
        let stops = &self.writer.sockets.stops;
        stops.borrow_mut().push_back((taken, error));
    }

    /// Takes the messages that the sockets took since the last call.
    fn taken(&self) -> Vec<(bool, SocketAddr, usize)> {
        self.writer.sockets.taken.take()
    }
}

/// Two frames of video in 112 bytes each, audio in 62 bytes, and a report of 8 bytes on it.
fn clip() -> Stream {
    let mut stream = Stream::new(BOUNDS);
    stream.film(0, 2);
    stream.push(AUDIO, 90, true, 50);
    stream.report(AUDIO, 95);
    stream
}

#[test]
fn media_and_reports_go_to_the_ports_of_their_track() {
    let mut scene = Scene::new(clip());
    let mut viewer = scene.viewer(&[VIDEO, AUDIO]);
    assert!(scene.plan(&mut viewer, 100));
    assert!(!scene.writer.is_ripe());
    assert_eq!(scene.flush(), []);
    let video = (false, port(VIDEO, false), 112);
    let audio = (false, port(AUDIO, false), 62);
    let report = (true, port(AUDIO, true), 8);
    assert_eq!(scene.taken(), [video, video, audio, report]);
    let Sent {
        packets,
        bytes,
        calls,
        ..
    } = scene.sent;
    assert_eq!((packets, bytes, calls), (4, 294, 2));
    assert_eq!((viewer.bytes, viewer.paced_until), (294, None));
    assert_eq!(viewer.cursor.position(), 4);
    assert_eq!(scene.flush(), []);
    assert_eq!(scene.taken(), [], "once");
    let mut listener = scene.viewer(&[AUDIO]);
    assert!(scene.plan(&mut listener, 100));
    scene.flush();
    assert_eq!(scene.taken(), [audio, report]);
    assert_eq!(listener.bytes, 70);
}

#[test]
fn a_client_gets_48_kib_at_a_time() {
    let mut stream = Stream::new(BOUNDS);
    for frame in 0..9 {
        // With the header of RTP, a quarter of a chunk.
        stream.push(VIDEO, frame, frame == 0, (12 << 10) - 12);
    }
    let mut scene = Scene::new(stream);
    let mut viewer = scene.viewer(&[VIDEO]);
    let mut sizes = Vec::new();
    for time in [10, 14, 18] {
        viewer.paced_until = None;
        assert!(scene.plan(&mut viewer, time));
        scene.flush();
        let is_paced = viewer.paced_until.map(|at| at - scene.stream.at(time));
        sizes.push((scene.taken().len(), is_paced));
    }
    assert_eq!(sizes, [(4, Some(ms(4))), (4, Some(ms(4))), (1, None)]);
    assert_eq!(viewer.bytes, 9 * (12 << 10));
}

/// Pushes a keyframe of 100 packets, 1,212 bytes each with the header of RTP.
fn push_large_keyframe(stream: &mut Stream, time: u64) {
    let mut builder = UnitBuilder::default();
    for _ in 0..100 {
        builder.push(&[1; 1200]);
    }
    let media_time = MediaTime::from_ticks(i64::try_from(time).expect("soon"), 1_000);
    let unit = builder.build(VIDEO, media_time, true, Stamps::arrived(stream.at(time)));
    let unit = Arc::new(unit.expect("packets"));
    stream.ring.push_media(&unit, template(VIDEO));
}

#[test]
fn a_keyframe_of_megabytes_does_not_overflow_the_receivers_buffer() {
    let mut stream = Stream::new(BOUNDS);
    push_large_keyframe(&mut stream, 0);
    stream.push(AUDIO, 1, true, 50);
    let mut scene = Scene::new(stream);
    let mut viewer = scene.viewer(&[VIDEO, AUDIO]);
    let mut sizes = Vec::new();
    for time in [1, 5, 9, 13] {
        viewer.paced_until = None;
        assert!(scene.plan(&mut viewer, time));
        assert_eq!(scene.flush(), []);
        let taken = scene.taken();
        sizes.push(taken.iter().map(|(_, _, size)| size).sum::<usize>());
    }
    assert_eq!(sizes, [40 * 1212, 40 * 1212, 20 * 1212 + 62, 0]);
    assert_eq!(scene.sent.packets, 101);
}

#[test]
fn a_client_that_lags_gets_larger_chunks_and_finishes_its_frame_before_it_skips() {
    let mut stream = Stream::new(BOUNDS);
    push_large_keyframe(&mut stream, 0);
    let mut scene = Scene::new(stream);
    let mut viewer = scene.viewer(&[VIDEO]);
    assert!(scene.plan(&mut viewer, 0));
    assert_eq!(viewer.bytes, 40 * 1212);
    push_large_keyframe(&mut scene.stream, 600);
    viewer.paced_until = None;
    // The lag of 600 ms is beyond the budget, and worth two doublings.
    assert!(scene.plan(&mut viewer, 600));
    assert_eq!(scene.sent.skips, 0);
    assert_eq!((viewer.bytes, viewer.paced_until), (200 * 1212, None));
    let mut late = scene.viewer(&[VIDEO]);
    assert!(scene.plan(&mut late, 600));
    assert_eq!((scene.sent.skips, scene.sent.skipped), (1, 1), "one frame");
}

#[test]
fn thirty_two_messages_are_worth_a_call() {
    let mut stream = Stream::new(BOUNDS);
    stream.film(0, 16);
    let mut scene = Scene::new(stream);
    let mut viewers = [0; 3].map(|_| scene.viewer(&[VIDEO]));
    let ripe = viewers.each_mut().map(|viewer| {
        scene.plan(viewer, 620);
        scene.writer.is_ripe()
    });
    assert_eq!(ripe, [false, true, true]);
    scene.flush();
    assert_eq!((scene.sent.calls, scene.sent.packets), (2, 48));
}

#[test]
fn a_client_that_lags_skips_and_is_given_up_in_the_end() {
    let mut scene = Scene::new(Stream::new(BOUNDS));
    let mut viewer = scene.viewer(&[VIDEO]);
    let planned = [0, 1_000, 2_000, 3_000].map(|time| {
        // A keyframe fills a chunk, so that the frame behind the keyframe is late.
        scene.stream.push(VIDEO, time, true, 50_000);
        scene.stream.push(VIDEO, time + 1, false, 50_000);
        scene.plan(&mut viewer, time + 1)
    });
    assert_eq!(planned, [true, true, true, false]);
    assert_eq!((scene.sent.skips, scene.sent.skipped), (2, 2));
}

#[test]
fn datagrams_that_the_kernel_does_not_take_are_told_with_the_first_entry_of_each_client_last() {
    for error in [|| SendError::WouldBlock, || SendError::NoBuffers] {
        let mut stream = Stream::new(BOUNDS);
        stream.film(0, 3);
        let mut scene = Scene::new(stream);
        let mut viewers = [0; 2].map(|_| scene.viewer(&[VIDEO]));
        for viewer in &mut viewers {
            assert!(scene.plan(viewer, 120));
        }
        scene.stop(1, error());
        let [one, two] = viewers.each_ref().map(|it| it.key);
        let left = [(two, 2), (two, 1), (two, 0), (one, 2), (one, 1)];
        assert_eq!(scene.flush(), left);
        assert_eq!(scene.taken().len(), 1);
        assert!(scene.writer.is_full());
        assert_eq!(scene.counters.socket_full.get(), 1);
        assert_eq!((scene.sent.calls, scene.sent.bytes), (1, 112));
        assert_eq!(scene.flush(), []);
        assert_eq!(scene.taken(), [], "the clients begin again");
        scene.writer.unblock();
        assert!(!scene.writer.is_full());
    }
}

#[test]
fn packets_that_could_not_be_sent_do_not_count_and_neither_do_reports() {
    let mut scene = Scene::new(clip());
    let mut viewer = scene.viewer(&[VIDEO, AUDIO]);
    assert!(scene.plan(&mut viewer, 100));
    assert_eq!(viewer.cursor.packets(), 3);
    scene.stop(1, SendError::WouldBlock);
    for (_, entry) in scene.flush() {
        if entry < viewer.cursor.position() {
            viewer.cursor.return_to(entry, &scene.stream.ring);
        }
    }
    assert_eq!((viewer.cursor.packets(), viewer.cursor.position()), (1, 1));
    scene.writer.unblock();
    assert!(scene.plan(&mut viewer, 100));
    assert_eq!(viewer.cursor.packets(), 3);
}

#[test]
fn a_unit_in_several_messages_is_told_once() {
    let mut stream = Stream::new(BOUNDS);
    let mut builder = UnitBuilder::default();
    builder.push(&[1; 100]);
    builder.push(&[2; 200]);
    let stamps = Stamps::arrived(stream.at(0));
    let unit = builder.build(VIDEO, MediaTime::ZERO, true, stamps);
    let unit = Arc::new(unit.expect("packets"));
    stream.ring.push_media(&unit, template(VIDEO));
    let mut scene = Scene::new(stream);
    let mut viewer = scene.viewer(&[VIDEO]);
    scene.plan(&mut viewer, 0);
    scene.stop(0, SendError::WouldBlock);
    assert_eq!(scene.flush(), [(viewer.key, 0)]);
    viewer.cursor.pass_to(0);
    scene.plan(&mut viewer, 0);
    scene.flush();
    let sizes: Vec<_> = scene.taken().iter().map(|(_, _, size)| *size).collect();
    assert_eq!(sizes, [112, 212]);
}

#[test]
fn sealed_datagrams_wait_in_the_writer() {
    let mut scene = Scene::new(clip());
    let mut viewer = scene.viewer(&[AUDIO]);
    let ssrc = template(VIDEO).numbers.ssrc;
    let srtp = TrackSrtp::new(None, VIDEO, ssrc).expect("own keys");
    let first = srtp.next_sequence();
    let transport = transport(VIDEO, Some(Box::new(srtp)));
    viewer.transports.set(VIDEO, transport);
    viewer.cursor.add(both());
    assert!(scene.plan(&mut viewer, 100));
    scene.stop(0, SendError::WouldBlock);
    let left = scene.flush();
    assert_eq!(left, [(viewer.key, 2)], "only what is not sealed");
    scene.flush();
    let taken = scene.taken();
    let sealed: Vec<_> = taken
        .iter()
        .filter(|it| it.1 == port(VIDEO, false))
        .collect();
    assert_eq!(sealed.len(), 2);
    assert!(sealed.iter().all(|it| it.2 > 112), "{sealed:?}");
    let srtp = viewer.transports.get(VIDEO).and_then(TrackTransport::srtp);
    let next = srtp.expect("kept").next_sequence();
    assert_eq!(next, first.wrapping_add(2), "sealed once");
    viewer.cursor.pass_to(0);
    scene.plan(&mut viewer, 100);
    scene.stop(0, SendError::WouldBlock);
    scene.flush();
    scene.writer.discard();
    assert!(!scene.writer.is_full());
    scene.taken();
    scene.flush();
    assert_eq!(scene.taken(), []);
}

#[test]
fn a_refusal_is_about_an_earlier_datagram_until_there_are_too_many() {
    for (refusals, kept, lost) in [(1, 2, 0), (32, 2, 0), (33, 1, 1)] {
        let mut stream = Stream::new(BOUNDS);
        stream.film(0, 2);
        let mut scene = Scene::new(stream);
        let mut viewer = scene.viewer(&[VIDEO]);
        assert!(scene.plan(&mut viewer, 80));
        for _ in 0..refusals {
            scene.stop(0, SendError::Refused);
        }
        assert_eq!(scene.flush(), []);
        assert_eq!(scene.taken().len(), kept, "{refusals} refusals");
        assert_eq!(scene.counters.unsendable.get(), lost);
        let refused = scene.counters.peer_refused.get();
        assert_eq!(refused, refusals - lost);
        assert!(!scene.writer.is_full());
    }
    let mut stream = Stream::new(BOUNDS);
    stream.film(0, 3);
    let mut scene = Scene::new(stream);
    let mut viewer = scene.viewer(&[VIDEO]);
    scene.plan(&mut viewer, 120);
    scene.stop(0, SendError::TooLarge);
    scene.stop(0, SendError::Unreachable);
    assert_eq!(scene.flush(), []);
    assert_eq!(scene.taken().len(), 1);
    assert_eq!(scene.counters.unsendable.get(), 2);
}

/// A frame in packets of a usual size.
fn push_frame(stream: &mut Stream, time: u64, keyframe: bool, packets: usize) {
    let mut builder = UnitBuilder::default();
    for _ in 0..packets {
        builder.push(&[7; 1_200]);
    }
    let media_time = MediaTime::from_ticks(i64::try_from(time).expect("soon"), 1_000);
    let stamps = Stamps::arrived(stream.at(time));
    let unit = builder.build(VIDEO, media_time, keyframe, stamps);
    let unit = Arc::new(unit.expect("packets"));
    stream.ring.push_media(&unit, template(VIDEO));
}

/// Plays two keyframes of 8 MB within 0.2 s, and small frames after them, from a ring of `bytes`.
/// Returns the datagrams that the viewer got, and how often it skipped.
fn play_two_large_keyframes(bytes: usize) -> (usize, u64) {
    let bounds = Bounds { bytes, ..BOUNDS };
    let mut scene = Scene::new(Stream::new(bounds));
    let mut viewer = scene.viewer(&[VIDEO]);
    let mut datagrams = 0;
    for time in (0..3_000).step_by(4) {
        match time {
            0 | 160 => push_frame(&mut scene.stream, time, true, KEYFRAME_PACKETS),
            _ if time % 40 == 0 => push_frame(&mut scene.stream, time, false, 1),
            _ => {}
        }
        assert!(scene.plan(&mut viewer, time), "the viewer stays");
        assert!(scene.flush().is_empty());
        let taken = scene.taken();
        let sizes = taken.iter().map(|(_, _, bytes)| bytes);
        datagrams += sizes.sum::<usize>() / (1_200 + 12);
    }
    (datagrams, scene.sent.skips)
}

/// Packets of a keyframe of 8 MB.
const KEYFRAME_PACKETS: usize = 8_000_000 / 1_200;

#[test]
fn two_keyframes_of_8_mb_within_a_fifth_of_a_second_reach_a_viewer_whole() {
    // Those of 0 and 160 ms are keyframes.
    let small = 3_000 / 40 - 2;
    let (datagrams, skips) = play_two_large_keyframes(25 << 20);
    assert_eq!((datagrams, skips), (2 * KEYFRAME_PACKETS + small, 0));
    // A ring that cannot hold both makes the viewer skip to the second, which is counted.
    let (datagrams, skips) = play_two_large_keyframes(12 << 20);
    assert_eq!(skips, 1);
    assert!(datagrams < 2 * KEYFRAME_PACKETS, "{datagrams}");
}
