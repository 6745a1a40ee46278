//! Publishes the hub's streams as MoQ broadcasts for readers over QUIC.
//!
//! ```text
//! hub ─ units ─► TrackRemuxer: coded frames by reference ─► Broadcast ─► every session that reads it
//! ```
//!
//! Each lower layer of a track is a rendition, too, and is read from the hub while a session reads it.
//!
//! A stream is announced while it is published, and while something would be published if somebody read
//! it: by a camera on demand, or in place of a source that is away. If its tracks are not known yet, the
//! first reader of its catalog makes them come. Its broadcast is written only while a session reads it,
//! once for all sessions. A reader that is too slow loses the oldest groups; the other readers lose
//! nothing. The hub tells what happens to which stream ([`Offers`]), so nothing is polled at intervals.
//!
//! Streams of other servers of the cluster are announced, too, and pulled for their first reader
//! ([`remote`]).

mod offers;
mod publication;
mod remote;
mod remuxer;

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_hub::{
    Demand, Hub, Prospect, State, Stream, StreamName, Subscription, TrackLayout, Wake,
};
use glassline_media::Track;
use glassline_quic::moq::{AwaitedBroadcast, Origin};
use glassline_runtime::{Clock, Counter, FaultPoint, HubEvents, Part, Supervisor, TaskWaker};
use tokio::sync::watch;

use offers::Offers;
use publication::Publication;
pub use remote::RemoteStreams;

/// Distance from the newest group at which a group that is still being sent is given up.
pub const DEADLINE: Duration = Duration::from_secs(2);

/// Time for which a stream's broadcast is still written after its last reader left.
const LINGER: Duration = Duration::from_secs(5);

/// Time for which a stream is not offered after its codecs changed or its source failed, so that
/// readers see the end of the old broadcast.
const ABSENCE: Duration = Duration::from_millis(500);

/// Time for which a stream is not offered after its offering has panicked: readers see the end of the
/// broadcast, and a stream whose data always leads to a panic costs one panic in this time.
const PANIC_PAUSE: Duration = Duration::from_secs(1);

/// The parts of the server that offering streams needs.
#[derive(Clone, Debug)]
pub struct Services {
    /// Counts frames that could not be offered.
    pub left_out: Arc<Counter>,
    /// Clock of the server, whose times frames carry.
    pub clock: Clock,
    /// Watches the tasks of the sessions.
    pub supervisor: Arc<Supervisor>,
    /// Streams of other servers; `None` for a server that knows no others.
    pub remote: Option<RemoteStreams>,
}

/// Streams that are offered to the same readers.
#[derive(Debug)]
pub struct Offer {
    /// Collection that the readers read.
    pub origin: Origin,
    /// Returns whether the stream of this name is one of them.
    pub has: fn(&str) -> bool,
}

/// Announces the hub's live streams, as far as `offer` has them, until the server stops.
pub async fn run(
    hub: Arc<Hub>,
    offer: Offer,
    services: Services,
    mut stopped: watch::Receiver<bool>,
) {
    let supervisor = Arc::clone(&services.supervisor);
    let mut events = HubEvents::new(&hub);
    let mut remote = services.remote.clone();
    let mut offers = Offers::new(hub, offer, services);
    loop {
        supervisor.fault_point(FaultPoint::QuicCollection);
        tokio::select! {
            happened = events.next() => happened.iter().for_each(|it| offers.observe(it)),
            () = remote::changed(&mut remote) => offers.consider_remote(),
            // The stream's tracks have changed, or the stream is over.
            () = offers.ended() => {}
            _ = stopped.wait_for(|stop| *stop) => break,
        }
    }
}

/// Whether a stream is published, or would be if somebody read it.
fn is_offered(stream: &Stream) -> bool {
    let comes = || {
        // A stream that is not configured must be let go some time.
        let is_kept = matches!(stream.state(), State::Idle | State::Connecting)
            && !stream.tracks().is_empty();
        stream.prospect() != Prospect::None && (is_kept || stream.is_configured())
    };
    stream.is_published() || comes()
}

/// Tells a failure of a stream's source, in whose place nothing is published: readers see the end of
/// the broadcast then, and may ask for the source again.
struct FailureWatch<'a> {
    stream: &'a Stream,
    /// Number of failures before.
    before: u64,
}

impl<'a> FailureWatch<'a> {
    fn new(stream: &'a Stream) -> Self {
        let before = stream.failures();
        Self { stream, before }
    }

