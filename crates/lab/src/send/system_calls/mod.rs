//! Ways to send on a TCP connection without waiting, which are compared.
//!
//! Each function is one system call, and returns what the kernel accepted: all of it, the
//! first part, or `WouldBlock`. Types whose memory the kernel reads after the call has
//! returned ([`ZeroCopy`], [`Ring`]) keep that memory until the kernel is done.

#![expect(
    unsafe_code,
    reason = "send flags, socket options and sendfile have no safe interface in std"
)]

use std::fmt::Debug;
use std::io::{self, IoSlice};
use std::net::TcpStream;
use std::os::fd::AsRawFd as _;

mod memory_file;
mod ring;
mod zero_copy;

pub(crate) use memory_file::{MemoryFile, Pipe};
pub(crate) use ring::Ring;
pub(crate) use zero_copy::ZeroCopy;

/// Memory that the kernel may still read after the call that named it.
pub(crate) type Shared = std::sync::Arc<[u8]>;

/// Flags of all sends: never wait, and report a closed connection by an error instead of a
/// signal.
const FLAGS: libc::c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;

/// Sends `bytes`; returns how many the kernel accepted.
pub(crate) fn send(socket: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    send_with(socket, bytes, 0)
}

/// Sends `bytes` and announces that more follows at once (`MSG_MORE`): a segment that is
/// not full waits for it.
pub(crate) fn send_more(socket: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    send_with(socket, bytes, libc::MSG_MORE)
}

/// Sends several pieces in one call (`sendmsg`); at most 1024 of them.
pub(crate) fn send_parts(socket: &TcpStream, parts: &[IoSlice<'_>]) -> io::Result<usize> {
    // SAFETY: all-zero is a valid header without name, parts and control.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    // `IoSlice` is an `iovec` on Unix, as std promises.
    header.msg_iov = parts.as_ptr().cast_mut().cast();
    header.msg_iovlen = fit(parts.len());
    // SAFETY: the header points to `parts`, which outlive the call; the kernel reads.
    sent(unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, FLAGS) })
}

/// Sets whether only full segments leave (`TCP_CORK`); clearing it sends the rest.
pub(crate) fn cork(socket: &TcpStream, corked: bool) -> io::Result<()> {
    set(socket, libc::IPPROTO_TCP, libc::TCP_CORK, corked.into())
}

/// Requests a send buffer of `bytes`; the system may grant less.
pub(crate) fn set_send_buffer(socket: &TcpStream, bytes: usize) -> io::Result<()> {
    // Linux doubles the value.
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX / 2);
    set(socket, libc::SOL_SOCKET, libc::SO_SNDBUF, bytes)
}

/// Whether the error says that the kernel has no room for another send without a copy.
pub(crate) fn is_no_buffers(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENOBUFS)
}

/// Calls `send` with further flags.
fn send_with(socket: &TcpStream, bytes: &[u8], flags: libc::c_int) -> io::Result<usize> {
    let (start, len) = (bytes.as_ptr().cast(), bytes.len());
    // SAFETY: the kernel reads `len` bytes of `bytes`.
    sent(unsafe { libc::send(socket.as_raw_fd(), start, len, FLAGS | flags) })
}

/// Calls `setsockopt` with an integer.
fn set(
    socket: &TcpStream,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let fd = socket.as_raw_fd();
    let len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the kernel reads `len` bytes of `value`.
    let result = unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), len) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Converts the result of a system call that sends.
fn sent(result: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Converts a length between the types that C libraries give it in a `msghdr`: glibc has
/// `size_t`, as Linux does, and musl `int` or `socklen_t`, as POSIX does.
fn fit<Given, Wanted>(value: Given) -> Wanted
where
    Wanted: TryFrom<Given, Error: Debug>,
{
    Wanted::try_from(value).expect("lengths are those of one call's buffers")
}

#[cfg(test)]
mod tests;
