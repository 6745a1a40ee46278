//! Wakes a polling thread from other threads.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use glassline_hub::Wake;

/// Pause after the system refused to wait, so that a failure that lasts does not spin.
const REFUSED: Duration = Duration::from_millis(10);

/// Wakes one polling thread. Several calls before the thread runs cost one system call.
#[derive(Debug)]
pub struct Waker {
    waker: mio::Waker,
    is_pending: AtomicBool,
}

impl Waker {
    /// Creates a waker that appears as an event of `poll` with this `token`.
    ///
    /// # Errors
    /// Returns the system's error if it has no descriptor left.
    pub fn new(poll: &mio::Poll, token: mio::Token) -> io::Result<Self> {
        Ok(Self {
            waker: mio::Waker::new(poll.registry(), token)?,
            is_pending: AtomicBool::new(false),
        })
    }

    /// Wakes the thread, unless an earlier call is still pending.
    pub fn wake(&self) {
        if !self.is_pending.swap(true, Ordering::AcqRel)
            && let Err(error) = self.waker.wake()
        {
            // The thread wakes by itself at its next deadline, a second later at most.
            tracing::warn!(%error, "cannot wake a polling thread");
        }
    }

    /// Returns whether the thread was woken since its latest wait began to end.
    #[inline]
    pub fn is_pending(&self) -> bool {
        self.is_pending.load(Ordering::Acquire)
    }

    /// Waits for events of the calling thread's `poll`, for at most `longest`, and marks the wake-up
    /// as seen.
    pub fn wait(&self, poll: &mut mio::Poll, events: &mut mio::Events, longest: Duration) {
        if let Err(error) = poll.poll(events, Some(longest))
            && error.kind() != io::ErrorKind::Interrupted
        {
            let thread = std::thread::current();
            tracing::error!(%error, thread = thread.name(), "a thread cannot wait for events");
            std::thread::sleep(REFUSED);
        }
        self.clear();
    }

    /// Marks the wake-up as seen. This comes before the thread reads its inputs, so that a later
    /// call to [`Self::wake`] wakes it again.
    fn clear(&self) {
        self.is_pending.store(false, Ordering::Release);
    }
}

impl Wake for Waker {
    fn wake(&self) {
        Waker::wake(self);
    }
}

/// Wakes a polling thread for one stream, and notes that this stream has something new.
///
/// Without the note, the thread would have to read every stream whenever any of them has a frame.
#[derive(Debug)]
pub struct StreamWaker {
    waker: Arc<Waker>,
    is_pending: AtomicBool,
}

impl StreamWaker {
    /// Creates a waker that counts as woken, because the stream may have units already.
    pub fn new(waker: Arc<Waker>) -> Self {
        Self {
            waker,
            is_pending: AtomicBool::new(true),
        }
    }

    /// Returns whether the stream woke the thread since the last call.
    pub fn take(&self) -> bool {
        self.is_pending.swap(false, Ordering::AcqRel)
    }
}

impl Wake for StreamWaker {
    fn wake(&self) {
        self.is_pending.store(true, Ordering::Release);
        self.waker.wake();
    }
}