    fn has_failed(&self) -> bool {
        self.stream.prospect() != Prospect::StandIn && self.stream.failures() > self.before
    }
}

/// A stream that is to be offered.
enum Offering {
    Here(Arc<Stream>),
    /// A stream of another server, by its name.
    Elsewhere(StreamName),
}

impl Offering {
    fn name(&self) -> &StreamName {
        match self {
            Self::Here(stream) => stream.name(),
            Self::Elsewhere(name) => name,
        }
    }
}

/// Offers one stream.
struct Serving {
    what: Offering,
    hub: Arc<Hub>,
    origin: Origin,
    services: Services,
    /// Woken after each event of the stream.
    changed: Arc<TaskWaker>,
}

impl Serving {
    /// Offers the stream, and pauses after a panic.
    async fn run_caught(self) {
        let supervisor = Arc::clone(&self.services.supervisor);
        let name = self.what.name().clone();
        if supervisor.catch_task(Part::Quic, self.run()).await.is_err() {
            tracing::error!(
                stream = %name,
                "offering the stream over QUIC panicked: its readers see its end, and it is offered again"
            );
            tokio::time::sleep(PANIC_PAUSE).await;
        }
    }

    /// Offers the stream for as long as it is live and its tracks do not change.
    async fn run(self) {
        let begun = match self.what {
            Offering::Here(stream) if !stream.tracks().is_empty() => Some((stream, None)),
            Offering::Here(stream) => {
                match await_tracks(&stream, &self.origin, &self.changed).await {
                    Some(awaited) => Some((stream, Some(awaited))),
                    None => return tokio::time::sleep(ABSENCE).await,
                }
            }
            Offering::Elsewhere(name) => {
                let Some(remote) = self.services.remote.clone() else {
                    return;
                };
                remote::await_stream(&name, &self.hub, remote, &self.origin, &self.changed)
                    .await
                    .map(|(stream, awaited)| (stream, Some(awaited)))
            }
        };
        if let Some((stream, awaited)) = begun {
            // A stream that has left the hub has no events there, and may still be published.
            let watcher = Arc::clone(&self.changed) as Arc<dyn Wake>;
            stream.watch(&watcher);
            let tracks = OfferedTracks::of(&stream, &self.hub);
            serve(&tracks, awaited, &self.origin, self.services, &self.changed).await;
        }
    }
}

/// A broadcast without tracks, whose readers wait for them.
struct Awaited {
    broadcast: AwaitedBroadcast,
    /// The demand of the readers, which has made the source come; `None` if somebody else has.
    demand: Option<Demand>,
}

/// Announces a stream without tracks, and waits until a reader has made them come. Returns `None` if
/// the stream is not offered any more, or its source fails.
async fn await_tracks(
    stream: &Arc<Stream>,
    origin: &Origin,
    changed: &Arc<TaskWaker>,
) -> Option<Awaited> {
    let name = stream.name().as_str();
    let announced = origin.announce(name).inspect_err(
        |error| tracing::warn!(stream = name, %error, "stream is not offered over QUIC"),
    );
    let broadcast = announced.ok()?;
    let watcher = Arc::clone(changed) as Arc<dyn Wake>;
    stream.watch(&watcher);
    let failures = FailureWatch::new(stream);
    let mut demand = None;
    while is_offered(stream) && !failures.has_failed() {
        if !stream.tracks().is_empty() {
            let demand = Some(demand.unwrap_or_else(|| stream.demand()));
            return Some(Awaited { broadcast, demand });
        }
        tokio::select! {
            () = changed.woken() => {}
            () = broadcast.reader_joined(), if demand.is_none() => demand = Some(stream.demand()),
            () = broadcast.readers_left(), if demand.is_some() => demand = None,
        }
    }
    broadcast.finish();
    None
}

/// The tracks of a stream that a broadcast has.
struct OfferedTracks<'a> {
    stream: &'a Arc<Stream>,
    hub: &'a Hub,
    layout: TrackLayout,
    tracks: Arc<[Track]>,
    failures: FailureWatch<'a>,
}

impl<'a> OfferedTracks<'a> {
    fn of(stream: &'a Arc<Stream>, hub: &'a Hub) -> Self {
        Self {
            stream,
            hub,
            layout: stream.layout(),
            tracks: stream.tracks(),
            failures: FailureWatch::new(stream),
        }
    }

