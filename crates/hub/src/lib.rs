//! Streams by name, between those who publish and those who deliver.
//!
//! ```text
//! ingest ── Publisher::push(Burst) ──► Stream ── Subscription::poll ──► egress
//!                                       │ one Ring a track: refcounted bursts,
//!                                       │ since the last keyframe and for repairs
//!          Publisher::keyframe_wanted ◄─┘ request_keyframe
//! ```
//!
//! A [`Stream`] outlives its publishers: when a source restarts, the next
//! [`Publisher`] goes on on the same timeline with the same burst and packet
//! numbers, so that viewers stay connected. The hub knows no protocol, reads no
//! clock and wakes each subscriber once per burst, however many viewers stand
//! behind it.

#![cfg_attr(
    test,
    expect(
        clippy::disallowed_methods,
        reason = "a test may anchor virtual time anywhere"
    )
)]

mod name;
mod publisher;
mod ring;
mod stream;
mod timeline;

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

pub use name::{NameError, StreamName};
pub use publisher::{PublishError, Publisher};
pub use stream::{State, Stream, Subscription, Totals, ViewerToken, Wake};

/// Bounds on what a hub keeps.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes a track's ring may keep; the oldest bursts go first.
    pub ring_bytes: usize,
    /// The longest that a burst stays, even if no keyframe followed it.
    pub ring_span: Duration,
    /// How long bursts before the last keyframe stay, to answer retransmission requests.
    pub repair_span: Duration,
    /// Streams that may exist at once.
    pub streams: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // Ten seconds of 20 Mbit/s: a long group of pictures of a 4K camera.
            ring_bytes: 25 << 20,
            ring_span: Duration::from_secs(20),
            // A retransmission is of use within the viewer's jitter buffer, well below this.
            repair_span: Duration::from_millis(1500),
            streams: 1000,
        }
    }
}

/// All streams of a server.
#[derive(Debug)]
pub struct Hub {
    limits: Limits,
    streams: RwLock<BTreeMap<StreamName, Arc<Stream>>>,
}

impl Hub {
    /// An empty hub.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            streams: RwLock::default(),
        }
    }

    /// The stream called `name`, if there is one.
    pub fn stream(&self, name: &str) -> Option<Arc<Stream>> {
        self.streams
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(name)
            .cloned()
    }

    /// Every stream, by name.
    pub fn streams(&self) -> Vec<Arc<Stream>> {
        self.streams
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .values()
            .cloned()
            .collect()
    }

    /// The stream called `name`, made if it did not exist.
    ///
    /// # Errors
    /// [`CreateError::TooMany`] at [`Limits::streams`].
    pub fn create(&self, name: StreamName) -> Result<Arc<Stream>, CreateError> {
        let mut streams = self.streams.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(stream) = streams.get(&name) {
            return Ok(Arc::clone(stream));
        }
        self.has_room(streams.len())?;
        let stream = Arc::new(Stream::new(name.clone(), self.limits));
        streams.insert(name, Arc::clone(&stream));
        Ok(stream)
    }

    /// The stream called `name`, if there is one; nothing is made.
    ///
    /// # Errors
    /// What [`create`](Self::create) would fail with now.
    pub fn look_ahead(&self, name: &StreamName) -> Result<Option<Arc<Stream>>, CreateError> {
        let streams = self.streams.read().unwrap_or_else(PoisonError::into_inner);
        match streams.get(name) {
            Some(stream) => Ok(Some(Arc::clone(stream))),
            None => self.has_room(streams.len()).map(|()| None),
        }
    }

    /// A stream that is not listed, for those who are given it.
    pub fn unlisted(&self, name: StreamName) -> Arc<Stream> {
        Stream::unlisted(name, self.limits)
    }

    /// Lists `stream` under its name.
    ///
    /// # Errors
    /// [`CreateError::Taken`] if another one has that name, [`CreateError::TooMany`]
    /// at [`Limits::streams`].
    pub fn list(&self, stream: &Arc<Stream>) -> Result<(), CreateError> {
        let mut streams = self.streams.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(present) = streams.get(stream.name()) {
            return if Arc::ptr_eq(present, stream) {
                Ok(())
            } else {
                let name = stream.name().clone();
                Err(CreateError::Taken { name })
            };
        }
        self.has_room(streams.len())?;
        streams.insert(stream.name().clone(), Arc::clone(stream));
        Ok(())
    }

    /// Forgets the stream called `name`; those who hold it keep it until they let go.
    pub fn remove(&self, name: &str) -> Option<Arc<Stream>> {
        self.streams
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(name)
    }

    fn has_room(&self, streams: usize) -> Result<(), CreateError> {
        let limit = self.limits.streams;
        if streams >= limit {
            return Err(CreateError::TooMany { limit });
        }
        Ok(())
    }
}

impl Default for Hub {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

/// Why a stream could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// The hub is full.
    #[error("{limit} streams exist already, as many as the configuration allows")]
    TooMany {
        /// The bound that was reached.
        limit: usize,
    },
    /// Another stream has the name.
    #[error("there is another stream called '{name}'")]
    Taken {
        /// The name.
        name: StreamName,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_made_once_and_bounded() {
        let hub = Hub::new(Limits {
            streams: 1,
            ..Limits::default()
        });
        let name = |text: &str| StreamName::parse(text).expect("a good name");
        assert!(hub.look_ahead(&name("cam")).expect("room").is_none());
        assert!(hub.stream("cam").is_none(), "looking makes nothing");
        let first = hub.create(name("cam")).expect("room for one");
        assert!(Arc::ptr_eq(
            &first,
            &hub.create(name("cam")).expect("the same one")
        ));
        assert!(matches!(
            hub.create(name("other")),
            Err(CreateError::TooMany { limit: 1 })
        ));
        assert!(hub.look_ahead(&name("cam")).expect("there").is_some());
        assert!(hub.look_ahead(&name("other")).is_err());
        assert!(hub.stream("cam").is_some());
        assert!(hub.remove("cam").is_some());
        assert!(hub.stream("cam").is_none());
    }

    #[test]
    fn an_unlisted_stream_is_listed_where_its_name_is_free() {
        let hub = Hub::new(Limits {
            streams: 1,
            ..Limits::default()
        });
        let unlisted = |text: &str| hub.unlisted(StreamName::parse(text).expect("good"));
        let (film, other, full) = (unlisted("film"), unlisted("film"), unlisted("more"));
        assert!(hub.stream("film").is_none());
        hub.list(&film).expect("the name is free");
        hub.list(&film).expect("it has it");
        let taken = hub.list(&other);
        assert!(matches!(taken, Err(CreateError::Taken { .. })));
        assert!(matches!(
            hub.list(&full),
            Err(CreateError::TooMany { limit: 1 })
        ));
        assert!(Arc::ptr_eq(&hub.stream("film").expect("listed"), &film));
    }
}
