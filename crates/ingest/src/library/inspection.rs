//! Finds files that cannot be played before anybody asks for them.
//!
//! ```text
//! list of the folder ─► files that are new or changed ─► opened one by one ─► reasons, by name
//! ```
//!
//! One file at a time is read, at most [`FILE_BYTES_MAX`] of it, and the disk rests for three
//! quarters of the time. So a folder of a thousand large films costs players nothing. A file whose
//! damage lies further behind is found when somebody plays it.

use std::collections::HashMap;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use glassline_demux::{self as demux, Data, Demuxer, Input, Reason};
use glassline_runtime::{Current, Part, Supervisor};
use parking_lot::Mutex;

use super::error::Error;
use super::resolved_path::{self, ResolvedPath, Stamp};
use crate::sendable::leave_out_unsendable;

/// Most bytes of a file that are read to inspect it.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Time since the last change of a file before which it counts as being written.
const SETTLED: Duration = Duration::from_secs(5);

/// Time after which a file that the system could not read is read again.
const UNREADABLE_SPAN: Duration = Duration::from_secs(60);

/// Shortest and longest pause after a file.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_secs(10));

/// The files that were inspected.
#[derive(Debug)]
pub(super) struct Inspection {
    folder: Current<Path>,
    supervisor: Arc<Supervisor>,
    known: Mutex<HashMap<String, Verdict>>,
    is_running: AtomicBool,
}

/// The verdict about one content of a file.
#[derive(Debug)]
struct Verdict {
    stamp: Stamp,
    /// The reason why the file cannot be played; `None` if nothing speaks against it.
    refused: Option<String>,
    /// When to read the file again although it is the same.
    again_at: Option<Instant>,
}

impl Verdict {
    fn is_current(&self, stamp: Stamp, now: Instant) -> bool {
        self.stamp == stamp && self.again_at.is_none_or(|at| now < at)
    }
}

impl Inspection {
    pub(super) fn new(folder: PathBuf, supervisor: &Arc<Supervisor>) -> Self {
        Self {
            folder: Current::new(folder),
            supervisor: Arc::clone(supervisor),
            known: Mutex::default(),
            is_running: AtomicBool::new(false),
        }
    }

    /// Replaces the folder, and forgets what is known of the one before.
    pub(super) fn set_folder(&self, folder: &Path) {
        self.folder.replace(folder);
        self.known.lock().clear();
    }

    /// Returns why the file called `name` cannot be played, as far as it was inspected.
    pub(super) fn refusal(&self, name: &str) -> Option<String> {
        self.known.lock().get(name)?.refused.clone()
    }

    /// Inspects the files called `names` that are new or have changed, in the background, and
    /// forgets all others. Does nothing while an inspection is under way. Needs a tokio runtime.
    pub(super) fn begin(self: &Arc<Self>, names: Vec<String>) {
        if self.is_running.swap(true, Ordering::Relaxed) {
            return;
        }
        let inspection = Arc::downgrade(self);
        tokio::spawn(async move {
            let mut refused = Vec::new();
            if let Some(inspection) = inspection.upgrade() {
                inspection.forget_all_but(&names);
            }
            for name in names {
                // The library may be gone meanwhile.
                let Some(inspection) = inspection.upgrade() else {
                    return;
                };
                let began = Instant::now();
                let inspect = move || inspection.inspect(&name).then_some(name);
                let Ok(found) = tokio::task::spawn_blocking(inspect).await else {
                    continue;
                };
                refused.extend(found);
                let took = began.elapsed();
                if took > PAUSES.0 {
                    tokio::time::sleep((took * 3).clamp(PAUSES.0, PAUSES.1)).await;
                }
            }
            if let Some(first) = refused.first() {
                tracing::warn!(
                    files = refused.len(),
                    %first,
                    "files of the media folder cannot be played; GET /api/v1/files and the page / \
                     have the reasons"
                );
            }
            if let Some(inspection) = inspection.upgrade() {
                inspection.is_running.store(false, Ordering::Relaxed);
            }
        });
    }

    fn forget_all_but(&self, names: &[String]) {
        self.known
            .lock()
            .retain(|name, _| names.binary_search(name).is_ok());
    }

    /// Reads a file unless its verdict is current. Returns whether the file was found to be refused.
    fn inspect(&self, name: &str) -> bool {
        let Some(ResolvedPath { path, stamp }) = resolved_path::resolve(&self.folder.get(), name)
        else {
            self.known.lock().remove(name);
            return false;
        };
        let now = Instant::now();
        let is_current = |it: &Verdict| it.is_current(stamp, now);
        if self.known.lock().get(name).is_some_and(is_current) {
            return false;
        }
        if is_being_written(&stamp) {
            // What was wrong with the file before may be right soon.
            self.known.lock().remove(name);
            return false;
        }
        let refused = self.read(name, &path);
        let is_unreadable = |error: &Error| {
            let reason = error.reason.downcast_ref::<demux::Error>();
            reason.is_some_and(|it| matches!(it.reason, Reason::Open(_) | Reason::Read(_)))
        };
        let verdict = Verdict {
            stamp,
            again_at: refused
                .as_ref()
                .filter(|error| is_unreadable(error))
                .map(|_| now + UNREADABLE_SPAN),
            refused: refused.as_ref().map(Error::for_clients),
        };
        self.known.lock().insert(name.to_owned(), verdict);
        refused.is_some()
    }

