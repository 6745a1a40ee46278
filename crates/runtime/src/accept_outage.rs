//! A listener that cannot accept connections because descriptors have run out.

use std::fs::File;
use std::io;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;

/// Time without a failure after which an outage is over.
const QUIET: Duration = Duration::from_secs(5);

/// Counts the failures of one listener to accept connections, and logs one line when an outage
/// begins and one when it ends, however often accepting fails in between.
#[derive(Debug)]
pub struct AcceptOutage {
    /// Name of the listener.
    listener: &'static str,
    present: Option<Outage>,
}

#[derive(Clone, Copy, Debug)]
struct Outage {
    began: Instant,
    failed: Instant,
    failures: u64,
}

impl AcceptOutage {
    /// Creates the record of a listener that works.
    pub const fn new(listener: &'static str) -> Self {
        Self {
            listener,
            present: None,
        }
    }

    /// Notes that accepting failed while `open` connections of the listener were open.
    pub fn note_failure(&mut self, error: &io::Error, open: usize, now: Instant) {
        let outage = self.present.get_or_insert_with(|| {
            tracing::warn!(
                listener = self.listener,
                %error,
                open,
                "cannot accept connections: open ones go on; raise the limit of open files (`LimitNOFILE=` of the systemd unit, `ulimit -n` in a shell)"
            );
            Outage { began: now, failed: now, failures: 0 }
        });
        outage.failed = now;
        outage.failures += 1;
    }

    /// Ends the outage if nothing has failed for 5 s. Returns whether an outage goes on.
    pub fn check(&mut self, now: Instant) -> bool {
        let Some(outage) = self.present else {
            return false;
        };
        if now.saturating_duration_since(outage.failed) < QUIET {
            return true;
        }
        tracing::info!(
            listener = self.listener,
            failures = outage.failures,
            lasted_s = outage
                .failed
                .saturating_duration_since(outage.began)
                .as_secs(),
            "connections are accepted again"
        );
        self.present = None;
        false
    }
}

/// A descriptor that is kept to be given up: with it a connection can be accepted and closed
/// although the process has no other descriptor left. The client is then told at once, and the
/// connection does not keep the listener readable.
#[derive(Debug)]
pub struct SpareDescriptor(Option<File>);

impl SpareDescriptor {
    /// Opens the spare descriptor; without one, nothing can be refused.
    pub fn held() -> Self {
        let mut spare = Self(None);
        spare.open();
        spare
    }

    /// Accepts a connection by `accept` with the spare descriptor and closes it. Returns false if
    /// there was no descriptor or no connection.
    pub fn refuse_one(&mut self, accept: impl FnOnce() -> io::Result<TcpStream>) -> bool {
        if self.0.take().is_none() {
            self.open();
            return false;
        }
        let refused = accept().map(glassline_net::refuse).is_ok();
        self.open();
        refused
    }

    /// Closes a connection that waits at `socket`, as [`refuse_one`](Self::refuse_one) does.
    pub fn refuse_waiting(&mut self, socket: &tokio::net::TcpListener) -> bool {
        self.refuse_one(|| {
            let waiting = socket.accept().now_or_never();
            let (stream, _) = waiting.unwrap_or(Err(io::ErrorKind::WouldBlock.into()))?;
            stream.into_std()
        })
    }

    fn open(&mut self) {
        // Another thread may have taken the descriptor meanwhile; the next call tries again.
        self.0 = File::open("/dev/null").ok();
    }
}

/// Closes a connection of tokio at the least cost.
pub fn refuse_connection(stream: tokio::net::TcpStream) {
    // A stream that cannot leave the runtime is closed in the ordinary way.
    if let Ok(stream) = stream.into_std() {
        glassline_net::refuse(stream);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_ends_when_nothing_fails_any_more() {
        let start = Instant::now();
        let mut outage = AcceptOutage::new("http");
        assert!(!outage.check(start));
        let error = io::Error::from(io::ErrorKind::OutOfMemory);
        for failure in 0..100 {
            let now = start + Duration::from_secs(failure);
            outage.note_failure(&error, 7, now);
            assert!(outage.check(now + QUIET / 2), "it goes on");
        }
        let failures = outage.present.map(|it| it.failures);
        assert_eq!(failures, Some(100), "one outage");
        assert!(!outage.check(start + Duration::from_secs(99) + QUIET));
    }

    #[test]
    fn the_spare_descriptor_refuses_one_connection_after_the_other() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
        let address = listener.local_addr().expect("bound");
        let mut spare = SpareDescriptor::held();
        for _ in 0..3 {
            let client = TcpStream::connect(address).expect("it listens");
            assert!(spare.refuse_one(|| listener.accept().map(|(stream, _)| stream)));
            let error = io::Read::read(&mut &client, &mut [0]).expect_err("no orderly end");
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        }
        assert!(!spare.refuse_one(|| Err(io::ErrorKind::WouldBlock.into())));
    }
}
