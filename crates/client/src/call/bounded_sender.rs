//! A bounded queue between the threads of a call.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, TrySendError};

use super::Shared;

/// Sending end of a bounded queue. It never waits: items that do not fit are counted.
pub(crate) struct BoundedSender<T> {
    sender: mpsc::SyncSender<T>,
    shared: Arc<Shared>,
}

impl<T> Clone for BoundedSender<T> {
    fn clone(&self) -> Self {
        Self {
            sender: self.sender.clone(),
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<T> BoundedSender<T> {
    pub(crate) fn new(capacity: usize, shared: &Arc<Shared>) -> (Self, Receiver<T>) {
        let (sender, receiver) = mpsc::sync_channel(capacity);
        let shared = Arc::clone(shared);
        (Self { sender, shared }, receiver)
    }

    pub(crate) fn push(&self, item: T) {
        if let Err(TrySendError::Full(_)) = self.sender.try_send(item) {
            self.shared.overflowed.fetch_add(1, Ordering::Relaxed);
        }
    }
}
