//! Ports for programs that have to be told theirs.

use std::fs::File;
use std::net::{TcpListener, UdpSocket};
use std::process;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// First port that is given. All lie below the ports that Linux takes for outgoing connections
/// (32768 to 60999), so that no connection takes one between its choice and its use. Browsers open no
/// page of port 10080, the last of the "bad ports" of the Fetch standard.
const FIRST: u32 = 11_000;

/// Number of ports that one process of tests gives.
const COUNT: u32 = 1_000;

/// Number of processes of tests that have ports of their own.
const RANGES: u32 = 20;

/// Number of ports that tests of this process were given, those in use elsewhere included.
static GIVEN: AtomicU32 = AtomicU32::new(0);

/// The range of ports of this process, with the lock that keeps others out. Otherwise another
/// process could take the port of a server that is killed and started again.
static RANGE: LazyLock<(u32, Option<File>)> = LazyLock::new(|| {
    for range in 0..RANGES {
        let path = std::env::temp_dir().join(format!("glassline-test-ports-{range}"));
        let lock = File::options().create(true).append(true).open(path).ok();
        if let Some(lock) = lock.filter(|lock| lock.try_lock().is_ok()) {
            return (range, Some(lock));
        }
    }
    (process::id() % RANGES, None)
});

/// Returns a port of loopback that is free for TCP and UDP, and which no other test of this
/// process is given before all others were.
pub(crate) fn free_port() -> Result<u16, String> {
    let first = FIRST + RANGE.0 * COUNT;
    for _ in 0..COUNT {
        let given = GIVEN.fetch_add(1, Ordering::Relaxed);
        let port = first + given % COUNT;
        let port = u16::try_from(port).map_err(|error| error.to_string())?;
        let address = ("127.0.0.1", port);
        if TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok() {
            return Ok(port);
        }
    }
    Err(format!(
        "no port from {first} to {} is free for TCP and UDP",
        first + COUNT - 1
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
