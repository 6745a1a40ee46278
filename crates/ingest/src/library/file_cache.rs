//! The open files: found by name, opened once, and closed some time after their last use.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use glassline_demux as demux;
use glassline_runtime::{BlockingPool, Current, FaultPoint, Part, Supervisor};
use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

use super::context::LibraryContext;
use super::error::Error;
use super::media_file::MediaFile;
use super::resolved_path::{self, ResolvedPath, Stamp};
use crate::sendable::leave_out_unsendable;

/// Time for which a broken file that did not change is not opened again. Disks and networks may
/// recover.
const ERROR_SPAN: Duration = Duration::from_secs(10);

/// Time for which a file is not checked for changes again.
const LOOK_SPAN: Duration = Duration::from_millis(500);

/// Shortest time between two looks for files of unknown extensions.
const OTHER_SPAN: Duration = Duration::from_secs(1);

/// Most files that are read through at the same time.
const OPENING_MAX: usize = 4;

/// Most looks at the disk at the same time: a name is resolved, or the folder is listed.
const LOOKING_MAX: usize = 8;

#[derive(Debug)]
pub(super) struct FileCache {
    folder: Current<Path>,
    context: Arc<LibraryContext>,
    supervisor: Arc<Supervisor>,
    slots: Mutex<HashMap<String, Arc<Slot>>>,
    opening: BlockingPool,
    looking: BlockingPool,
    opened: AtomicU64,
    /// When a client last asked for a name that is of no media, if the disk was then read.
    other_at: Mutex<Option<Instant>>,
    /// Whether a task is running that closes idle files.
    sweeping: AtomicBool,
}

/// The entry of one name. Whoever looks the name up holds the lock until there is a result: a task, and
/// a thread while that works for the task, whether or not the task still waits.
type Slot = tokio::sync::Mutex<Option<CachedFile>>;

/// The result of opening a file.
#[derive(Debug)]
struct CachedFile {
    stamp: Stamp,
    opened: Result<Arc<MediaFile>, Error>,
    opened_at: Instant,
    looked_at: Instant,
    used_at: Instant,
}

impl CachedFile {
    fn is_current(&self, stamp: Stamp, now: Instant) -> bool {
        let is_recent = self.opened.is_ok() || now.duration_since(self.opened_at) < ERROR_SPAN;
        self.stamp == stamp && is_recent
    }

    /// Returns whether the file has a reading, or a client is about to start one.
    fn is_used(&self) -> bool {
        self.opened
            .as_ref()
            .is_ok_and(|it| Arc::strong_count(it) > 1)
    }

    fn index_bytes(&self) -> usize {
        self.opened
            .as_ref()
            .map_or(0, |media_file| media_file.index_bytes())
    }
}

/// A name that is looked up. When that is done, or nobody waits for it any more, a name without a file
/// leaves nothing behind.
struct LookUp {
    cache: Arc<FileCache>,
    name: String,
    slot: Arc<Slot>,
    /// The content of the slot, once nobody else looks the name up.
    locked: Option<OwnedMutexGuard<Option<CachedFile>>>,
}

impl LookUp {
    /// Waits until nobody else looks the name up, and finds the file.
    async fn find(mut self) -> Result<Option<Arc<MediaFile>>, Error> {
        self.locked = Some(Arc::clone(&self.slot).lock_owned().await);
        let now = Instant::now();
        if let Some(cached) = self.cached() {
            cached.used_at = now;
            if now.duration_since(cached.looked_at) < LOOK_SPAN {
                return cached.opened.clone().map(Some);
            }
        }
        let cache = Arc::clone(&self.cache);
        let looking = cache.looking.run(move || {
            let resolved = resolved_path::resolve(&self.cache.folder.get(), &self.name);
            (self, resolved)
        });
        let Ok((mut look_up, resolved)) = looking.await else {
            return Ok(None);
        };
        let Some(resolved) = resolved else {
            look_up.replace(None);
            return Ok(None);
        };
        let stamp = resolved.stamp;
        if let Some(cached) = look_up.cached().filter(|it| it.is_current(stamp, now)) {
            cached.looked_at = now;
            return cached.opened.clone().map(Some);
        }
        let name = look_up.name.clone();
        let opening = cache.opening.run(move || look_up.open(resolved));
        let opened = opening.await.unwrap_or_else(|panicked| {
            let reason = Arc::new(panicked);
            Err(Error { name, reason })
        });
        opened.map(Some)
    }

