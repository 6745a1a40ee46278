//! Send queue: units that wait to be sent, and which are dropped when they wait too long.
//!
//! ```text
//! audio    ▪ ▪ ▪ ▪ ▪ ▪              first, oldest first
//! video  [K p p p p] [K p p …     then the oldest group
//!           └ late: reset whole, the next one begins at once
//! ```
//!
//! Several tracks of video are encodings of one, the best first. The lowest is sent first, so that a path
//! that does not carry all of them loses the best.
//!
//! A group is a keyframe and the frames that follow it up to the next. A unit that has waited
//! longer than [`Config::delay_max`] is late, and its whole group with it, because a decoder
//! cannot show an incomplete group. If there is no newer group, the encoder is asked for a
//! keyframe, and frames before it are left out. Groups are dropped in the same way, oldest
//! first, when too many bytes wait. Audio is dropped unit by unit. Everything dropped is
//! counted by reason.
//!
//! The queue is sans-IO: the owner of a transport calls [`SendQueue::next`] whenever the
//! transport takes more, and carries out the actions.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use glassline_congestion::adaptation::Rule;
use glassline_media::{Kind, TrackIndex};

use crate::publish::unit::Unit;

/// Bounds of a send queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Longest time that a unit may wait.
    pub delay_max: Duration,
    /// Most bytes that may wait.
    pub bytes_max: u64,
}

impl Config {
    /// The bounds that suit a rule. [`Rule::Coupled`]: 1.5 s, longer than a fade of mobile
    /// networks and shorter than a pause that a viewer takes for a failure. [`Rule::Study`]
    /// needs a backlog to see that the path is full, up to twice its knee: 8 s. 8 MiB are
    /// three seconds at 20 Mbit/s.
    pub const fn of(rule: Rule) -> Self {
        let delay_max = match rule {
            Rule::Study => Duration::from_secs(8),
            _ => Duration::from_millis(1500),
        };
        Self {
            delay_max,
            bytes_max: 8 << 20,
        }
    }
}

/// The next step of the transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SendAction {
    /// Send a unit. A group begins with its first unit and ends with the next group's first.
    Send {
        /// Number of the unit's group in its track, rising; each unit of audio is a group.
        group: u64,
        /// Whether the unit begins its group.
        first: bool,
        /// Unit to be sent.
        unit: Unit,
    },
    /// Give up a group of which units were sent: the rest of it need not be delivered.
    Reset {
        /// Track of the group.
        track: TrackIndex,
        /// Number of the group.
        group: u64,
    },
}

/// Units that were not sent, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Units that waited too long, with the others of their group.
    pub late_units: u64,
    /// Units dropped because too many bytes waited.
    pub full_units: u64,
    /// Frames left out until the next keyframe, because a frame that they refer to was
    /// dropped.
    pub broken_units: u64,
    /// Bytes of all these units.
    pub bytes: u64,
    /// Groups given up of which some units had been sent.
    pub resets: u64,
}

impl Dropped {
    /// Number of dropped units, for all reasons.
    pub const fn units(&self) -> u64 {
        self.late_units + self.full_units + self.broken_units
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    Late,
    Full,
    Broken,
}

/// Units of a stream's tracks that wait to be sent.
#[derive(Debug)]
pub struct SendQueue {
    config: Config,
    tracks: Vec<TrackQueue>,
    bytes: u64,
    resets: VecDeque<SendAction>,
    dropped: Dropped,
    wants_keyframe: bool,
}

/// Waiting units of one track.
#[derive(Debug)]
struct TrackQueue {
    kind: Kind,
    /// Groups, oldest first. The last one may still grow; it may be empty if its units were
    /// sent.
    groups: VecDeque<Group>,
    /// Number of the next group.
    next: u64,
    /// Whether frames cannot be decoded until the next keyframe.
    broken: bool,
}

#[derive(Debug)]
struct Group {
    number: u64,
    units: VecDeque<Unit>,
    /// Whether units of the group were sent.
    begun: bool,
}

impl SendQueue {
    /// Makes an empty queue for tracks of these kinds.
    pub fn new(config: Config, kinds: &[Kind]) -> Self {
        let track_queue = |kind: &Kind| TrackQueue {
            kind: *kind,
            groups: VecDeque::new(),
            next: 0,
            // A decoder starts at a keyframe only.
            broken: true,
        };
        Self {
            config,
            tracks: kinds.iter().map(track_queue).collect(),
            bytes: 0,
            resets: VecDeque::new(),
            dropped: Dropped::default(),
            wants_keyframe: false,
        }
    }

    /// Queues a unit; a unit of an unknown track is dropped.
    pub fn push(&mut self, now: Instant, unit: Unit) {
        let Some(track_queue) = self.tracks.get_mut(unit.track.get()) else {
            return count(&mut self.dropped, Why::Broken, &unit);
        };
        let begins = unit.keyframe || track_queue.kind != Kind::Video;
        if track_queue.broken && !begins {
            // The request is repeated, because the encoder may have missed the first one.
            self.wants_keyframe = true;
            return count(&mut self.dropped, Why::Broken, &unit);
        }
        track_queue.broken = false;
        self.bytes += unit.data.len() as u64;
        if begins {
            // Groups whose units were all sent are forgotten.
            track_queue.groups.retain(|group| !group.units.is_empty());
            track_queue.groups.push_back(Group {
                number: track_queue.next,
                units: VecDeque::new(),
                begun: false,
            });
            track_queue.next += 1;
        }
        if let Some(group) = track_queue.groups.back_mut() {
            group.units.push_back(unit);
        }
        self.enforce(now);
    }

