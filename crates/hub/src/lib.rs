//! Streams by name, between publishers and subscribers.
//!
//! ```text
//! ingest ── Publisher::push(MediaUnit) ──► Stream ── Subscription::poll ──► egress
//!                                       │ one Ring for each layer of a track:
//!                                       │ shared units since the last keyframe,
//!                                       │ and those that may be retransmitted
//!          Publisher::keyframe_wanted ◄─┘ Stream::request_keyframe
//! ```
//!
//! A [`Hub`] holds [`Stream`]s by name. A stream outlives its publishers: when a source
//! restarts, the next [`Publisher`] continues the same timeline with the same unit and packet
//! numbers, so that viewers stay connected.
//!
//! A source whose tracks have other codecs than those of the source before begins a new
//! [`TrackLayout`]: the units of the old layout are dropped, and receivers that negotiated the
//! old tracks compare [`Stream::layout`] with the layout that they began with, and end.
//!
//! A track may have a rendition besides: the same content in another codec, which a transcoder
//! publishes with a [`RenditionPublisher`] for receivers that cannot take the source's codec.
//!
//! While a source is away, [`Stream::stand_in`] publishes something in its place, until the source
//! takes over again. Every subscription is a [`Demand`] for its stream, by which sources that come
//! on demand know when to begin and to end.
//!
//! [`Hub::events`] tells what happens to streams: they are listed, get a source and lose it, have their
//! first viewer and none any more.
//!
//! A [`Subscription`] is a cursor into the stream. The stream calls its [`Wake`] once per
//! unit, on the publisher's thread; the subscriber then reads units on its own thread. A
//! server subscribes once per thread, whatever the number of viewers of that thread.
//!
//! The hub knows no protocol and reads no clock, and every ring is bounded by [`Limits`].
//!
//! # Example
//!
//! ```
//! use glassline_hub::{Hub, StreamName, Wake};
//! use glassline_media::{Codec, MediaTime, Stamps, Track, TrackIndex, UnitBuilder};
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicUsize, Ordering};
//! use std::time::Instant;
//!
//! /// Counts how often a subscriber was woken; a server would write to an eventfd.
//! #[derive(Default)]
//! struct WakeCount(AtomicUsize);
//!
//! impl Wake for WakeCount {
//!     fn wake(&self) {
//!         self.0.fetch_add(1, Ordering::Relaxed);
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let now = Instant::now();
//! let hub = Hub::default();
//! let stream = hub.create(StreamName::parse("radio")?)?;
//!
//! // An ingest publishes tracks; there is one publisher at a time.
//! let mut publisher = stream.publish(vec![Track::audio(Codec::Opus, 2)], now)?;
//! let wakes = Arc::new(WakeCount::default());
//! let mut subscription = stream.subscribe(wakes.clone());
//!
//! let mut builder = UnitBuilder::default();
//! builder.push(b"an Opus packet");
//! let unit = builder
//!     .build(TrackIndex(0), MediaTime::ZERO, true, Stamps::arrived(now))
//!     .ok_or("a unit has at least one packet")?;
//! publisher.push(unit, now)?;
//!
//! // An egress reads what was published since its last call.
//! assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
//! let mut units = Vec::new();
//! subscription.poll(&mut units);
//! assert_eq!(units[0].payload(0), Some(&b"an Opus packet"[..]));
//! # Ok(())
//! # }
//! ```

#![cfg_attr(
    test,
    expect(
        clippy::disallowed_methods,
        reason = "a test may anchor virtual time anywhere"
    )
)]

mod error;
mod events;
mod keyframe_size;
mod ladder;
mod layout;
mod name;
mod publisher;
mod ring;
mod stream;
mod timeline;
mod transcode;
mod wake;
mod watch;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use error::PublishError;
pub use events::{
    Incarnation, SourceNumber, StreamChange, StreamEvent, StreamEvents, StreamSummary, StreamTable,
};
pub use keyframe_size::KeyframeSize;
pub use ladder::{Ladder, LadderError, LadderRung};
pub use layout::TrackLayout;
pub use name::{CHECK_PREFIX, NameError, StreamName};
pub use publisher::Publisher;
pub use ring::{LayerFigures, TemporalRates};
pub use stream::{
    Demand, LadderNeed, LadderPlan, LayerWish, LayerWishError, LayersRead, NoSuchLayer,
    PartingKeyframe, PlannedRung, Prospect, RenditionPublisher, SourceNote, State, Status, Stream,
    StreamLifetime, Subscription, Totals, ViewerToken, WantedKeyframes,
};
pub use transcode::Transcode;
pub use wake::Wake;

use events::EventQueues;
use parking_lot::RwLock;

