//! A cluster under random faults, which then comes to rest and has to be whole.

use std::time::Duration;

use glassline_sim::Rng;

use super::crowd::Asking;
use super::history::Excuses;
use super::media::Source;
use super::{Happening, World};
use glassline_cluster::name::{Key, StreamName};
use glassline_cluster::record::StreamRecord;
use glassline_cluster::{Access, Policy, PublisherId};

/// How long a run does what it should not.
const CHAOS: Duration = Duration::from_secs(60);

/// Longest time that a process is stopped.
const STOPPED: Duration = Duration::from_secs(13);

/// How long the cluster then has to become whole.
const REST: Duration = Duration::from_secs(90);

/// Something that happens to the cluster.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    /// A publisher comes to a node.
    Publish,
    /// A publisher leaves.
    Leave,
    /// A publisher loses its node and comes back at another.
    Move,
    /// A viewer comes to a node.
    View,
    /// A participant enters a room.
    Enter,
    /// All participants who are at a node leave a room.
    LeaveRoom,
    /// A process is killed and started again.
    Kill,
    /// A process is killed after some more requests and deliveries.
    KillLater,
    /// A process is stopped for some seconds.
    Stop,
    /// A node loses the engine for some seconds.
    CutEngine,
    /// All nodes lose the engine for some seconds.
    CutEngineOfAll,
    /// Two nodes cannot reach each other, or can again.
    CutLink,
    /// The store has no leader for some seconds.
    Leaderless,
    /// The engine loses and doubles messages, or no longer.
    Lossy,
    /// The store forgets its last writes.
    RollBack,
    /// The store loses everything.
    Delete,
    /// The engine comes back with an empty store, and nodes reach it one after the other.
    ComeBackEmpty,
    /// Several viewers come to nodes at the same moment.
    Crowd,
    /// The store loses some values.
    Split,
    /// A wall clock leaps.
    Leap,
    /// A node drains, or serves again.
    Drain,
}

/// The outcome of one seed.
#[derive(Debug)]
pub struct Outcome {
    /// Rules that were broken; empty if all held.
    pub broken: Vec<String>,
    /// Publishers that were admitted with a claim, admitted provisionally, and refused.
    pub decisions: (usize, usize, usize),
    /// Publishers that were sent away because another node held their name.
    pub superseded: u64,
}

/// Runs one seed. The same seed gives the same run.
pub fn run(seed: u64) -> Outcome {
    let mut rng = Rng::new(seed);
    let count = 3 + usize::try_from(rng.below(4)).unwrap_or(0);
    let mut world = World::new(seed, count, if rng.chance(0.7) { count } else { 3 });
    let hears_everything = rng.chance(0.5);
    world.configure(|config| config.hears_everything = hears_everything);
    let excuses = Excuses {
        store_lost: rng.chance(0.35),
        clocks_leapt: rng.chance(0.35),
        was_disturbed: rng.chance(0.7),
    };
    for index in 0..2 {
        let candidates: Vec<usize> = (0..count.min(3)).collect();
        world.configure_source(&source_name(index), &candidates);
    }
    world.start_all();
    world.watch_pulls();
    let mut at = Duration::from_secs(2);
    while at < CHAOS {
        let action = draw(&mut rng, excuses);
        world.schedule(world.start + at, Happening::Chaos(action));
        at += Duration::from_millis(rng.below(1_500));
    }
    for index in 0..2 {
        let (node, name) = (drawn(&mut rng, count), room_name(index));
        let at = world.start + Duration::from_secs(1);
        world.schedule(at, Happening::Participant(node, name));
    }
    for index in 0..3 {
        let (node, name) = (drawn(&mut rng, count), stream_name(index));
        world.schedule(
            world.start + Duration::from_secs(1),
            Happening::Viewer(node, name, Asking::new(node, Access::Here)),
        );
    }
    world.run_until(CHAOS);
    world.heal();
    // Processes that are stopped now go on a little later.
    world.run_until(CHAOS + STOPPED);
    world.heal();
    world.run_until(CHAOS + STOPPED + REST);
    let mut broken = world.history.contradictions(excuses);
    broken.extend(world.unrest());
    Outcome {
        broken,
        decisions: world.history.counts(),
        superseded: world.history.superseded_count(),
    }
}

