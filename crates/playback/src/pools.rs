//! Threads that read recordings, by where the bytes come from: what does not answer keeps its own readers
//! waiting, and no others.

use std::collections::HashMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use glassline_runtime::{BlockingPool, Panicked};
use tokio::time::{Instant, timeout_at};

/// Reads of each origin at a time. A disk that hangs must not take the threads of everything else.
const READS: usize = 16;

/// Questions to the index of one folder at a time.
const LOOKS: usize = 16;

/// Files with an index that are made at the same time of what one origin has.
const INDEXES: usize = 2;

/// The place that the bytes of a recorded file come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin<'a> {
    /// The disk of this server with the folder of recordings at this path, or with a file below it.
    Disk(&'a Path),
    /// The object storage that has copies.
    Storage,
    /// The other server of this name.
    Server(&'a str),
}

/// The threads for one origin.
#[derive(Clone, Debug)]
pub(super) struct Threads {
    /// Places for reads of files of the origin.
    pub(super) reads: BlockingPool,
    /// Places for files with an index, which take much memory while they are made.
    pub(super) indexes: BlockingPool,
    /// Questions of readers to the index of a folder.
    pub(super) looks: Looks,
    /// Questions of other servers: those of readers may all wait for other servers.
    pub(super) answers: Looks,
}

/// Places for questions to the index of one folder. A folder that did not answer in time is silent, and is not
/// asked again until it has answered: whoever needs all folders waits for it once.
#[derive(Clone, Debug)]
pub(super) struct Looks {
    pub(super) places: BlockingPool,
    is_silent: Arc<AtomicBool>,
}

/// The threads for each origin.
#[derive(Debug, Default)]
pub(super) struct Pools {
    /// The threads of each folder of recordings, which may be on a disk of its own.
    folders: Mutex<HashMap<PathBuf, Threads>>,
    /// The threads of files that are in none of these folders.
    elsewhere: Threads,
    storage: Threads,
    /// The threads of each other server that something was read from.
    servers: Mutex<HashMap<Arc<str>, Threads>>,
}

impl Default for Threads {
    fn default() -> Self {
        Self {
            reads: BlockingPool::new(READS),
            indexes: BlockingPool::new(INDEXES),
            looks: Looks::default(),
            answers: Looks::default(),
        }
    }
}

impl Default for Looks {
    fn default() -> Self {
        Self {
            places: BlockingPool::new(LOOKS),
            is_silent: Arc::default(),
        }
    }
}

impl Looks {
    /// Runs `work`, which may wait for the disk. Returns `None` if that takes longer than `within`, and from
    /// then on until the disk has answered.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        within: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<Result<T, Panicked>> {
        if self.is_silent.load(Ordering::Relaxed) {
            return None;
        }
        let until = Instant::now() + within;
        let Ok(place) = timeout_at(until, self.places.place()).await else {
            let places = self.places.clone();
            self.note_silence(async move { places.place().await });
            return None;
        };
        let mut running = tokio::spawn(place.run(work));
        match timeout_at(until, &mut running).await {
            Ok(ran) => Some(ran.unwrap_or(Err(Panicked))),
            Err(_) => {
                self.note_silence(running);
                None
            }
        }
    }

    /// Asks nothing more until `answered` is there.
    fn note_silence(&self, answered: impl Future<Output: Send> + Send + 'static) {
        let is_silent = Arc::clone(&self.is_silent);
        if !is_silent.swap(true, Ordering::Relaxed) {
            tokio::spawn(async move {
                drop(answered.await);
                is_silent.store(false, Ordering::Relaxed);
            });
        }
    }
}

impl Pools {
    /// Gives the folder of recordings at `path` threads of its own, unless it has some.
    pub(super) fn add_folder(&self, path: &Path) {
        let mut folders = lock(&self.folders);
        if !folders.contains_key(path) {
            folders.insert(path.to_owned(), Threads::default());
        }
    }

    /// Returns the threads that may read what comes from `origin`.
    pub(super) fn of(&self, origin: Origin<'_>) -> Threads {
        match origin {
            Origin::Disk(path) => {
                let folders = lock(&self.folders);
                let found = path.ancestors().find_map(|it| folders.get(it));
                found.unwrap_or(&self.elsewhere).clone()
            }
            Origin::Storage => self.storage.clone(),
            Origin::Server(name) => {
                let mut servers = lock(&self.servers);
                if let Some(threads) = servers.get(name) {
                    return threads.clone();
                }
                let threads = Threads::default();
                servers.insert(name.into(), threads.clone());
                threads
            }
        }
    }
}

fn lock<T>(table: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each change is one call.
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_does_not_answer_keeps_its_own_readers_waiting_alone() {
        let pools = Pools::default();
        let paths = [
            "/a",
            "/a/b",
            "/a/cam/2023-11-14/x.mp4",
            "/a/b/cam/x.mp4",
            "/c",
        ];
        let [a, b, in_a, in_b, c] = paths.map(|it| Origin::Disk(Path::new(it)));
        for folder in ["/a", "/a/b"] {
            pools.add_folder(Path::new(folder));
        }
        let all = [
            a,
            b,
            c,
            Origin::Storage,
            Origin::Server("b"),
            Origin::Server("c"),
        ];
        for (hangs, also) in [
            (a, in_a),
            (b, in_b),
            (Origin::Server("b"), Origin::Server("b")),
        ] {
            let (mut reads, mut indexes) = (Vec::new(), Vec::new());
            for _ in 0..READS {
                reads.push(pools.of(hangs).reads.place().await);
            }
            for _ in 0..INDEXES {
                indexes.push(pools.of(hangs).indexes.place().await);
            }
            for origin in all.into_iter().filter(|it| *it != hangs) {
                let read = pools.of(origin).reads.run(|| 7).await;
                assert!(matches!(read, Ok(7)), "{origin:?}");
                drop(pools.of(origin).indexes.place().await);
            }
            let threads = pools.of(also);
            let mut read = Box::pin(threads.reads.place());
            let mut index = Box::pin(threads.indexes.place());
            assert!(futures_util::poll!(&mut read).is_pending());
            assert!(futures_util::poll!(&mut index).is_pending());
            reads.pop();
            indexes.pop();
            drop((read.await, index.await));
        }
    }
}
