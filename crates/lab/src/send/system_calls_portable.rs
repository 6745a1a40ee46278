//! Ways to send on a TCP connection without waiting, on systems other than Linux: only the
//! plain ones. The others return `Unsupported`.

use std::io::{self, IoSlice, Write as _};
use std::net::TcpStream;

/// Memory that the kernel may still read after the call that named it.
pub(crate) type Shared = std::sync::Arc<[u8]>;

/// Sends `bytes`. The call waits unless the socket is non-blocking.
pub(crate) fn send(mut socket: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    socket.write(bytes)
}

/// Returns `Unsupported`: only Linux can be told that more data follows.
pub(crate) fn send_more(_: &TcpStream, _: &[u8]) -> io::Result<usize> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Sends several pieces in one call.
pub(crate) fn send_parts(mut socket: &TcpStream, parts: &[IoSlice<'_>]) -> io::Result<usize> {
    socket.write_vectored(parts)
}

/// Returns `Unsupported`: only Linux has `TCP_CORK`.
pub(crate) fn cork(_: &TcpStream, _: bool) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Does nothing: the system's own size stays.
pub(crate) fn set_send_buffer(_: &TcpStream, _: usize) -> io::Result<()> {
    Ok(())
}

/// Returns false: no call here returns such an error.
pub(crate) fn is_no_buffers(_: &io::Error) -> bool {
    false
}

/// A file in memory only, which this system lacks.
#[derive(Debug)]
pub(crate) enum MemoryFile {}

impl MemoryFile {
    /// Returns `Unsupported`: only Linux has `memfd_create`.
    pub(crate) fn new() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Cannot be called: no value of this type exists.
    pub(crate) fn write(&self, _: &[u8], _: u64) -> io::Result<()> {
        match *self {}
    }

    /// Cannot be called: no value of this type exists.
    pub(crate) fn send(&self, _: &TcpStream, _: u64, _: usize) -> io::Result<usize> {
        match *self {}
    }
}

/// A pipe that moves pages, which this system lacks.
#[derive(Debug)]
pub(crate) enum Pipe {}

impl Pipe {
    /// Returns `Unsupported`: only Linux has `splice`.
    pub(crate) fn new() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Cannot be called: no value of this type exists.
    pub(crate) fn fill(&self, _: &MemoryFile, _: u64, _: usize) -> io::Result<usize> {
        match *self {}
    }

    /// Cannot be called: no value of this type exists.
    pub(crate) fn send(&self, _: &TcpStream, _: usize) -> io::Result<usize> {
        match *self {}
    }
}

/// Sends from the caller's memory, which this system lacks.
#[derive(Debug)]
pub(crate) enum ZeroCopy {}

/// Result of reading the error queue once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reaped {
    /// Sends that are completed.
    pub(crate) completed: u32,
    /// Completed sends that the kernel copied after all.
    pub(crate) copied: u32,
}

impl ZeroCopy {
    /// Returns `Unsupported`: only Linux has `MSG_ZEROCOPY`.
    pub(crate) fn enable(_: &TcpStream) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Cannot be called: no value of this type exists.
    pub(crate) fn send(&mut self, _: &TcpStream, _: &Shared, _: usize) -> io::Result<usize> {
        match *self {}
    }

    /// Cannot be called: no value of this type exists.
    pub(crate) fn under_way(&self) -> usize {
        match *self {}
    }

    /// Cannot be called: no value of this type exists.
    pub(crate) fn reap(&mut self, _: &TcpStream) -> io::Result<Option<Reaped>> {
        match *self {}
    }
}

/// Sends on many connections with one system call, which this system lacks.
#[derive(Debug)]
pub(crate) struct Ring {
    /// System calls so far.
    pub(crate) system_calls: u64,
    /// Sends that the kernel copied although zero copy was requested.
    pub(crate) copied: u64,
    /// Makes the type uninhabited.
    none: std::convert::Infallible,
}

/// Result of one send.
#[derive(Debug)]
pub(crate) struct Completion {
    /// Index of the connection.
    pub(crate) socket: usize,
    /// Bytes accepted, or the error.
    pub(crate) result: io::Result<usize>,
}

impl Ring {
    /// Returns `Unsupported`: only Linux has `io_uring`.
    pub(crate) fn new(_: &[TcpStream], _: bool) -> io::Result<Self> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "io_uring exists on Linux only",
        ))
    }

    /// Cannot be called: no value of this type exists.
    pub(crate) fn send(
        &mut self,
        _: impl IntoIterator<Item = usize>,
        _: &Shared,
        _: impl FnMut(Completion),
    ) -> io::Result<()> {
        match self.none {}
    }

    /// Cannot be called: no value of this type exists.
    pub(crate) fn is_zero_copy(&self) -> bool {
        match self.none {}
    }
}