fn draw(rng: &mut Rng, excuses: Excuses) -> Action {
    let calm = [
        Action::Publish,
        Action::Publish,
        Action::Publish,
        Action::Leave,
        Action::Move,
        Action::Move,
        Action::View,
        Action::View,
        Action::Crowd,
        Action::Enter,
        Action::LeaveRoom,
        Action::Drain,
    ];
    let rough = [
        Action::Kill,
        Action::KillLater,
        Action::KillLater,
        Action::Stop,
        Action::CutEngine,
        Action::CutEngineOfAll,
        Action::CutLink,
        Action::CutLink,
        Action::Leaderless,
        Action::Lossy,
    ];
    let store = [
        Action::RollBack,
        Action::Delete,
        Action::Split,
        Action::ComeBackEmpty,
    ];
    let pick = |rng: &mut Rng, of: &[Action]| of[drawn(rng, of.len())];
    let share = rng.unit();
    let (calmly, roughly) = (pick(rng, &calm), pick(rng, &rough));
    let lossy = pick(rng, &store);
    match share {
        share if share < 0.08 && excuses.store_lost => lossy,
        share if share < 0.12 && excuses.clocks_leapt => Action::Leap,
        share if share < 0.45 && excuses.was_disturbed => roughly,
        _ => calmly,
    }
}

fn drawn(rng: &mut Rng, count: usize) -> usize {
    usize::try_from(rng.below(count as u64)).unwrap_or(0)
}

/// Name of a published stream.
pub fn stream_name(index: usize) -> StreamName {
    StreamName::new(&format!("stream.{index}")).expect("a name")
}

/// Name of a configured source.
pub fn source_name(index: usize) -> StreamName {
    StreamName::new(&format!("camera~{index}")).expect("a name")
}

/// Name of a room.
pub fn room_name(index: usize) -> StreamName {
    StreamName::new(&format!("room~{index}")).expect("a name")
}

impl World {
    pub(super) fn act(&mut self, action: Action) {
        let count = self.processes.len();
        let index = drawn(&mut self.rng, count);
        let other = drawn(&mut self.rng, count);
        let name = stream_name(drawn(&mut self.rng, 3));
        let time = Duration::from_millis(200 + self.rng.below(12_000));
        let now = self.clock.now();
        match action {
            Action::Publish => {
                let policy = match self.rng.chance(0.2) {
                    true => Policy::Replace,
                    false => Policy::Refuse,
                };
                self.publish(index, &name, policy);
            }
            Action::Leave | Action::Move => {
                let ids: Vec<PublisherId> = self.publishers.keys().copied().collect();
                if let Some(id) = ids.get(drawn(&mut self.rng, ids.len())) {
                    let name = self.publishers[id].name.clone();
                    self.unpublish(*id);
                    if matches!(action, Action::Move) {
                        self.publish(index, &name, Policy::Refuse);
                    }
                }
            }
            Action::View => self.view(index, &name, Access::Http),
            Action::Crowd => {
                for _ in 0..8 {
                    let node = drawn(&mut self.rng, count);
                    self.view(node, &name, Access::Http);
                }
            }
            Action::Enter => self.enter_room(index, &room_name(other % 2)),
            Action::LeaveRoom => self.leave_room(index, &room_name(other % 2)),
            Action::Kill => {
                self.crash(index);
                self.schedule(now + time / 3, Happening::Start(index));
            }
            Action::KillLater => {
                let steps = 1 + self.rng.below(40);
                self.crash_after(index, steps);
                self.publish(index, &name, Policy::Refuse);
            }
            Action::Stop => self.pause(index, time),
            Action::CutEngine => self.cut_from_engine(index, time),
            Action::CutEngineOfAll => {
                (0..count).for_each(|index| self.cut_from_engine(index, time));
            }
            Action::CutLink if index != other => {
                let is_cut = self.cuts.contains(&(index.min(other), index.max(other)));
                self.set_cut(index, other, !is_cut);
            }
            Action::CutLink => {}
            Action::Leaderless => self.memory.faults().leaderless_until = Some(now + time),
            Action::Lossy => {
                let faults = self.memory.faults();
                let is_on = faults.loss > 0.0;
                (faults.loss, faults.doubled) = if is_on { (0.0, 0.0) } else { (0.05, 0.05) };
            }
            Action::RollBack => self.memory.roll_back(now - time),
            Action::Delete => self.memory.delete_everything(),
            Action::ComeBackEmpty => {
                for index in 0..count {
                    let wait = Duration::from_millis(self.rng.below(8_000));
                    self.cut_from_engine(index, time / 4 + wait);
                }
                self.memory.delete_everything();
            }
            Action::Split => self.memory.lose_values(0.5),
            Action::Leap => {
                let hour = 3_600_000;
                let leap = i64::try_from(self.rng.below(2 * hour)).unwrap_or(0);
                self.set_clock(index, leap - 3_600_000);
            }
            Action::Drain => {
                let moment = self.moment(index);
                let is_up = self.is_up(index);
                if let Some(node) = self.processes[index].node.as_mut().filter(|_| is_up) {
                    match node.is_draining() {
                        true => node.undrain(moment),
                        false => node.drain(moment, now + time),
                    }
                    self.settle(index);
                }
            }
        }
    }

