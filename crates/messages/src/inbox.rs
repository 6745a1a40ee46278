//! Messages that wait for one receiver of a side: a shard, or another server.

use std::collections::VecDeque;
use std::sync::Arc;

use glassline_hub::Wake;
use parking_lot::Mutex;

use super::Posted;

/// Most messages that wait for a shard's next turn, or for another server. Turns are a millisecond or two
/// apart. A shard that stands still for longer finds out how many messages it missed.
pub(super) const INBOX_MESSAGES_MAX: usize = 4096;
/// Most bytes of messages that wait for a shard's next turn.
pub(super) const INBOX_BYTES_MAX: usize = 8 << 20;

/// The messages that wait for one shard, or for one other server.
pub struct Inbox {
    queue: Mutex<Queue>,
    wake: Arc<dyn Wake>,
}

impl std::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let queue = self.queue.lock();
        f.debug_struct("Inbox")
            .field("messages", &queue.posted.len())
            .field("bytes", &queue.bytes)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Queue {
    posted: VecDeque<Arc<Posted>>,
    bytes: usize,
    /// Messages that were dropped since [`Inbox::take_one`] was called last.
    dropped: u64,
}

impl Inbox {
    /// Creates an empty inbox.
    pub fn new(wake: Arc<dyn Wake>) -> Self {
        Self {
            queue: Mutex::default(),
            wake,
        }
    }

    /// Takes the oldest message out, and returns how many older ones were dropped since the last call.
    pub(super) fn take_one(&self) -> (Option<Arc<Posted>>, u64) {
        let mut queue = self.queue.lock();
        let oldest = queue.posted.pop_front();
        if let Some(oldest) = &oldest {
            queue.bytes -= oldest.content.bytes();
        }
        (oldest, std::mem::take(&mut queue.dropped))
    }

    /// Returns the bytes that wait.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.queue.lock().bytes
    }

    /// Takes everything out, in order. A message that was dropped leaves a gap in the numbers.
    pub fn take(&self, out: &mut Vec<Arc<Posted>>) {
        let mut queue = self.queue.lock();
        queue.bytes = 0;
        out.extend(queue.posted.drain(..));
    }

    /// Adds a message, and drops the oldest ones where there is no place for all.
    pub fn push(&self, posted: &Arc<Posted>) {
        let mut queue = self.queue.lock();
        queue.bytes += posted.content.bytes();
        queue.posted.push_back(Arc::clone(posted));
        while queue.posted.len() > INBOX_MESSAGES_MAX
            || queue.bytes > INBOX_BYTES_MAX && queue.posted.len() > 1
        {
            let Some(oldest) = queue.posted.pop_front() else {
                break;
            };
            queue.bytes -= oldest.content.bytes();
            queue.dropped += 1;
        }
        drop(queue);
        self.wake.wake();
    }
}
