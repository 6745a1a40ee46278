//! Publishes the hub's streams as MoQ broadcasts for readers over QUIC.
//!
//! ```text
//! hub ─ units ─► TrackRemuxer: coded frames by reference ─► Broadcast ─► every session that reads it
//! ```
//!
//! A stream is announced while it is published, and while its source would come if somebody read it:
//! a camera on demand, once its tracks are known. Its broadcast is written only while a session reads it,
//! once for all sessions. A reader that is too slow loses the oldest groups; the other readers lose
//! nothing. The hub reports when streams begin and end, so nothing is polled at intervals.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

use bytes::Bytes;
use glassline_hub::{Hub, Prospect, State, Stream, StreamName, Subscription, TrackLayout, Wake};
use glassline_media::{Bitrate, Kind, MediaTime, MediaUnit, Track, TrackIndex};
use glassline_quic::moq::{self, Broadcast, Origin, TrackConfig};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use crate::runtime::{Clock, Counter, FaultPoint, Part, Supervisor, TaskWaker};

/// Distance from the newest group at which a group that is still being sent is given up.
pub(crate) const DEADLINE: Duration = Duration::from_secs(2);

/// Time for which a stream's broadcast is still written after its last reader left.
const LINGER: Duration = Duration::from_secs(5);

/// Time for which a stream is not offered after its codecs changed, so that readers see the end of
/// the old broadcast.
const ABSENCE: Duration = Duration::from_millis(500);

/// Time for which a stream is not offered after its offering has panicked: readers see the end of the
/// broadcast, and a stream whose data always leads to a panic costs one panic in this time.
const PANIC_PAUSE: Duration = Duration::from_secs(1);

/// The parts of the server that offering streams needs.
#[derive(Clone, Debug)]
pub(crate) struct Services {
    /// Counts frames that could not be offered.
    pub(crate) left_out: Arc<Counter>,
    pub(crate) clock: Clock,
    pub(crate) supervisor: Arc<Supervisor>,
}

/// Streams that are offered to the same readers.
#[derive(Debug)]
pub(crate) struct Offer {
    /// Collection that the readers read.
    pub(crate) origin: Origin,
    /// Returns whether the stream of this name is one of them.
    pub(crate) has: fn(&str) -> bool,
}

/// Announces the hub's live streams, as far as `offer` has them, until the server stops.
pub(crate) async fn run(
    hub: Arc<Hub>,
    offer: Offer,
    services: Services,
    mut stopped: watch::Receiver<bool>,
) {
    let changes = Arc::new(StreamChanges(watch::Sender::new(())));
    let watcher = Arc::clone(&changes) as Arc<dyn Wake>;
    hub.watch(&watcher);
    let mut changed = changes.0.subscribe();
    let mut offered: HashMap<StreamName, AbortHandle> = HashMap::new();
    let mut ended = JoinSet::new();
    loop {
        changed.mark_unchanged();
        offered.retain(|_, task| !task.is_finished());
        for stream in hub.streams() {
            let is_ours = (offer.has)(stream.name().as_str());
            if !is_ours || !is_offered(&stream) || offered.contains_key(stream.name()) {
                continue;
            }
            let name = stream.name().clone();
            let changed = changes.0.subscribe();
            let serving = serve_caught(stream, offer.origin.clone(), services.clone(), changed);
            let abort = ended.spawn(serving);
            offered.insert(name, abort);
        }
        services.supervisor.fault_point(FaultPoint::QuicCollection);
        tokio::select! {
            _ = changed.changed() => {}
            // The stream's tracks have changed, or the stream is over.
            Some(_) = ended.join_next() => {}
            _ = stopped.wait_for(|stop| *stop) => break,
        }
    }
}

/// Whether a stream is published, or would be if somebody read it.
fn is_offered(stream: &Stream) -> bool {
    let comes = matches!(stream.state(), State::Idle | State::Connecting)
        && stream.prospect() != Prospect::None
        && !stream.tracks().is_empty();
    stream.is_published() || comes
}

