//! TCP connections of strangers: floods of short ones, and half-open ones that are held.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;

use super::pacer::Pacer;

/// Most connections of a flood that are open at a time.
const OPEN_MAX: usize = 200;

/// Longest wait of a stranger for a connection or an answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// A flood of connections to one port from one address, each with one request.
pub(super) struct ConnectionFlood {
    runtime: Runtime,
    from: IpAddr,
    target: SocketAddr,
    request: Arc<[u8]>,
    places: Arc<Semaphore>,
    pacer: Pacer,
    counts: Arc<Counts>,
}

/// Number of a flood's connections by outcome.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Connections that were tried.
    pub(super) tried: AtomicU64,
    /// Connections that got an answer.
    pub(super) answered: AtomicU64,
    /// Connections that were refused, or closed without an answer.
    pub(super) refused: AtomicU64,
}

impl ConnectionFlood {
    /// Prepares a flood of `per_second` connections.
    pub(super) fn new(
        from: IpAddr,
        target: SocketAddr,
        per_second: u32,
        request: &[u8],
    ) -> std::io::Result<Self> {
        Ok(Self {
            runtime: runtime()?,
            from,
            target,
            request: Arc::from(request),
            places: Arc::new(Semaphore::new(OPEN_MAX)),
            pacer: Pacer::new(per_second, Instant::now()),
            counts: Arc::default(),
        })
    }

    /// Begins the connections that are due. Connections for which there is no room are not made
    /// up for, so that the rate in the report is the one that the machine reached.
    pub(super) fn send(&mut self) {
        let due = self.pacer.take(Instant::now(), OPEN_MAX);
        for _ in 0..due {
            let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
                return;
            };
            let (from, target) = (self.from, self.target);
            let (request, counts) = (Arc::clone(&self.request), Arc::clone(&self.counts));
            self.runtime.spawn(async move {
                counts.tried.fetch_add(1, Ordering::Relaxed);
                let exchange = exchange(from, target, &request);
                let outcome = match tokio::time::timeout(PATIENCE, exchange).await {
                    Ok(Ok(1..)) => &counts.answered,
                    _ => &counts.refused,
                };
                outcome.fetch_add(1, Ordering::Relaxed);
                drop(place);
            });
        }
    }

    /// Counts so far: tried, answered, refused.
    pub(super) fn counts(&self) -> (u64, u64, u64) {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let counts = &self.counts;
        (
            get(&counts.tried),
            get(&counts.answered),
            get(&counts.refused),
        )
    }
}

/// Connects, sends a request, waits for the first bytes of an answer, and resets the connection,
/// which leaves no port waiting. Returns the number of bytes.
async fn exchange(from: IpAddr, target: SocketAddr, request: &[u8]) -> std::io::Result<usize> {
    let mut stream = connect(from, target).await?;
    stream.write_all(request).await?;
    let mut buffer = [0; 64];
    stream.read(&mut buffer).await
}

/// Connects from `from`; the connection is reset when it is dropped.
pub(super) async fn connect(from: IpAddr, target: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.set_zero_linger()?;
    socket.set_reuseaddr(true)?;
    socket.bind(SocketAddr::new(from, 0))?;
    socket.connect(target).await
}

/// A runtime with one thread for the sockets of an attack.
pub(super) fn runtime() -> std::io::Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).thread_name("attack");
    builder.enable_all().build()
}

/// Connections that have sent the beginning of something, and stay open.
pub(super) struct HeldConnections {
    runtime: Runtime,
    /// Address of connections that are opened from now on.
    pub(super) from: IpAddr,
    streams: Vec<TcpStream>,
    /// Connections that could not be opened.
    pub(super) refused: usize,
}

impl HeldConnections {
    /// Holds no connection yet.
    pub(super) fn new(from: IpAddr) -> std::io::Result<Self> {
        Ok(Self {
            runtime: runtime()?,
            from,
            streams: Vec::new(),
            refused: 0,
        })
    }

    /// Opens a connection that sends `beginning`, and holds it.
    pub(super) fn open(&mut self, target: SocketAddr, beginning: &[u8]) {
        let from = self.from;
        let opened = self.runtime.block_on(async {
            let open = async {
                let mut stream = connect(from, target).await?;
                stream.write_all(beginning).await?;
                Ok::<_, std::io::Error>(stream)
            };
            tokio::time::timeout(PATIENCE, open).await
        });
        match opened {
            Ok(Ok(stream)) => self.streams.push(stream),
            _ => self.refused += 1,
        }
    }

    /// Forgets connections that the server has closed; returns how many are still open.
    pub(super) fn settle(&mut self) -> usize {
        self.streams.retain(|stream| {
            let mut buffer = [0; 1024];
            loop {
                match stream.try_read(&mut buffer) {
                    Ok(0) => return false,
                    Ok(_) => {}
                    Err(error) => return error.kind() == std::io::ErrorKind::WouldBlock,
                }
            }
        });
        self.streams.len()
    }

    /// Sends the same bytes on every connection that is still open; returns how many took them.
    pub(super) fn send(&mut self, mut bytes: impl FnMut() -> Vec<u8>) -> usize {
        let mut taken = 0;
        for stream in &self.streams {
            taken += usize::from(stream.try_write(&bytes()).is_ok());
        }
        taken
    }
}
