use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use rustls::ClientConnection;
use rustls::pki_types::ServerName;

use crate::trust::Trust;

/// A connection to a server: plain, or inside TLS.
#[derive(Debug)]
pub(super) enum Wire {
    /// As the bytes are.
    Plain(TcpStream),
    /// Sealed.
    Tls(Box<Tls>),
}

/// TLS, its handshake done, and the socket under it.
#[derive(Debug)]
pub(super) struct Tls {
    session: ClientConnection,
    socket: TcpStream,
}

impl Wire {
    /// Shakes hands with `host` on a fresh connection that blocks; no read or write of
    /// it takes longer than `patience`.
    pub(super) fn secure(
        mut socket: TcpStream,
        host: &str,
        trust: Trust,
        patience: Duration,
    ) -> io::Result<Self> {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(bare.to_owned()).map_err(io::Error::other)?;
        let session = ClientConnection::new(trust.config(), name);
        let mut session = session.map_err(io::Error::other)?;
        socket.set_read_timeout(Some(patience))?;
        socket.set_write_timeout(Some(patience))?;
        while session.is_handshaking() {
            session.complete_io(&mut socket)?;
        }
        socket.set_read_timeout(None)?;
        socket.set_write_timeout(None)?;
        Ok(Self::Tls(Box::new(Tls { session, socket })))
    }

    /// The name of what seals it, if anything does.
    pub(super) const fn protection(&self) -> Option<&'static str> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(_) => Some("TLS"),
        }
    }

    pub(super) const fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(tls) => &tls.socket,
        }
    }
}

impl AsRawFd for Wire {
    fn as_raw_fd(&self) -> RawFd {
        self.socket().as_raw_fd()
    }
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(buffer),
            Self::Tls(tls) => tls.read(buffer),
        }
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Tls(tls) => tls.write(bytes),
        }
    }

    /// An error of kind [`ErrorKind::WouldBlock`]: some of what was written waits here.
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Tls(tls) => tls.send_sealed(),
        }
    }
}

impl Tls {
    /// Hands the kernel what is sealed.
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
                // An end without a farewell: RTSP notices a message that was cut.
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

    /// Takes nothing while something waits for the kernel.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send_sealed()?;
        let taken = self.session.writer().write(bytes)?;
        match self.send_sealed() {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(taken),
        }
    }
}
