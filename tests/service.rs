//! The server under a service manager: what it says in datagrams, as systemd reads them.

use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;

use crate::peers::Test;
use crate::process::{PATIENCE, output_folder};
use crate::server::Server;

pub(crate) const TESTS: &[Test] = &[Test::of(&its_manager_hears_of_start_life_reload_and_end)];

fn its_manager_hears_of_start_life_reload_and_end() -> Result<(), Failed> {
    let path = output_folder().join(format!("notify-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let socket = UnixDatagram::bind(&path)?;
    socket.set_read_timeout(Some(Duration::from_millis(200)))?;
    let mut server = Server::with_variables(&[
        ("NOTIFY_SOCKET", &path.display().to_string()),
        // Half of it is the interval of signs of life.
        ("WATCHDOG_USEC", "400000"),
    ])?;
    hears(&socket, "READY=1")?;
    for _ in 0..3 {
        hears(&socket, "WATCHDOG=1")?;
    }
    server.hang_up()?;
    hears(&socket, "RELOADING=1")?;
    hears(&socket, "READY=1")?;
    hears(&socket, "WATCHDOG=1")?;
    let status = server.stop(PATIENCE)?;
    hears(&socket, "STOPPING=1")?;
    let _ = std::fs::remove_file(&path);
    match status.success() {
        true => Ok(()),
        false => Err(format!("ended with {status}").into()),
    }
}

/// Waits for a datagram with the line `wanted`; others before it are passed over.
fn hears(socket: &UnixDatagram, wanted: &str) -> Result<(), Failed> {
    let deadline = Instant::now() + PATIENCE;
    let mut before = Vec::new();
    while Instant::now() < deadline {
        let mut text = [0; 1024];
        let Ok(length) = socket.recv(&mut text) else {
            continue;
        };
        let text = String::from_utf8_lossy(&text[..length]).into_owned();
        if text.lines().any(|line| line == wanted) {
            return Ok(());
        }
        before.push(text);
    }
    Err(format!("no {wanted}, but {before:?}").into())
}
