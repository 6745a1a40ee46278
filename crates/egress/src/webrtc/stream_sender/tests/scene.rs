//! A sender whose session is connected, and a viewer that opens what it gets.

use std::time::Duration;

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use glassline_hub::{Hub, Publisher, StreamName};
use glassline_media::{Codec, MediaTime, Stamps, Track, UnitBuilder, VideoParameters, WallClock};
use glassline_net::Options;
use glassline_webrtc::{
    AcceptConfig, Certificate, DialConfig, Kinds, OpusOptions, ReceiveMode, Received, Secrets,
    SenderIndex,
};

use super::super::*;
use crate::webrtc::outbox::{Outbox, Route};

pub(super) const VIDEO: TrackIndex = TrackIndex(0);
pub(super) const AUDIO: TrackIndex = TrackIndex(1);

/// A packet as the viewer got it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Arrived {
    pub(super) is_video: bool,
    pub(super) sequence: u64,
    pub(super) timestamp: u32,
    pub(super) marker: bool,
    /// Size of the payload without padding.
    pub(super) bytes: usize,
    pub(super) is_repaired: bool,
    /// Size of the datagram.
    pub(super) datagram_bytes: usize,
}

/// A live stream, and one viewer with a session of its own. Times are in ms since the session was
/// connected.
pub(super) struct Scene {
    pub(super) stream: Arc<Stream>,
    pub(super) publisher: Publisher,
    pub(super) session: Session,
    pub(super) viewer: Session,
    pub(super) server_address: SocketAddr,
    pub(super) socket: UdpSocket,
    pub(super) outbox: Outbox,
    pub(super) counters: Arc<SendCounters>,
    /// Packets that left before.
    pub(super) packets: u64,
    pub(super) start: Instant,
}

pub(super) fn tracks() -> Vec<Track> {
    let video = VideoParameters::default();
    vec![Track::h264(video), Track::audio(Codec::Opus, 2)]
}

/// A unit of `track` at `time`, with packets of these sizes.
pub(super) fn unit(
    track: TrackIndex,
    at: Instant,
    ms: u64,
    keyframe: bool,
    sizes: &[usize],
) -> MediaUnit {
    let mut builder = UnitBuilder::default();
    for size in sizes {
        builder.push(&vec![0x41; *size]);
    }
    let time = MediaTime::from_ticks(i64::try_from(ms).expect("soon"), 1_000);
    let unit = builder.build(track, time, keyframe, Stamps::arrived(at));
    unit.expect("packets")
}

/// Returns the sessions of a server and of its viewer after the handshake, and its end.
fn connected(
    (server_address, viewer_address): (SocketAddr, SocketAddr),
    (receive, tracks): (Kinds, &[Track]),
    mode: ReceiveMode,
) -> (Session, Session, Instant) {
    let certificate = || Arc::new(Certificate::generate().expect("a certificate"));
    let mut now = Instant::now();
    let wall = WallClock::new(now, Duration::from_secs(1_700_000_000));
    let dial = DialConfig {
        certificate: certificate(),
        local: vec![viewer_address],
        turn_allocations: Vec::new(),
        data: None,
        secrets: Secrets::expand(&[1; 32]),
        wall,
        send: Vec::new(),
        receive,
        opus: OpusOptions::default(),
        mode,
    };
    let (mut viewer, offer) = Session::dial(dial, now);
    let accept = AcceptConfig {
        certificate: certificate(),
        local: vec![server_address.into()],
        secrets: Secrets::expand(&[2; 32]),
        wall,
        tracks,
        receive: Kinds::NONE,
        opus: OpusOptions::default(),
        data: None,
    };
    let (mut session, answer) = Session::accept(accept, &offer, now).expect("a good offer");
    viewer.set_answer(&answer, now).expect("a good answer");
    let mut datagram = Vec::new();
    for _ in 0..200 {
        while viewer.poll_transmit(&mut datagram).is_some() {
            let _ = session.handle_datagram(now, viewer_address, server_address, &mut datagram);
        }
        while session.poll_transmit(&mut datagram).is_some() {
            let _ = viewer.handle_datagram(now, server_address, viewer_address, &mut datagram);
        }
        if session.is_connected() && viewer.is_connected() {
            return (session, viewer, now);
        }
        now += Duration::from_millis(10);
        viewer.handle_timeout(now);
        session.handle_timeout(now);
    }
    panic!("the handshake does not end");
}

impl Scene {
    pub(super) fn new() -> Self {
        Self::of(Kinds::ALL)
    }

    pub(super) fn of(receive: Kinds) -> Self {
        Self::streaming(tracks(), receive)
    }

    pub(super) fn streaming(tracks: Vec<Track>, receive: Kinds) -> Self {
        Self::received(tracks, receive, ReceiveMode::Open)
    }

