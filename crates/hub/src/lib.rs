//! Streams by name, between those who publish and those who deliver.
//!
//! ```text
//! ingest ── Publisher::push(MediaUnit) ──► Stream ── Subscription::poll ──► egress
//!                                       │ one Ring a track: refcounted units,
//!                                       │ since the last keyframe and for repairs
//!          Publisher::keyframe_wanted ◄─┘ request_keyframe
//! ```
//!
//! A [`Stream`] outlives its publishers: when a source restarts, the next
//! [`Publisher`] goes on on the same timeline with the same unit and packet
//! numbers, so that viewers stay connected. The hub knows no protocol, reads no
//! clock and wakes each subscriber once per unit, however many viewers stand
//! behind it.

#![cfg_attr(
    test,
    expect(
        clippy::disallowed_methods,
        reason = "a test may anchor virtual time anywhere"
    )
)]

mod error;
mod name;
mod publisher;
mod ring;
mod stream;
mod timeline;
mod wake;
mod watch;

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

pub use error::PublishError;
pub use name::{NameError, StreamName};
pub use publisher::Publisher;
pub use stream::{State, Stream, StreamLifetime, Subscription, Totals, ViewerToken};
pub use wake::Wake;

use watch::Watchers;

/// Bounds on what a hub keeps.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes a track's ring may keep; the oldest units go first.
    pub ring_bytes: usize,
    /// The longest that a unit stays, even if no keyframe followed it.
    pub ring_span: Duration,
    /// How long units before the last keyframe stay, to answer retransmission requests.
    pub repair_span: Duration,
    /// Streams that may exist at once.
    pub streams: usize,
    /// How long an admitted stream stays without a publisher and without anybody who
    /// holds it.
    pub departed_span: Duration,
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
            // An encoder that restarts, or finds its network again, is back by then.
            departed_span: Duration::from_secs(60),
        }
    }
}

/// All streams of a server.
#[derive(Debug)]
pub struct Hub {
    limits: Limits,
    streams: RwLock<BTreeMap<StreamName, Arc<Stream>>>,
    watchers: Watchers,
}

