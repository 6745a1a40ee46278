//! What waits to be sent, and what goes when it waits too long.
//!
//! ```text
//! audio    ▪ ▪ ▪ ▪ ▪ ▪              first, oldest first
//! frame  [K p p p p] [K p p …     then the oldest group
//!           └ late: reset whole, the next one begins at once
//! ```
//!
//! A group is a keyframe and what follows it up to the next. A unit that waited longer
//! than [`Config::delay_max`] is late, and so is all of its group: what a decoder does
//! not get whole it cannot show. If no newer group is there the encoder is asked for
//! one, and what comes before it is left out. The same goes, oldest group first, when
//! there are too many bytes. Audio is dropped unit by unit. Everything dropped is
//! counted by reason.
//!
//! Sans-IO: whoever has a transport asks with [`SendQueue::next`] whenever it takes
//! more, and hands it orders.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use glassline_congestion::adaptation::Rule;
use glassline_media::Kind;

use crate::publish::unit::Unit;

/// Bounds of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The longest that a unit may wait.
    pub delay_max: Duration,
    /// The most bytes that may wait.
    pub bytes_max: u64,
}

impl Config {
    /// What suits a rule. [`Rule::Coupled`]: a second and a half, longer than a fade of
    /// mobile networks, shorter than what a viewer takes for broken. [`Rule::Study`]
    /// needs a backlog to see that the path is full, up to twice its knee: 8 s. 8 MiB
    /// are three seconds at 20 Mbit/s.
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

/// What the transport shall do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Send this unit. A group begins with its first unit and ends with the next
    /// group's first.
    Send {
        /// Number of its group in the track, rising; for audio one for each unit.
        group: u64,
        /// It begins its group.
        first: bool,
        /// The unit itself.
        unit: Unit,
    },
    /// Give up a group of which units were sent: what of it is not on its way yet is
    /// not wanted any more.
    Reset {
        /// Of which track.
        track: usize,
        /// Which.
        group: u64,
    },
}

/// What was not sent, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Units that waited too long, with those of their group.
    pub late_units: u64,
    /// Units that went because too many bytes waited.
    pub full_units: u64,
    /// Frames left out because what they need was dropped, until the next keyframe.
    pub broken_units: u64,
    /// Bytes of all these.
    pub bytes: u64,
    /// Groups given up of which something had been sent.
    pub resets: u64,
}

impl Dropped {
    /// Units of all reasons.
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

/// The units of a stream's tracks that wait to be sent.
#[derive(Debug)]
pub struct SendQueue {
    config: Config,
    lanes: Vec<Lane>,
    bytes: u64,
    resets: VecDeque<Order>,
    dropped: Dropped,
    wants_keyframe: bool,
}

/// What waits of one track.
#[derive(Debug)]
struct Lane {
    kind: Kind,
    /// Oldest first. The last one may still grow; it may be empty, having been sent
    /// as far as it goes.
    groups: VecDeque<Group>,
    next: u64,
    /// Nothing until the next keyframe can be decoded.
    broken: bool,
}

#[derive(Debug)]
struct Group {
    number: u64,
    units: VecDeque<Unit>,
    /// Some of it was sent.
    begun: bool,
}

impl SendQueue {
    /// An empty queue for tracks of these kinds.
    pub fn new(config: Config, kinds: &[Kind]) -> Self {
        let lane = |kind: &Kind| Lane {
            kind: *kind,
            groups: VecDeque::new(),
            next: 0,
            // A decoder starts at a keyframe only.
            broken: true,
        };
        Self {
            config,
            lanes: kinds.iter().map(lane).collect(),
            bytes: 0,
            resets: VecDeque::new(),
            dropped: Dropped::default(),
            wants_keyframe: false,
        }
    }

    /// Takes a unit; of a track that does not exist it is dropped.
    pub fn push(&mut self, now: Instant, unit: Unit) {
        let Some(lane) = self.lanes.get_mut(unit.track) else {
            return count(&mut self.dropped, Why::Broken, &unit);
        };
        let begins = unit.keyframe || lane.kind != Kind::Video;
        if lane.broken && !begins {
            // Asked for again: the first request may have met an encoder that is late.
            self.wants_keyframe = true;
            return count(&mut self.dropped, Why::Broken, &unit);
        }
        lane.broken = false;
        self.bytes += unit.data.len() as u64;
        if begins {
            // What was sent to its end needs no place any more.
            lane.groups.retain(|group| !group.units.is_empty());
            lane.groups.push_back(Group {
                number: lane.next,
                units: VecDeque::new(),
                begun: false,
            });
            lane.next += 1;
        }
        if let Some(group) = lane.groups.back_mut() {
            group.units.push_back(unit);
        }
        self.enforce(now);
    }