/// Bounds on the streams of a hub and on the units that they keep.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most bytes of units that a ring keeps; the oldest units are dropped first. Each layer of a track
    /// has a ring.
    pub ring_bytes: usize,
    /// Longest time that a ring keeps a unit, unless the unit is the latest keyframe or follows it.
    pub ring_span: Duration,
    /// Time that a ring keeps units from before the last keyframe, to answer retransmission
    /// requests.
    pub repair_span: Duration,
    /// Number of streams that may exist at once.
    pub streams: usize,
    /// Time that an admitted stream stays listed without a publisher and without anybody who
    /// holds it.
    pub departed_span: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // Ten seconds of 20 Mbit/s: a long group of pictures of a 4K camera.
            ring_bytes: 25 << 20,
            ring_span: Duration::from_secs(20),
            // A retransmission is useful within the viewer's jitter buffer, which is well below
            // this.
            repair_span: Duration::from_millis(1500),
            streams: 1000,
            // By then an encoder that restarted, or lost its network, is back.
            departed_span: Duration::from_secs(60),
        }
    }
}

/// All streams of a server, by name. A hub is shared between threads by reference.
#[derive(Debug)]
pub struct Hub {
    limits: RwLock<Limits>,
    /// The ladder of streams whose source chooses none.
    ladder: RwLock<Ladder>,
    streams: RwLock<BTreeMap<StreamName, Arc<Stream>>>,
    events: EventQueues,
}