    /// Ends all faults.
    fn heal(&mut self) {
        let faults = self.memory.faults();
        (faults.loss, faults.doubled, faults.leaderless_until) = (0.0, 0.0, None);
        self.cuts.clear();
        for index in 0..self.processes.len() {
            self.processes[index].crash_in = None;
            self.set_clock(index, 0);
            self.start(index);
            let id = self.processes[index].id.clone();
            if !self.memory.is_connected(&id) {
                self.happen(Happening::Reconnect(index));
            }
            let moment = self.moment(index);
            if self.is_up(index)
                && let Some(node) = &mut self.processes[index].node
            {
                node.undrain(moment);
                self.settle(index);
            }
        }
    }

    /// The faults that stay once all disturbances have ended.
    fn unrest(&self) -> Vec<String> {
        let mut found = Vec::new();
        for index in 0..3 {
            found.extend(self.unrest_of(&stream_name(index)));
        }
        for index in 0..2 {
            let name = source_name(index);
            let dialled = self.dialled(&name);
            if dialled.len() != 1 {
                let nodes = self.processes.iter().filter_map(|it| it.node.as_ref());
                let states: Vec<String> = nodes.map(|it| it.explain(&name)).collect();
                found.push(format!(
                    "{name}: dialled by nodes {dialled:?} at rest: {states:#?}"
                ));
            }
            found.extend(self.unrest_of(&name));
        }
        found.extend((0..2).filter_map(|index| self.unrest_of_room(&room_name(index))));
        let nodes = self.processes.iter().filter_map(|it| it.node.as_ref());
        let miscounted =
            nodes.filter(|it| !it.counts_children_right() || !it.counts_places_right());
        found.extend(miscounted.map(|it| format!("node {}: miscounted", it.id())));
        found
    }

    fn explain_owner(
        &self,
        name: &StreamName,
        fence: Option<glassline_cluster::record::Fence>,
    ) -> Option<String> {
        let inc = fence?.inc;
        let mut processes = self.processes.iter();
        let owner = processes.find(|it| it.config.record.inc == inc)?;
        let hub = owner.hubs.get(name);
        Some(format!("{hub:?}, {}", owner.node.as_ref()?.explain(name)))
    }

    fn unrest_of(&self, name: &StreamName) -> Vec<String> {
        let mut found = Vec::new();
        let entry = self.memory.value(&Key::Stream(name.clone()));
        let record = entry.and_then(|it| StreamRecord::parse(&it.value).ok());
        let fence = record.map(|it| it.fence());
        let lives = |inc: u64| {
            let mut processes = self.processes.iter();
            processes.any(|it| it.node.is_some() && it.config.record.inc == inc)
        };
        for (index, process) in self.processes.iter().enumerate() {
            let Some(node) = &process.node else {
                continue;
            };
            let shown = process.hubs.get(name).and_then(|it| it.source.as_ref());
            let is_stale = match shown {
                Some(Source::Own(own)) => {
                    fence != Some(*own) || node.owned_epoch(name) != Some(own.epoch)
                }
                Some(Source::Pull { fence: pulled, .. }) => fence != Some(*pulled),
                None => node.viewers(name) > 0 && fence.is_some_and(|it| lives(it.inc)),
            };
            if is_stale {
                found.push(format!(
                    "{name} at node {index}: shows {shown:?}, the record has {fence:?}; {}; owner: {:?}",
                    node.explain(name),
                    self.explain_owner(name, fence),
                ));
            }
        }
        found
    }
}
