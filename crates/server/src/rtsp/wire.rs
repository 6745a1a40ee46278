//! A client's connection: plain, or inside TLS.

use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Instant;

use mio::net::TcpStream;

use super::tls::Tls;
use crate::config::Identity;

/// At most about this much waits unsent in the kernel, so that a client that takes
/// less than it is sent is noticed within a large keyframe's time and not after
/// megabytes. The size of the send buffer is left to the kernel, which fits it to
/// what the path needs under way.
const UNSENT_BYTES_MAX: u32 = 128 << 10;

/// What bytes go through.
#[derive(Debug)]
pub(super) enum Wire {
    /// As they are.
    Plain(TcpStream),
    /// Sealed.
    Tls(Box<Tls>),
}

impl Wire {
    /// Prepares an accepted connection; with `identity` it is to speak TLS.
    pub(super) fn new(
        stream: TcpStream,
        identity: Option<&Identity>,
        now: Instant,
    ) -> io::Result<Self> {
        // A frame is one write: what is held back for more is only late.
        stream.set_nodelay(true)?;
        let stream = std::net::TcpStream::from(stream);
        glassline_net::set_unsent_limit(&stream, UNSENT_BYTES_MAX)?;
        let stream = TcpStream::from_std(stream);
        Ok(match identity {
            Some(identity) => Self::Tls(Box::new(Tls::new(stream, identity, now)?)),
            None => Self::Plain(stream),
        })
    }

    /// It is inside TLS.
    pub(super) const fn is_secure(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// Its handshake should have been done by now.
    pub(super) fn is_overdue(&self, now: Instant) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(tls) => tls.is_overdue(now),
        }
    }

    /// Something that it took waits for the kernel.
    pub(super) fn holds_back(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(tls) => tls.holds_back(),
        }
    }

    /// Hands the kernel what waits for it; whether it took any.
    pub(super) fn send_held_back(&mut self) -> io::Result<bool> {
        match self {
            Self::Plain(_) => Ok(false),
            Self::Tls(tls) => tls.send_sealed(),
        }
    }

    /// Says that nothing more will be written; what was written still arrives.
    pub(super) fn finish(&mut self) {
        match self {
            // It may be gone already.
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