/// Notified by the hub when a stream appears, begins, ends or is removed.
struct StreamChanges(watch::Sender<()>);

impl Wake for StreamChanges {
    fn wake(&self) {
        self.0.send_replace(());
    }
}

/// Offers one stream, as [`serve`] does, and pauses after a panic.
async fn serve_caught(
    stream: Arc<Stream>,
    origin: Origin,
    services: Services,
    changed: watch::Receiver<()>,
) {
    let supervisor = Arc::clone(&services.supervisor);
    let name = stream.name().clone();
    let serving = serve(stream, origin, services, changed);
    if supervisor.catch_task(Part::Quic, serving).await.is_err() {
        tracing::error!(
            stream = %name,
            "offering the stream over QUIC panicked: its readers see its end, and it is offered again"
        );
        tokio::time::sleep(PANIC_PAUSE).await;
    }
}

/// Offers one stream for as long as it is live and its tracks do not change. `changed` tells when
/// either may be over.
async fn serve(
    stream: Arc<Stream>,
    origin: Origin,
    services: Services,
    mut changed: watch::Receiver<()>,
) {
    let Services {
        left_out,
        clock,
        supervisor,
    } = services;
    let layout = stream.layout();
    let tracks = stream.tracks();
    let codecs = |tracks: &[Track]| tracks.iter().map(|it| it.codec).collect::<Vec<_>>();
    let before = codecs(&tracks);
    let goes_on =
        || is_offered(&stream) && stream.layout() == layout && codecs(&stream.tracks()) == before;
    let published = publish(&stream, (layout, &tracks), &origin, clock);
    let Some((mut broadcast, mut remuxers)) = published else {
        while goes_on() && changed.changed().await.is_ok() {}
        return;
    };
    // With known parameter sets, the broadcast can be announced before anybody reads it.
    let _ = broadcast.announce();
    let arrival = Arc::new(TaskWaker::default());
    let mut subscription: Option<Subscription> = None;
    let mut arrived = Vec::new();
    let mut wanted_at: Option<Instant> = None;
    while goes_on() {
        if broadcast.has_reader() || !broadcast.is_announced() {
            wanted_at = Some(Instant::now());
        }
        let lingers = wanted_at.is_some_and(|at| at.elapsed() < LINGER);
        if !lingers {
            subscription = None;
            tokio::select! {
                () = broadcast.reader_joined() => {}
                _ = changed.changed() => {}
            }
            continue;
        }
        let subscription = subscription.get_or_insert_with(|| {
            let subscription = stream.subscribe(Arc::clone(&arrival) as Arc<dyn Wake>);
            for remuxer in &mut remuxers {
                remuxer.begin(&stream, &mut broadcast, &left_out);
            }
            subscription
        });
        tokio::select! {
            () = arrival.woken() => {}
            () = broadcast.keyframe_requested() => {
                stream.request_keyframe();
                continue;
            }
        }
        supervisor.fault_point(FaultPoint::QuicStream);
        subscription.poll(&mut arrived);
        if subscription.layout() != layout {
            break;
        }
        for unit in arrived.drain(..) {
            if let Some(remuxer) = remuxers.iter_mut().find(|it| it.track == unit.track) {
                remuxer.write(&unit, &mut broadcast, &left_out);
            }
        }
    }
    broadcast.finish();
    if stream.layout() != layout {
        // A broadcast that returns at once under its name is taken for the same one: readers would
        // go on with the old catalog and never learn of the new tracks.
        tokio::time::sleep(ABSENCE).await;
    }
}

