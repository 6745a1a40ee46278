//! TCP connections on systems other than Linux, whose buffers are the system's own.

use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Sends `bytes`. The call waits unless the socket is non-blocking.
pub fn send(mut socket: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    socket.write(bytes)
}

/// Returns `Unsupported`: the receive buffer is set before connecting on Linux only.
pub fn connect(_: SocketAddr, _: usize, _: Duration) -> io::Result<TcpStream> {
    Err(io::ErrorKind::Unsupported.into())
}