    /// Reads the start of a file. Returns why it cannot be played.
    fn read(&self, name: &str, path: &Path) -> Option<Error> {
        let left = Arc::new(AtomicU64::new(FILE_BYTES_MAX));
        let opened = self.supervisor.catch(Part::Library, || {
            let input = Input::file(path)?;
            let data = Box::new(Metered {
                data: input.data,
                left: Arc::clone(&left),
            });
            let input = Input { data, ..input };
            let mut demuxer = Demuxer::new(vec![input], &demux::Options::default())?;
            leave_out_unsendable(&mut demuxer)
        });
        let reason: Arc<dyn std::error::Error + Send + Sync> = match opened {
            Ok(Ok(())) => return None,
            Ok(Err(error)) => Arc::new(error),
            Err(panicked) => Arc::new(panicked),
        };
        // The file is longer than what an inspection reads of it.
        if left.load(Ordering::Relaxed) == 0 {
            return None;
        }
        tracing::debug!(file = name, %reason, "file cannot be played");
        Some(Error {
            name: name.to_owned(),
            reason,
        })
    }
}

fn is_being_written(stamp: &Stamp) -> bool {
    let age = |modified| SystemTime::now().duration_since(modified).ok();
    let age = stamp.modified.and_then(age);
    age.is_some_and(|age| age < SETTLED)
}

/// Bytes of which a limited number can be read.
struct Metered {
    data: Box<dyn Data>,
    /// Bytes that can still be read, by all forks together.
    left: Arc<AtomicU64>,
}

impl Read for Metered {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let left = self.left.load(Ordering::Relaxed);
        if left == 0 && !out.is_empty() {
            return Err(io::Error::other("enough of the file was read"));
        }
        let most = out.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let read = self.data.read(&mut out[..most])?;
        self.left.store(left - read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

impl Seek for Metered {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.data.seek(to)
    }
}

impl Data for Metered {
    fn fork(&self) -> Box<dyn Data> {
        Box::new(Self {
            data: self.data.fork(),
            left: Arc::clone(&self.left),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};

    /// The folder of a test, with files that were written an hour ago.
    struct Scene(PathBuf, Arc<Inspection>);

    impl Scene {
        fn new(name: &str) -> Self {
            let folder = format!("glassline-inspection-{name}-{}", std::process::id());
            let folder = std::env::temp_dir().join(folder);
            fs::create_dir_all(&folder).expect("a folder");
            let supervisor = Supervisor::start().expect("a thread");
            let inspection = Inspection::new(folder.clone(), &supervisor);
            Self(folder, Arc::new(inspection))
        }

        fn write(&self, name: &str, bytes: &[u8], seconds_ago: u64) {
            fs::write(self.0.join(name), bytes).expect("a file");
            let modified = SystemTime::now() - Duration::from_secs(seconds_ago);
            let file = File::options().write(true).open(self.0.join(name));
            let set = file.and_then(|file| file.set_modified(modified));
            set.expect("a time");
        }

        fn refusal(&self, name: &str) -> Option<String> {
            self.1.refusal(name)
        }
    }

    impl Drop for Scene {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_file_is_read_once_until_it_changes() {
        let scene = Scene::new("once");
        scene.write("page.mp4", b"<html>no film</html>", 3_600);
        assert!(scene.1.inspect("page.mp4"), "it is found");
        assert!(scene.refusal("page.mp4").is_some());
        assert!(!scene.1.inspect("page.mp4"), "it is known");
        scene.write("page.mp4", b"<html>no film at all</html>", 1_800);
        assert!(scene.1.inspect("page.mp4"), "it has changed");
        scene.write("page.mp4", b"\0\0\0\x08ftyp", 0);
        assert!(!scene.1.inspect("page.mp4"), "somebody writes it");
        assert_eq!(scene.refusal("page.mp4"), None);
        fs::remove_file(scene.0.join("page.mp4")).expect("it was there");
        assert!(!scene.1.inspect("page.mp4"), "it is gone");
    }

    #[test]
    fn a_good_file_is_not_refused_however_long_it_is() {
        let scene = Scene::new("good");
        let clip = include_bytes!("../../../../assets/demo.h264");
        scene.write("clip.h264", clip, 3_600);
        let times = FILE_BYTES_MAX as usize / clip.len() + 2;
        scene.write("long.h264", &clip.repeat(times), 3_600);
        assert!(!scene.1.inspect("clip.h264") && !scene.1.inspect("long.h264"));
        let known = scene.1.known.lock();
        let verdicts = ["clip.h264", "long.h264"].map(|name| known[name].refused.clone());
        assert_eq!(verdicts, [None, None]);
    }

    #[tokio::test]
    async fn broken_files_are_found_in_the_background_and_forgotten_with_their_names() {
        let scene = Scene::new("background");
        scene.write("zero.mkv", b"", 3_600);
        scene.write("old.wma", b"0", 3_600);
        let names = ["old.wma", "zero.mkv"].map(str::to_owned).to_vec();
        scene.1.begin(names);
        let all_found =
            || scene.refusal("zero.mkv").is_some() && scene.refusal("old.wma").is_some();
        while !all_found() || scene.1.is_running.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        assert!(
            scene
                .refusal("zero.mkv")
                .expect("a reason")
                .contains("empty")
        );
        scene.1.begin(vec!["old.wma".to_owned()]);
        while scene.refusal("zero.mkv").is_some() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}
