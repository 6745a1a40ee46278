//! Many nodes with many viewers: how many messages and pulls does each node have?

use std::time::Duration;

use glassline_sim::Rng;

use super::media::Source;
use super::{Counts, World};
use glassline_cluster::name::StreamName;
use glassline_cluster::{Access, Policy};

/// Clusters beyond one of these ask for what they need instead of hearing everything.
const HEARS_EVERYTHING: (usize, usize) = (100, 10_000);

/// A cluster and its viewers.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Number of nodes in the simulated cluster.
    pub nodes: usize,
    /// Nodes in each region.
    pub per_region: usize,
    /// Number of streams, published at random nodes.
    pub streams: usize,
    /// Number of viewers at the same time. Stream number r has viewers in proportion to 1/r,
    /// and each viewer comes to a random node first.
    pub viewers: usize,
    /// Mean time that a viewer stays.
    pub stay: Duration,
    /// Mean time that a publisher stays before another takes its place at another node.
    pub publisher_stay: Duration,
    /// Time in which the viewers come.
    pub ramp: Duration,
    /// Time that is measured afterwards.
    pub measure: Duration,
    /// Whether viewers are sent to other regions.
    pub redirects_far: bool,
    /// Seed of all chance.
    pub seed: u64,
}

/// Figures of one plan.
#[derive(Clone, Debug)]
pub struct Figures {
    /// The plan that was simulated.
    pub plan: Plan,
    /// Messages to and from the engine in a second, by node, ascending.
    pub messages: Vec<f64>,
    /// Beats of these, by node, ascending.
    pub beats: Vec<f64>,
    /// Pulls from a node when the measurement ended, by node, ascending.
    pub pulls_from: Vec<u32>,
    /// Streams that a node pulls when the measurement ended, by node, ascending.
    pub pulls_to: Vec<u32>,
    /// Viewers of a node when the measurement ended, ascending.
    pub viewers: Vec<u32>,
    /// Longest path of a pulled stream, in nodes.
    pub path_max: usize,
    /// Viewers served where they came to, and viewers redirected.
    pub decisions: (u64, u64),
    /// Viewers who got neither.
    pub turned_away: u64,
    /// Rules that were broken on the way.
    pub broken: Vec<String>,
}

impl Plan {
    /// Returns a plan with 100 streams and 1,000 viewers for each node, in regions of 16 nodes.
    pub const fn of_nodes(nodes: usize) -> Self {
        Self {
            nodes,
            per_region: 16,
            streams: nodes * 100,
            viewers: nodes * 1_000,
            stay: Duration::from_secs(600),
            publisher_stay: Duration::from_secs(1_800),
            ramp: Duration::from_secs(60),
            measure: Duration::from_secs(30),
            redirects_far: true,
            seed: 1,
        }
    }
}

/// Runs a plan. `progress` hears the share that is done, and returns false to end the run.
pub fn run(plan: Plan, mut progress: impl FnMut(f64) -> bool) -> Option<Figures> {
    let mut world = World::new(plan.seed, plan.nodes, plan.per_region);
    let hears_everything = plan.nodes <= HEARS_EVERYTHING.0 && plan.streams <= HEARS_EVERYTHING.1;
    world.configure(|config| {
        config.hears_everything = hears_everything;
        config.redirects_far = plan.redirects_far;
    });
    world.decisions.stay = Some(plan.stay);
    world.has_frames = false;
    world.start_all();
    world.run_until(Duration::from_secs(2));
    let mut crowd = Crowd::new(plan);
    for index in 0..plan.streams {
        crowd.publish(&mut world, index);
    }
    let begin = Duration::from_secs(10);
    world.run_until(begin);
    let (ramp, end) = (begin + plan.ramp, begin + plan.ramp + plan.measure);
    let mut counts: Option<Vec<Counts>> = None;
    let mut at = begin;
    while at < end {
        if at >= ramp && counts.is_none() {
            counts = Some(world.processes.iter().map(|it| it.counts).collect());
        }
        let arrive = plan.viewers as f64 / plan.ramp.as_secs_f64();
        let replace = plan.viewers as f64 / plan.stay.as_secs_f64();
        let rate = if at < ramp { arrive } else { replace };
        crowd.step(&mut world, rate);
        at += STEP;
        world.run_until(at);
        if !progress(at.as_secs_f64() / end.as_secs_f64()) {
            return None;
        }
    }
    Some(figures(&world, plan, &counts.unwrap_or_default()))
}

