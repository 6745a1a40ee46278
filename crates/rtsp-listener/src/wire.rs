//! A client's connection: plain, or within TLS.

use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::Instant;

use mio::net::TcpStream;
use rustls::ServerConfig;

use super::tls::Tls;

/// Most bytes that wait unsent in the kernel, approximately. A client that receives too slowly is
/// thus noticed within the time of a large keyframe and not after megabytes. The size of the send
/// buffer is left to the kernel, which adapts it to the path.
const UNSENT_BYTES_MAX: u32 = 128 << 10;

/// The stream that bytes are written to and read from.
#[derive(Debug)]
pub(super) enum Wire {
    /// A connection without encryption.
    Plain(TcpStream),
    /// A connection within TLS.
    Tls(Box<Tls>),
}

impl Wire {
    /// Prepares an accepted connection; with `tls` the client must speak TLS.
    pub(super) fn new(
        stream: TcpStream,
        tls: Option<&Arc<ServerConfig>>,
        now: Instant,
    ) -> io::Result<Self> {
        // Each frame is one write; data held back for more would only be late.
        stream.set_nodelay(true)?;
        let stream = std::net::TcpStream::from(stream);
        glassline_net::set_unsent_limit(&stream, UNSENT_BYTES_MAX)?;
        let stream = TcpStream::from_std(stream);
        Ok(match tls {
            Some(config) => Self::Tls(Box::new(Tls::new(stream, config, now)?)),
            None => Self::Plain(stream),
        })
    }

    /// Returns whether the connection is within TLS.
    pub(super) const fn is_secure(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// Returns whether the TLS handshake took too long.
    pub(super) fn is_overdue(&self, now: Instant) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(tls) => tls.is_overdue(now),
        }
    }

    /// Returns whether the client has begun a TLS handshake that is not done.
    pub(super) fn is_within_handshake(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(tls) => tls.is_within_handshake(),
        }
    }

    /// Returns whether data that was written here waits for the kernel.
    pub(super) fn holds_back(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(tls) => tls.holds_back(),
        }
    }

    /// Hands waiting data to the kernel. Returns whether the kernel took any.
    pub(super) fn send_held_back(&mut self) -> io::Result<bool> {
        match self {
            Self::Plain(_) => Ok(false),
            Self::Tls(tls) => tls.send_sealed(),
        }
    }

    /// Ends the direction to the client; data written before still arrives.
    pub(super) fn finish(&mut self) {
        match self {
            // The connection may be closed already.
            Self::Plain(stream) => drop(stream.shutdown(Shutdown::Write)),
            Self::Tls(tls) => tls.finish(),
        }
    }
}

impl AsRawFd for Wire {
    fn as_raw_fd(&self) -> RawFd {
        match self {
            Self::Plain(stream) => stream.as_raw_fd(),
            Self::Tls(tls) => tls.as_raw_fd(),
        }
    }
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(buffer),
            Self::Tls(tls) => tls.read(buffer),
        }
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(bytes),
            Self::Tls(tls) => tls.write(bytes),
        }
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write_vectored(slices),
            Self::Tls(tls) => tls.write_vectored(slices),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
