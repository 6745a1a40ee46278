//! Threads that read recordings, by where the bytes come from: what does not answer keeps its own readers
//! waiting, and no others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use glassline_runtime::BlockingPool;

/// Reads of each origin at a time. A disk that hangs must not take the threads of everything else.
const READS: usize = 16;

/// The place that the bytes of a recorded file come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin<'a> {
    /// A disk of this server.
    Disk,
    /// The object storage that has copies.
    Storage,
    /// The other server of this name.
    Server(&'a str),
}

/// The threads for each origin.
#[derive(Debug)]
pub(super) struct Pools {
    pub(super) disk: BlockingPool,
    storage: BlockingPool,
    /// The threads of each other server that something was read from.
    servers: Mutex<HashMap<Arc<str>, BlockingPool>>,
    /// Threads that answer other servers: those above may all wait for other servers.
    pub(super) of_others: BlockingPool,
}

impl Default for Pools {
    fn default() -> Self {
        Self {
            disk: BlockingPool::new(READS),
            storage: BlockingPool::new(READS),
            servers: Mutex::default(),
            of_others: BlockingPool::new(READS),
        }
    }
}

impl Pools {
    /// Returns the threads that may read what comes from `origin`.
    pub(super) fn of(&self, origin: Origin<'_>) -> BlockingPool {
        match origin {
            Origin::Disk => self.disk.clone(),
            Origin::Storage => self.storage.clone(),
            Origin::Server(name) => {
                let servers = self.servers.lock();
                let mut servers = servers.unwrap_or_else(PoisonError::into_inner);
                if let Some(pool) = servers.get(name) {
                    return pool.clone();
                }
                let pool = BlockingPool::new(READS);
                servers.insert(name.into(), pool.clone());
                pool
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_server_that_does_not_answer_keeps_its_own_readers_waiting_alone() {
        let pools = Pools::default();
        let mut held = Vec::new();
        for _ in 0..READS {
            held.push(pools.of(Origin::Server("b")).place().await);
        }
        for origin in [Origin::Disk, Origin::Storage, Origin::Server("c")] {
            let read = pools.of(origin).run(|| 7).await;
            assert!(matches!(read, Ok(7)), "{origin:?}");
        }
        let pool = pools.of(Origin::Server("b"));
        let mut waiting = Box::pin(pool.place());
        assert!(futures_util::poll!(&mut waiting).is_pending());
        held.pop();
        drop(waiting.await);
    }
}