    /// Streams to a viewer that makes this of what it receives.
    pub(super) fn received(tracks: Vec<Track>, receive: Kinds, mode: ReceiveMode) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let deadline = Some(Duration::from_secs(20));
        socket.set_read_timeout(deadline).expect("a deadline");
        let viewer_address = socket.local_addr().expect("bound");
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let own = glassline_net::UdpSocket::bind(any, &Options::default());
        let own = own.expect("a free port");
        let server_address = own.local_addr();
        let (session, viewer, start) =
            connected((server_address, viewer_address), (receive, &tracks), mode);
        let counters = Arc::new(SendCounters::default());
        let name = StreamName::parse("cam").expect("a good name");
        let stream = Hub::default().create(name).expect("room");
        let publisher = stream.publish(tracks, start).expect("free");
        Self {
            stream,
            publisher,
            session,
            viewer,
            server_address,
            socket,
            outbox: Outbox::new(own, Arc::clone(&counters)),
            counters,
            packets: 0,
            start,
        }
    }

    pub(super) fn at(&self, ms: u64) -> Instant {
        self.start + Duration::from_millis(ms)
    }

    pub(super) fn sender(&self) -> StreamSender {
        StreamSender::new(
            &self.session,
            &self.stream,
            &[],
            Delivery::default(),
            self.start,
        )
    }

    pub(super) fn publish(
        &mut self,
        track: TrackIndex,
        ms: u64,
        keyframe: bool,
        sizes: &[usize],
    ) -> Arc<MediaUnit> {
        let at = self.at(ms);
        let unit = unit(track, at, ms, keyframe, sizes);
        let published = self.publisher.push(unit, at);
        published
            .expect("a track of the stream")
            .expect("published")
    }

    /// Publishes a unit and offers it at once.
    pub(super) fn offer(
        &mut self,
        sender: &mut StreamSender,
        track: TrackIndex,
        ms: u64,
        keyframe: bool,
        sizes: &[usize],
    ) -> usize {
        let unit = self.publish(track, ms, keyframe, sizes);
        sender.offer(&unit, self.at(ms), &self.stream)
    }

    pub(super) fn start(&mut self, sender: &mut StreamSender, ms: u64) {
        let now = self.at(ms);
        sender.start(&mut self.session, &self.stream, now);
    }

    /// Sends what may leave; returns the frames that are finished, and what the viewer got.
    pub(super) fn flush(
        &mut self,
        sender: &mut StreamSender,
        ms: u64,
    ) -> (Vec<FrameStamps>, Vec<Arrived>) {
        let now = self.at(ms);
        let mut finished = Vec::new();
        let batch = self.outbox.batch(self.route());
        let session = &mut self.session;
        sender.flush(session, batch, now, &self.counters, |it| finished.push(it));
        (finished, self.arrived(ms))
    }

    /// Sends what may leave, all of which is lost on the way; returns the sizes of the datagrams.
    pub(super) fn lose(&mut self, sender: &mut StreamSender, ms: u64) -> Vec<usize> {
        let (now, batch) = (self.at(ms), self.outbox.batch(self.route()));
        let session = &mut self.session;
        sender.flush(session, batch, now, &self.counters, |_| {});
        self.left().iter().map(Vec::len).collect()
    }

    /// Returns the datagrams that have left.
    pub(super) fn left(&mut self) -> Vec<Vec<u8>> {
        self.outbox.flush();
        let count = self.counters.packets.get() - self.packets;
        self.packets += count;
        let mut buffer = [0; 2048];
        let mut datagram = || {
            let size = self.socket.recv(&mut buffer).expect("it was sent");
            buffer[..size].to_vec()
        };
        (0..count).map(|_| datagram()).collect()
    }

    /// Hands over what the viewer's session reports of the packets that came.
    pub(super) fn report(&mut self, ms: u64) {
        let now = self.at(ms);
        let viewer_address = self.socket.local_addr().expect("bound");
        self.viewer.handle_timeout(now);
        let mut datagram = Vec::new();
        while self.viewer.poll_transmit(&mut datagram).is_some() {
            let to = self.server_address;
            let handled = self
                .session
                .handle_datagram(now, viewer_address, to, &mut datagram);
            handled.expect("a report");
        }
        while self.session.poll_event().is_some() {}
    }

    /// Reports packets of the video as missing, by their distance from the next packet's number.
    pub(super) fn nack_video(
        &mut self,
        sender: &mut StreamSender,
        ms: u64,
        behind: impl IntoIterator<Item = u64>,
    ) {
        let next = self.session.senders()[0].next_sequence().expect("keys");
        let lost: Vec<_> = behind.into_iter().map(|it| next - it).collect();
        let nack = Nack {
            sender: SenderIndex(0),
            lost: &lost,
        };
        let now = self.at(ms);
        sender.repair(&self.stream, nack, now, &self.counters);
    }

    pub(super) fn route(&self) -> Route {
        Route {
            destination: self.socket.local_addr().expect("bound").into(),
            source: None,
        }
    }

    pub(super) fn arrived(&mut self, ms: u64) -> Vec<Arrived> {
        let now = self.at(ms);
        self.outbox.flush();
        let count = self.counters.packets.get() - self.packets;
        self.packets += count;
        let viewer_address = self.socket.local_addr().expect("bound");
        let mut buffer = [0; 2048];
        let mut arrived = Vec::new();
        for _ in 0..count {
            let datagram_bytes = self.socket.recv(&mut buffer).expect("it was sent");
            let datagram = &mut buffer[..datagram_bytes];
            let from = self.server_address;
            let opened = self
                .viewer
                .handle_datagram(now, from, viewer_address, datagram);
            let Ok(Received::Rtp {
                receiver,
                sequence,
                repaired,
                packet,
                ..
            }) = opened
            else {
                panic!("{opened:?}");
            };
            arrived.push((
                receiver,
                Arrived {
                    is_video: false,
                    sequence,
                    timestamp: packet.header.timestamp,
                    marker: packet.header.marker,
                    bytes: packet.payload.len(),
                    is_repaired: repaired,
                    datagram_bytes,
                },
            ));
        }
        let kinds = self.viewer.receivers();
        arrived
            .into_iter()
            .map(|(receiver, it)| Arrived {
                is_video: kinds[receiver.0].kind == Kind::Video,
                ..it
            })
            .collect()
    }
}

pub(super) fn sizes(arrived: &[Arrived]) -> Vec<(bool, usize)> {
    arrived.iter().map(|it| (it.is_video, it.bytes)).collect()
}
