//! The task that makes the files of one stream of its units.
//!
//! ```text
//! hub ─ units ─► TrackWriter (one a layer): Fragmenter ─ fragments ─► Rendition: playlist, files
//!                  │ another source, other parameters: a discontinuity in all renditions
//!                  ├ a track that the source does not send: something stands in
//!                  └ nothing for a Target Duration: gaps
//! ```
//!
//! The first segment begins with the keyframe that the hub has, so that nobody waits for the next one. Of a
//! source that has just begun, a few frames are awaited, which tell what the playlists can promise.
//!
//! Time comes from outside: [`Writer::turn`] and [`Writer::look_around`] are told what it is.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use glassline_hls::{Numbers, Terms};
use glassline_hub::{Hub, StreamChange, StreamEvent, StreamEvents, Subscription, Wake};
use glassline_media::{Kind, MediaTime, MediaUnit, Track, TrackIndex, TrackLayer, WallClock};
use glassline_runtime::{Clock, TaskWaker};

use super::aac::{self, AacMaker};
use super::broadcast::Broadcast;
use super::cadence::Cadence;
use super::dates::Dates;
use super::on_demand::{aac_layers, rungs};
use super::pass::{self, Opens, PassKey};
use super::rendition_key::{FrameSource, RenditionKey, is_carried, layers_of};
use super::shared::{Change, PARTS_BEHIND, Shared};
use super::track_writer::TrackWriter;

/// Time between two looks at what does not come with a unit: gaps, viewers who left, memory.
const TICK: Duration = Duration::from_millis(250);

/// Media of each track of which the distance of its frames is known well enough.
const ENOUGH: Duration = Duration::from_millis(400);

/// Longest time for which that much media is waited for.
const PATIENCE: Duration = Duration::from_millis(1500);

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
    /// Units of the present turn.
    units: Vec<Arc<MediaUnit>>,
    /// When the first tracks were there.
    found: Option<Instant>,
    /// Whether the playlists have made their promises.
    is_begun: bool,
    writers: Vec<TrackWriter>,
    /// The rungs of a ladder that are read, because somebody plays them.
    rungs: Vec<TrackLayer>,
    shared: Shared,
}

impl Writer {
    pub(super) fn new(broadcast: Arc<Broadcast>, services: Services, now: Instant) -> Self {
        let stream = &broadcast.stream;
        let arrival = Arc::<TaskWaker>::default();
        let subscription = stream.subscribe(Arc::clone(&arrival) as Arc<dyn Wake>);
        let waker = Arc::clone(&arrival) as Arc<dyn Wake>;
        let events = services.hub.events_of(stream.name().clone(), waker);
        let unix = services.clock.wall().unix(now);
        let first = Numbers::at(unix);
        // A writer is made once for a broadcast.
        let _ = broadcast.first_segment.set(first.segment);
        let shared = Shared {
            terms: Terms {
                target: broadcast.settings.segment_s,
                part_target: broadcast.settings.part(),
                part_hold_back: broadcast.settings.part() * PARTS_BEHIND,
                window: broadcast.settings.window(),
                independent: false,
            },
            origin: None,
            dates: Dates::default(),
            first,
            changes: 0,
            window: pass::window(unix),
            pass: String::new(),
        };
        Self {
            events,
            happened: Vec::new(),
            units: Vec::new(),
            found: None,
            is_begun: false,
            tracks: Arc::from([]),
            broadcast,
            services,
            arrival,
            subscription,
            writers: Vec::new(),
            rungs: Vec::new(),
            shared,
        }
    }

