//! Ports for programs that have to be told theirs.

use std::net::{TcpListener, UdpSocket};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// First port that is given. All lie below the ports that Linux takes for outgoing connections
/// (32768 to 60999), so that no connection takes one between its choice and its use.
const FIRST: u32 = 10_000;

/// Number of ports that are given.
const COUNT: u32 = 20_000;

/// Number of ports that tests of this process were given, those in use elsewhere included.
static GIVEN: AtomicU32 = AtomicU32::new(0);

/// Returns a port of loopback that is free for TCP and UDP, and which no other test of this
/// process is given before all others were.
pub(crate) fn free_port() -> Result<u16, String> {
    // Other processes of tests begin elsewhere.
    let start = process::id().wrapping_mul(7_919);
    for _ in 0..COUNT {
        let given = GIVEN.fetch_add(1, Ordering::Relaxed);
        let port = FIRST + start.wrapping_add(given) % COUNT;
        let port = u16::try_from(port).map_err(|error| error.to_string())?;
        let address = ("127.0.0.1", port);
        if TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok() {
            return Ok(port);
        }
    }
    Err(format!(
        "no port from {FIRST} to {} is free for TCP and UDP",
        FIRST + COUNT - 1
    ))
}

/// Returns several ports, each as [`free_port`] gives it.
pub(crate) fn free_ports<const NUMBER: usize>() -> Result<[u16; NUMBER], String> {
    let mut ports = [0; NUMBER];
    for port in &mut ports {
        *port = free_port()?;
    }
    Ok(ports)
}
