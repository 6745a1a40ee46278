use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::task::Poll;

use glassline_media::TrackIndex;
use glassline_net::Options;
use tokio::io::ReadBuf;
use tokio::net::UdpSocket;

/// Attempts to find an even port whose neighbor is free, too.
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
    tracks: Vec<(TrackIndex, [UdpSocket; 2])>,
    buffer: Vec<u8>,
}

/// Where a datagram arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Datagram {
    /// Index of the track in the camera's description.
    pub(super) track: TrackIndex,
    pub(super) is_control: bool,
}

impl Ports {
    /// Binds the ports of a track at `local`, and returns their numbers.
    pub(super) fn bind(&mut self, track: TrackIndex, local: IpAddr) -> io::Result<(u16, u16)> {
        self.buffer.resize(DATAGRAM_BYTES_MAX, 0);
        let mut failure = None;
        for _ in 0..ATTEMPTS {
            let first = open(local, 0)?;
            let port = first.local_addr()?.port();
            // The neighbor below an odd port makes a pair as well.
            let second = match open(local, port ^ 1) {
                Ok(second) => second,
                Err(error) => {
                    failure = Some(error);
                    continue;
                }
            };
            let pair = match port.is_multiple_of(2) {
                true => [first, second],
                false => [second, first],
            };
            let [media, control] = pair;
            let numbers = (media.local_addr()?.port(), control.local_addr()?.port());
            self.tracks
                .push((track, [into_tokio(media)?, into_tokio(control)?]));
            return Ok(numbers);
        }
        Err(failure.unwrap_or_else(|| io::Error::other("no pair of ports")))
    }

    /// Sends a datagram to each of the camera's ports of a track, so that firewalls and NATs on the
    /// way let the answers pass.
    pub(super) fn open_path(&self, track: TrackIndex, camera: IpAddr, server: (u16, u16)) {
        let of_track = self.tracks.iter().find(|(of, _)| *of == track);
        let Some((_, [media, control])) = of_track else {
            return;
        };
        // An empty RTP packet and an empty receiver report. Losing them does no harm where nothing
        // stands in the way.
        let rtp = [0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let report = [0x80, 201, 0, 1, 0, 0, 0, 0];
        let _ = media.try_send_to(&rtp, SocketAddr::new(camera, server.0));
        let _ = control.try_send_to(&report, SocketAddr::new(camera, server.1));
    }

    /// Waits for a datagram from `camera`; returns its length, too. Never returns without ports.
    pub(super) async fn receive(&mut self, camera: IpAddr) -> (Datagram, usize) {
        let Self { tracks, buffer } = self;
        poll_fn(|context| {
            for (track, sockets) in tracks.iter() {
                for (is_control, socket) in [false, true].into_iter().zip(sockets) {
                    loop {
                        let mut space = ReadBuf::new(buffer);
                        match socket.poll_recv_from(context, &mut space) {
                            Poll::Ready(Ok(from)) if from.ip() == camera => {
                                let track = *track;
                                let length = space.filled().len();
                                return Poll::Ready((Datagram { track, is_control }, length));
                            }
                            // A stranger's datagram, or word of a port that is closed.
                            Poll::Ready(_) => {}
                            Poll::Pending => break,
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
}

/// Opens a port; any free one if `port` is 0. It is not known yet whether it will be one for media.
fn open(local: IpAddr, port: u16) -> io::Result<std::net::UdpSocket> {
    let options = Options {
        receive_buffer: Some(RECEIVE_BUFFER_BYTES),
        segmentation: false,
        ..Options::default()
    };
    let socket = glassline_net::UdpSocket::bind(SocketAddr::new(local, port), &options);
    let socket = socket.map_err(|error| io::Error::other(error.to_string()))?;
    Ok(socket.into_std())
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
        let (port, _) = ports.bind(TrackIndex(0), LOCAL).expect("a pair");
        let (camera, _) = socket();
        for _ in 0..PACKETS {
            let sent = camera.send_to(&[7; 1200], (LOCAL, port));
            assert_eq!(sent.expect("there is room"), 1200);
        }
        for number in 0..PACKETS {
            let next = tokio::time::timeout(Duration::from_secs(5), ports.receive(LOCAL)).await;
            assert!(next.is_ok(), "only {number} packets of {PACKETS} were kept");
        }
    }

    #[tokio::test]
    async fn each_track_has_a_pair_of_ports_that_open_their_own_path() {
        let mut ports = Ports::default();
        let tracks = [TrackIndex(2), TrackIndex(5)];
        let bound = tracks.map(|track| ports.bind(track, LOCAL).expect("a pair"));
        for (media, control) in bound {
            assert!(media.is_multiple_of(2));
            assert_eq!(control, media + 1);
        }
        for socket in ports.tracks.iter().flat_map(|(_, pair)| pair) {
            // The runtime learns that a socket is writable when it first waits.
            socket.writable().await.expect("a socket");
        }
        let ((media, media_port), (control, control_port)) = (socket(), socket());
        ports.open_path(TrackIndex(3), LOCAL, (media_port, control_port));
        for (track, numbers) in tracks.into_iter().zip(bound) {
            ports.open_path(track, LOCAL, (media_port, control_port));
            let opened = [&media, &control].map(|socket| {
                let mut buffer = [0; 64];
                let (count, from) = socket.recv_from(&mut buffer).expect("it was sent");
                (count, buffer[1], from.port())
            });
            assert_eq!(opened, [(12, 0, numbers.0), (8, 201, numbers.1)]);
        }
    }

    #[tokio::test]
    async fn datagrams_of_the_camera_are_known_by_their_port_and_strangers_are_ignored() {
        let mut ports = Ports::default();
        let track = TrackIndex(1);
        ports.bind(TrackIndex(0), LOCAL).expect("a pair");
        let (media, control) = ports.bind(track, LOCAL).expect("a pair");
        let (camera, _) = socket();
        // Linux has all of 127.0.0.0/8 on loopback.
        if let Ok(stranger) = std::net::UdpSocket::bind(("127.0.0.2", 0)) {
            let _ = stranger.send_to(b"stranger", (LOCAL, media));
        }
        for (port, text) in [(control, &b"report"[..]), (media, b"media")] {
            camera
                .send_to(text, (LOCAL, port))
                .expect("loopback takes it");
            let (datagram, length) = ports.receive(LOCAL).await;
            assert_eq!(datagram.track, track);
            assert_eq!(datagram.is_control, port == control);
            assert_eq!(&ports.buffer()[..length], text);
        }
    }
}
