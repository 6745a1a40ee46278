//! A client's connection: plain, or inside TLS.

use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, RawFd};

use mio::net::TcpStream;

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
}

impl Wire {
    /// Prepares an accepted connection.
    pub(super) fn plain(stream: TcpStream) -> io::Result<Self> {
        // A frame is one write: what is held back for more is only late.
        stream.set_nodelay(true)?;
        let stream = std::net::TcpStream::from(stream);
        glassline_net::set_unsent_limit(&stream, UNSENT_BYTES_MAX)?;
        Ok(Self::Plain(TcpStream::from_std(stream)))
    }

    /// Says that nothing more will be written; what was written still arrives.
    pub(super) fn finish(&mut self) {
        match self {
            // It may be gone already.
            Self::Plain(stream) => drop(stream.shutdown(Shutdown::Write)),
        }
    }
}

impl AsRawFd for Wire {
    fn as_raw_fd(&self) -> RawFd {
        match self {
            Self::Plain(stream) => stream.as_raw_fd(),
        }
    }
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(buffer),
        }
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(bytes),
        }
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write_vectored(slices),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
