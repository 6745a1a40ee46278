//! A disk in virtual time: slow, full, read-only, away or hanging on request, and it loses what was not
//! synced when its power fails.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::{Disk, DiskFile};

/// The abilities of a disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Speed {
    /// Time of one access elsewhere on the disk.
    pub(crate) access: Duration,
    /// Bytes a second in sequence.
    pub(crate) bytes_per_second: u64,
}

impl Speed {
    /// A spinning disk of 50 accesses and 100 MB a second.
    pub(crate) const SPINNING: Self = Self {
        access: Duration::from_millis(20),
        bytes_per_second: 100_000_000,
    };

    fn time_of(self, bytes: u64) -> Duration {
        self.access + Duration::from_nanos(bytes * 1_000_000_000 / self.bytes_per_second)
    }
}

#[derive(Debug)]
struct Content {
    written: Vec<u8>,
    synced: Vec<u8>,
}

#[derive(Debug)]
struct State {
    now: Instant,
    speed: Speed,
    /// Bytes that may still be written.
    free: u64,
    refusal: Option<io::ErrorKind>,
    files: BTreeMap<PathBuf, Content>,
    /// Sum of the time that the disk worked.
    busy: Duration,
}

/// A disk in virtual time. Writes go to memory, and a sync takes the disk's time.
#[derive(Clone, Debug)]
pub(crate) struct ModelDisk(Arc<Mutex<State>>);

impl ModelDisk {
    pub(crate) fn new(speed: Speed) -> Self {
        Self(Arc::new(Mutex::new(State {
            now: Instant::now(),
            speed,
            free: u64::MAX,
            refusal: None,
            files: BTreeMap::new(),
            busy: Duration::ZERO,
        })))
    }

    /// Lets time pass until `at`, if it is not later already.
    pub(crate) fn advance_to(&self, at: Instant) {
        let mut state = self.lock();
        state.now = state.now.max(at);
    }

    /// Makes the disk refuse everything with this error, or nothing any more.
    pub(crate) fn refuse(&self, refusal: Option<io::ErrorKind>) {
        self.lock().refusal = refusal;
    }

    /// Makes the disk as fast as `speed` from now on.
    pub(crate) fn set_speed(&self, speed: Speed) {
        self.lock().speed = speed;
    }

    pub(crate) fn set_free(&self, bytes: u64) {
        self.lock().free = bytes;
    }

    /// Returns the content of the files in memory, by path.
    pub(crate) fn written(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let state = self.lock();
        let files = state.files.iter();
        files
            .map(|(path, it)| (path.clone(), it.written.clone()))
            .collect()
    }

    /// Returns the content of the files on the disk if its power failed now.
    pub(crate) fn after_power_failure(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let state = self.lock();
        let files = state.files.iter();
        files
            .map(|(path, it)| (path.clone(), it.synced.clone()))
            .collect()
    }

    /// Returns how long the disk has worked.
    pub(crate) fn busy(&self) -> Duration {
        self.lock().busy
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn check(&self) -> io::Result<()> {
        self.refusal.map_or(Ok(()), |it| Err(it.into()))
    }

    fn work(&mut self, bytes: u64) {
        let time = self.speed.time_of(bytes);
        self.now += time;
        self.busy += time;
    }
}

impl Disk for ModelDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.lock();
        state.check()?;
        if state.files.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let content = Content {
            written: Vec::new(),
            synced: Vec::new(),
        };
        state.files.insert(path.to_owned(), content);
        Ok(Box::new(ModelFile {
            disk: self.clone(),
            path: path.to_owned(),
        }))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.lock();
        state.check()?;
        let removed = state.files.remove(path);
        removed.map(|_| ()).ok_or(io::ErrorKind::NotFound.into())
    }

    fn now(&self) -> Instant {
        self.lock().now
    }
}

#[derive(Debug)]
struct ModelFile {
    disk: ModelDisk,
    path: PathBuf,
}

impl ModelFile {
    fn change(&self, work: impl FnOnce(&mut Content) -> io::Result<()>) -> io::Result<()> {
        let mut state = self.disk.lock();
        state.check()?;
        let content = state.files.get_mut(&self.path);
        work(content.ok_or(io::ErrorKind::NotFound)?)
    }
}

impl DiskFile for ModelFile {
    fn append(&self, pieces: &[Bytes]) -> io::Result<()> {
        let bytes = pieces.iter().map(|it| it.len() as u64).sum::<u64>();
        let mut state = self.disk.lock();
        state.check()?;
        state.free = state
            .free
            .checked_sub(bytes)
            .ok_or(io::ErrorKind::StorageFull)?;
        drop(state);
        self.change(|it| {
            pieces
                .iter()
                .for_each(|piece| it.written.extend_from_slice(piece));
            Ok(())
        })
    }

    fn overwrite(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let start = usize::try_from(offset).expect("small");
        self.change(|it| {
            it.written[start..start + bytes.len()].copy_from_slice(bytes);
            it.synced.truncate(start);
            Ok(())
        })
    }

    fn reserve(&self, _: u64, _: u64) -> io::Result<()> {
        self.disk.lock().check()
    }

    fn begin_writeback(&self, _: u64, _: u64) {}

    fn forget_cached(&self, _: u64, _: u64) {}

    fn sync(&self) -> io::Result<()> {
        let mut unsynced = 0;
        self.change(|it| {
            unsynced = it.written.len().saturating_sub(it.synced.len()) as u64;
            it.synced.clone_from(&it.written);
            Ok(())
        })?;
        self.disk.lock().work(unsynced);
        Ok(())
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        let bytes = usize::try_from(bytes).expect("small");
        self.change(|it| {
            it.written.truncate(bytes);
            Ok(())
        })
    }
}
