//! Senders of messages to a publisher, which share what may wait for it.

use std::collections::HashMap;
use std::sync::Arc;

use glassline_sctp::channel::Init;
use parking_lot::Mutex;

use super::{Posted, PostedContent};

/// A viewer, or another server with its viewers, as the sender of messages to a publisher.
#[derive(Debug, Default)]
pub(crate) struct Sender {
    /// Channel of the last message that was dropped because the publisher takes messages too slowly.
    cut: Mutex<Option<Arc<Init>>>,
}

impl Sender {
    /// Returns the channel that lost a message since the last call.
    pub(crate) fn take_cut(&self) -> Option<Arc<Init>> {
        self.cut.lock().take()
    }
}

/// Bytes that wait for a publisher, by their sender.
#[derive(Debug, Default)]
pub(crate) struct Shares(HashMap<usize, Share>);

#[derive(Debug)]
struct Share {
    sender: Arc<Sender>,
    bytes: usize,
}

impl Shares {
    /// Counts a message that waits.
    pub(crate) fn add(&mut self, posted: &Posted) {
        if let Some(sender) = &posted.sender {
            let share = self.0.entry(key(sender)).or_insert_with(|| Share {
                sender: Arc::clone(sender),
                bytes: 0,
            });
            share.bytes += posted.content.bytes();
        }
    }

    /// Counts a message that waits no longer.
    pub(crate) fn remove(&mut self, posted: &Posted) {
        let Some(key) = posted.sender.as_ref().map(key) else {
            return;
        };
        if let Some(share) = self.0.get_mut(&key) {
            share.bytes -= posted.content.bytes();
            if share.bytes == 0 {
                self.0.remove(&key);
            }
        }
    }

    /// Forgets the messages of all senders, because none waits any more.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns the sender with most bytes, which `sender` with `bytes` more may push out. `None` if `sender` has
    /// its part of what waits, and more.
    pub(crate) fn greatest_beside(
        &self,
        sender: &Arc<Sender>,
        bytes: usize,
    ) -> Option<Arc<Sender>> {
        let own = self.0.get(&key(sender)).map_or(0, |it| it.bytes);
        let others = self.0.len() - usize::from(own > 0);
        let all: usize = self.0.values().map(|it| it.bytes).sum();
        if (own + bytes) * (others + 1) >= all + bytes {
            return None;
        }
        let greatest = self.0.values().max_by_key(|it| it.bytes)?;
        Some(Arc::clone(&greatest.sender))
    }
}

impl Posted {
    /// Tells the sender, if there are several, that the message is dropped.
    pub(crate) fn note_cut(&self) {
        if let (Some(sender), PostedContent::Message { channel, .. }) =
            (&self.sender, &self.content)
        {
            *sender.cut.lock() = Some(Arc::clone(channel));
        }
    }
}

/// Returns the address of a sender, which no other one has while its messages wait.
fn key(sender: &Arc<Sender>) -> usize {
    Arc::as_ptr(sender).addr()
}
