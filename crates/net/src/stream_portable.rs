//! Ways to send on a connection without waiting: where there is no Linux, the plain
//! ones only. The others are refused with `Unsupported`.

use std::io::{self, IoSlice, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Memory that the kernel may still read when the call that named it is over.
pub type Shared = std::sync::Arc<[u8]>;

/// Sends `bytes`; the socket is non-blocking, or this waits.
pub fn send(mut socket: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    socket.write(bytes)
}

/// Refused.
pub fn send_more(_: &TcpStream, _: &[u8]) -> io::Result<usize> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Sends several pieces as one.
pub fn send_parts(mut socket: &TcpStream, parts: &[IoSlice<'_>]) -> io::Result<usize> {
    socket.write_vectored(parts)
}

/// Refused.
pub fn cork(_: &TcpStream, _: bool) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// The system's own size stays.
pub fn set_send_buffer(_: &TcpStream, _: usize) -> io::Result<()> {
    Ok(())
}

/// Refused.
pub fn connect(_: SocketAddr, _: usize, _: Duration) -> io::Result<TcpStream> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Nothing here says so.
pub fn is_no_buffers(_: &io::Error) -> bool {
    false
}

/// A file without a place on any disk: not here.
#[derive(Debug)]
pub enum MemoryFile {}

impl MemoryFile {
    /// Refused.
    pub fn new() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// There is none.
    pub fn write(&self, _: &[u8], _: u64) -> io::Result<()> {
        match *self {}
    }

    /// There is none.
    pub fn send(&self, _: &TcpStream, _: u64, _: usize) -> io::Result<usize> {
        match *self {}
    }
}

/// A pipe through which pages go: not here.
#[derive(Debug)]
pub enum Pipe {}

impl Pipe {
    /// Refused.
    pub fn new() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// There is none.
    pub fn fill(&self, _: &MemoryFile, _: u64, _: usize) -> io::Result<usize> {
        match *self {}
    }

    /// There is none.
    pub fn send(&self, _: &TcpStream, _: usize) -> io::Result<usize> {
        match *self {}
    }
}

/// Sends from the caller's memory: not here.
#[derive(Debug)]
pub enum ZeroCopy {}

/// What one look at the error queue brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reaped {
    /// Sends that are over.
    pub completed: u32,
    /// Of them, those that the kernel copied after all.
    pub copied: u32,
}

impl ZeroCopy {
    /// Refused.
    pub fn enable(_: &TcpStream) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// There is none.
    pub fn send(&mut self, _: &TcpStream, _: &Shared, _: usize) -> io::Result<usize> {
        match *self {}
    }

    /// There is none.
    pub fn under_way(&self) -> usize {
        match *self {}
    }

    /// There is none.
    pub fn reap(&mut self, _: &TcpStream) -> io::Result<Option<Reaped>> {
        match *self {}
    }
}

/// Sends on many connections with one system call: not here.
#[derive(Debug)]
pub struct Ring {
    /// System calls so far.
    pub system_calls: u64,
    /// Sends that the kernel was asked not to copy, and did.
    pub copied: u64,
    none: std::convert::Infallible,
}

/// What became of one send.
#[derive(Debug)]
pub struct Completion {
    /// Which of the connections.
    pub socket: usize,
    /// Bytes taken.
    pub result: io::Result<usize>,
}

impl Ring {
    /// Refused.
    pub fn new(_: &[TcpStream], _: bool) -> io::Result<Self> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "io_uring is of Linux only",
        ))
    }

    /// There is none.
    pub fn send(
        &mut self,
        _: impl IntoIterator<Item = usize>,
        _: &Shared,
        _: impl FnMut(Completion),
    ) -> io::Result<()> {
        match self.none {}
    }

    /// There is none.
    pub fn is_zero_copy(&self) -> bool {
        match self.none {}
    }

    /// There is none.
    pub fn under_way(&self) -> usize {
        match self.none {}
    }
}
