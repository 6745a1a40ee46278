//! The task that makes the files of one stream of its units.
//!
//! ```text
//! hub ─ units ─► TrackWriter (one a layer): Fragmenter ─ fragments ─► Rendition: playlist, files
//!                  │ another source, other parameters: a discontinuity in all renditions
//!                  └ silence of a Target Duration: gaps
//! ```
//!
//! The first segment begins with the keyframe that the hub has, so that nobody waits for the next one.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use glassline_hls::{Numbers, Terms};
use glassline_hub::{Hub, StreamChange, StreamEvent, StreamEvents, Subscription, Wake};
use glassline_media::{Kind, LayerIndex, MediaTime, MediaUnit, Track, TrackIndex, TrackLayer};
use glassline_runtime::{Clock, TaskWaker};

use super::aac::{self, AacMaker};
use super::broadcast::{Broadcast, is_carried};
use super::pass::{self, Opens, PassKey};
use super::rungs::rungs;
use super::track_writer::{Change, Common, TrackWriter, part_target};

/// Time between two looks at what does not come with a unit: gaps, viewers who left, memory.
const TICK: Duration = Duration::from_millis(250);

/// Longest Target Duration in seconds, whatever the distance of keyframes.
const TARGET_MAX: u32 = 10;

/// The reason why a stream is written no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// Nobody has asked for a while.
    Idle,
    /// The stream is no longer in the hub.
    Gone,
    /// Its segments need more memory than they may have.
    Memory,
    /// The server stops, or HLS was turned off.
    Stopped,
}

/// The parts of the server that a writer uses.
#[derive(Clone, Debug)]
pub(super) struct Services {
    pub(super) hub: Arc<Hub>,
    pub(super) clock: Clock,
    pub(super) key: PassKey,
}

/// The writer of one stream.
pub(super) struct Writer {
    broadcast: Arc<Broadcast>,
    services: Services,
    arrival: Arc<TaskWaker>,
    subscription: Subscription,
    /// Tracks of the publisher whose units are written.
    tracks: Arc<[Track]>,
    events: StreamEvents,
    happened: Vec<StreamEvent>,
    writers: Vec<TrackWriter>,
    /// The rungs of a ladder that are read, because somebody plays them.
    rungs: Vec<TrackLayer>,
    /// Whether audio is made into AAC.
    makes_aac: bool,
    common: Common,
}

impl Writer {
    pub(super) fn new(broadcast: Arc<Broadcast>, services: Services) -> Self {
        let stream = &broadcast.stream;
        let arrival = Arc::<TaskWaker>::default();
        let subscription = stream.subscribe(Arc::clone(&arrival) as Arc<dyn Wake>);
        let waker = Arc::clone(&arrival) as Arc<dyn Wake>;
        let events = services.hub.events_of(stream.name().clone(), waker);
        let unix = services.clock.wall().unix(Instant::now());
        let first = Numbers::at(unix);
        // A writer is made once for a broadcast.
        let _ = broadcast.first_segment.set(first.segment);
        let common = Common {
            terms: Terms {
                target: broadcast.settings.segment_s,
                part_target: broadcast.settings.part(),
                part_hold_back: broadcast.settings.part() * 3,
                window: broadcast.settings.window(),
                independent: false,
            },
            origin: None,
            first,
            changes: 0,
            window: pass::window(unix),
            pass: String::new(),
        };
        Self {
            events,
            happened: Vec::new(),
            tracks: Arc::from([]),
            broadcast,
            services,
            arrival,
            subscription,
            writers: Vec::new(),
            rungs: Vec::new(),
            makes_aac: false,
            common,
        }
    }

    /// Writes until there is a reason to end.
    pub(super) async fn run(mut self) -> Ended {
        let mut units = Vec::new();
        let mut tick = tokio::time::interval(TICK);
        let broadcast = Arc::clone(&self.broadcast);
        loop {
            tokio::select! {
                () = self.arrival.woken() => {}
                () = broadcast.stop.woken() => return Ended::Stopped,
                _ = tick.tick() => {
                    if let Some(ended) = self.look_around(Instant::now()) {
                        return ended;
                    }
                }
            }
            self.subscription.poll(&mut units);
            // Units of another source are told before they come.
            self.follow_source();
            self.begin_aac();
            let now = Instant::now();
            for unit in units.drain(..) {
                for place in 0..self.writers.len() {
                    if self.writers[place].source() == unit.track_layer() {
                        self.write(place, &unit, now);
                    }
                }
            }
        }
    }

    /// Gives `unit` to the writer at `place`, and tells the others of a change of its track.
    fn write(&mut self, place: usize, unit: &Arc<MediaUnit>, now: Instant) {
        self.follow_window();
        self.set_origin(unit.decode_time());
        let wall = self.services.clock.wall();
        let writer = &mut self.writers[place];
        let change = writer.push(unit, now, &wall, &self.common, &self.broadcast);
        match change {
            Change::Nothing => {}
            Change::Grown => self.broadcast.grow(),
            Change::Header => self.change_all(Some(place)),
        }
    }

