//! A session that plays what was recorded.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use glassline_hub::{Stream, Wake};
use glassline_ingest::library::{Failure, Play, PrivateReading};
use glassline_runtime::{ConnectionPermit, TaskWaker};
use tokio::sync::MutexGuard;

/// Longest wait for the first frame of a recording, whose disk may sleep.
const BEGINNING: Duration = Duration::from_secs(10);

/// The recordings that a viewer's session plays, alone.
#[derive(Debug)]
pub(crate) struct PastSession {
    reading: PrivateReading,
    _place: ConnectionPermit,
}

impl PastSession {
    /// Creates the recordings that `reading` plays.
    pub(crate) const fn new(reading: PrivateReading, place: ConnectionPermit) -> Self {
        Self {
            reading,
            _place: place,
        }
    }

    pub(crate) fn stream(&self) -> &Arc<Stream> {
        self.reading.stream()
    }

    /// Goes to another instant, or changes the speed.
    pub(crate) fn begin(&self, play: Play) {
        self.reading.play(play);
    }

    /// Goes to another instant, or changes the speed. Returns the position, since 1970, with which the
    /// playback has begun; `None` if it takes long.
    ///
    /// # Errors
    /// Returns [`Failure`] if there is nothing to play.
    pub(crate) async fn play(&self, play: Play) -> Result<Option<Duration>, Failure> {
        let arrival = Arc::<TaskWaker>::default();
        let waker = Arc::clone(&arrival) as Arc<dyn Wake>;
        // Any unit will do, and so will the end.
        let _subscription = self.stream().subscribe(waker);
        self.begin(play);
        let begun = async {
            loop {
                match self.reading.started() {
                    Some(Ok(started)) if self.has_frame() => return Ok(started.from),
                    Some(Err(failure)) => return Err(failure),
                    // Audio may come before the first frame.
                    Some(Ok(_)) | None => arrival.woken().await,
                }
            }
        };
        match tokio::time::timeout(BEGINNING, begun).await {
            Ok(begun) => begun.map(Some),
            Err(_) => Ok(None),
        }
    }

    /// Returns whether there is a frame with which a viewer can begin.
    fn has_frame(&self) -> bool {
        let stream = self.stream();
        let first = stream.beginning(stream.latency_track());
        !stream.since_keyframe(first).is_empty()
    }

    /// Stops at the present frame.
    pub(crate) fn pause(&self) {
        self.reading.pause();
    }

    /// Returns the position of the newest frame, since 1970.
    pub(crate) fn position(&self) -> Duration {
        self.reading.position()
    }
}

/// The place of the recordings that a session plays, which one request at a time changes.
#[derive(Debug)]
pub(crate) struct PastPlace<'a> {
    pub(super) past: MutexGuard<'a, Option<Box<PastSession>>>,
    pub(super) is_past: &'a AtomicBool,
}

impl PastPlace<'_> {
    /// Returns the recordings that the session plays; `None` if it plays a stream or a file.
    pub(crate) fn get(&self) -> Option<&PastSession> {
        self.past.as_deref()
    }

    /// Gives the session other recordings, or none.
    pub(crate) fn set(&mut self, past: Option<PastSession>) {
        self.is_past.store(past.is_some(), Ordering::Relaxed);
        *self.past = past.map(Box::new);
    }
}
