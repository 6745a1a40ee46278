//! The position of a client in its stream, and the decision when it must skip.

use std::time::{Duration, Instant};

use glassline_media::TrackIndex;

use super::ring::{Ring, RingEntry};

/// Limits on the delay that a client may build up.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Delay behind the stream after which the client skips to the newest keyframe.
    pub lag: Duration,
    /// Time without taking any byte after which the client is closed.
    pub stall: Duration,
    /// Number of skips without having caught up in between after which the client is closed.
    pub skips_in_a_row: u32,
}

/// Number of tracks that a [`TrackSet`] can hold; tracks with higher indices cannot be set up.
pub const TRACKS_MAX: usize = 32;

/// A set of tracks, by their indices below [`TRACKS_MAX`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrackSet(u32);

impl TrackSet {
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn contains(self, track: TrackIndex) -> bool {
        self.0 & Self::of(track).0 != 0
    }

    fn insert(&mut self, track: TrackIndex) {
        self.0 |= Self::of(track).0;
    }

    fn remove(&mut self, track: TrackIndex) {
        self.0 &= !Self::of(track).0;
    }

    /// Returns the set of one track; it is empty if the index is too high.
    fn of(track: TrackIndex) -> Self {
        let bit = u32::try_from(track.get())
            .ok()
            .and_then(|track| 1u32.checked_shl(track));
        Self(bit.unwrap_or(0))
    }
}

impl FromIterator<TrackIndex> for TrackSet {
    fn from_iter<I: IntoIterator<Item = TrackIndex>>(tracks: I) -> Self {
        let mut set = Self::default();
        for track in tracks {
            set.insert(track);
        }
        set
    }
}

/// A client's position in the [`Ring`] of its stream.
#[derive(Clone, Debug)]
pub struct Cursor {
    /// Number of the next ring entry to look at.
    position: u64,
    /// Tracks that the client has set up.
    tracks: TrackSet,
    /// Tracks of the client that wait for a keyframe to begin with.
    waiting: TrackSet,
    /// Time from which lag counts: older entries were in the ring when the client began or skipped.
    since: Instant,
    skips_in_a_row: u32,
    skips: u32,
    skipped: u64,
    /// Packets of media among the entries that the client gets.
    packets: u64,
}

/// The result of [`Cursor::check_lag`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LagOutcome {
    /// The client continues from its position.
    Steady,
    /// The client skipped this many entries of its tracks.
    Skipped(u64),
    /// The client has skipped too often in a row and will not catch up.
    TooSlow,
}

impl Cursor {
    /// Creates a cursor at the newest keyframe if `anchored`, which means that one of the tracks is
    /// the one that keyframes are looked for in. Otherwise the cursor begins at the end of the
    /// ring, with the next entry.
    pub fn begin(ring: &Ring, tracks: TrackSet, anchored: bool, now: Instant) -> Self {
        let keyframe = anchored.then(|| ring.keyframe()).flatten();
        Self::begin_at(keyframe.unwrap_or(ring.end()), tracks, now)
    }

    /// Creates a cursor at `position`. Each track begins with the first entry from there on that a
    /// decoder can start with.
    pub fn begin_at(position: u64, tracks: TrackSet, now: Instant) -> Self {
        Self {
            position,
            tracks,
            waiting: tracks,
            since: now,
            skips_in_a_row: 0,
            skips: 0,
            skipped: 0,
            packets: 0,
        }
    }

    /// Creates a cursor at `position` for a client that got everything before it, whose decoders go on.
    pub fn continue_at(position: u64, tracks: TrackSet, now: Instant) -> Self {
        Self {
            waiting: TrackSet::default(),
            ..Self::begin_at(position, tracks, now)
        }
    }

    /// Continues at `position` after a pause. Each track waits for an entry that a decoder can
    /// start with.
    pub fn jump_to(&mut self, position: u64, now: Instant) {
        self.position = position;
        self.waiting = self.tracks;
        self.since = now;
    }

    /// Drops all tracks but these.
    pub fn keep(&mut self, tracks: TrackSet) {
        self.tracks.0 &= tracks.0;
        self.waiting.0 &= tracks.0;
    }

    /// Adds these tracks. New ones begin with their next entry that a decoder can start with.
    pub fn add(&mut self, tracks: TrackSet) {
        self.waiting.0 |= tracks.0 & !self.tracks.0;
        self.tracks.0 |= tracks.0;
    }

