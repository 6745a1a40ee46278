//! TCP connections whose ends choose their buffers and never wait to send.

#![expect(
    unsafe_code,
    reason = "send flags and socket options have no safe interface in std"
)]

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::time::Duration;

use crate::sys::Name;

/// Sends `bytes`; returns how many the kernel accepted.
pub fn send(socket: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    let (start, len) = (bytes.as_ptr().cast(), bytes.len());
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the kernel reads `len` bytes of `bytes`.
    let sent = unsafe { libc::send(socket.as_raw_fd(), start, len, flags) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Connects with a receive buffer of about `receive_buffer` bytes; the system grants at
/// least about two kilobytes. Requested before the connection is made, it bounds the window
/// that the peer sees from its first packet on.
///
/// Waits at most `timeout`. The socket blocks, like those of std.
pub fn connect(
    address: SocketAddr,
    receive_buffer: usize,
    timeout: Duration,
) -> io::Result<TcpStream> {
    let family = match address {
        SocketAddr::V4(_) => libc::AF_INET,
        SocketAddr::V6(_) => libc::AF_INET6,
    };
    // SAFETY: takes three integers.
    let fd = unsafe { libc::socket(family, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `fd` was just opened and nobody else owns it.
    let socket = TcpStream::from(unsafe { OwnedFd::from_raw_fd(fd) });
    set_buffer(&socket, libc::SO_RCVBUF, receive_buffer)?;
    // On Linux the write timeout bounds the wait for the connection, too (socket(7)).
    socket.set_write_timeout(Some(timeout))?;
    let (name, len) = Name::new(address, false);
    // SAFETY: `name` lives across the call and `len` is the size of the variant that
    // it holds.
    if unsafe { libc::connect(fd, (&raw const name).cast(), len) } != 0 {
        return Err(match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::EINPROGRESS) => {
                io::ErrorKind::TimedOut.into()
            }
            error => error,
        });
    }
    socket.set_write_timeout(None)?;
    Ok(socket)
}

/// Sets the size of a buffer.
fn set_buffer(socket: &TcpStream, name: libc::c_int, bytes: usize) -> io::Result<()> {
    // Linux doubles the value.
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX / 2);
    let len = size_of::<libc::c_int>() as libc::socklen_t;
    let (fd, level) = (socket.as_raw_fd(), libc::SOL_SOCKET);
    // SAFETY: the kernel reads `len` bytes of `bytes`.
    let result = unsafe { libc::setsockopt(fd, level, name, (&raw const bytes).cast(), len) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Returns both ends of a connection; the sending one does not wait.
    fn pair(connect: impl Fn(SocketAddr) -> io::Result<TcpStream>) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback has a free port");
        let address = listener.local_addr().expect("it is bound");
        let far = connect(address).expect("it listens");
        let (near, _) = listener.accept().expect("somebody came");
        near.set_nonblocking(true).expect("a socket");
        (near, far)
    }

    #[test]
    fn a_full_socket_does_not_wait() {
        let (near, _far) = pair(TcpStream::connect::<SocketAddr>);
        set_buffer(&near, libc::SO_SNDBUF, 64 << 10).expect("a socket");
        let bytes = vec![0; 1 << 20];
        let error = loop {
            if let Err(error) = send(&near, &bytes) {
                break error;
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_small_receive_buffer_bounds_what_the_peer_takes() {
        let timeout = Duration::from_secs(20);
        let taken = |receive_buffer: usize| {
            let (near, _far) = pair(|address| connect(address, receive_buffer, timeout));
            set_buffer(&near, libc::SO_SNDBUF, 4096).expect("a socket");
            let bytes = [0; 4096];
            let mut taken = 0;
            while let Ok(count) = send(&near, &bytes) {
                taken += count;
            }
            taken
        };
        assert!(taken(4096) < taken(1 << 20));
        // No socket listens there any more.
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback has a free port");
        let address = listener.local_addr().expect("it is bound");
        drop(listener);
        let error = connect(address, 4096, timeout).expect_err("nobody listens");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }
}