    /// Whether the stream is still offered, with these tracks.
    fn go_on(&self) -> bool {
        is_offered(self.stream)
            && (self.stream.is_published() || self.is_listed())
            && !self.failures.has_failed()
            && self.stream.layout() == self.layout
            && self.are_alike()
    }

    /// Whether the stream's tracks still have the codecs and layers of those that are offered.
    fn are_alike(&self) -> bool {
        let tracks = self.stream.tracks();
        let mut pairs = tracks.iter().zip(self.tracks.iter());
        let is_alike = |(now, then): (&Track, &Track)| {
            let (now_rids, then_rids) = (now.layers.iter(), then.layers.iter());
            now.codec == then.codec && now_rids.map(|it| &it.rid).eq(then_rids.map(|it| &it.rid))
        };
        tracks.len() == self.tracks.len() && pairs.all(is_alike)
    }

    /// Whether the stream is the one that the hub has under its name. A stream that was pulled leaves the
    /// hub after a while, and nobody makes that one come again.
    fn is_listed(&self) -> bool {
        let listed = self.hub.stream(self.stream.name().as_str());
        listed.is_some_and(|listed| Arc::ptr_eq(&listed, self.stream))
    }

    /// Whether the stream is likely to be offered again, and its readers must see the end first. A
    /// broadcast that returns at once under its name is taken for the same one: readers would go on
    /// with the old catalog and never learn of the new tracks.
    fn has_successor(&self) -> bool {
        self.stream.layout() != self.layout || self.failures.has_failed() || !self.are_alike()
    }
}

/// Offers a stream for as long as it is live and its tracks do not change, with the broadcast that readers
/// have `awaited`, or with a new one. `changed` tells when either may be over.
async fn serve(
    tracks: &OfferedTracks<'_>,
    awaited: Option<Awaited>,
    origin: &Origin,
    services: Services,
    changed: &TaskWaker,
) {
    let (awaited, demand) = match awaited {
        Some(Awaited { broadcast, demand }) => (Some(broadcast), demand),
        None => (None, None),
    };
    match Publication::begin(tracks, origin, awaited, services.clock) {
        Some(publication) => write(tracks, publication, demand, services, changed).await,
        None => {
            drop(demand);
            while tracks.go_on() {
                changed.woken().await;
            }
        }
    }
    if tracks.has_successor() {
        tokio::time::sleep(ABSENCE).await;
    }
}

/// Writes the units of a stream into its broadcast while a session reads it, until its tracks do not
/// go on. `demand` is that of readers who are about to subscribe to the tracks.
async fn write(
    tracks: &OfferedTracks<'_>,
    mut publication: Publication,
    mut demand: Option<Demand>,
    services: Services,
    changed: &TaskWaker,
) {
    let (stream, left_out) = (tracks.stream, &services.left_out);
    // With known parameter sets, the broadcast can be announced before anybody reads it.
    let _ = publication.broadcast.announce();
    let arrival = Arc::new(TaskWaker::default());
    let mut subscription: Option<Subscription> = None;
    let mut arrived = Vec::new();
    while tracks.go_on() {
        publication.offer_layers(stream);
        let lacks_names = !publication.broadcast.is_announced() && stream.is_published();
        let read = publication.broadcast.tracks_read();
        let wanted = publication.wanted(&read, demand.is_some() || lacks_names, Instant::now());
        if wanted.is_empty() {
            subscription = None;
            publication.leave();
            tokio::select! {
                () = publication.broadcast.readers_changed(&read) => {}
                () = changed.woken() => {}
            }
            continue;
        }
        let subscription = subscription
            .get_or_insert_with(|| stream.subscribe(Arc::clone(&arrival) as Arc<dyn Wake>));
        publication.read(subscription, wanted, left_out);
        demand = None;
        tokio::select! {
            () = arrival.woken() => {}
            () = publication.broadcast.readers_changed(&read) => continue,
            // The last reader may leave while nothing comes.
            () = tokio::time::sleep(LINGER) => continue,
            () = publication.broadcast.keyframe_requested() => {
                publication.request_keyframes(stream);
                continue;
            }
        }
        services.supervisor.fault_point(FaultPoint::QuicStream);
        subscription.poll(&mut arrived);
        if subscription.layout() != tracks.layout {
            break;
        }
        for unit in arrived.drain(..) {
            publication.write(&unit, left_out);
        }
    }
    drop(demand);
    publication.broadcast.finish();
}
