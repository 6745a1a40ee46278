//! Work that blocks its thread: a bounded number of pieces at a time, whoever waits for them.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::{Arc, LazyLock};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::supervision::Panicked;

/// Names that are looked up at a time. A name server that does not answer keeps its thread for half
/// a minute, and other names must not wait for that.
const LOOK_UPS: usize = 64;

/// Threads that look names up, for all servers of the process.
static RESOLVER: LazyLock<BlockingPool> = LazyLock::new(|| BlockingPool::new(LOOK_UPS));

/// Places for work that blocks its thread, like decoding a frame or waiting for a disk.
///
/// Such work cannot be canceled. A client that hangs up, or a deadline that passes, drops the
/// future that waits for the work, and never the work. So the place belongs to the work, and is
/// given back at its end.
#[derive(Clone, Debug)]
pub struct BlockingPool(Arc<Semaphore>);

/// A place for one piece of work.
#[derive(Debug)]
pub struct BlockingPlace(OwnedSemaphorePermit);

impl BlockingPool {
    /// Creates a pool for `max` pieces of work at a time.
    pub fn new(max: usize) -> Self {
        Self(Arc::new(Semaphore::new(max)))
    }

    /// Waits for a place. A caller that waits no longer takes none.
    pub async fn place(&self) -> BlockingPlace {
        let permit = Arc::clone(&self.0).acquire_owned().await;
        BlockingPlace(permit.expect("nobody closes the semaphore"))
    }

    /// Returns whether somebody else has a place, waits for one, or keeps the pool.
    pub fn is_used(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// Waits for a place, and runs `work` there.
    ///
    /// # Errors
    /// Returns [`Panicked`] if the work panics.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Panicked> {
        self.place().await.run(work).await
    }
}

impl BlockingPlace {
    /// Runs `work` on a thread that may block, and waits for its result. Whatever guards the work
    /// must move into it: locks of the caller end with the caller.
    ///
    /// # Errors
    /// Returns [`Panicked`] if the work panics.
    pub async fn run<T: Send + 'static>(
        self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Panicked> {
        let Self(permit) = self;
        let running = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            work()
        });
        running.await.map_err(|_| Panicked)
    }
}

/// Returns the addresses of `host`. A look-up that nobody waits for any more keeps its place until
/// the system gives up.
///
/// # Errors
/// Returns the system's error, or that of a look-up that panicked.
pub async fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let host = host.to_owned();
    let looked_up = RESOLVER.run(move || (host.as_str(), port).to_socket_addrs());
    let found = looked_up.await.map_err(io::Error::other)??;
    Ok(found.collect())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use tokio::sync::oneshot;

    use super::*;

    /// Longest wait for a thread of a busy machine.
    const PATIENCE: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn work_that_nobody_waits_for_keeps_its_place() {
        let pool = BlockingPool::new(1);
        let (begun, begins) = oneshot::channel();
        let (end, ends) = mpsc::channel::<()>();
        let mut abandoned = Box::pin(pool.run(move || {
            begun.send(()).expect("the test waits");
            let _ = ends.recv();
        }));
        tokio::select! {
            _ = &mut abandoned => panic!("the work waits for the test"),
            begins = begins => begins.expect("the work begins"),
        }
        drop(abandoned);
        assert_eq!(pool.0.available_permits(), 0, "the work goes on");
        drop(end);
        let next = tokio::time::timeout(PATIENCE, pool.run(|| 7)).await;
        assert_eq!(next.expect("a place"), Ok(7));
    }

    #[tokio::test]
    async fn a_panic_gives_the_place_back() {
        let pool = BlockingPool::new(1);
        let panicked = pool.run(|| panic!("as a test wants")).await;
        assert_eq!(panicked, Err::<(), _>(Panicked));
        assert_eq!(pool.run(|| 7).await, Ok(7));
    }

    #[tokio::test]
    async fn addresses_need_no_thread_and_names_are_found() {
        let addresses = resolve("192.0.2.1", 80).await.expect("an address");
        assert_eq!(addresses, [SocketAddr::from(([192, 0, 2, 1], 80))]);
        let found = resolve("localhost", 80).await.expect("a name");
        assert!(found.iter().all(|it| it.ip().is_loopback()), "{found:?}");
    }
}