    /// Returns the number of the next entry to look at.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Moves the cursor to `number`: the entries before it are planned but may still be unsent.
    pub fn pass_to(&mut self, number: u64) {
        self.position = number;
    }

    /// Moves the cursor to `number`, because all entries before it are sent.
    pub fn advance(&mut self, number: u64, ring: &Ring) {
        self.position = number;
        if number >= ring.end() {
            self.skips_in_a_row = 0;
        }
    }

    /// Returns whether the client gets `entry`, and notes the tracks that begin with it.
    pub fn takes(&mut self, entry: &RingEntry) -> bool {
        let track = entry.track();
        if !self.tracks.contains(track) {
            return false;
        }
        if self.waiting.contains(track) {
            if !entry.is_start() {
                return false;
            }
            self.waiting.remove(track);
        }
        self.packets += media_packets(entry);
        true
    }

    /// Moves the cursor back to `number`, because the entries from there on could not be sent.
    pub fn return_to(&mut self, number: u64, ring: &Ring) {
        let entries = ring.since(number).map(|(_, entry)| entry);
        let count = usize::try_from(self.position.saturating_sub(number)).unwrap_or(usize::MAX);
        let unsent = entries
            .take(count)
            .filter(|entry| self.is_begun(entry.track()));
        let unsent: u64 = unsent.map(media_packets).sum();
        self.packets = self.packets.saturating_sub(unsent);
        self.advance(number, ring);
    }

    /// Returns the first entry of `track` that the client will get, if it is in the ring already.
    pub fn first_of<'a>(&self, ring: &'a Ring, track: TrackIndex) -> Option<&'a RingEntry> {
        let mut entries = ring.since(self.position).map(|(_, entry)| entry);
        entries.find(|entry| entry.track() == track && entry.is_start())
    }

    /// Returns how far the client is behind the stream.
    pub fn lag(&self, ring: &Ring, now: Instant) -> Duration {
        let next = ring.get(self.position.max(ring.first()));
        next.map_or(Duration::ZERO, |entry| {
            now.saturating_duration_since(entry.at.max(self.since))
        })
    }

    /// Skips if the client lags more than the budget allows: to the newest keyframe if that is
    /// ahead, or to the end if the ring has dropped the client's entry. If neither
    /// applies, the client continues late and without a loss. A frame that the client has begun is
    /// finished first.
    pub fn check_lag(&mut self, ring: &Ring, budget: &Budget, now: Instant) -> LagOutcome {
        let lost = self.position < ring.first();
        let is_within_frame = || {
            let next = ring.get(self.position);
            next.is_some_and(|entry| entry.is_continuation() && self.is_begun(entry.track()))
        };
        if !lost && (self.lag(ring, now) <= budget.lag || is_within_frame()) {
            return LagOutcome::Steady;
        }
        let ahead = ring.keyframe().filter(|number| *number > self.position);
        let Some(to) = ahead.or(lost.then(|| ring.end())) else {
            return LagOutcome::Steady;
        };
        let gone = ring.first().saturating_sub(self.position);
        let passed = ring
            .since(self.position)
            .take_while(|(number, _)| *number < to);
        let passed = passed
            .filter(|(_, entry)| self.tracks.contains(entry.track()) && !entry.is_continuation());
        let skipped = gone + passed.count() as u64;
        self.jump_to(to, now);
        self.skips += 1;
        self.skipped += skipped;
        self.skips_in_a_row += 1;
        if self.skips_in_a_row > budget.skips_in_a_row {
            return LagOutcome::TooSlow;
        }
        LagOutcome::Skipped(skipped)
    }

    /// Returns whether the client has got an entry of `track` since it began or skipped.
    fn is_begun(&self, track: TrackIndex) -> bool {
        self.tracks.contains(track) && !self.waiting.contains(track)
    }

    /// Returns whether some track waits for a keyframe.
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns how many packets of media the client got, or is about to get.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Returns how often the client skipped.
    pub fn skips(&self) -> u32 {
        self.skips
    }

    /// Returns how many entries the client skipped.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }
}

/// Returns the number of packets of an entry if they are media, or 0 for reports.
fn media_packets(entry: &RingEntry) -> u64 {
    match entry.is_report() {
        true => 0,
        false => entry.packet_count(),
    }
}
