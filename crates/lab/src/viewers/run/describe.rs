//! Times that an RTSP server needs to answer DESCRIBE while it serves viewers. A client on a
//! thread of its own makes a new connection each time.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use url::Url;

use crate::statistics::quantile;
use crate::viewers::timing::Describe;

/// Sends DESCRIBE requests until it is finished.
#[derive(Debug)]
pub(super) struct Probe {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<DescribeTimes>>,
}

#[derive(Debug, Default)]
struct DescribeTimes {
    times_ms: Vec<f64>,
    failed: usize,
}

/// Time between two requests: ten a second.
const INTERVAL: Duration = Duration::from_millis(100);

/// Longest time for a whole answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Most bytes of an answer.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Default port of the scheme, which `url` does not know.
const RTSP_PORT: u16 = 554;

impl Probe {
    /// Starts sending requests for the stream at `url`.
    pub(super) fn start(url: &Url) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let addresses = url.socket_addrs(|| Some(RTSP_PORT)).unwrap_or_default();
        let mut bare = url.clone();
        // An `rtsp:` URL always accepts an empty user name.
        let _ = bare.set_username("").and_then(|()| bare.set_password(None));
        let thread = addresses.first().copied().and_then(|server| {
            let over = Arc::clone(&over);
            let probe = move || ask_until(&over, server, bare.as_str());
            let thread = thread::Builder::new().name("describe-probe".to_owned());
            thread.spawn(probe).ok()
        });
        Self { over, thread }
    }

    /// Stops, and returns the answers' times.
    pub(super) fn finish(mut self) -> Describe {
        self.over.store(true, Ordering::Relaxed);
        let times = self.thread.take().and_then(|thread| thread.join().ok());
        let times = times.unwrap_or_default();
        let at = |share| quantile(&times.times_ms, share);
        Describe {
            answered: times.times_ms.len(),
            failed: times.failed,
            p50: at(0.5),
            p99: at(0.99),
            max: at(1.0),
        }
    }
}

fn ask_until(over: &AtomicBool, server: SocketAddr, url: &str) -> DescribeTimes {
    let mut times = DescribeTimes::default();
    while !over.load(Ordering::Relaxed) {
        let began = Instant::now();
        match ask(server, url, began) {
            Ok(true) => times.times_ms.push(began.elapsed().as_secs_f64() * 1e3),
            Ok(false) | Err(_) => times.failed += 1,
        }
        thread::sleep(INTERVAL.saturating_sub(began.elapsed()));
    }
    times
}

/// Sends one request; returns whether `server` described the stream.
fn ask(server: SocketAddr, url: &str, began: Instant) -> io::Result<bool> {
    let mut stream = TcpStream::connect_timeout(&server, PATIENCE)?;
    stream.set_nodelay(true)?;
    let request = format!(
        "DESCRIBE {url} RTSP/1.0\r\nCSeq: 1\r\nAccept: application/sdp\r\n\
         User-Agent: glassline-bench\r\n\r\n"
    );
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let left = PATIENCE.saturating_sub(began.elapsed());
        if left.is_zero() || answer.len() > ANSWER_BYTES_MAX {
            return Ok(false);
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut buffer)? {
            0 => return Ok(false),
            count => answer.extend_from_slice(&buffer[..count]),
        }
        if let Some(was_described) = is_whole(&answer) {
            return Ok(was_described);
        }
    }
}

/// Whether a complete answer is a description; `None` while it is incomplete.
fn is_whole(answer: &[u8]) -> Option<bool> {
    let text = String::from_utf8_lossy(answer);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_length = name.trim().eq_ignore_ascii_case("content-length");
        is_length.then(|| value.trim().parse::<usize>().ok())?
    });
    let is_success = head.split(' ').nth(1) == Some("200");
    (body.len() >= length.unwrap_or(0)).then_some(is_success && length.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn answers_are_whole_with_their_body_only() {
        let answer = b"RTSP/1.0 200 OK\r\nCSeq: 1\r\ncontent-length: 4\r\n\r\nv=0\n";
        for cut in 0..answer.len() {
            assert_eq!(is_whole(&answer[..cut]), None, "{cut}");
        }
        assert_eq!(is_whole(answer), Some(true));
        assert_eq!(is_whole(b"RTSP/1.0 404 Not Found\r\n\r\n"), Some(false));
        assert_eq!(is_whole(b"nonsense\r\n\r\n"), Some(false));
    }

    #[test]
    fn a_server_is_asked_again_and_again() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback has a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let url: Url = format!("rtsp://me:secret@127.0.0.1:{port}/a")
            .parse()
            .expect("a URL");
        let probe = Probe::start(&url);
        for answer in [
            "RTSP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nv",
            "RTSP/1.0 404 No\r\n\r\n",
        ] {
            let (mut stream, _) = listener.accept().expect("it asks");
            let mut request = [0; 1024];
            let count = stream.read(&mut request).expect("it asks");
            let request = String::from_utf8_lossy(&request[..count]);
            assert!(
                request.starts_with(&format!("DESCRIBE rtsp://127.0.0.1:{port}/a ")),
                "{request}"
            );
            stream.write_all(answer.as_bytes()).expect("it listens");
        }
        drop(listener);
        let describe = probe.finish();
        assert_eq!(describe.answered, 1, "{describe:?}");
        assert!(
            describe.failed >= 1 && describe.p99 == describe.max,
            "{describe:?}"
        );
    }
}
