//! A viewer behind a TCP connection: whole frames, in order, in few writes, and frames that are
//! skipped while it does not read.

use std::io::Read;
use std::net::{TcpListener, TcpStream};

use glassline_webrtc::framing::FrameReader;
use glassline_webrtc::{Received, TransportAddress};

use super::*;
use crate::webrtc::outbox::{Route, TcpConnection};

const FRAME: [usize; 11] = [1100; 11];
const KEYFRAME: [usize; 65] = [1100; 65];

/// Interval of the frames, in ms.
const INTERVAL: u64 = 33;

/// A scene whose viewer has a TCP connection.
struct TcpScene {
    scene: Scene,
    sender: StreamSender,
    client: TcpStream,
    reader: FrameReader,
    poll: mio::Poll,
    route: Route,
}

/// A packet as the viewer got it: sequence number, timestamp, marker.
type Packet = (u64, u32, bool);

impl TcpScene {
    fn new() -> Self {
        let mut scene = Scene::new();
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let client = TcpStream::connect(listener.local_addr().expect("bound"));
        let client = client.expect("a listener");
        client.set_nonblocking(true).expect("a socket");
        let (server, _) = listener.accept().expect("connected");
        let connection = TcpConnection::new(server, ()).expect("open");
        let poll = mio::Poll::new().expect("a poll");
        let route = Route {
            destination: TransportAddress::tcp(connection.peer()),
            source: None,
        };
        let connections = scene.outbox.connections();
        let inserted = connections.insert(connection, poll.registry());
        inserted.expect("a free address");
        let mut sender = scene.sender();
        scene.start(&mut sender, 0);
        Self {
            scene,
            sender,
            client,
            reader: FrameReader::default(),
            poll,
            route,
        }
    }

    /// Lets leave what may leave from `ms` on, before the next frame comes.
    fn flush(&mut self, ms: u64) {
        for ms in ms..ms + INTERVAL {
            if self.scene.outbox.is_blocked_to(self.route.destination) || self.sender.is_idle() {
                return;
            }
            let now = self.scene.at(ms);
            let batch = self.scene.outbox.batch(self.route);
            let (session, counters) = (&mut self.scene.session, &self.scene.counters);
            self.sender.flush(session, batch, now, counters, |_| {});
        }
    }

    /// Reads what has arrived.
    fn read(&mut self, ms: u64) -> Vec<Packet> {
        let (mut packets, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
        let (now, from) = (self.scene.at(ms), self.scene.server_address);
        let to = self.scene.socket.local_addr().expect("bound");
        while let Ok(count) = self.client.read(&mut buffer) {
            assert_ne!(count, 0, "the connection ended");
            let viewer = &mut self.scene.viewer;
            let read = self.reader.read(&mut buffer[..count], |datagram| {
                match viewer.handle_datagram(now, from, to, datagram) {
                    Ok(Received::Rtp {
                        sequence, packet, ..
                    }) => {
                        let header = &packet.header;
                        packets.push((sequence, header.timestamp, header.marker));
                    }
                    other => panic!("{other:?}"),
                }
            });
            read.expect("frames");
        }
        packets
    }

    /// Goes on with what the kernel did not take.
    fn resume(&mut self) {
        let peer = self.route.destination.socket;
        self.scene.outbox.resume_connection(peer);
    }
}

#[test]
fn a_keyframe_needs_few_writes_to_a_connection_and_arrives_whole() {
    let mut tcp = TcpScene::new();
    let before = tcp.scene.counters.sends.get();
    tcp.scene.offer(&mut tcp.sender, VIDEO, 0, true, &KEYFRAME);
    tcp.flush(0);
    assert!(tcp.sender.is_idle());
    assert_eq!(tcp.scene.counters.sends.get() - before, 2);
    let mut packets = Vec::new();
    while packets.len() < KEYFRAME.len() {
        packets.extend(tcp.read(1));
    }
    let first = packets[0].0;
    let numbers: Vec<_> = packets.iter().map(|packet| packet.0 - first).collect();
    assert_eq!(numbers, (0..KEYFRAME.len() as u64).collect::<Vec<_>>());
    let ends: Vec<_> = packets.iter().map(|packet| packet.2).collect();
    assert_eq!(ends.iter().position(|it| *it), Some(KEYFRAME.len() - 1));
}

#[test]
fn a_viewer_over_tcp_that_stops_reading_gets_whole_frames_and_goes_on_at_a_keyframe() {
    let mut tcp = TcpScene::new();
    let (mut skipped, mut after, mut number) = (0, 0, 0);
    let mut arrived = Vec::new();
    // Which frames are keyframes, by their timestamps.
    let mut sizes = std::collections::HashMap::new();
    while after < 90 {
        let ms = number * INTERVAL;
        let is_keyframe = number.is_multiple_of(30);
        let size: &[usize] = if is_keyframe { &KEYFRAME } else { &FRAME };
        let unit = tcp.scene.publish(VIDEO, ms, is_keyframe, size);
        let track = &tcp.sender.tracks[0];
        let leg = track.leg(LegNumber::default()).expect("the only one");
        let timestamp = track.timestamp(&unit, &leg);
        sizes.insert(timestamp, (size.len(), is_keyframe));
        let at = tcp.scene.at(ms);
        skipped += tcp.sender.offer(&unit, at, &tcp.scene.stream);
        if skipped > 0 {
            after += 1;
            arrived.extend(tcp.read(ms));
            tcp.resume();
        }
        tcp.flush(ms);
        number += 1;
        assert!(number < 5_000, "the kernel keeps no end of bytes");
    }
    let deadline = Instant::now() + Duration::from_secs(20);
    let sent = tcp.scene.counters.packets.get() as usize;
    while arrived.len() < sent {
        assert!(Instant::now() < deadline, "{} of {sent}", arrived.len());
        arrived.extend(tcp.read(number * INTERVAL));
        tcp.resume();
    }
    let gaps = arrived.windows(2).filter(|it| it[1].0 != it[0].0 + 1);
    assert_eq!(gaps.count(), 0, "skipped frames consume no numbers");
    let mut frames = Vec::new();
    for frame in arrived.chunk_by(|one, next| one.1 == next.1) {
        frames.push((frame[0].1, frame.len(), frame[frame.len() - 1].2));
    }
    let interval = u32::try_from(INTERVAL).expect("short") * 90;
    let mut returns = 0;
    for (index, (timestamp, packets, is_ended)) in frames.iter().enumerate() {
        let (size, is_keyframe) = sizes[timestamp];
        let before = index.checked_sub(1).map(|index| frames[index]);
        let follows = before.is_some_and(|it| timestamp.wrapping_sub(it.0) == interval);
        returns += u32::from(before.is_some() && !follows);
        assert!(is_keyframe || follows, "frame {index}");
        // The loop may have ended within the last one.
        if index + 1 < frames.len() {
            assert_eq!((*packets, *is_ended), (size, true), "frame {index}");
        }
    }
    assert!(returns > 0, "frames were skipped: {skipped}");
    drop(tcp.poll);
}
