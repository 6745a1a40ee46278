use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::task::Poll;

use glassline_media::TrackIndex;
use glassline_net::{BindError, Options};
use glassline_rtsp::transport::Transport;
use tokio::io::ReadBuf;
use tokio::net::UdpSocket;

use super::senders::{Senders, Stranger};
use crate::{Reach, UdpPorts};

/// Attempts to find an even port whose neighbor is free, too, among all ports.
const ATTEMPTS: usize = 64;

/// Longest datagram that is read, in bytes.
const DATAGRAM_BYTES_MAX: usize = 64 << 10;

/// Receive buffer to request from the system for media, in bytes. Cameras send a keyframe of megabytes
/// at the rate of their link, and the system's default holds about a hundred packets.
const RECEIVE_BUFFER_BYTES: usize = 8 << 20;

/// The UDP ports that a camera sends to: for each track an even one for RTP and the next one for
/// RTCP (RFC 3550 §11). There are none if packets come within the connection.
#[derive(Debug, Default)]
pub(super) struct Ports {
    /// The ports that may be taken; `None` for any.
    range: Option<UdpPorts>,
    /// Where datagrams may be sent to.
    reach: Reach,
    tracks: Vec<TrackPorts>,
    buffer: Vec<u8>,
}

/// The ports of one track.
#[derive(Debug)]
struct TrackPorts {
    /// Index of the track in the camera's description.
    track: TrackIndex,
    payload_types: Vec<u8>,
    media: UdpSocket,
    control: UdpSocket,
    /// Senders whose datagrams are taken. `None` before the response to SETUP: no datagram is taken
    /// then.
    senders: Option<Senders>,
    /// The camera's ports, as far as it names them.
    server: Option<(u16, u16)>,
    /// Ports of ours that the camera answered and that it was not asked for.
    misnamed: Option<(u16, u16)>,
}

/// Where a datagram arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Datagram {
    /// Index of the track in the camera's description.
    pub(super) track: TrackIndex,
    pub(super) is_control: bool,
}

impl Ports {
    /// Creates the ports of a session; none is open yet.
    pub(super) fn new(range: Option<UdpPorts>, reach: Reach) -> Self {
        Self {
            range,
            reach,
            ..Self::default()
        }
    }

    /// Binds the ports of a track with these payload types at `local`, and returns their numbers.
    pub(super) fn bind(
        &mut self,
        track: TrackIndex,
        local: IpAddr,
        payload_types: Vec<u8>,
    ) -> io::Result<(u16, u16)> {
        self.buffer.resize(DATAGRAM_BYTES_MAX, 0);
        let [media, control] = match self.range {
            Some(range) => pair_within(range, local)?,
            None => any_pair(local)?,
        };
        let numbers = (media.local_addr()?.port(), control.local_addr()?.port());
        self.tracks.push(TrackPorts {
            track,
            payload_types,
            media: into_tokio(media)?,
            control: into_tokio(control)?,
            senders: None,
            server: None,
            misnamed: None,
        });
        Ok(numbers)
    }

    /// Closes all ports.
    pub(super) fn close(&mut self) {
        self.tracks.clear();
    }

