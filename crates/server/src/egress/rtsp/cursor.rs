//! How far a client has come in its stream, and when it must skip.

use std::time::{Duration, Instant};

use super::ring::{Entry, Ring};

/// How much delay a client is granted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// It may be this much behind before it skips to the newest keyframe.
    pub(crate) lag: Duration,
    /// It may take nothing at all for this long before it is closed.
    pub(crate) stall: Duration,
    /// It may skip this often without having caught up in between.
    pub(crate) skips_in_a_row: u32,
}

/// The tracks that a [`TrackSet`] can tell apart; further ones cannot be set up.
pub(crate) const TRACKS_MAX: usize = 32;

/// A set of tracks, by their indices below [`TRACKS_MAX`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TrackSet(u32);

impl TrackSet {
    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn contains(self, track: usize) -> bool {
        self.0 & Self::of(track).0 != 0
    }

    fn insert(&mut self, track: usize) {
        self.0 |= Self::of(track).0;
    }

    fn remove(&mut self, track: usize) {
        self.0 &= !Self::of(track).0;
    }

    /// The set of one track, which is empty for an index that is too high.
    fn of(track: usize) -> Self {
        let bit = u32::try_from(track)
            .ok()
            .and_then(|track| 1u32.checked_shl(track));
        Self(bit.unwrap_or(0))
    }
}

impl FromIterator<usize> for TrackSet {
    fn from_iter<I: IntoIterator<Item = usize>>(tracks: I) -> Self {
        let mut set = Self::default();
        for track in tracks {
            set.insert(track);
        }
        set
    }
}

/// A client's position in the [`Ring`] of its stream.
#[derive(Clone, Debug)]
pub(crate) struct Cursor {
    /// The next entry to look at.
    position: u64,
    /// Tracks that the client gets.
    tracks: TrackSet,
    /// Those among them that wait for a keyframe to begin with.
    waiting: TrackSet,
    /// Lag counts from here: what is older was there when the client came or skipped.
    since: Instant,
    skips_in_a_row: u32,
    skips: u32,
    skipped: u64,
}

/// What a look at the clock changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It goes on.
    Steady,
    /// It skipped this many entries of its own.
    Skipped(u64),
    /// It will not catch up.
    Hopeless,
}

impl Cursor {
    /// At the newest keyframe if `anchored` (one of the tracks is the one that has
    /// them), else at the end: what comes next.
    pub(crate) fn begin(ring: &Ring, tracks: TrackSet, anchored: bool, now: Instant) -> Self {
        let keyframe = anchored.then(|| ring.keyframe()).flatten();
        Self::begin_at(keyframe.unwrap_or(ring.end()), tracks, now)
    }

    /// At `position`, with whatever starts a track there.
    pub(crate) fn begin_at(position: u64, tracks: TrackSet, now: Instant) -> Self {
        Self {
            position,
            tracks,
            waiting: tracks,
            since: now,
            skips_in_a_row: 0,
            skips: 0,
            skipped: 0,
        }
    }

    /// Goes on at the end after a pause, at keyframes.
    pub(crate) fn jump_to(&mut self, position: u64, now: Instant) {
        self.position = position;
        self.waiting = self.tracks;
        self.since = now;
    }

    /// Goes on with these tracks alone.
    pub(crate) fn keep(&mut self, tracks: TrackSet) {
        self.tracks.0 &= tracks.0;
        self.waiting.0 &= tracks.0;
    }

    /// Goes on with these tracks, too; new ones begin at their next start.
    pub(crate) fn add(&mut self, tracks: TrackSet) {
        self.waiting.0 |= tracks.0 & !self.tracks.0;
        self.tracks.0 |= tracks.0;
    }

    /// The number of the next entry to look at.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Everything before `number` is on its way.
    pub(crate) fn pass_to(&mut self, number: u64) {
        self.position = number;
    }

    /// Everything before `number` is done with.
    pub(crate) fn advance(&mut self, number: u64, ring: &Ring) {
        self.position = number;
        if number >= ring.end() {
            self.skips_in_a_row = 0;
        }
    }

    /// Whether the client gets `entry`; notes where its tracks begin.
    pub(crate) fn takes(&mut self, entry: &Entry) -> bool {
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
        true
    }

    /// The first entry of `track` that the client will get, if it is there yet.
    pub(crate) fn first_of<'a>(&self, ring: &'a Ring, track: usize) -> Option<&'a Entry> {
        let mut entries = ring.since(self.position).map(|(_, entry)| entry);
        entries.find(|entry| entry.track() == track && entry.is_start())
    }

    /// How far behind the client is.
    pub(crate) fn lag(&self, ring: &Ring, now: Instant) -> Duration {
        let next = ring.get(self.position.max(ring.first()));
        next.map_or(Duration::ZERO, |entry| {
            now.saturating_duration_since(entry.at.max(self.since))
        })
    }

    /// Skips if it lags past the budget: to the newest keyframe if that is ahead, or to
    /// whatever comes next if the ring has dropped its entry. With neither it goes on,
    /// late but whole.
    pub(crate) fn judge(&mut self, ring: &Ring, budget: &Budget, now: Instant) -> Verdict {
        let lost = self.position < ring.first();
        if !lost && self.lag(ring, now) <= budget.lag {
            return Verdict::Steady;
        }
        let ahead = ring.keyframe().filter(|number| *number > self.position);
        let Some(to) = ahead.or(lost.then(|| ring.end())) else {
            return Verdict::Steady;
        };
        let gone = ring.first().saturating_sub(self.position);
        let passed = ring
            .since(self.position)
            .take_while(|(number, _)| *number < to);
        let passed = passed.filter(|(_, entry)| self.tracks.contains(entry.track()));
        let skipped = gone + passed.count() as u64;
        self.jump_to(to, now);
        self.skips += 1;
        self.skipped += skipped;
        self.skips_in_a_row += 1;
        if self.skips_in_a_row > budget.skips_in_a_row {
            return Verdict::Hopeless;
        }
        Verdict::Skipped(skipped)
    }

    /// Some track waits for a keyframe.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Times it skipped.
    pub(crate) fn skips(&self) -> u32 {
        self.skips
    }

    /// Entries it skipped.
    pub(crate) fn skipped(&self) -> u64 {
        self.skipped
    }
}
