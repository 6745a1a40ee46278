//! Requests to the servers of the demonstration.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// Longest wait for an answer: a process that is stopped gives none.
const PATIENCE: Duration = Duration::from_millis(300);

/// Returns the answer to a request, if there is one in time.
pub(super) fn get(address: SocketAddr, path: &str) -> Option<Value> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    // HTTP/1.0 has no chunks.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let is_ok = head.split(' ').nth(1) == Some("200");
    is_ok.then(|| serde_json::from_str(body).ok()).flatten()
}
