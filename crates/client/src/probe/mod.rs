//! One question to a server at a time, for diagnosis: does a name resolve, is a port open, which
//! certificate is shown, which candidates are offered, and which of them answer.
//!
//! ```text
//! resolve ─► connect ─► tls::present ─► http::exchange ─► whep::negotiate ─► candidate::check
//!                                                                       └─► relay::gather (TURN)
//! ```
//!
//! Calls block, each with a deadline; make them on threads that may wait. Nothing here judges:
//! the answers are facts, and a failure keeps the system's error.

pub mod candidate;
pub mod http;
pub mod ntp;
pub mod quic;
pub mod rtsp;
pub mod tls;
pub mod whep;

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

/// Returns the addresses that the resolver gives for a name, or the address itself.
///
/// # Errors
/// The resolver's error.
pub fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let mut addresses: Vec<_> = (host, port).to_socket_addrs()?.collect();
    addresses.sort_unstable();
    addresses.dedup();
    match addresses.is_empty() {
        true => Err(io::Error::other("the name has no address")),
        false => Ok(addresses),
    }
}

/// Opens a TCP connection and closes it; returns the time that it took.
///
/// # Errors
/// The system's error, or a time-out after `patience`.
pub fn connect(address: SocketAddr, patience: Duration) -> io::Result<Duration> {
    let begun = Instant::now();
    TcpStream::connect_timeout(&address, patience)?;
    Ok(begun.elapsed())
}
