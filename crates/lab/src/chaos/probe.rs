//! Requests of a good client, whose answers are timed: on fresh connections, as monitors make them.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Time between two questions until an answer is right.
const PAUSE: Duration = Duration::from_millis(100);

/// Most bytes of an answer that are read.
const ANSWER_BYTES_MAX: u64 = 4 << 20;

/// A listener that is asked.
#[derive(Clone, Debug)]
pub(super) struct Probe {
    /// Name in the report.
    pub(super) name: &'static str,
    pub(super) address: SocketAddr,
    pub(super) request: String,
    /// Beginning of an answer that is right.
    pub(super) wanted: &'static str,
}

/// Answer to a probe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Name of the listener.
    pub name: String,
    /// Begin of the request, in ms since 1970.
    pub at_ms: u64,
    /// Time until the answer's first bytes, in ms; `None` for no answer or a wrong one.
    pub ms: Option<f64>,
    /// The reason why there was no right answer.
    pub failure: Option<String>,
}

impl Probe {
    /// Asks on a fresh connection, and waits for the answer.
    pub(super) fn ask(&self) -> Answer {
        let (at_ms, begun) = (super::clock::unix_ms(), Instant::now());
        let answered = self.exchange();
        let ms = begun.elapsed().as_secs_f64() * 1e3;
        let failure = match answered {
            Ok(text) if text.starts_with(self.wanted) => None,
            Ok(text) => Some(text.lines().next().unwrap_or("an empty answer").to_owned()),
            Err(error) => Some(error.to_string()),
        };
        Answer {
            name: self.name.to_owned(),
            at_ms,
            ms: failure.is_none().then_some(ms),
            failure,
        }
    }

    /// Asks again until the answer is right, for at most `time`; returns the last answer.
    pub(super) fn ask_until_right(&self, time: Duration) -> Answer {
        let begun = Instant::now();
        loop {
            let answer = self.ask();
            if answer.failure.is_none() || begun.elapsed() >= time {
                return answer;
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Asks, and returns the whole answer of a server that closes the connection after it.
    pub(super) fn whole(&self) -> io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&self.address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(self.request.as_bytes())?;
        let mut answer = Vec::new();
        stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    fn exchange(&self) -> io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&self.address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.write_all(self.request.as_bytes())?;
        let mut buffer = [0; 512];
        let count = stream.read(&mut buffer)?;
        Ok(String::from_utf8_lossy(&buffer[..count]).into_owned())
    }
}

/// Text of an HTTP request whose connection is closed after the answer.
pub(super) fn http_get(path: &str, authorization: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nAuthorization: \
         {authorization}\r\n\r\n"
    )
}
