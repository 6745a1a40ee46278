//! A connection inside TLS: what is written is sealed a piece at a time.
//!
//! ```text
//! frames ──► at most SEALED_BYTES_MAX sealed ──► kernel
//!              └ while some of it waits, nothing more is taken
//! ```
//!
//! To the writer it is a socket whose kernel buffer is that much longer: a frame of
//! which a part was taken is finished, and what was not taken can still be skipped.

use std::fmt;
use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use rustls::ServerConnection;

use crate::config::Identity;

/// Sealed bytes that wait for the kernel: four records, one system call.
const SEALED_BYTES_MAX: usize = 64 << 10;

/// How long a client may take for its handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// One client's TLS and the socket under it.
pub(super) struct Tls {
    socket: TcpStream,
    session: ServerConnection,
    handshake_until: Instant,
}

impl Tls {
    pub(super) fn new(socket: TcpStream, identity: &Identity, now: Instant) -> io::Result<Self> {
        let mut session =
            ServerConnection::new(Arc::clone(&identity.config)).map_err(io::Error::other)?;
        session.set_buffer_limit(Some(SEALED_BYTES_MAX));
        Ok(Self {
            socket,
            session,
            handshake_until: now + HANDSHAKE,
        })
    }

    /// The handshake should have been done by now.
    pub(super) fn is_overdue(&self, now: Instant) -> bool {
        self.session.is_handshaking() && self.handshake_until <= now
    }

    /// Something sealed waits for the kernel.
    pub(super) fn holds_back(&self) -> bool {
        self.session.wants_write()
    }

    /// Hands the kernel what is sealed; whether it took any. It may not have taken all.
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

    /// Says that nothing more will be written; what was written still arrives.
    pub(super) fn finish(&mut self) {
        self.session.send_close_notify();
        // It may be gone already.
        let _ = self.send_sealed();
        let _ = self.socket.shutdown(Shutdown::Write);
    }
}

impl Read for Tls {
    /// An error of kind [`io::ErrorKind::InvalidData`]: what comes is no TLS, or not
    /// what was sent.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // An end without a farewell: a message cut short is noticed by RTSP.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                read => return read,
            }
            let came = self.session.read_tls(&mut self.socket)?;
            let processed = self.session.process_new_packets();
            // Its part of the handshake, or an alert that says what is wrong.
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

    /// Takes as much as keeps what waits below the bound.
    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut taken = 0;
        // Each round of a client that reads takes a bound's worth.
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
    /// Without keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tls({:?})", self.socket)
    }
}
