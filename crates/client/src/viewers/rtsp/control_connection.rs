use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use glassline_rtsp::tunnel;
use rustls::ClientConnection;
use rustls::pki_types::ServerName;
use url::Url;

use glassline_trust::{Trust, UntrustedCertificate};

/// Connection to an RTSP server: plain TCP, TLS, or a pair of HTTP connections.
#[derive(Debug)]
pub(crate) enum ControlConnection {
    /// A connection over plain TCP.
    Plain(TcpStream),
    /// A connection within TLS (`rtsps://`).
    Tls(Box<Tls>),
    /// RTSP over HTTP: base64 towards the server, on a connection of its own.
    Tunnel(Box<Tunnel>),
}

/// RTSP over HTTP, as QuickTime defined it.
#[derive(Debug)]
pub(crate) struct Tunnel {
    /// From the server: the response to a GET, which does not end.
    down: TcpStream,
    /// To the server: the body of a POST, which does not end.
    up: TcpStream,
    /// Encoded bytes that the kernel has not taken yet.
    encoded: Vec<u8>,
    /// Bytes of `encoded` that the kernel has taken.
    sent: usize,
}

/// A TLS session after its handshake, and the socket under it.
#[derive(Debug)]
pub(crate) struct Tls {
    session: ClientConnection,
    socket: TcpStream,
}

impl ControlConnection {
    /// Performs a TLS handshake with `host` on a fresh blocking connection; no read or write
    /// takes longer than `patience`.
    ///
    /// # Errors
    /// If the host's certificate is refused, or the connection breaks.
    pub(super) fn secure(
        mut socket: TcpStream,
        host: &str,
        trust: Trust,
        patience: Duration,
    ) -> io::Result<Self> {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(bare.to_owned()).map_err(io::Error::other)?;
        let config = trust.over_tcp().map_err(io::Error::other)?;
        let session = ClientConnection::new(config, name);
        let mut session = session.map_err(io::Error::other)?;
        socket.set_read_timeout(Some(patience))?;
        socket.set_write_timeout(Some(patience))?;
        while session.is_handshaking() {
            session
                .complete_io(&mut socket)
                .map_err(UntrustedCertificate::told)?;
        }
        socket.set_read_timeout(None)?;
        socket.set_write_timeout(None)?;
        Ok(Self::Tls(Box::new(Tls { session, socket })))
    }

    /// `TLS` if the connection is encrypted.
    pub(super) const fn protection(&self) -> Option<&'static str> {
        match self {
            Self::Plain(_) | Self::Tunnel(_) => None,
            Self::Tls(_) => Some("TLS"),
        }
    }

    pub(crate) const fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(tls) => &tls.socket,
            Self::Tunnel(tunnel) => &tunnel.down,
        }
    }

    /// The socket that is written to.
    const fn upward(&self) -> &TcpStream {
        match self {
            Self::Tunnel(tunnel) => &tunnel.up,
            _ => self.socket(),
        }
    }

    pub(super) fn set_nonblocking(&self, is_so: bool) -> io::Result<()> {
        self.socket().set_nonblocking(is_so)?;
        self.upward().set_nonblocking(is_so)
    }

    pub(super) fn set_write_timeout(&self, patience: Duration) -> io::Result<()> {
        self.upward().set_write_timeout(Some(patience))
    }

    /// Opens a tunnel to the stream of `url` on two fresh blocking connections; no read or
    /// write takes longer than `patience`.
    ///
    /// # Errors
    /// If the server refuses the tunnel, or a connection breaks.
    pub(super) fn tunnel(
        mut down: TcpStream,
        mut up: TcpStream,
        url: &Url,
        patience: Duration,
    ) -> io::Result<Self> {
        let cookie = format!("{:016x}", rand::random::<u64>());
        let (host, path) = (url.host_str().unwrap_or_default(), url.path());
        let query = url.query().map(|query| format!("?{query}"));
        let head = |method: &str, more: &str| {
            let query = query.as_deref().unwrap_or_default();
            format!(
                "{method} {path}{query} HTTP/1.0\r\nHost: {host}\r\nx-sessioncookie: {cookie}\r\n\
                 {more}Pragma: no-cache\r\nCache-Control: no-cache\r\n\r\n"
            )
        };
        let kind = tunnel::CONTENT_TYPE;
        down.set_read_timeout(Some(patience))?;
        down.write_all(head("GET", &format!("Accept: {kind}\r\n")).as_bytes())?;
        let answer = read_head(&mut down)?;
        let line = answer.lines().next().unwrap_or_default();
        if line.split(' ').nth(1) != Some("200") {
            return Err(io::Error::other(format!(
                "the server refuses the HTTP tunnel: `{line}`"
            )));
        }
        down.set_read_timeout(None)?;
        // Nobody reads the length; it must be there, and large.
        let more = format!("Content-Type: {kind}\r\nContent-Length: 1000000000\r\n");
        up.write_all(head("POST", &more).as_bytes())?;
        Ok(Self::Tunnel(Box::new(Tunnel {
            down,
            up,
            encoded: Vec::new(),
            sent: 0,
        })))
    }
}