impl Hub {
    /// An empty hub.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            streams: RwLock::default(),
            watchers: Watchers::default(),
        }
    }

    /// Wakes `watcher` whenever a stream of this hub is listed, begins to be published,
    /// ends or is forgotten, for as long as somebody holds the watcher. What changed is to
    /// be looked up in [`streams`](Self::streams).
    ///
    /// The watcher is called with streams locked: it must neither block nor call back.
    pub fn watch(&self, watcher: &Arc<dyn Wake>) {
        self.watchers.add(watcher);
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

    /// The stream called `name`, made if it did not exist, and listed from now on
    /// whether or not it has a source: for those that the configuration names.
    ///
    /// # Errors
    /// [`CreateError::TooMany`] at [`Limits::streams`].
    pub fn create(&self, name: StreamName) -> Result<Arc<Stream>, CreateError> {
        let stream = self.admit(name)?;
        stream.set_lifetime(StreamLifetime::Configured);
        Ok(stream)
    }

    /// The stream called `name`, made if it did not exist, for a publisher that comes of
    /// its own accord: once it has left, [`sweep`](Self::sweep) forgets the stream.
    ///
    /// # Errors
    /// [`CreateError::TooMany`] at [`Limits::streams`].
    pub fn admit(&self, name: StreamName) -> Result<Arc<Stream>, CreateError> {
        let mut streams = self.streams.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(stream) = streams.get(&name) {
            return Ok(Arc::clone(stream));
        }
        self.has_room(streams.len())?;
        let stream = Stream::admitted(name.clone(), self.limits, self.watchers.clone());
        let stream = Arc::new(stream);
        streams.insert(name, Arc::clone(&stream));
        Ok(stream)
    }

    /// Forgets admitted streams that have had no publisher, and nobody who holds them,
    /// for [`Limits::departed_span`]; their names. Whoever watches, waits or is about to
    /// publish holds its stream, so that it finds the next source on it.
    ///
    /// To be called every second or so: the span begins with the call that first finds a
    /// stream left.
    pub fn sweep(&self, now: Instant) -> Vec<StreamName> {
        let mut streams = self.streams.write().unwrap_or_else(PoisonError::into_inner);
        let mut forgotten = Vec::new();
        streams.retain(|name, stream| {
            // Nobody can take hold of it while the list is locked.
            let is_held = Arc::strong_count(stream) > 1;
            let left = stream.left(is_held, now);
            let stays = left.is_none_or(|left| left < self.limits.departed_span);
            if !stays {
                forgotten.push(name.clone());
            }
            stays
        });
        if !forgotten.is_empty() {
            self.watchers.wake();
        }
        forgotten
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
        let stream = Stream::admitted(name, self.limits, self.watchers.clone());
        stream.set_lifetime(StreamLifetime::Configured);
        Arc::new(stream)
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
        self.watchers.wake();
        Ok(())
    }

    /// Forgets the stream called `name`; those who hold it keep it until they let go.
    pub fn remove(&self, name: &str) -> Option<Arc<Stream>> {
        let removed = self
            .streams
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(name);
        if removed.is_some() {
            self.watchers.wake();
        }
        removed
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
    fn streams_that_nobody_publishes_or_holds_are_forgotten_unless_they_were_to_stay() {
        let hub = Hub::default();
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let name = |text: &str| StreamName::parse(text).expect("a good name");
        let track = || {
            vec![glassline_media::Track::audio(
                glassline_media::Codec::Opus,
                2,
            )]
        };
        drop(hub.create(name("camera")).expect("room"));
        drop(hub.admit(name("camera")).expect("there"));
        let publish = |text: &str| {
            let stream = hub.admit(name(text)).expect("room");
            stream.publish(track(), start).expect("free")
        };
        let (left, watched, live) = (publish("left"), publish("watched"), publish("live"));
        let viewer = hub.stream("watched").expect("live");
        drop((left, watched));
        assert!(hub.sweep(after(0)).is_empty(), "60 s from now");
        assert!(hub.sweep(after(59)).is_empty());
        assert_eq!(hub.sweep(after(60)), [name("left")]);
        drop(viewer);
        drop(publish("left"));
        assert!(hub.sweep(after(100)).is_empty());
        // Back in time, and gone again.
        drop(publish("left"));
        let again = publish("left");
        assert_eq!(hub.sweep(after(160)), [name("watched")]);
        drop(again);
        assert!(hub.sweep(after(170)).is_empty());
        assert!(hub.sweep(after(229)).is_empty());
        assert_eq!(hub.sweep(after(230)), [name("left")]);
        drop(live);
        drop(hub.create(name("live")).expect("there"));
        hub.sweep(after(300));
        assert!(
            hub.sweep(after(400)).is_empty(),
            "the configuration names it now"
        );
        let names = hub.streams().into_iter().map(|it| it.name().to_string());
        assert_eq!(names.collect::<Vec<_>>(), ["camera", "live"]);
    }

    #[test]
    fn a_stream_that_passes_goes_as_soon_as_nobody_publishes_or_holds_it() {
        let hub = Hub::default();
        let now = Instant::now();
        let name = StreamName::parse("voice").expect("a good name");
        let stream = hub.admit(name.clone()).expect("room");
        stream.set_lifetime(StreamLifetime::Transient);
        let tracks = vec![glassline_media::Track::audio(
            glassline_media::Codec::Opus,
            1,
        )];
        let publisher = stream.publish(tracks, now).expect("free");
        drop(stream);
        assert!(hub.sweep(now).is_empty(), "it is published");
        let viewer = hub.stream("voice");
        drop(publisher);
        assert!(hub.sweep(now).is_empty(), "it is held");
        drop(viewer);
        assert_eq!(hub.sweep(now), [name]);
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