    /// Opens the file and reads it through. Blocks its thread.
    fn open(mut self, resolved: ResolvedPath) -> Result<Arc<MediaFile>, Error> {
        let stamp = resolved.stamp;
        let opened = self.cache.open(&self.name, resolved);
        let now = Instant::now();
        self.replace(Some(CachedFile {
            stamp,
            opened: opened.clone(),
            opened_at: now,
            looked_at: now,
            used_at: now,
        }));
        self.cache.sweep_later();
        opened
    }

    fn cached(&mut self) -> Option<&mut CachedFile> {
        self.locked.as_deref_mut()?.as_mut()
    }

    fn replace(&mut self, cached: Option<CachedFile>) {
        if let Some(locked) = &mut self.locked {
            **locked = cached;
        }
    }
}

impl Drop for LookUp {
    fn drop(&mut self) {
        self.locked = None;
        let mut slots = self.cache.slots.lock();
        // Whoever holds the slot now, or gets it next, does the same afterwards.
        let is_empty = self.slot.try_lock().is_ok_and(|cached| cached.is_none());
        let is_ours = |it: &Arc<Slot>| Arc::ptr_eq(it, &self.slot);
        if is_empty && slots.get(&self.name).is_some_and(is_ours) {
            slots.remove(&self.name);
        }
    }
}

impl FileCache {
    pub(super) fn new(
        folder: PathBuf,
        context: Arc<LibraryContext>,
        supervisor: &Arc<Supervisor>,
    ) -> Self {
        Self {
            folder: Current::new(folder),
            context,
            supervisor: Arc::clone(supervisor),
            slots: Mutex::default(),
            opening: BlockingPool::new(OPENING_MAX),
            looking: BlockingPool::new(LOOKING_MAX),
            opened: AtomicU64::new(0),
            other_at: Mutex::default(),
            sweeping: AtomicBool::new(false),
        }
    }

    pub(super) fn folder(&self) -> Arc<Path> {
        self.folder.get()
    }

    /// Replaces the folder, and forgets the files of the one before. Returns whether it is another one.
    pub(super) fn set_folder(&self, folder: &Path) -> bool {
        let is_other = *self.folder.get() != *folder;
        if is_other {
            self.folder.replace(folder);
            self.slots.lock().clear();
        }
        is_other
    }

    /// Returns the places for work that looks at the disk.
    pub(super) const fn looking(&self) -> &BlockingPool {
        &self.looking
    }

    pub(super) const fn context(&self) -> &Arc<LibraryContext> {
        &self.context
    }

    /// Returns the number of names that are open or being looked up.
    pub(super) fn len(&self) -> usize {
        self.slots.lock().len()
    }

