//! Connectivity checks of single candidates of an answer.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use glassline_webrtc::framing::{FrameReader, prefix};
use glassline_webrtc::{IceCredentials, is_stun_response, stun_check, stun_is_authentic};
pub use glassline_webrtc::{Transport, TransportAddress};

use crate::viewers::wildcard;

/// Time between two requests over UDP; a request may be lost.
const INTERVAL: Duration = Duration::from_millis(200);

/// Sends a connectivity check to `address` until it is answered; returns the time to the answer.
/// Nothing is nominated, so the session goes on as before.
///
/// # Errors
/// There was no authentic answer within `patience`, or the system's error.
pub fn check(
    address: TransportAddress,
    local: &IceCredentials,
    remote: &IceCredentials,
    patience: Duration,
) -> io::Result<Duration> {
    let transaction: [u8; 12] = rand::random();
    let request = stun_check(transaction, local, remote, rand::random());
    let is_answer = |datagram: &[u8]| {
        is_stun_response(datagram)
            && datagram[8..20] == transaction
            && stun_is_authentic(datagram, &remote.pwd)
    };
    let (begun, to) = (Instant::now(), address.socket);
    match address.transport {
        Transport::Udp => udp(to, &request, begun + patience, is_answer)?,
        Transport::Tcp => tcp(to, &request, begun + patience, is_answer)?,
    }
    Ok(begun.elapsed())
}

fn udp(
    to: SocketAddr,
    request: &[u8],
    deadline: Instant,
    is_answer: impl Fn(&[u8]) -> bool,
) -> io::Result<()> {
    let socket = UdpSocket::bind(wildcard(to))?;
    socket.connect(to)?;
    let (mut next, mut buffer) = (Instant::now(), [0; 1500]);
    loop {
        let now = Instant::now();
        if now >= deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
        if now >= next {
            socket.send(request)?;
            next = now + INTERVAL;
        }
        let wait = next.min(deadline).saturating_duration_since(now);
        socket.set_read_timeout(Some(wait.max(Duration::from_millis(1))))?;
        match socket.recv(&mut buffer) {
            Ok(length) if is_answer(&buffer[..length]) => return Ok(()),
            Ok(_) => {}
            Err(error) if is_time_out(&error) => {}
            Err(error) => return Err(error),
        }
    }
}

fn tcp(
    to: SocketAddr,
    request: &[u8],
    deadline: Instant,
    is_answer: impl Fn(&[u8]) -> bool,
) -> io::Result<()> {
    let left = || {
        let left = deadline.saturating_duration_since(Instant::now());
        match left.is_zero() {
            true => Err(io::Error::from(io::ErrorKind::TimedOut)),
            false => Ok(left),
        }
    };
    let mut stream = TcpStream::connect_timeout(&to, left()?)?;
    let prefix = prefix(request.len()).ok_or(io::ErrorKind::InvalidInput)?;
    stream.write_all(&[&prefix, request].concat())?;
    let (mut reader, mut buffer, mut is_answered) = (FrameReader::default(), [0; 1500], false);
    while !is_answered {
        stream.set_read_timeout(Some(left()?))?;
        let length = match stream.read(&mut buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(length) => length,
            Err(error) if is_time_out(&error) => return Err(io::ErrorKind::TimedOut.into()),
            Err(error) => return Err(error),
        };
        reader
            .read(&mut buffer[..length], |frame| {
                is_answered |= is_answer(frame);
            })
            .map_err(io::Error::other)?;
    }
    Ok(())
}

fn is_time_out(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}
