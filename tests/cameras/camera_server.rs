//! The fake camera on sockets of this machine.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use glassline_quic::Fingerprint;

use super::camera::{Connection, Output};
use super::camera_stream::{CameraStream, TlsIdentity};
use super::device::Device;
use super::quirk::{CertificateOption, Quirk};
use super::row::{Row, Video};

/// A camera that listens. Dropping it closes all its connections.
pub(crate) struct CameraServer {
    pub(crate) device: Arc<Device>,
    address: SocketAddr,
    /// That of the certificate, of a camera that speaks TLS.
    fingerprint: Option<Fingerprint>,
    has_ended: Arc<AtomicBool>,
}

/// Longest wait of a thread before it looks whether the camera has ended.
const TURN: Duration = Duration::from_millis(10);

/// Longest time in which a client must take what waits for it.
const WRITE: Duration = Duration::from_secs(5);

impl CameraServer {
    pub(crate) fn open(row: &'static Row, video: Video) -> Result<CameraServer, String> {
        let device = Device::new(row, video)?;
        let failed = |error: std::io::Error| format!("the camera's port: {error}");
        // Some cameras redirect to another address of this machine.
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        let tls = match certificate_option(row) {
            Some(_) => Some(TlsIdentity::read()?),
            None => None,
        };
        let server = tls.as_ref().map(|tls| Arc::clone(&tls.config));
        let camera = CameraServer {
            device: Arc::clone(&device),
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            fingerprint: tls.map(|tls| tls.fingerprint),
            has_ended: Arc::default(),
        };
        let has_ended = Arc::clone(&camera.has_ended);
        thread::spawn(move || {
            while !has_ended.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((stream, peer)) => {
                        let (device, has_ended) = (Arc::clone(&device), Arc::clone(&has_ended));
                        let server = server.clone();
                        thread::spawn(move || {
                            let stream = CameraStream::open(stream, server);
                            serve(device, stream, peer, &has_ended);
                        });
                    }
                    Err(_) => thread::sleep(TURN),
                }
            }
        });
        Ok(camera)
    }

    /// The URL of the camera's stream, with user and password where they are needed.
    pub(crate) fn url(&self) -> String {
        let user = self.device.user_in_url();
        let scheme = match self.fingerprint {
            Some(_) => "rtsps",
            None => "rtsp",
        };
        format!("{scheme}://{user}{}/live", self.address)
    }

    /// The option of the source that says which certificate is accepted, if there is one.
    pub(crate) fn option(&self) -> Option<String> {
        match certificate_option(self.device.row)? {
            CertificateOption::None => None,
            CertificateOption::Pin => Some(format!("sha256={}", self.fingerprint?)),
            CertificateOption::WrongPin => Some(format!("sha256={}", "ab".repeat(32))),
            CertificateOption::Insecure => Some("insecure".to_owned()),
        }
    }
}

impl Drop for CameraServer {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::Relaxed);
    }
}

fn certificate_option(row: &Row) -> Option<CertificateOption> {
    row.quirks.iter().find_map(|quirk| match quirk {
        Quirk::WithinTls(option) => Some(*option),
        _ => None,
    })
}

/// Ports of a connection for media and control.
struct Pair {
    media: UdpSocket,
    control: UdpSocket,
}

/// Serves a connection until either end closes it.
fn serve(device: Arc<Device>, mut stream: CameraStream, peer: SocketAddr, has_ended: &AtomicBool) {
    let row = device.row;
    let pair = Pair::bind(row).expect("free ports");
    let ports = pair.numbers();
    let mut connection = Connection::open(device, Instant::now());
    let mut buffer = [0; 8 << 10];
    let socket = stream.socket();
    socket.set_nodelay(true).expect("a socket");
    socket.set_write_timeout(Some(WRITE)).expect("a socket");
    while !has_ended.load(Ordering::Relaxed) {
        let wait = connection.deadline().map_or(TURN, |at| {
            at.saturating_duration_since(Instant::now()).min(TURN)
        });
        let wait = wait.max(Duration::from_micros(500));
        let socket = stream.socket();
        socket.set_read_timeout(Some(wait)).expect("a socket");
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => connection.take(Instant::now(), &buffer[..count], ports),
            Err(error) if is_wait(error.kind()) => {}
            Err(_) => break,
        }
        while let Ok((count, _)) = pair.control.recv_from(&mut buffer) {
            connection.take_report(Instant::now(), &buffer[..count]);
        }
        connection.turn(Instant::now());
        if send(&mut connection, &mut stream, &pair, peer).is_none() {
            break;
        }
    }
    connection.end();
}

fn is_wait(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Sends what waits; `None` at the end of the connection.
fn send(
    connection: &mut Connection,
    stream: &mut CameraStream,
    pair: &Pair,
    peer: SocketAddr,
) -> Option<()> {
    while let Some(output) = connection.poll() {
        match output {
            Output::Bytes(bytes) => stream.write_all(&bytes).ok()?,
            Output::Datagram {
                port,
                is_control,
                bytes,
            } => {
                let socket = if is_control {
                    &pair.control
                } else {
                    &pair.media
                };
                // A port that is closed is no failure of the camera.
                let _ = socket.send_to(&bytes, (peer.ip(), port));
            }
            Output::Close => return None,
        }
    }
    Some(())
}

impl Pair {
    /// Binds an even port and the next one.
    fn bind(row: &Row) -> Result<Pair, String> {
        let mut quirks = row.quirks.iter();
        let from = quirks.find_map(|quirk| match quirk {
            Quirk::From(address) => Some(*address),
            _ => None,
        });
        let address = from.unwrap_or("127.0.0.1");
        let open = |port: u16| -> Option<UdpSocket> {
            let socket = UdpSocket::bind((address, port)).ok()?;
            socket.set_nonblocking(true).ok()?;
            Some(socket)
        };
        for _ in 0..64 {
            let Some(media) = open(0) else { continue };
            let port = media.local_addr().map_or(1, |it| it.port());
            let next = (port % 2 == 0).then(|| open(port + 1)).flatten();
            if let Some(control) = next {
                return Ok(Pair { media, control });
            }
        }
        Err(format!("no pair of ports at {address}"))
    }

    fn numbers(&self) -> (u16, u16) {
        let number = |socket: &UdpSocket| socket.local_addr().map_or(0, |it| it.port());
        (number(&self.media), number(&self.control))
    }
}