/// Longest head of a response to the GET that opens a tunnel, in bytes.
const HEAD_BYTES_MAX: usize = 8 << 10;

/// Reads the head of an HTTP response, and not a byte of its body.
fn read_head(socket: &mut TcpStream) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() == HEAD_BYTES_MAX {
            return Err(io::Error::other(
                "the head of the HTTP tunnel's response is longer than 8 KiB",
            ));
        }
        let mut byte = [0];
        socket.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

impl AsRawFd for ControlConnection {
    fn as_raw_fd(&self) -> RawFd {
        self.socket().as_raw_fd()
    }
}

impl Read for ControlConnection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(buffer),
            Self::Tls(tls) => tls.read(buffer),
            Self::Tunnel(tunnel) => tunnel.down.read(buffer),
        }
    }
}

impl Write for ControlConnection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Tls(tls) => tls.write(bytes),
            Self::Tunnel(tunnel) => tunnel.write(bytes),
        }
    }

    /// Sends buffered bytes. An error of kind [`ErrorKind::WouldBlock`] means that some are
    /// still buffered.
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Tls(tls) => tls.send_sealed(),
            Self::Tunnel(tunnel) => tunnel.send_encoded(),
        }
    }
}

impl Tunnel {
    /// Passes encoded bytes to the kernel.
    fn send_encoded(&mut self) -> io::Result<()> {
        while self.sent < self.encoded.len() {
            match self.up.write(&self.encoded[self.sent..])? {
                0 => return Err(ErrorKind::WriteZero.into()),
                count => self.sent += count,
            }
        }
        self.encoded.clear();
        self.sent = 0;
        Ok(())
    }

    /// Encodes and sends `bytes`; takes nothing while earlier bytes wait for the kernel.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send_encoded()?;
        self.encoded = STANDARD.encode(bytes).into_bytes();
        match self.send_encoded() {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(bytes.len()),
        }
    }
}

impl Tls {
    /// Passes encrypted bytes to the kernel.
    fn send_sealed(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            if self.session.write_tls(&mut self.socket)? == 0 {
                return Err(ErrorKind::WriteZero.into());
            }
        }
        Ok(())
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session.reader().read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // The end came without close_notify; RTSP notices a message that was cut.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                read => return read,
            }
            if self.session.read_tls(&mut self.socket)? == 0 {
                return Ok(0);
            }
            let processed = self.session.process_new_packets();
            processed.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        }
    }

    /// Encrypts and sends `bytes`; takes nothing while earlier bytes wait for the kernel.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send_sealed()?;
        let taken = self.session.writer().write(bytes)?;
        match self.send_sealed() {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(taken),
        }
    }
}
