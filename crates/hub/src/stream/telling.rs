//! How a stream tells the readers of its hub's events that it has changed.

use std::time::Instant;

use parking_lot::MutexGuard;

use super::status::SILENCE;
use super::{Inner, Stream};
use crate::events::{SourceNumber, StreamChange, StreamSummary};

/// State of a stream that the readers of its events know.
#[derive(Debug, Default)]
pub(super) struct Announced {
    /// Whether the stream has viewers.
    has_viewers: bool,
    /// Revision of the latest event.
    revision: u64,
}

impl Stream {
    /// Tells of `changes`, after which the stream is as `inner` says.
    pub(super) fn tell(&self, inner: MutexGuard<'_, Inner>, changes: &[StreamChange]) {
        if inner.listing.is_listed {
            self.tell_all(inner, changes);
        }
    }

    fn tell_all(&self, mut inner: MutexGuard<'_, Inner>, changes: &[StreamChange]) {
        if changes.is_empty() || self.events.is_empty() {
            return;
        }
        inner.announced.revision = self.events.next_revision();
        let summary = self.summary(&inner);
        // Locked before the stream's own lock is given back: the next change is told later.
        let mut queues = self.events.open();
        drop(inner);
        queues.push(changes, summary);
    }

    /// Tells that the hub lists the stream from now on, or lists it no more.
    pub(crate) fn set_listed(&self, is_listed: bool) {
        let mut inner = self.inner.lock();
        if inner.listing.is_listed == is_listed {
            return;
        }
        inner.listing.is_listed = is_listed;
        let change = match is_listed {
            true => StreamChange::Listed,
            false => StreamChange::Removed,
        };
        self.tell_all(inner, &[change]);
    }

    /// Tells that the first viewer came or the last one left, unless both happened meanwhile.
    pub(crate) fn tell_viewers(&self) {
        let mut inner = self.inner.lock();
        let has_viewers = self.viewers() > 0;
        if inner.announced.has_viewers == has_viewers {
            return;
        }
        inner.announced.has_viewers = has_viewers;
        let change = match has_viewers {
            true => StreamChange::FirstViewer,
            false => StreamChange::LastViewer,
        };
        self.tell(inner, &[change]);
    }

    /// Tells that the source has been silent for long, if it has and nobody was told.
    pub(super) fn tell_silence(&self, mut inner: MutexGuard<'_, Inner>, now: Instant) {
        let Some(source) = &mut inner.source else {
            return;
        };
        if !source.is_silent && source.silent_for(now) >= SILENCE {
            source.is_silent = true;
            self.tell(inner, &[StreamChange::Silent]);
        }
    }

    /// Returns the stream as it is now, if the hub lists it.
    pub(crate) fn listed_summary(&self) -> Option<StreamSummary> {
        let inner = self.inner.lock();
        inner.listing.is_listed.then(|| self.summary(&inner))
    }

    fn summary(&self, inner: &Inner) -> StreamSummary {
        let is_silent = inner.source.as_ref().is_some_and(|it| it.is_silent);
        // A viewer who has just come or left is told next.
        let viewers = match inner.announced.has_viewers {
            true => self.viewers().max(1),
            false => 0,
        };
        StreamSummary {
            name: self.name.clone(),
            incarnation: self.incarnation,
            state: inner.state.clone(),
            status: inner.status(is_silent),
            source: inner.source.as_ref().map(|it| SourceNumber(it.number)),
            protocol: inner.note.as_ref().map(|it| it.protocol),
            is_published: inner.is_published(),
            layout: inner.layout.number(),
            viewers,
            revision: inner.announced.revision,
        }
    }
}