    /// Begins to take what `camera` sends for a track, whose `transport` is in the response to SETUP.
    /// Sends a datagram to each of the ports that it names, so that firewalls and NATs on the way let the
    /// packets pass.
    pub(super) fn expect(&mut self, track: TrackIndex, camera: IpAddr, transport: &Transport) {
        let Some(ports) = self.tracks.iter_mut().find(|it| it.track == track) else {
            return;
        };
        let source = transport.source.as_deref();
        let named = source.and_then(|source| source.parse().ok());
        let payload_types = std::mem::take(&mut ports.payload_types);
        let senders = Senders::new(camera, named, transport.ssrc, payload_types);
        ports.senders = Some(senders);
        let own = ports.media.local_addr().map(|it| it.port());
        let answered = transport.client_port;
        ports.misnamed = answered.filter(|(media, _)| own.is_ok_and(|own| own != *media));
        // Zero is no port: some cameras send from any.
        let named_ports = transport.server_port;
        ports.server = named_ports.filter(|(media, control)| *media > 0 && *control > 0);
        let Some((media, control)) = ports.server else {
            return;
        };
        // An empty RTP packet and an empty receiver report. Losing them does no harm where nothing
        // stands in the way.
        let rtp = [0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let report = [0x80, 201, 0, 1, 0, 0, 0, 0];
        let named = named.filter(|ip| *ip != camera && self.reach.allows(*ip));
        for host in [Some(camera), named].into_iter().flatten() {
            let _ = ports.media.try_send_to(&rtp, SocketAddr::new(host, media));
            let to = SocketAddr::new(host, control);
            let _ = ports.control.try_send_to(&report, to);
        }
    }

    /// Waits for a datagram of the camera; returns its length, too. Never returns without ports.
    pub(super) async fn receive(&mut self) -> (Datagram, usize) {
        let Self { tracks, buffer, .. } = self;
        poll_fn(|context| {
            for ports in tracks.iter_mut() {
                let sockets = [(false, &ports.media), (true, &ports.control)];
                for (is_control, socket) in sockets {
                    loop {
                        let mut space = ReadBuf::new(buffer);
                        let from = match socket.poll_recv_from(context, &mut space) {
                            Poll::Ready(Ok(from)) => from,
                            // Word of a port that is closed.
                            Poll::Ready(Err(_)) => continue,
                            Poll::Pending => break,
                        };
                        let bytes = space.filled();
                        let is_taken = ports.senders.as_mut().is_some_and(|it| match is_control {
                            true => it.takes_control(from, bytes),
                            false => it.takes_media(from, bytes),
                        });
                        if is_taken {
                            let track = ports.track;
                            return Poll::Ready((Datagram { track, is_control }, bytes.len()));
                        }
                    }
                }
            }
            Poll::Pending
        })
        .await
    }

    /// The buffer that the latest datagram is at the beginning of.
    pub(super) fn buffer(&self) -> &[u8] {
        &self.buffer
    }

    /// Sends an RTCP packet to the sender of a track, unless no address of it is known.
    pub(super) fn report(&self, track: TrackIndex, packet: &[u8]) {
        let ports = self.tracks.iter().find(|it| it.track == track);
        let Some((ports, senders)) = ports.and_then(|it| Some((it, it.senders.as_ref()?))) else {
            return;
        };
        let to = senders.report_to(ports.server);
        if let Some(to) = to.filter(|to| self.reach.allows(to.ip())) {
            let _ = ports.control.try_send_to(packet, to);
        }
    }

    /// Returns the latest sender of media that was not taken, or the ports that media is sent to in place
    /// of ours.
    pub(super) fn stranger(&self) -> Option<Stranger> {
        let senders = self.tracks.iter().filter_map(|it| it.senders.as_ref());
        let is_unheard = |it: &&TrackPorts| it.senders.as_ref().is_some_and(|it| !it.is_heard());
        let unheard = self.tracks.iter().filter(is_unheard);
        let misnamed = unheard.filter_map(|it| it.misnamed);
        let misnamed = misnamed.map(|answered| Stranger::Misdirected { answered });
        senders.filter_map(Senders::stranger).chain(misnamed).next()
    }
}

/// Opens an even port and the next one, among all ports.
fn any_pair(local: IpAddr) -> io::Result<[std::net::UdpSocket; 2]> {
    let mut failure = None;
    for _ in 0..ATTEMPTS {
        let first = open(local, 0).map_err(|error| named(&error))?;
        let port = first.local_addr()?.port();
        // The neighbor below an odd port makes a pair as well.
        match open(local, port ^ 1) {
            Ok(second) if port.is_multiple_of(2) => return Ok([first, second]),
            Ok(second) => return Ok([second, first]),
            Err(error) => failure = Some(named(&error)),
        }
    }
    Err(failure.unwrap_or_else(|| io::Error::other("no pair of ports")))
}

/// Opens a pair of ports within `range`. The search begins anywhere, because late packets of an earlier
/// session may still come to its ports.
fn pair_within(range: UdpPorts, local: IpAddr) -> io::Result<[std::net::UdpSocket; 2]> {
    let mut pairs: Vec<_> = range.pairs().collect();
    let start = rand::random_range(0..pairs.len().max(1));
    pairs.rotate_left(start);
    for (media, control) in pairs {
        let pair = open(local, media).and_then(|it| Ok([it, open(local, control)?]));
        match pair {
            Ok(pair) => return Ok(pair),
            Err(BindError::InUse(_)) => {}
            Err(error) => return Err(named(&error)),
        }
    }
    Err(io::Error::other(format!(
        "all pairs of ports of {range} are in use: make the range larger (`udp_ports` of the source, or \
         `rtsp.camera_udp_ports`)"
    )))
}

/// Opens a port; any free one if `port` is 0. It is not known yet whether it will be one for media.
fn open(local: IpAddr, port: u16) -> Result<std::net::UdpSocket, BindError> {
    let options = Options {
        receive_buffer: Some(RECEIVE_BUFFER_BYTES),
        segmentation: false,
        ..Options::default()
    };
    let socket = glassline_net::UdpSocket::bind(SocketAddr::new(local, port), &options)?;
    Ok(socket.into_std())
}

fn named(error: &BindError) -> io::Error {
    io::Error::other(error.to_string())
}

fn into_tokio(socket: std::net::UdpSocket) -> io::Result<UdpSocket> {
    socket.set_nonblocking(true)?;
    UdpSocket::from_std(socket)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use super::*;

    const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn socket() -> (std::net::UdpSocket, u16) {
        let socket = std::net::UdpSocket::bind((LOCAL, 0)).expect("a free port");
        let deadline = Some(Duration::from_secs(20));
        socket.set_read_timeout(deadline).expect("a deadline");
        let port = socket.local_addr().expect("bound").port();
        (socket, port)
    }

    /// A camera sent a keyframe of a megabyte at once, and the system kept a hundred packets of it.
    #[tokio::test]
    async fn a_burst_of_packets_waits_for_its_reader() {
        // With twice the default of 208 KiB, which is the limit of systems that were not tuned, 180
        // packets have room.
        const PACKETS: usize = 150;
        let mut ports = Ports::default();
        let (port, _) = ports.bind(TrackIndex(0), LOCAL, vec![7]).expect("a pair");
        ports.expect(TrackIndex(0), LOCAL, &Transport::udp(0, 0));
        let (camera, _) = socket();
        let mut packet = [7; 1200];
        packet[0] = 0x80;
        for _ in 0..PACKETS {
            let sent = camera.send_to(&packet, (LOCAL, port));
            assert_eq!(sent.expect("there is room"), 1200);
        }
        for number in 0..PACKETS {
            let next = tokio::time::timeout(Duration::from_secs(5), ports.receive()).await;
            assert!(next.is_ok(), "only {number} packets of {PACKETS} were kept");
        }
    }

    #[tokio::test]
    async fn each_track_has_a_pair_of_ports_that_open_their_own_path() {
        let mut ports = Ports::default();
        let tracks = [TrackIndex(2), TrackIndex(5)];
        let bound = tracks.map(|track| ports.bind(track, LOCAL, vec![96]).expect("a pair"));
        for (media, control) in bound {
            assert!(media.is_multiple_of(2));
            assert_eq!(control, media + 1);
        }
        let sockets = ports.tracks.iter().flat_map(|it| [&it.media, &it.control]);
        for socket in sockets {
            // The runtime learns that a socket is writable when it first waits.
            socket.writable().await.expect("a socket");
        }
        let ((media, media_port), (control, control_port)) = (socket(), socket());
        let transport = Transport {
            server_port: Some((media_port, control_port)),
            ..Transport::udp(0, 0)
        };
        ports.expect(TrackIndex(3), LOCAL, &transport);
        for (track, numbers) in tracks.into_iter().zip(bound) {
            ports.expect(track, LOCAL, &transport);
            let opened = [&media, &control].map(|socket| {
                let mut buffer = [0; 64];
                let (count, from) = socket.recv_from(&mut buffer).expect("it was sent");
                (count, buffer[1], from.port())
            });
            assert_eq!(opened, [(12, 0, numbers.0), (8, 201, numbers.1)]);
        }
    }

    /// A camera that named its port as zero got no report, and ended the session.
    #[tokio::test]
    async fn a_camera_whose_ports_are_zero_gets_reports_where_its_media_comes_from() {
        let track = TrackIndex(0);
        let mut ports = Ports::default();
        let (port, _) = ports.bind(track, LOCAL, vec![96]).expect("a pair");
        let transport = Transport {
            server_port: Some((0, 0)),
            ..Transport::udp(7_000, 7_001)
        };
        ports.expect(track, LOCAL, &transport);
        let misdirected = Stranger::Misdirected {
            answered: (7_000, 7_001),
        };
        assert_eq!(ports.stranger(), Some(misdirected));
        let [media, control] = any_pair(LOCAL).expect("a pair");
        let deadline = Some(Duration::from_secs(20));
        control.set_read_timeout(deadline).expect("a deadline");
        let packet = [&[0x80, 96][..], &[0; 10]].concat();
        media.send_to(&packet, (LOCAL, port)).expect("loopback");
        ports.receive().await;
        assert_eq!(
            ports.stranger(),
            None,
            "it sends to the ports that it was asked for"
        );
        let own = &ports.tracks[0].control;
        own.writable().await.expect("a socket");
        ports.report(track, &[0x80, 201, 0, 1, 0, 0, 0, 9]);
        let mut buffer = [0; 64];
        let (count, _) = control.recv_from(&mut buffer).expect("a report");
        assert_eq!((count, buffer[1]), (8, 201));
    }

    #[tokio::test]
    async fn datagrams_of_the_camera_are_known_by_their_port_and_strangers_are_ignored() {
        let mut ports = Ports::default();
        let track = TrackIndex(1);
        ports.bind(TrackIndex(0), LOCAL, vec![96]).expect("a pair");
        let (media, control) = ports.bind(track, LOCAL, vec![96]).expect("a pair");
        let (camera, _) = socket();
        let (report, packet) = (
            [0x80, 200, 0, 1, 0, 0, 0, 7],
            [&[0x80, 96][..], &[0; 10]].concat(),
        );
        let early = camera.send_to(&packet, (LOCAL, media));
        early.expect("loopback takes it");
        let nothing = tokio::time::timeout(Duration::from_millis(50), ports.receive()).await;
        assert!(nothing.is_err(), "SETUP is not answered");
        ports.expect(track, LOCAL, &Transport::udp(0, 0));
        // Linux has all of 127.0.0.0/8 on loopback.
        if let Ok(stranger) = std::net::UdpSocket::bind(("127.0.0.2", 0)) {
            let _ = stranger.send_to(b"stranger", (LOCAL, media));
        }
        for (port, bytes) in [(control, &report[..]), (media, &packet)] {
            camera
                .send_to(bytes, (LOCAL, port))
                .expect("loopback takes it");
            let (datagram, length) = ports.receive().await;
            assert_eq!(datagram.track, track);
            assert_eq!(datagram.is_control, port == control);
            assert_eq!(&ports.buffer()[..length], bytes);
        }
        assert_eq!(ports.stranger(), None, "the camera is heard");
    }
}
