//! Ways to send on a TCP connection without waiting, on systems other than Linux: only the
//! plain ones. The others return `Unsupported`.

use std::io::{self, IoSlice, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Memory that the kernel may still read after the call that named it.
pub type Shared = std::sync::Arc<[u8]>;

/// Sends `bytes`. The call waits unless the socket is non-blocking.
pub fn send(mut socket: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    socket.write(bytes)
}

/// Returns `Unsupported`: only Linux can be told that more data follows.
pub fn send_more(_: &TcpStream, _: &[u8]) -> io::Result<usize> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Sends several pieces in one call.
pub fn send_parts(mut socket: &TcpStream, parts: &[IoSlice<'_>]) -> io::Result<usize> {
    socket.write_vectored(parts)
}

/// Returns `Unsupported`: only Linux has `TCP_CORK`.
pub fn cork(_: &TcpStream, _: bool) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Does nothing: the system's own size stays.
pub fn set_send_buffer(_: &TcpStream, _: usize) -> io::Result<()> {
    Ok(())
}

/// Returns `Unsupported`: the receive buffer is set before connecting on Linux only.
pub fn connect(_: SocketAddr, _: usize, _: Duration) -> io::Result<TcpStream> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns false: no call here returns such an error.
pub fn is_no_buffers(_: &io::Error) -> bool {
    false
}

/// A file in memory only, which this system lacks.
#[derive(Debug)]
pub enum MemoryFile {}

impl MemoryFile {
    /// Returns `Unsupported`: only Linux has `memfd_create`.
    pub fn new() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Cannot be called: no value of this type exists.
    pub fn write(&self, _: &[u8], _: u64) -> io::Result<()> {
        match *self {}
    }

    /// Cannot be called: no value of this type exists.
    pub fn send(&self, _: &TcpStream, _: u64, _: usize) -> io::Result<usize> {
        match *self {}
    }
}

/// A pipe that moves pages, which this system lacks.
#[derive(Debug)]
pub enum Pipe {}

impl Pipe {
    /// Returns `Unsupported`: only Linux has `splice`.
    pub fn new() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Cannot be called: no value of this type exists.
    pub fn fill(&self, _: &MemoryFile, _: u64, _: usize) -> io::Result<usize> {
        match *self {}
    }

    /// Cannot be called: no value of this type exists.
    pub fn send(&self, _: &TcpStream, _: usize) -> io::Result<usize> {
        match *self {}
    }
}

/// Sends from the caller's memory, which this system lacks.
#[derive(Debug)]
pub enum ZeroCopy {}

/// Result of reading the error queue once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reaped {
    /// Sends that are completed.
    pub completed: u32,
    /// Completed sends that the kernel copied after all.
    pub copied: u32,
}

impl ZeroCopy {
    /// Returns `Unsupported`: only Linux has `MSG_ZEROCOPY`.
    pub fn enable(_: &TcpStream) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Cannot be called: no value of this type exists.
    pub fn send(&mut self, _: &TcpStream, _: &Shared, _: usize) -> io::Result<usize> {
        match *self {}
    }

    /// Cannot be called: no value of this type exists.
    pub fn under_way(&self) -> usize {
        match *self {}
    }

    /// Cannot be called: no value of this type exists.
    pub fn reap(&mut self, _: &TcpStream) -> io::Result<Option<Reaped>> {
        match *self {}
    }
}

/// Sends on many connections with one system call, which this system lacks.
#[derive(Debug)]
pub struct Ring {
    /// System calls so far.
    pub system_calls: u64,
    /// Sends that the kernel copied although zero copy was requested.
    pub copied: u64,
    /// Makes the type uninhabited.
    none: std::convert::Infallible,
}

/// Result of one send.
#[derive(Debug)]
pub struct Completion {
    /// Index of the connection.
    pub socket: usize,
    /// Bytes accepted, or the error.
    pub result: io::Result<usize>,
}

impl Ring {
    /// Returns `Unsupported`: only Linux has `io_uring`.
    pub fn new(_: &[TcpStream], _: bool) -> io::Result<Self> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "io_uring exists on Linux only",
        ))
    }

    /// Cannot be called: no value of this type exists.
    pub fn send(
        &mut self,
        _: impl IntoIterator<Item = usize>,
        _: &Shared,
        _: impl FnMut(Completion),
    ) -> io::Result<()> {
        match self.none {}
    }

    /// Cannot be called: no value of this type exists.
    pub fn is_zero_copy(&self) -> bool {
        match self.none {}
    }

    /// Cannot be called: no value of this type exists.
    pub fn under_way(&self) -> usize {
        match self.none {}
    }
}