    /// Begins another publisher: all tracks end where they are, and go on with another initialization. One
    /// that describes its tracks anew may have further layers.
    fn follow_source(&mut self) {
        let is_other = self.has_other_publisher();
        let tracks = self.broadcast.stream.tracks();
        let now = Instant::now();
        let wanted = rungs(&tracks).map(|it| it.layer);
        let wanted: Vec<_> = wanted
            .filter(|it| self.broadcast.wants_rung(*it, now))
            .collect();
        // While a source is away, its tracks stay.
        let is_same = Arc::ptr_eq(&tracks, &self.tracks) && wanted == self.rungs;
        if !is_other && is_same || tracks.is_empty() {
            return;
        }
        (self.tracks, self.rungs) = (tracks, wanted);
        let is_first = self.writers.is_empty();
        let mut layers = layers_of(&self.tracks);
        layers.extend_from_slice(&self.rungs);
        let read = layers.clone();
        // The playlist of a rung that nobody plays has gaps.
        let before = rungs(&self.tracks).map(|it| it.layer);
        let before = before.filter(|it| self.writers.iter().any(|writer| writer.layer == *it));
        let before: Vec<_> = before.filter(|it| !layers.contains(it)).collect();
        layers.extend(before);
        if is_first {
            self.set_terms(&layers);
        } else if is_other {
            self.change_all(None);
        }
        if self.makes_aac {
            layers.extend(aac_layers(&self.tracks));
        }
        let common = &self.common;
        self.writers.retain(|it| layers.contains(&it.layer));
        for layer in &layers {
            let track = &self.tracks[layer.track.get()];
            let track = track.of_layer(layer.layer).unwrap_or(track);
            match self.writers.iter_mut().find(|it| it.layer == *layer) {
                Some(writer) if is_other => writer.follow(track, common),
                Some(_) => {}
                None => self
                    .writers
                    .push(TrackWriter::new(*layer, track, &self.broadcast, common)),
            }
        }
        self.subscription.read(&read);
        self.begin(is_first);
    }

    /// Returns whether another source, or something in its place, publishes since the last call.
    fn has_other_publisher(&mut self) -> bool {
        self.events.poll(&mut self.happened);
        let begins = |event: StreamEvent| match event {
            StreamEvent::Present(_) => true,
            StreamEvent::Changed { change, .. } => matches!(
                change,
                StreamChange::Ready(_) | StreamChange::StandIn | StreamChange::Layout(_)
            ),
        };
        self.happened.drain(..).any(begins)
    }

    /// Begins to make AAC once somebody has asked for it.
    fn begin_aac(&mut self) {
        if self.makes_aac || !self.broadcast.wants_aac() {
            return;
        }
        self.makes_aac = true;
        for layer in aac_layers(&self.tracks) {
            let track = &self.tracks[layer.track.get()];
            let writer = TrackWriter::new(layer, track, &self.broadcast, &self.common);
            self.writers.push(writer);
        }
    }

    /// Writes what the hub has from the newest keyframe on. Audio begins with the first video frame.
    fn begin(&mut self, is_first: bool) {
        let stream = Arc::clone(&self.broadcast.stream);
        let now = Instant::now();
        let mut known = Vec::new();
        for writer in &self.writers {
            let is_video = writer.kind == Kind::Video;
            let units = match is_video {
                true => stream.since_keyframe(writer.layer),
                false if is_first => stream.since(writer.source(), 0),
                false => Vec::new(),
            };
            if units.is_empty() && is_video {
                // The keyframe has left the ring, or there was none.
                stream.request_keyframe_of(writer.layer);
            }
            known.push(units);
        }
        let first = |units: &Vec<Arc<MediaUnit>>| units.first().map(|it| it.decode_time());
        let videos = self
            .writers
            .iter()
            .zip(&known)
            .filter(|(it, _)| it.kind == Kind::Video);
        let earliest = videos.filter_map(|(_, units)| first(units)).min();
        if let Some(origin) = earliest.or_else(|| known.iter().filter_map(first).min()) {
            self.set_origin(origin);
        }
        for (place, units) in known.into_iter().enumerate() {
            for unit in units {
                self.write(place, &unit, now);
            }
            self.writers[place].end_known();
        }
    }

    /// Counts the times of all renditions from `origin`, unless they are counted already.
    fn set_origin(&mut self, origin: MediaTime) {
        if self.common.origin.is_none() {
            self.common.origin = Some(origin);
            self.writers.iter_mut().for_each(|it| it.begin(origin));
        }
    }