    pub(super) fn opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }

    /// Returns why the file called `name` could not be played when it was last opened; `None` if it
    /// could, or nobody has asked for it for a while. Does not read the disk.
    pub(super) fn refusal(&self, name: &str) -> Option<String> {
        let slot = self.slots.lock().get(name).map(Arc::clone)?;
        let cached = slot.try_lock().ok()?;
        let refused = cached.as_ref()?.opened.as_ref().err()?;
        Some(refused.for_clients())
    }

    pub(super) async fn find(
        self: &Arc<Self>,
        name: &str,
    ) -> Result<Option<Arc<MediaFile>>, Error> {
        // The name is checked before anything is allocated for it.
        if !resolved_path::is_media_name(name) {
            self.tell_of_other_file(name).await;
            return Ok(None);
        }
        let slot = Arc::clone(self.slots.lock().entry(name.to_owned()).or_default());
        let look_up = LookUp {
            cache: Arc::clone(self),
            name: name.to_owned(),
            slot,
            locked: None,
        };
        look_up.find().await
    }

    /// Tells the log if `name` is a file that only its extension makes unknown. Clients get the same
    /// answer as for a name without a file.
    async fn tell_of_other_file(&self, name: &str) {
        let now = Instant::now();
        {
            let mut at = self.other_at.lock();
            if at.is_some_and(|at| now.duration_since(at) < OTHER_SPAN) {
                return;
            }
            *at = Some(now);
        }
        let (folder, file) = (self.folder.get(), name.to_owned());
        let look = move || resolved_path::is_other_file(&folder, &file);
        if self.looking.run(look).await.unwrap_or(false) {
            tracing::warn!(
                file = name,
                "file is not played: {}",
                demux::Reason::UnknownExtension
            );
        }
    }

    fn open(&self, name: &str, resolved: ResolvedPath) -> Result<Arc<MediaFile>, Error> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        let opened = self.supervisor.catch(Part::Library, || {
            self.supervisor.fault_point(FaultPoint::OpenFile);
            let mut source = demux::open(&[resolved.path], &demux::Options::default())?;
            leave_out_unsendable(&mut source)?;
            Ok::<_, demux::Error>(source)
        });
        // A file whose content makes the server panic cannot be played, like a broken one.
        let reason: Arc<dyn std::error::Error + Send + Sync> = match opened {
            Ok(Ok(source)) => return Ok(self.media_file(name, source)),
            Ok(Err(error)) => Arc::new(error),
            Err(panicked) => Arc::new(panicked),
        };
        tracing::warn!(file = name, %reason, "file cannot be played");
        Err(Error {
            name: name.to_owned(),
            reason,
        })
    }

    fn media_file(&self, name: &str, source: demux::Demuxer) -> Arc<MediaFile> {
        for warning in source.warnings() {
            tracing::warn!(file = name, "{warning}");
        }
        let context = Arc::clone(&self.context);
        Arc::new(MediaFile::new(name.to_owned(), source, context))
    }

    /// Starts a task that closes idle files after a while, again and again while there are any.
    fn sweep_later(self: &Arc<Self>) {
        if self.sweeping.swap(true, Ordering::Relaxed) {
            return;
        }
        let cache = Arc::downgrade(self);
        let pause = (self.context.limits.idle_span / 4).max(Duration::from_millis(10));
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(pause).await;
                let Some(cache) = cache.upgrade() else { return };
                // The flag is cleared first: a name that is looked up after this starts the next
                // task.
                cache.sweeping.store(false, Ordering::Relaxed);
                let left = cache.sweep(Instant::now());
                if left == 0 || cache.sweeping.swap(true, Ordering::Relaxed) {
                    return;
                }
            }
        });
    }

    /// Closes the files that were unused for long, and the longest unused ones if there are too
    /// many. Returns the number of names that are left.
    fn sweep(&self, now: Instant) -> usize {
        let limits = &self.context.limits;
        let mut slots = self.slots.lock();
        let mut idle = Vec::new();
        for (name, slot) in slots.iter() {
            // A task is looking the name up right now.
            let Ok(mut cached) = slot.try_lock() else {
                continue;
            };
            match &mut *cached {
                Some(cached) if cached.is_used() => cached.used_at = now,
                Some(cached) => idle.push((cached.used_at, cached.index_bytes(), name.clone())),
                None => {}
            }
        }
        idle.sort_by(|(a, ..), (b, ..)| b.cmp(a));
        let (mut count, mut bytes) = (0, 0);
        for (used_at, index_bytes, name) in idle {
            count += 1;
            bytes += index_bytes;
            let is_old = now.saturating_duration_since(used_at) >= limits.idle_span;
            if is_old || count > limits.idle || bytes > limits.idle_bytes {
                slots.remove(&name);
            }
        }
        slots.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_runtime::Panicked;

    #[test]
    fn a_broken_file_is_opened_again_after_a_while_or_when_it_changed() {
        let stamp = |bytes| Stamp {
            bytes,
            modified: None,
        };
        let now = Instant::now();
        let broken = CachedFile {
            stamp: stamp(7),
            opened: Err(Error {
                name: "cam.mp4".to_owned(),
                reason: Arc::new(Panicked),
            }),
            opened_at: now,
            looked_at: now,
            used_at: now,
        };
        let moment = Duration::from_millis(1);
        assert!(broken.is_current(stamp(7), now + ERROR_SPAN - moment));
        assert!(!broken.is_current(stamp(7), now + ERROR_SPAN));
        assert!(!broken.is_current(stamp(8), now));
        assert!(!broken.is_used());
        assert_eq!(broken.index_bytes(), 0);
    }
}