/// Time between two groups of arrivals.
const STEP: Duration = Duration::from_millis(20);

/// Viewers and publishers that come and go.
struct Crowd {
    plan: Plan,
    rng: Rng,
    /// Sum of the shares of the streams up to each.
    shares: Vec<f64>,
    owed_viewers: f64,
    owed_publishers: f64,
    publishers: Vec<Option<glassline_cluster::PublisherId>>,
}

impl Crowd {
    fn new(plan: Plan) -> Self {
        let mut sum = 0.0;
        let shares = (1..=plan.streams).map(|rank| {
            sum += 1.0 / rank as f64;
            sum
        });
        Self {
            shares: shares.collect(),
            rng: Rng::new(plan.seed ^ 0xc0de),
            owed_viewers: 0.0,
            owed_publishers: 0.0,
            publishers: vec![None; plan.streams],
            plan,
        }
    }

    fn node(&mut self) -> usize {
        usize::try_from(self.rng.below(self.plan.nodes as u64)).unwrap_or(0)
    }

    fn publish(&mut self, world: &mut World, index: usize) {
        let node = self.node();
        self.publishers[index] = world.publish(node, &name(index), Policy::Refuse);
    }

    fn step(&mut self, world: &mut World, viewers_per_second: f64) {
        self.owed_viewers += viewers_per_second * STEP.as_secs_f64();
        while self.owed_viewers >= 1.0 {
            self.owed_viewers -= 1.0;
            let all = self.shares.last().copied().unwrap_or(0.0);
            let drawn = self.rng.unit() * all;
            let index = self.shares.partition_point(|sum| *sum < drawn);
            let node = self.node();
            world.view(node, &name(index.min(self.plan.streams - 1)), Access::Http);
        }
        let leave = self.plan.streams as f64 / self.plan.publisher_stay.as_secs_f64();
        self.owed_publishers += leave * STEP.as_secs_f64();
        while self.owed_publishers >= 1.0 {
            self.owed_publishers -= 1.0;
            let index = usize::try_from(self.rng.below(self.plan.streams as u64)).unwrap_or(0);
            if let Some(id) = self.publishers[index].take() {
                world.unpublish(id);
            }
            self.publish(world, index);
        }
    }
}

fn name(index: usize) -> StreamName {
    StreamName::new(&format!("stream-{index}")).expect("a name")
}

fn figures(world: &World, plan: Plan, before: &[Counts]) -> Figures {
    let seconds = plan.measure.as_secs_f64();
    let pairs = || world.processes.iter().zip(before);
    let all = |it: &Counts| it.sent + it.received;
    let messages = pairs().map(|(it, was)| (all(&it.counts) - all(was)) as f64 / seconds);
    let beats = pairs().map(|(it, was)| (it.counts.beats - was.beats) as f64 / seconds);
    let children =
        |it: &super::Process| -> usize { it.hubs.values().map(|hub| hub.dependents.len()).sum() };
    let paths = world.processes.iter().flat_map(|it| it.hubs.values());
    let paths = paths.filter_map(|hub| match &hub.source {
        Some(Source::Pull { path, .. }) => Some(path.len() + 1),
        _ => None,
    });
    let pulled = |it: &super::Process| {
        let hubs = it.hubs.values().map(|hub| &hub.source);
        hubs.filter(|it| matches!(it, Some(Source::Pull { .. })))
            .count()
    };
    let mut figures = Figures {
        plan,
        messages: messages.collect(),
        beats: beats.collect(),
        pulls_from: world
            .processes
            .iter()
            .map(|it| count(children(it)))
            .collect(),
        pulls_to: world.processes.iter().map(|it| count(pulled(it))).collect(),
        viewers: world.processes.iter().map(|it| it.viewers).collect(),
        path_max: paths.max().unwrap_or(1),
        decisions: (world.decisions.here, world.decisions.redirected),
        turned_away: world.decisions.not_found + world.decisions.unavailable,
        broken: world.history.broken.clone(),
    };
    figures.messages.sort_by(f64::total_cmp);
    figures.beats.sort_by(f64::total_cmp);
    figures.pulls_from.sort_unstable();
    figures.pulls_to.sort_unstable();
    figures.viewers.sort_unstable();
    figures
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