/// Creates the broadcast of a stream and the remuxers of its tracks. Returns `None` if MoQ carries
/// none of the tracks, or if the name is taken.
///
/// Tracks of each layout have names of their own: a session that reads a track goes on with the
/// track of the same name in the next broadcast, and its decoder would get frames of another codec.
fn publish(
    stream: &Arc<Stream>,
    (layout, tracks): (TrackLayout, &[Track]),
    origin: &Origin,
    clock: Clock,
) -> Option<(Broadcast, Vec<TrackRemuxer>)> {
    let carried = |it: &(TrackIndex, &Track)| moq::is_carried(it.1.codec);
    let carried: Vec<_> = TrackIndex::enumerate(tracks).filter(carried).collect();
    if carried.is_empty() {
        return None;
    }
    let name = stream.name().as_str();
    let track_configs = carried.iter().map(|(index, track)| {
        let config = track_config(track, stream);
        if layout == TrackLayout::default() {
            return config;
        }
        config.named(format!("{}{index}-{layout}", track.kind()))
    });
    let mut broadcast = origin
        .publish(name, track_configs.collect())
        .inspect_err(
            |error| tracing::warn!(stream = name, %error, "stream is not offered over QUIC"),
        )
        .ok()?;
    if let Some(zero) = clock_of(stream) {
        broadcast.set_clock(zero.0, UNIX_EPOCH + clock.wall().unix(zero.1));
    }
    let remuxers = TrackIndex::enumerate(&carried);
    let remuxers = remuxers.map(|(place, (track, described))| TrackRemuxer {
        place,
        track: *track,
        is_audio: described.kind() == Kind::Audio,
        next: 0,
    });
    Some((broadcast, remuxers.collect()))
}

fn track_config(track: &Track, stream: &Stream) -> TrackConfig {
    let config = TrackConfig::new(track.clone()).with_deadline(DEADLINE);
    let rate = stream.bitrate(Instant::now());
    // The catalog gives the stream's whole bit rate for its video, since audio is a small part of
    // it.
    if track.kind() == Kind::Video && rate > Bitrate::default() {
        config.with_bitrate(rate)
    } else {
        config
    }
}

/// Returns a media time of the stream, with the instant at which the stream's own clock had it due.
fn clock_of(stream: &Stream) -> Option<(MediaTime, Instant)> {
    let anchor = stream.latency_track();
    let latest = stream.since_keyframe(anchor).pop()?;
    Some((latest.time, latest.stamps.reference))
}

/// Copies one track of the stream to a track of the broadcast: its coded frames, by reference.
struct TrackRemuxer {
    /// Index of the track in the broadcast.
    place: TrackIndex,
    /// Index of the track in the stream.
    track: TrackIndex,
    is_audio: bool,
    /// Number of the next unit to copy.
    next: u64,
}

impl TrackRemuxer {
    /// Starts at the newest keyframe, and at the newest audio.
    fn begin(&mut self, stream: &Arc<Stream>, broadcast: &mut Broadcast, left_out: &Counter) {
        if self.is_audio {
            return;
        }
        let units = stream.since_keyframe(self.track);
        if units.is_empty() {
            // The keyframe has left the ring, and the reader cannot begin without one.
            stream.request_keyframe();
        }
        for unit in &units {
            self.write(unit, broadcast, left_out);
        }
    }

    fn write(&mut self, unit: &MediaUnit, broadcast: &mut Broadcast, left_out: &Counter) {
        if unit.index < self.next {
            return;
        }
        self.next = unit.index + 1;
        let pieces: Vec<Bytes> = match unit.coded_frame() {
            Some(frame) => frame.shared_pieces().collect(),
            // Only voices are forwarded, and a packet of Opus is a frame of it (RFC 7587 §4.2).
            None => unit.payloads().map(Bytes::copy_from_slice).collect(),
        };
        let keyframe = unit.keyframe || self.is_audio;
        if let Err(error) = broadcast.write_pieces(self.place, unit.time, keyframe, &pieces) {
            tracing::debug!(%error, "frame not sent over QUIC");
            left_out.add(1);
        }
    }
}
