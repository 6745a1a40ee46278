//! A connection within TLS: data is sealed in pieces of bounded size.
//!
//! ```text
//! frames ──► at most SEALED_BYTES_MAX sealed ──► kernel
//!              └ while some of it waits, nothing more is taken
//! ```
//!
//! To the writer this is a socket whose kernel buffer is larger by that bound: a frame that was
//! taken in part is finished, and a frame that was not taken can still be skipped.

use std::fmt;
use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use rustls::{ServerConfig, ServerConnection};

/// Most sealed bytes that wait for the kernel: four records, one system call.
const SEALED_BYTES_MAX: usize = 64 << 10;

/// Time that a client has for its handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// One client's TLS and the socket under it.
pub(super) struct Tls {
    socket: TcpStream,
    session: ServerConnection,
    handshake_until: Instant,
    /// Whether the client sent anything.
    has_begun: bool,
}

impl Tls {
    pub(super) fn new(
        socket: TcpStream,
        config: &Arc<ServerConfig>,
        now: Instant,
    ) -> io::Result<Self> {
        let mut session = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
        session.set_buffer_limit(Some(SEALED_BYTES_MAX));
        Ok(Self {
            socket,
            session,
            handshake_until: now + HANDSHAKE,
            has_begun: false,
        })
    }

    /// Returns whether the handshake took too long.
    pub(super) fn is_overdue(&self, now: Instant) -> bool {
        self.session.is_handshaking() && self.handshake_until <= now
    }

    /// Returns whether the client has begun the handshake, and it is not done.
    pub(super) fn is_within_handshake(&self) -> bool {
        self.session.is_handshaking() && self.has_begun
    }

    /// Returns whether sealed bytes wait for the kernel.
    pub(super) fn holds_back(&self) -> bool {
        self.session.wants_write()
    }

    /// Hands sealed bytes to the kernel. Returns whether the kernel took any, which may be only a
    /// part.
    pub(super) fn send_sealed(&mut self) -> io::Result<bool> {
        let mut took = false;
        while self.session.wants_write() {
            match self.session.write_tls(&mut self.socket) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => took = true,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(took)
    }

    /// Ends the direction to the client; data written before still arrives.
    pub(super) fn finish(&mut self) {
        self.session.send_close_notify();
        // The connection may be closed already.
        let _ = self.send_sealed();
        let _ = self.socket.shutdown(Shutdown::Write);
    }
}

impl Read for Tls {
    /// # Errors
    /// Returns an error of kind [`io::ErrorKind::InvalidData`] if the data is not TLS or was
    /// changed on the way.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The connection ended without a TLS close message. RTSP notices a message that is
                // cut short.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                read => return read,
            }
            let came = self.session.read_tls(&mut self.socket)?;
            self.has_begun |= came > 0;
            let processed = self.session.process_new_packets();
            // This is the server's part of the handshake, or an alert that tells what is wrong.
            let sent = self.send_sealed();
            processed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            sent?;
            if came == 0 {
                return Ok(0);
            }
        }
    }
}

impl Write for Tls {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    /// Takes as much as keeps the waiting bytes below the limit.
    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut taken = 0;
        // Each round of a client that reads takes as many bytes as the limit allows.
        let mut rest: smallvec::SmallVec<[IoSlice<'_>; 20]> = slices.iter().copied().collect();
        let mut left = &mut rest[..];
        loop {
            self.send_sealed()?;
            if self.holds_back() || left.is_empty() {
                break;
            }
            let count = self.session.writer().write_vectored(left)?;
            if count == 0 {
                break;
            }
            taken += count;
            IoSlice::advance_slices(&mut left, count);
        }
        match taken {
            0 if self.holds_back() => Err(io::ErrorKind::WouldBlock.into()),
            taken => Ok(taken),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsRawFd for Tls {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

impl fmt::Debug for Tls {
    /// Writes the socket only, and none of the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tls({:?})", self.socket)
    }
}
