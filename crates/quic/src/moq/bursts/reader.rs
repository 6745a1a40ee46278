//! A broadcast of another server, at the server that pulls it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_media::{Kind, Relay, Stamps, TrackLayer};
use moq_net::{broadcast, group, track};

use super::catalog::{self, NodeName, UnitCatalog, UnitCatalogError};
use super::object::{self, OBJECT_BYTES_MAX, ObjectError, ReceivedUnit};
use super::requests::{self, RequestRefusal};
use crate::moq::broadcast_reader::{GroupError, read};
use crate::moq::catalog::TRACK;
use crate::moq::control_datagrams;
use crate::moq::ended::Ended;
use crate::moq::message_opener::MessageOpener;
use crate::moq::session::Session;
use crate::moq::transport::Link;

const CATALOG_PRIORITY: u8 = 100;
const AUDIO_PRIORITY: u8 = 80;
const VIDEO_PRIORITY: u8 = 60;

/// Longest time that a unit may plausibly have spent before it was sent. A unit that claims more
/// counts as one without earlier stages.
const DELAY_MAX: Duration = Duration::from_secs(60);

impl Session {
    /// Asks the peer, a server of the same cluster, for the stream `name`, on behalf of the servers
    /// `asking`, this one last. `attempt` is a number that no earlier request of this session had.
    ///
    /// # Errors
    /// [`ReadError`] says whether the peer refuses, or the session has ended. The peer may take its
    /// time, because it may pull the stream itself: the caller bounds the wait.
    pub async fn read_units(
        &self,
        asking: &[NodeName],
        name: &str,
        attempt: u64,
    ) -> Result<UnitBroadcastReader, ReadError> {
        let (_, inbound) = self.inbound.as_ref().ok_or(ReadError::NotReading)?;
        let path = requests::path(asking, attempt, name);
        let found = tokio::select! {
            found = inbound.routed_broadcast(path.as_str()) => found.map_err(ReadError::of)?,
            ended = self.ended() => return Err(ended.into()),
        };
        let track = found.track(TRACK).map_err(ReadError::of)?;
        let wanted = track::Subscription::default().with_priority(CATALOG_PRIORITY);
        let catalogs = track.subscribe(wanted).await.map_err(ReadError::of)?;
        Ok(UnitBroadcastReader {
            name: name.to_owned(),
            broadcast: found,
            link: Arc::clone(&self.link),
            catalogs: catalogs.ordered(),
            group: None,
        })
    }
}

/// A stream that is pulled from another server.
#[derive(derive_more::Debug)]
#[debug("UnitBroadcastReader {{ name: {name:?}, .. }}")]
pub struct UnitBroadcastReader {
    name: String,
    broadcast: broadcast::Consumer,
    link: Arc<Link>,
    catalogs: track::Ordered,
    group: Option<group::Consumer>,
}

impl UnitBroadcastReader {
    /// Returns the catalog, and then each changed catalog; `None` at the end of the broadcast.
    ///
    /// # Errors
    /// [`ReadError`] if the peer refuses, its catalog is invalid, or the session has ended.
    pub async fn catalog(&mut self) -> Result<Option<UnitCatalog>, ReadError> {
        loop {
            let Some(group) = &mut self.group else {
                match self.catalogs.next_group().await.map_err(ReadError::of)? {
                    Some(group) => self.group = Some(group),
                    None => return Ok(None),
                }
                continue;
            };
            match read(group, catalog::BYTES_MAX as u64).await {
                Ok(Some(document)) => return Ok(Some(UnitCatalog::parse(&document)?)),
                Ok(None) | Err(GroupError::Late) => self.group = None,
                Err(GroupError::Long(_)) => return Err(UnitCatalogError::Field("length").into()),
            }
        }
    }

    /// Returns the clock of the other server, as this one knows it.
    pub fn clock(&self) -> PeerClock {
        PeerClock(Arc::clone(&self.link))
    }

    /// Returns what opens streams of messages with the other server, for a server whose catalog says
    /// that it knows them.
    pub fn messages(&self) -> MessageOpener {
        MessageOpener::new(self.name.clone(), Arc::clone(&self.link))
    }

    /// Returns a handle that requests keyframes of the track whose name is `name` in the catalog.
    pub fn keyframes_of(&self, name: &str) -> KeyframeRequester {
        KeyframeRequester {
            number: control_datagrams::track_number(&self.name, name),
            link: Arc::clone(&self.link),
        }
    }

    /// Subscribes to `layer` of a track of `kind`, whose name is `name` in the catalog, from its newest
    /// keyframe on. Groups that are older than the newest one by more than `deadline` are skipped.
    ///
    /// # Errors
    /// [`ReadError`] if the broadcast has no such track.
    pub async fn read(
        &self,
        layer: TrackLayer,
        kind: Kind,
        name: &str,
        deadline: Duration,
    ) -> Result<UnitReader, ReadError> {
        let found = self.broadcast.track(name).map_err(ReadError::of)?;
        let wanted = track::Subscription::default()
            .with_max_age(deadline)
            .with_priority(if kind == Kind::Audio {
                AUDIO_PRIORITY
            } else {
                VIDEO_PRIORITY
            });
        let subscribed = found.subscribe(wanted).await.map_err(ReadError::of)?;
        Ok(UnitReader {
            layer,
            track: subscribed.ordered(),
            group: None,
            next: None,
            late: 0,
            number: control_datagrams::track_number(&self.name, name),
            link: Arc::clone(&self.link),
        })
    }
}

