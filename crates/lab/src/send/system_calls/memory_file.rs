use std::fs::File;
use std::io;
use std::net::TcpStream;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;

use super::sent;

/// A file in memory only (`memfd_create`), to send from.
///
/// Sent bytes are not copied: overwriting a part that a peer has not read yet changes what the peer
/// reads.
#[derive(Debug)]
pub(crate) struct MemoryFile(File);

impl MemoryFile {
    /// Creates an empty file.
    ///
    /// # Errors
    /// If no descriptors are left, or the kernel lacks such files.
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: the name is a C string that the kernel copies.
        let fd = unsafe { libc::memfd_create(c"glassline".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fd` was just opened and nobody else owns it.
        Ok(Self(File::from(unsafe { OwnedFd::from_raw_fd(fd) })))
    }

    /// Writes `bytes` at `offset`, which may extend the file: one system call.
    pub(crate) fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    /// Sends `len` bytes from `offset` (`sendfile`). The call waits unless the socket is
    /// non-blocking.
    pub(crate) fn send(&self, socket: &TcpStream, offset: u64, len: usize) -> io::Result<usize> {
        let mut offset = position(offset)?;
        let (to, from) = (socket.as_raw_fd(), self.0.as_raw_fd());
        // SAFETY: the kernel reads and writes one offset.
        sent(unsafe { libc::sendfile(to, from, &raw mut offset, len) })
    }
}

/// A pipe that moves pages from a file to a socket (`splice`).
#[derive(Debug)]
pub(crate) struct Pipe {
    /// The end to read from.
    read: OwnedFd,
    /// The end to write to.
    write: OwnedFd,
}

impl Pipe {
    /// Creates an empty, non-blocking pipe.
    pub(crate) fn new() -> io::Result<Self> {
        let mut ends = [0; 2];
        // SAFETY: the kernel writes two descriptors.
        let made = unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) };
        if made != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: both were just opened and nobody else owns them.
        let [read, write] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
        Ok(Self { read, write })
    }

    /// Moves `len` bytes of `file` from `offset` into the pipe.
    pub(crate) fn fill(&self, file: &MemoryFile, offset: u64, len: usize) -> io::Result<usize> {
        let mut offset = position(offset)?;
        let (from, to) = (file.0.as_raw_fd(), self.write.as_raw_fd());
        // SAFETY: the kernel reads and writes one offset; the other end has none.
        sent(unsafe {
            libc::splice(
                from,
                &raw mut offset,
                to,
                std::ptr::null_mut(),
                len,
                libc::SPLICE_F_NONBLOCK,
            )
        })
    }

    /// Sends up to `len` bytes of the pipe's content.
    pub(crate) fn send(&self, socket: &TcpStream, len: usize) -> io::Result<usize> {
        let (from, to) = (self.read.as_raw_fd(), socket.as_raw_fd());
        let none = std::ptr::null_mut;
        // SAFETY: neither end has an offset.
        sent(unsafe { libc::splice(from, none(), to, none(), len, libc::SPLICE_F_NONBLOCK) })
    }
}

/// Converts an offset for the kernel.
fn position(offset: u64) -> io::Result<libc::off_t> {
    libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput.into())
}