    /// Decides what the playlists promise, by what the source has sent so far.
    fn set_terms(&mut self, layers: &[TrackLayer]) {
        let now = Instant::now();
        let stream = &self.broadcast.stream;
        let settings = &self.broadcast.settings;
        let figures = |layer: &TrackLayer| stream.figures(*layer, now);
        let interval = layers.iter().filter_map(|it| figures(it).keyframe_interval);
        let needed = interval.max().map_or(0, |it| {
            // Durations are compared as whole seconds.
            u32::try_from((it + Duration::from_millis(600)).as_secs()).unwrap_or(TARGET_MAX)
        });
        let target = settings.segment_s.max(needed.min(TARGET_MAX));
        self.common.terms.target = target;
        // One distance for all playlists, also of audio in AAC that nobody has asked for yet.
        let rates = layers.iter().map(|it| figures(it).frame_rate);
        let targets = rates
            .chain([AacMaker::FRAME_RATE])
            .map(|it| part_target(settings.part(), it));
        let longest = targets.max().unwrap_or(settings.part());
        self.common.terms.part_target = settings.part();
        self.common.terms.part_hold_back = longest * 3;
    }

    /// Begins another sequence of timestamps in all renditions; that at `place` has begun it already.
    fn change_all(&mut self, place: Option<usize>) {
        self.common.changes += 1;
        for (index, writer) in self.writers.iter_mut().enumerate() {
            if Some(index) != place {
                writer.discontinue(&self.common, &self.broadcast);
            }
        }
    }

    /// Puts new files below the pass of the present window.
    fn follow_window(&mut self) {
        let unix = self.services.clock.wall().unix(Instant::now());
        let window = pass::window(unix);
        let name = self.broadcast.stream.name().as_str();
        let is_new = self.common.window != window || self.common.pass.is_empty();
        if is_new {
            self.common.window = window;
            self.common.pass = self.services.key.issue(name, Opens::Files, unix);
            let renditions = self.broadcast.renditions();
            renditions
                .iter()
                .for_each(|it| it.set_folder(self.common.folder(&it.name)));
        }
    }

    /// Fills what the source did not send, forgets viewers who left, and returns why the writer ends, if
    /// it does.
    fn look_around(&mut self, now: Instant) -> Option<Ended> {
        let stream = &self.broadcast.stream;
        let wall = self.services.clock.wall();
        for writer in &mut self.writers {
            writer.fill(now, &wall, &self.common, &self.broadcast);
        }
        self.broadcast.viewers().sweep(now);
        let found = self.services.hub.stream(stream.name().as_str());
        if stream.is_deleted() || found.is_none_or(|it| !Arc::ptr_eq(&it, stream)) {
            return Some(Ended::Gone);
        }
        if self.broadcast.idle(now) > self.broadcast.settings.idle() {
            return Some(Ended::Idle);
        }
        match self.keeps_within(self.broadcast.settings.stream_mib << 20) {
            true => None,
            false => Some(Ended::Memory),
        }
    }

    /// Drops segments until the files take at most `bytes_max`. Returns whether they do.
    fn keeps_within(&self, bytes_max: usize) -> bool {
        let renditions = self.broadcast.renditions();
        let bytes = || renditions.iter().map(|it| it.bytes()).sum::<usize>();
        while bytes() > bytes_max {
            let shortened = renditions.iter().filter(|it| it.shorten()).count();
            if shortened == 0 {
                break;
            }
        }
        let kept = bytes();
        self.broadcast.bytes.store(kept as u64, Ordering::Relaxed);
        // What is needed for playing may take twice as much.
        kept <= bytes_max * 2
    }
}

/// Returns the layers of tracks that go by HLS whoever plays them: the only one of a track, or each of the
/// encodings that its source sends.
fn layers_of(tracks: &[Track]) -> Vec<TrackLayer> {
    let carried = TrackIndex::enumerate(tracks).filter(|(_, track)| is_carried(track));
    let of = |(index, track): (TrackIndex, &Track)| -> Vec<TrackLayer> {
        match track.layers.len() {
            0 => vec![index.into()],
            _ => {
                let layers = track.layers.iter().enumerate();
                let sent = layers.filter(|(_, it)| !it.is_made_here);
                let of = |(position, _)| TrackLayer {
                    track: index,
                    layer: LayerIndex::of_encoding(position),
                };
                sent.map(of).collect()
            }
        }
    };
    carried.flat_map(of).collect()
}

/// Returns the layers that are made of the hub's on demand.
fn aac_layers(tracks: &[Track]) -> Vec<TrackLayer> {
    let taken = TrackIndex::enumerate(tracks).filter(|(_, track)| AacMaker::takes(track));
    let layers = taken.map(|(track, _)| TrackLayer {
        track,
        layer: aac::LAYER,
    });
    layers.collect()
}