/// One layer of a track that is pulled from another server.
#[derive(derive_more::Debug)]
#[debug("UnitReader {{ layer: {layer:?}, .. }}")]
pub struct UnitReader {
    layer: TrackLayer,
    track: track::Ordered,
    group: Option<group::Consumer>,
    /// Sequence number of the next group, if none is missing.
    next: Option<u64>,
    late: u64,
    number: u32,
    link: Arc<Link>,
}

impl UnitReader {
    /// Returns the next unit in order, with its stamps on this server's clock; `None` at the end of
    /// the track.
    ///
    /// # Errors
    /// [`ReadError`] if the peer sent an invalid object, or the session has ended.
    pub async fn next(&mut self) -> Result<Option<ReceivedUnit>, ReadError> {
        loop {
            let Some(group) = &mut self.group else {
                match self.track.next_group().await.map_err(ReadError::of)? {
                    Some(group) => self.begin(group),
                    None => return Ok(None),
                }
                continue;
            };
            match read(group, OBJECT_BYTES_MAX as u64).await {
                Ok(Some(object)) => {
                    let arrived = Instant::now();
                    let mut unit = object::parse(&object, self.layer, Stamps::arrived(arrived))?;
                    unit.parts.stamps = self.stamps(&unit, arrived);
                    return Ok(Some(unit));
                }
                Ok(None) => self.group = None,
                Err(GroupError::Late) => {
                    self.late += 1;
                    self.group = None;
                }
                Err(GroupError::Long(bytes)) => return Err(ReadError::Long { bytes }),
            }
        }
    }

    /// Number of groups that were skipped, wholly or in part, because newer ones arrived.
    pub const fn late(&self) -> u64 {
        self.late
    }

    /// Returns a handle that requests keyframes of the track from the other server.
    pub fn keyframes(&self) -> KeyframeRequester {
        KeyframeRequester {
            number: self.number,
            link: Arc::clone(&self.link),
        }
    }

    fn begin(&mut self, group: group::Consumer) {
        let sequence = group.sequence;
        if let Some(next) = self.next {
            self.late += sequence.saturating_sub(next);
        }
        self.next = Some(sequence.saturating_add(1));
        self.group = Some(group);
    }

    /// Returns the stamps of a unit that was whole at `arrived`. Without a comparison of the clocks,
    /// the accounted delay begins at the arrival.
    fn stamps(&self, unit: &ReceivedUnit, arrived: Instant) -> Stamps {
        let unknown = Stamps::arrived(arrived);
        let Some(hop) = self.link.control.hop(unit.sent.published_ns, arrived) else {
            return unknown;
        };
        let before = unit.sent.relay_ns.unwrap_or_default();
        let ns = Duration::from_nanos;
        let relay = Relay {
            delay: hop.delay.saturating_add(ns(before.0)),
            error: hop.error.saturating_add(ns(before.1)),
        };
        let since = relay.delay.saturating_add(ns(unit.sent.ingest_ns));
        match arrived.checked_sub(since).filter(|_| since <= DELAY_MAX) {
            Some(origin) => Stamps {
                relay: Some(relay),
                ..Stamps::arrived(origin)
            },
            None => unknown,
        }
    }
}

/// The clock of the server that a stream is pulled from.
#[derive(Clone, derive_more::Debug)]
#[debug("PeerClock {{ .. }}")]
pub struct PeerClock(Arc<Link>);

impl PeerClock {
    /// Returns when that clock showed `ns` and a whole number of rounds of `round` more, by this server's
    /// clock: the last time before now, or else the next time. `None` before the clocks were compared.
    pub fn round(&self, ns: u64, round: Duration) -> Option<Instant> {
        self.0.control.round(ns, round, Instant::now())
    }
}

/// Requests keyframes of one track from the server that it is pulled from.
#[derive(Clone, derive_more::Debug)]
#[debug("KeyframeRequester {{ number: {number:?}, .. }}")]
pub struct KeyframeRequester {
    number: u32,
    link: Arc<Link>,
}

impl KeyframeRequester {
    /// Requests a keyframe. A request may be lost; whoever still needs a keyframe after a second asks
    /// again.
    pub fn request(&self) {
        let request = control_datagrams::keyframe_request_of(self.number);
        let _ = self.link.send_datagram(&request);
    }
}

/// The reason why a stream cannot be pulled any further.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The other server refuses the request.
    #[error(transparent)]
    Refused(#[from] RequestRefusal),
    /// The catalog is invalid. The other server is at fault.
    #[error(transparent)]
    Catalog(#[from] UnitCatalogError),
    /// An object is invalid. The other server is at fault.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// An object is too long. The other server is at fault.
    #[error("an object of a unit has {bytes} bytes; at most {OBJECT_BYTES_MAX} are taken")]
    Long {
        /// Length of the object in bytes.
        bytes: u64,
    },
    /// The session was opened for publishing only.
    #[error("the session was opened to publish only")]
    NotReading,
    /// The broadcast or the session has ended.
    #[error(transparent)]
    Ended(#[from] Ended),
}

impl ReadError {
    fn of(error: moq_net::Error) -> Self {
        match RequestRefusal::of(&error) {
            Some(refusal) => Self::Refused(refusal),
            None => Self::Ended(Ended::of(error)),
        }
    }
}