    /// Writes until there is a reason to end.
    pub(super) async fn run(mut self) -> Ended {
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
            self.turn(Instant::now());
        }
    }

    /// Writes what has come since the last turn.
    pub(super) fn turn(&mut self, now: Instant) {
        let wall = self.services.clock.wall();
        self.follow_window(wall.unix(now));
        let mut units = std::mem::take(&mut self.units);
        self.subscription.poll(&mut units);
        // Units of another source are told before they come.
        self.follow_source(now, &wall);
        self.begin_asked(now, &wall);
        for unit in units.drain(..) {
            for place in 0..self.writers.len() {
                if self.writers[place].frames == FrameSource::Source(unit.track_layer()) {
                    self.write(place, &unit, now, &wall);
                }
            }
        }
        self.units = units;
        self.stand_in(now, &wall);
    }

    /// Has something written in the place of tracks that the source does not send, as far as the others are.
    fn stand_in(&mut self, now: Instant, wall: &WallClock) {
        let Some((reached, _)) = self.newest() else {
            return;
        };
        for writer in &mut self.writers {
            writer.stand_in(reached, now, wall, &self.shared, &self.broadcast);
        }
    }

    /// Returns the newest time of what the source sends, and when it came.
    fn newest(&self) -> Option<(MediaTime, Instant)> {
        self.writers.iter().filter_map(TrackWriter::newest).max()
    }

    /// Gives `unit` to the writer at `place`, and tells the others of a change of its track.
    fn write(&mut self, place: usize, unit: &Arc<MediaUnit>, now: Instant, wall: &WallClock) {
        self.set_origin(unit.decode_time());
        let due = wall.unix(unit.stamps.reference);
        self.shared.dates.follow(unit.time, due);
        let writer = &mut self.writers[place];
        let change = writer.push(unit, now, wall, &self.shared, &self.broadcast);
        match change {
            Change::Nothing => {}
            Change::Grown => self.broadcast.grow(),
            Change::Header => self.change_all(Some(place)),
        }
    }

    /// Begins another publisher: all tracks end where they are, and go on with another initialization. One
    /// that describes its tracks anew may have further layers.
    fn follow_source(&mut self, now: Instant, wall: &WallClock) {
        let is_other = self.has_other_publisher();
        let tracks = self.broadcast.stream.tracks();
        let idle = self.broadcast.settings.idle();
        let is_wanted = |layer: &TrackLayer| {
            let key = RenditionKey::of(&tracks, *layer);
            self.broadcast.on_demand.is_wanted(key, idle, now)
        };
        let wanted = rungs(&tracks).map(|it| it.layer).filter(is_wanted);
        let wanted: Vec<_> = wanted.collect();
        // While a source is away, its tracks stay.
        let is_same = Arc::ptr_eq(&tracks, &self.tracks) && wanted == self.rungs;
        if self.is_begun && !is_other && is_same || tracks.is_empty() {
            return;
        }
        (self.tracks, self.rungs) = (tracks, wanted);
        let layers = self.layers();
        if !is_same {
            self.read(&layers);
        }
        let is_first = !self.is_begun;
        if is_first && !self.knows_enough(now) {
            return;
        }
        self.is_begun = true;
        if is_first {
            self.set_terms(&layers, now);
        } else if is_other {
            self.change_all(None);
        }
        self.write_layers(&layers, is_other, now);
        self.begin(is_first, now, wall);
    }

    /// Reads these layers, and those that stand in the place of others.
    fn read(&mut self, layers: &[TrackLayer]) {
        let mut read = layers.to_vec();
        for writer in &self.writers {
            if let FrameSource::Source(layer) = writer.key.frames(&self.tracks, layers)
                && !read.contains(&layer)
            {
                read.push(layer);
            }
        }
        self.subscription.read(&read);
    }

    /// Has these layers written from now on. The playlists of rungs that nobody plays have gaps; something
    /// stands in for tracks that the present source does not have.
    fn write_layers(&mut self, layers: &[TrackLayer], is_other: bool, now: Instant) {
        for writer in &mut self.writers {
            writer.frames = writer.key.frames(&self.tracks, layers);
            let source = match writer.frames {
                FrameSource::Source(source) | FrameSource::Paused(source) => Some(source),
                FrameSource::StandIn => None,
            };
            if let Some(source) = source.filter(|_| is_other) {
                let track = &self.tracks[source.track.get()];
                let track = track.of_layer(source.layer).unwrap_or(track);
                writer.follow(source, track, &self.shared);
            }
        }
        for layer in layers {
            let key = RenditionKey::of(&self.tracks, *layer);
            if self.writers.iter().all(|it| it.key != key) {
                self.add_writer(key, now);
            }
        }
    }

    /// Returns the layers that are written whoever plays them, and the rungs that somebody plays.
    fn layers(&self) -> Vec<TrackLayer> {
        [layers_of(&self.tracks), self.rungs.clone()].concat()
    }

    /// Begins to write a rendition, unless nothing can be written of it now.
    fn add_writer(&mut self, key: RenditionKey, now: Instant) {
        let frames = key.frames(&self.tracks, &self.layers());
        let (broadcast, shared) = (&self.broadcast, &self.shared);
        let mut writer = match frames {
            FrameSource::Source(source) => {
                let track = &self.tracks[source.track.get()];
                let track = track.of_layer(source.layer).unwrap_or(track);
                TrackWriter::new(key, source, track, now, broadcast, shared)
            }
            // Silence can be made without a source.
            FrameSource::StandIn if key.layer == aac::LAYER => {
                let (source, track) = (TrackIndex(0).into(), AacMaker::track());
                TrackWriter::new(key, source, &track, now, broadcast, shared)
            }
            _ => return,
        };
        writer.frames = frames;
        self.writers.push(writer);
    }

    /// Returns whether the hub has enough of each track to tell what the playlists can promise. One that
    /// sends nothing is not waited for any longer than [`PATIENCE`].
    fn knows_enough(&mut self, now: Instant) -> bool {
        let found = *self.found.get_or_insert(now);
        let stream = &self.broadcast.stream;
        let is_over = now.saturating_duration_since(found) >= PATIENCE;
        let mut carried =
            TrackIndex::enumerate(&*self.tracks).filter(|(_, track)| is_carried(track));
        is_over
            || stream.is_source_away()
            || carried.all(|(index, _)| Cadence::of_layer(stream, index.into()).span >= ENOUGH)
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

    /// Begins the renditions that somebody has asked for, which another source may have offered.
    fn begin_asked(&mut self, now: Instant, wall: &WallClock) {
        if !self.is_begun {
            return;
        }
        for key in self.broadcast.on_demand.asked() {
            if self.writers.iter().any(|it| it.key == key) {
                continue;
            }
            let place = self.writers.len();
            self.add_writer(key, now);
            if let Some(writer) = self.writers.get(place) {
                let known = self.known_units(writer, false);
                self.read(&self.layers());
                for unit in known {
                    self.write(place, &unit, now, wall);
                }
            }
        }
    }

    /// Writes what the hub has from the newest keyframe on. Audio begins with the first video frame.
    fn begin(&mut self, is_first: bool, now: Instant, wall: &WallClock) {
        let writers = self.writers.iter();
        let known: Vec<_> = writers.map(|it| self.known_units(it, is_first)).collect();
        let first = |units: &Vec<Arc<MediaUnit>>| units.first().map(|it| it.decode_time());
        let videos = self
            .writers
            .iter()
            .zip(&known)
            .filter(|(it, _)| it.key.kind == Kind::Video);
        let earliest = videos.filter_map(|(_, units)| first(units)).min();
        if let Some(origin) = earliest.or_else(|| known.iter().filter_map(first).min()) {
            self.set_origin(origin);
        }
        for (place, units) in known.into_iter().enumerate() {
            for unit in units {
                self.write(place, &unit, now, wall);
            }
            self.writers[place].end_known();
        }
    }

    /// Returns what the hub has for a writer that begins.
    fn known_units(&self, writer: &TrackWriter, is_first: bool) -> Vec<Arc<MediaUnit>> {
        let stream = &self.broadcast.stream;
        let FrameSource::Source(source) = writer.frames else {
            return Vec::new();
        };
        match writer.key.kind {
            Kind::Video => {
                let units = stream.since_keyframe(source);
                if units.is_empty() {
                    // The keyframe has left the ring, or there was none.
                    stream.request_keyframe_of(source);
                }
                units
            }
            _ if is_first => stream.since(source, 0),
            _ => Vec::new(),
        }
    }

    /// Counts the times of all renditions from `origin`, unless they are counted already.
    fn set_origin(&mut self, origin: MediaTime) {
        if self.shared.origin.is_none() {
            self.shared.origin = Some(origin);
            self.writers.iter_mut().for_each(|it| it.begin(origin));
        }
    }

    /// Decides what the playlists promise, by the times of what the source has sent so far.
    fn set_terms(&mut self, layers: &[TrackLayer], now: Instant) {
        let stream = &self.broadcast.stream;
        let settings = &self.broadcast.settings;
        let intervals = layers.iter().map(|it| stream.figures(*it, now));
        let interval = intervals.filter_map(|it| it.keyframe_interval).max();
        let needed = interval.map_or(0, |it| {
            // Durations are compared as whole seconds.
            u32::try_from((it + Duration::from_millis(600)).as_secs()).unwrap_or(TARGET_MAX)
        });
        self.shared.terms.target = settings.segment_s.max(needed.min(TARGET_MAX));
        // One distance for all playlists, also of audio in AAC that nobody has asked for yet.
        let all = layers.iter().copied().chain(aac_layers(&self.tracks));
        let targets = all.map(|it| Cadence::of_layer(stream, it).part_target(settings.part()));
        let longest = targets.max().unwrap_or(settings.part());
        self.shared.terms.part_hold_back = longest * PARTS_BEHIND;
    }

    /// Begins another sequence of timestamps in all renditions; that at `place` has begun it already.
    fn change_all(&mut self, place: Option<usize>) {
        self.shared.changes += 1;
        for (index, writer) in self.writers.iter_mut().enumerate() {
            if Some(index) != place {
                writer.discontinue(&self.shared, &self.broadcast);
            }
        }
    }

    /// Puts new files below the pass of the window at `unix`.
    fn follow_window(&mut self, unix: Duration) {
        let window = pass::window(unix);
        if self.shared.window == window && !self.shared.pass.is_empty() {
            return;
        }
        let name = self.broadcast.stream.name().as_str();
        self.shared.window = window;
        self.shared.pass = self.services.key.issue(name, Opens::Files, unix);
        for rendition in self.broadcast.renditions() {
            rendition.set_folder(self.shared.folder(&rendition.name));
        }
    }

    /// Fills what the source did not send, forgets viewers who left, and returns why the writer ends, if
    /// it does.
    pub(super) fn look_around(&mut self, now: Instant) -> Option<Ended> {
        let stream = &self.broadcast.stream;
        let newest = self.newest();
        for writer in &mut self.writers {
            writer.fill(newest, now, &self.shared, &self.broadcast);
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
