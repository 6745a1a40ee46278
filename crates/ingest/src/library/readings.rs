//! Threads that play, and the places on them: a few threads for all readings, or one for each.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use glassline_runtime::Supervisor;

use super::driver::{Driver, Handle};
use super::reading::Reading;

/// Threads that play, and the places for readings that belong to one client each.
#[derive(Debug)]
pub struct Readings {
    driver: Driver,
    private: AtomicUsize,
    private_max: AtomicUsize,
}

impl Readings {
    /// Starts `threads` threads called `name`, on which at most `private_max` readings of one client each
    /// play.
    ///
    /// # Errors
    /// Returns the system's error if a thread cannot be started.
    pub fn start(
        name: &str,
        threads: usize,
        private_max: usize,
        supervisor: &Arc<Supervisor>,
    ) -> io::Result<Self> {
        Ok(Self {
            driver: Driver::start(name, threads, supervisor)?,
            private: AtomicUsize::new(0),
            private_max: AtomicUsize::new(private_max),
        })
    }

    /// Returns places for `private_max` readings of one client each, of which every one has a thread of its
    /// own, called after `name`: what a reading waits for delays no other.
    pub fn apart(name: &str, private_max: usize, supervisor: &Arc<Supervisor>) -> Self {
        Self {
            driver: Driver::apart(name, supervisor),
            private: AtomicUsize::new(0),
            private_max: AtomicUsize::new(private_max),
        }
    }

    /// Ends the threads and all their readings.
    pub fn close(&self) {
        self.driver.close();
    }

    pub(super) fn set_private_max(&self, max: usize) {
        self.private_max.store(max, Ordering::Relaxed);
    }

    /// Returns the number of readings that belong to one client each.
    pub(super) fn private(&self) -> usize {
        self.private.load(Ordering::Relaxed)
    }

    /// Returns the number of all readings.
    pub(super) fn count(&self) -> usize {
        self.driver.readings()
    }

    pub(super) fn add(&self, reading: Reading) -> Handle {
        self.driver.add(reading)
    }

    pub(super) fn permit(self: &Arc<Self>) -> Result<ReadingPermit, Full> {
        let limit = self.private_max.load(Ordering::Relaxed);
        let taken = self
            .private
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
                (count < limit).then_some(count + 1)
            });
        taken.map_err(|_| Full { limit })?;
        Ok(ReadingPermit(Arc::clone(self)))
    }
}

/// The right to one private reading, given back when dropped.
#[derive(Debug)]
pub(super) struct ReadingPermit(Arc<Readings>);

impl Drop for ReadingPermit {
    fn drop(&mut self) {
        self.0.private.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The configured number of private readings is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{limit} clients seek in files or change their speed already; raise `rtsp.media_clients` to allow more"
)]
pub struct Full {
    /// Configured number of private readings, `rtsp.media_clients`.
    pub limit: usize,
}