    /// Drops units that are late or too many; call it at [`SendQueue::poll_timeout`].
    pub fn enforce(&mut self, now: Instant) {
        let limit = self.config.delay_max;
        for track in TrackIndex::first(self.tracks.len()) {
            while self.tracks[track]
                .oldest()
                .is_some_and(|unit| now.saturating_duration_since(unit.made) > limit)
            {
                self.drop_oldest(track, Why::Late);
            }
        }
        while self.bytes > self.config.bytes_max {
            // Frames first: they are most of it, and audio is missed more.
            let tracks = TrackIndex::first(self.tracks.len());
            let fullest = tracks.max_by_key(|&track| self.tracks[track].bytes());
            let Some(track) = fullest else { break };
            self.drop_oldest(track, Why::Full);
        }
    }

    /// Starts anew on another transport: groups of which some units were sent are dropped,
    /// because their receiver is gone. What waits then begins with a keyframe, or one is
    /// requested.
    pub fn restart(&mut self) {
        self.resets.clear();
        for track_queue in &mut self.tracks {
            let begun = |group: &Group| group.begun;
            while track_queue.kind == Kind::Video && track_queue.groups.front().is_some_and(begun) {
                for unit in track_queue
                    .groups
                    .pop_front()
                    .into_iter()
                    .flat_map(|it| it.units)
                {
                    self.bytes -= unit.data.len() as u64;
                    count(&mut self.dropped, Why::Broken, &unit);
                }
            }
            if track_queue.kind == Kind::Video && track_queue.groups.is_empty() {
                track_queue.broken = true;
                self.wants_keyframe = true;
            }
        }
    }

    /// When the next unit becomes late.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let oldest = self.tracks.iter().filter_map(TrackQueue::oldest);
        let made = oldest.map(|unit| unit.made).min()?;
        // A unit is late when it is older than the bound.
        Some(made + self.config.delay_max + Duration::from_millis(1))
    }

    /// Returns the next action: resets, then audio, then the oldest frame of the lowest encoding. `None`
    /// if nothing waits.
    pub fn next(&mut self, now: Instant) -> Option<SendAction> {
        self.enforce(now);
        if let Some(reset) = self.resets.pop_front() {
            return Some(reset);
        }
        let tracks = self.tracks.iter_mut().enumerate();
        let waiting = tracks.filter(|(_, it)| it.oldest().is_some());
        let (_, track_queue) = waiting.min_by_key(|(place, track_queue)| {
            let made = track_queue.oldest().map(|unit| unit.made);
            let layer = (track_queue.kind == Kind::Video).then_some(Reverse(*place));
            (layer, made)
        })?;
        let action = track_queue.take()?;
        if let SendAction::Send { unit, .. } = &action {
            self.bytes -= unit.data.len() as u64;
        }
        Some(action)
    }

    /// Returns the next reset, which needs no room in the transport.
    pub fn next_reset(&mut self, now: Instant) -> Option<SendAction> {
        self.enforce(now);
        self.resets.pop_front()
    }

    /// Returns the number of bytes that wait.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Time that the oldest unit has waited.
    pub fn delay(&self, now: Instant) -> Duration {
        let oldest = self.tracks.iter().filter_map(TrackQueue::oldest);
        let made = oldest.map(|unit| unit.made).min();
        made.map_or(Duration::ZERO, |made| now.saturating_duration_since(made))
    }

    /// Whether the encoder should make a keyframe; returned once for each need.
    pub const fn take_keyframe_request(&mut self) -> bool {
        std::mem::replace(&mut self.wants_keyframe, false)
    }

    /// Counts of the units that were not sent.
    pub const fn dropped(&self) -> Dropped {
        self.dropped
    }

    /// Drops the oldest group of a track, or its oldest unit of audio.
    fn drop_oldest(&mut self, track: TrackIndex, why: Why) {
        let track_queue = &mut self.tracks[track];
        // Empty groups before it were sent completely, but may not have arrived.
        while let Some(group) = track_queue.groups.pop_front() {
            if group.begun && track_queue.kind == Kind::Video {
                self.dropped.resets += 1;
                self.resets.push_back(SendAction::Reset {
                    track,
                    group: group.number,
                });
            }
            if group.units.is_empty() {
                continue;
            }
            for unit in &group.units {
                self.bytes -= unit.data.len() as u64;
                count(&mut self.dropped, why, unit);
            }
            break;
        }
        if track_queue.kind == Kind::Video && track_queue.groups.is_empty() {
            track_queue.broken = true;
            self.wants_keyframe = true;
        }
    }
}

const fn count(dropped: &mut Dropped, why: Why, unit: &Unit) {
    *match why {
        Why::Late => &mut dropped.late_units,
        Why::Full => &mut dropped.full_units,
        Why::Broken => &mut dropped.broken_units,
    } += 1;
    dropped.bytes += unit.data.len() as u64;
}

impl TrackQueue {
    fn oldest(&self) -> Option<&Unit> {
        self.groups.iter().find_map(|group| group.units.front())
    }

    fn bytes(&self) -> u64 {
        let units = self.groups.iter().flat_map(|group| &group.units);
        units.map(|unit| unit.data.len() as u64).sum()
    }

    fn take(&mut self) -> Option<SendAction> {
        let place = self.groups.iter().position(|it| !it.units.is_empty())?;
        let group = &mut self.groups[place];
        let unit = group.units.pop_front()?;
        let first = !std::mem::replace(&mut group.begun, true);
        let number = group.number;
        // Groups before it are complete. The last one stays, because it may grow.
        self.groups.drain(..place);
        Some(SendAction::Send {
            group: number,
            first,
            unit,
        })
    }
}

#[cfg(test)]
mod tests;