    /// Drops what is late or too much; call it at [`SendQueue::poll_timeout`].
    pub fn enforce(&mut self, now: Instant) {
        let limit = self.config.delay_max;
        for track in 0..self.lanes.len() {
            while self.lanes[track]
                .oldest()
                .is_some_and(|unit| now.saturating_duration_since(unit.made) > limit)
            {
                self.drop_oldest(track, Why::Late);
            }
        }
        while self.bytes > self.config.bytes_max {
            // Frames first: they are most of it, and audio is missed more.
            let fullest = (0..self.lanes.len()).max_by_key(|&track| self.lanes[track].bytes());
            let Some(track) = fullest else { break };
            self.drop_oldest(track, Why::Full);
        }
    }

    /// Groups of which something was sent are of no use any more, since who got it is
    /// gone: what waits begins with a keyframe, or one is asked for.
    pub fn restart(&mut self) {
        self.resets.clear();
        for lane in &mut self.lanes {
            let begun = |group: &Group| group.begun;
            while lane.kind == Kind::Video && lane.groups.front().is_some_and(begun) {
                for unit in lane.groups.pop_front().into_iter().flat_map(|it| it.units) {
                    self.bytes -= unit.data.len() as u64;
                    count(&mut self.dropped, Why::Broken, &unit);
                }
            }
            if lane.kind == Kind::Video && lane.groups.is_empty() {
                lane.broken = true;
                self.wants_keyframe = true;
            }
        }
    }

    /// When something becomes late.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let oldest = self.lanes.iter().filter_map(Lane::oldest);
        let made = oldest.map(|unit| unit.made).min()?;
        // Late is what is older than the bound.
        Some(made + self.config.delay_max + Duration::from_millis(1))
    }

    /// What to do next: resets, then audio, then the oldest frame. `None` if nothing
    /// waits.
    pub fn next(&mut self, now: Instant) -> Option<Order> {
        self.enforce(now);
        if let Some(reset) = self.resets.pop_front() {
            return Some(reset);
        }
        let waiting = |lane: &&mut Lane| lane.oldest().is_some();
        let rank = |lane: &&mut Lane| {
            let made = lane.oldest().map(|unit| unit.made);
            (lane.kind == Kind::Video, made)
        };
        let lane = self.lanes.iter_mut().filter(waiting).min_by_key(rank)?;
        let order = lane.take()?;
        if let Order::Send { unit, .. } = &order {
            self.bytes -= unit.data.len() as u64;
        }
        Some(order)
    }

    /// Resets that wait; they need no room in the transport.
    pub fn next_reset(&mut self, now: Instant) -> Option<Order> {
        self.enforce(now);
        self.resets.pop_front()
    }

    /// Bytes that wait.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How long the oldest unit has waited.
    pub fn delay(&self, now: Instant) -> Duration {
        let oldest = self.lanes.iter().filter_map(Lane::oldest);
        let made = oldest.map(|unit| unit.made).min();
        made.map_or(Duration::ZERO, |made| now.saturating_duration_since(made))
    }

    /// Whether the encoder should make a keyframe; tells once.
    pub const fn take_keyframe_request(&mut self) -> bool {
        std::mem::replace(&mut self.wants_keyframe, false)
    }

    /// What was not sent so far.
    pub const fn dropped(&self) -> Dropped {
        self.dropped
    }

    /// Gives up the oldest group of a track, or its oldest unit of audio.
    fn drop_oldest(&mut self, track: usize, why: Why) {
        let lane = &mut self.lanes[track];
        // Groups before it were sent to their end, yet may not have arrived.
        while let Some(group) = lane.groups.pop_front() {
            if group.begun && lane.kind == Kind::Video {
                self.dropped.resets += 1;
                self.resets.push_back(Order::Reset {
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
        if lane.kind == Kind::Video && lane.groups.is_empty() {
            lane.broken = true;
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

impl Lane {
    fn oldest(&self) -> Option<&Unit> {
        self.groups.iter().find_map(|group| group.units.front())
    }

    fn bytes(&self) -> u64 {
        let units = self.groups.iter().flat_map(|group| &group.units);
        units.map(|unit| unit.data.len() as u64).sum()
    }

    fn take(&mut self) -> Option<Order> {
        let place = self.groups.iter().position(|it| !it.units.is_empty())?;
        let group = &mut self.groups[place];
        let unit = group.units.pop_front()?;
        let first = !std::mem::replace(&mut group.begun, true);
        let number = group.number;
        // Those before it are over. The last one stays: it may grow.
        self.groups.drain(..place);
        Some(Order::Send {
            group: number,
            first,
            unit,
        })
    }
}

#[cfg(test)]
mod tests;