impl Hub {
    /// Creates an empty hub.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits: RwLock::new(limits),
            ladder: RwLock::default(),
            streams: RwLock::default(),
            events: EventQueues::default(),
        }
    }

    /// Returns the limits in force.
    pub fn limits(&self) -> Limits {
        *self.limits.read()
    }

    /// Replaces the limits. The rings of streams that exist keep theirs; streams beyond a lower
    /// [`Limits::streams`] stay.
    pub fn set_limits(&self, limits: Limits) {
        *self.limits.write() = limits;
    }

    /// Sets the ladder of the streams whose source chooses none, those that exist included.
    pub fn set_ladder(&self, ladder: Ladder) {
        *self.ladder.write() = ladder;
        for stream in self.streams() {
            stream.set_general_ladder(ladder);
        }
    }

    fn ladder(&self) -> Ladder {
        *self.ladder.read()
    }

    /// Returns the stream called `name`, if there is one.
    pub fn stream(&self, name: &str) -> Option<Arc<Stream>> {
        self.streams.read().get(name).cloned()
    }

    /// Returns every stream, in the order of the names.
    pub fn streams(&self) -> Vec<Arc<Stream>> {
        self.streams.read().values().cloned().collect()
    }

    /// Returns the stream called `name`, creating it if it does not exist. The stream is listed
    /// from now on whether or not it has a source, as streams of the configuration are.
    ///
    /// # Errors
    /// [`CreateError::TooMany`] at [`Limits::streams`].
    pub fn create(&self, name: StreamName) -> Result<Arc<Stream>, CreateError> {
        self.admit_as(name, StreamLifetime::Configured)
    }

    /// Returns the stream called `name`, creating it if it does not exist, for whoever publishes it.
    /// The stream is listed from now on whether or not anybody does.
    ///
    /// # Errors
    /// [`CreateError::TooMany`] at [`Limits::streams`].
    pub fn reserve(&self, name: StreamName) -> Result<Arc<Stream>, CreateError> {
        self.admit_as(name, StreamLifetime::Awaited)
    }

    /// Returns the stream called `name`, creating it if it does not exist, for a publisher that
    /// the configuration does not name: [`sweep`](Self::sweep) removes the stream some time
    /// after the publisher left.
    ///
    /// # Errors
    /// [`CreateError::TooMany`] at [`Limits::streams`].
    pub fn admit(&self, name: StreamName) -> Result<Arc<Stream>, CreateError> {
        self.admit_as(name, StreamLifetime::default())
    }

    /// Returns the stream of this name; a new one is transient and comes on demand. Whoever finds a new
    /// one finds its prospect, too, and waits for its tracks.
    ///
    /// # Errors
    /// Returns those of [`admit`](Self::admit).
    pub fn admit_on_demand(&self, name: StreamName) -> Result<Arc<Stream>, CreateError> {
        self.find_or_list(name, |stream| {
            stream.set_lifetime(StreamLifetime::Transient);
            stream.set_prospect(Prospect::OnDemand);
        })
    }

    fn admit_as(
        &self,
        name: StreamName,
        lifetime: StreamLifetime,
    ) -> Result<Arc<Stream>, CreateError> {
        let stream = self.find_or_list(name, |stream| stream.set_lifetime(lifetime))?;
        if lifetime != StreamLifetime::default() {
            stream.set_lifetime(lifetime);
        }
        Ok(stream)
    }

    /// Returns the stream of this name, or lists a new one, on which `prepare` is called before.
    fn find_or_list(
        &self,
        name: StreamName,
        prepare: impl FnOnce(&Stream),
    ) -> Result<Arc<Stream>, CreateError> {
        let mut streams = self.streams.write();
        if let Some(stream) = streams.get(&name) {
            return Ok(Arc::clone(stream));
        }
        self.has_room(streams.len())?;
        let stream = Stream::admitted(name.clone(), self.limits(), self.events.clone());
        stream.set_general_ladder(self.ladder());
        prepare(&stream);
        let stream = Arc::new(stream);
        streams.insert(name, Arc::clone(&stream));
        stream.set_listed(true);
        Ok(stream)
    }

    /// Removes admitted streams that have had no publisher and no holder for
    /// [`Limits::departed_span`], and returns their names. Viewers, waiting requests and
    /// publishers about to begin hold the stream, so that they find the next source on it.
    ///
    /// Call this about once a second: the time counts from the first call that
    /// finds the stream without publisher and holder. Readers of [`events`](Self::events) learn by this
    /// call, too, that a source is silent.
    pub fn sweep(&self, now: Instant) -> Vec<StreamName> {
        let departed_span = self.limits().departed_span;
        let mut streams = self.streams.write();
        let mut forgotten = Vec::new();
        streams.retain(|name, stream| {
            // No other thread can take a reference to the stream while the list is locked.
            let is_held = Arc::strong_count(stream) > 1;
            let unused_for = stream.sweep(is_held, now);
            let stays = unused_for.is_none_or(|time| time < departed_span && !name.is_of_check());
            if !stays {
                forgotten.push(name.clone());
                stream.set_listed(false);
            }
            stays
        });
        forgotten
    }

    /// Returns the stream called `name`, if there is one, without creating it.
    ///
    /// # Errors
    /// The error that [`create`](Self::create) would return now.
    pub fn lookup(&self, name: &StreamName) -> Result<Option<Arc<Stream>>, CreateError> {
        let streams = self.streams.read();
        match streams.get(name) {
            Some(stream) => Ok(Some(Arc::clone(stream))),
            None => self.has_room(streams.len()).map(|()| None),
        }
    }

    /// Checks that clients may publish under `name`, which need not be that of a stream yet.
    ///
    /// # Errors
    /// [`PublishError::Configured`] if a source of the server alone publishes the stream.
    pub fn check_client(&self, name: &StreamName) -> Result<(), PublishError> {
        let stream = self.stream(name.as_str());
        stream.map_or(Ok(()), |stream| stream.check_client())
    }

    /// Creates a stream that this hub does not list. Only callers that are given the stream can
    /// use it, until [`list`](Self::list) lists it.
    pub fn unlisted(&self, name: StreamName) -> Arc<Stream> {
        let stream = Stream::admitted(name, self.limits(), self.events.clone());
        stream.set_lifetime(StreamLifetime::Configured);
        stream.set_general_ladder(self.ladder());
        Arc::new(stream)
    }

    /// Lists `stream` under its name. Listing a stream twice has no effect.
    ///
    /// # Errors
    /// [`CreateError::Taken`] if another stream has the name, [`CreateError::TooMany`] at
    /// [`Limits::streams`].
    pub fn list(&self, stream: &Arc<Stream>) -> Result<(), CreateError> {
        let mut streams = self.streams.write();
        if let Some(present) = streams.get(stream.name()) {
            return if Arc::ptr_eq(present, stream) {
                Ok(())
            } else {
                let name = stream.name().clone();
                Err(CreateError::Taken { name })
            };
        }
        self.has_room(streams.len())?;
        stream.set_general_ladder(self.ladder());
        streams.insert(stream.name().clone(), Arc::clone(stream));
        stream.set_listed(true);
        Ok(())
    }

    /// Removes the stream called `name` from the list and returns it. Holders can use the
    /// stream until they drop it.
    pub fn remove(&self, name: &str) -> Option<Arc<Stream>> {
        let mut streams = self.streams.write();
        let removed = streams.remove(name);
        if let Some(stream) = &removed {
            stream.set_listed(false);
        }
        removed
    }

    /// Deletes the stream called `name`: its publisher and its receivers end, as do requests that
    /// wait for it, and a stream that is made under this name later is another one. Returns whether
    /// there was such a stream.
    pub fn delete(&self, name: &str) -> bool {
        let removed = self.remove(name);
        if let Some(stream) = &removed {
            stream.retire();
        }
        removed.is_some()
    }

    fn has_room(&self, streams: usize) -> Result<(), CreateError> {
        let limit = self.limits().streams;
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

/// The reason why a stream could not be created or listed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// The hub has as many streams as [`Limits::streams`] allows.
    #[error("{limit} streams exist already, as many as the configuration allows")]
    TooMany {
        /// Limit that was reached.
        limit: usize,
    },
    /// Another stream has the same name.
    #[error("there is another stream called '{name}'")]
    Taken {
        /// Name of both streams.
        name: StreamName,
    },
}

#[cfg(test)]
mod tests;
