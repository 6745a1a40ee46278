//! Order, strength and length of the actions: the seed alone decides.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{Rng as _, SeedableRng as _};

use super::action::{Action, Kind};
use super::plan::{Plan, Strength};

/// Actions of a run, in order.
#[derive(Debug)]
pub(super) struct Schedule {
    random: StdRng,
    plan: Plan,
    deck: Vec<Kind>,
    is_finite: bool,
}

/// Kinds that every run has unless `--only` names others.
const USUAL: [Kind; 22] = [
    Kind::FloodStun,
    Kind::FloodDtls,
    Kind::FloodRtsp,
    Kind::FloodHttp,
    Kind::FloodQuic,
    Kind::HalfOpen,
    Kind::HoldConnections,
    Kind::GarbageStrangers,
    Kind::GarbageViewers,
    Kind::GarbageSealed,
    Kind::GarbageRecording,
    Kind::GarbageMoq,
    Kind::GarbageRtsp,
    Kind::GarbageHttp,
    Kind::KillPublisher,
    Kind::StopPublisher,
    Kind::StopViewers,
    Kind::StopServer,
    Kind::KillServer,
    Kind::StallLog,
    Kind::Reload,
    Kind::Logins,
];

/// Kinds that only a long run has: they restart the server, disturb it for long, or need a server
/// with debug assertions, or NATS, and are skipped without them.
const LONG: [Kind; 14] = [
    Kind::FillDisk,
    Kind::FillDescriptors,
    Kind::Churn,
    Kind::StepClock,
    Kind::Panic,
    Kind::ClusterKillOwner,
    Kind::ClusterKillRelay,
    Kind::ClusterStopOwner,
    Kind::ClusterEmptyStore,
    Kind::ClusterWrongSecret,
    Kind::ClusterTakenName,
    Kind::ClusterReload,
    Kind::ClusterStepClock,
    Kind::ClusterRestart,
];

/// Kinds that the smoke leaves out, to end within a minute.
const NOT_IN_THE_SMOKE: [Kind; 2] = [Kind::StopPublisher, Kind::StopViewers];

impl Schedule {
    pub(super) fn new(plan: &Plan) -> Self {
        let mut schedule = Self {
            random: StdRng::seed_from_u64(plan.seed),
            plan: plan.clone(),
            deck: Vec::new(),
            is_finite: plan.strength != Strength::Mixed,
        };
        schedule.shuffle();
        schedule
    }

    fn shuffle(&mut self) {
        let mut deck: Vec<Kind> = match (self.plan.only.as_slice(), self.plan.strength) {
            ([], Strength::Smoke) => {
                let mut kinds = USUAL.to_vec();
                kinds.retain(|kind| !NOT_IN_THE_SMOKE.contains(kind));
                kinds
            }
            ([], _) => [&USUAL[..], &LONG[..]].concat(),
            (only, _) => only.to_vec(),
        };
        if self.plan.strength != Strength::Target {
            deck.shuffle(&mut self.random);
        }
        // Taken from the end.
        deck.reverse();
        self.deck = deck;
    }

    /// Number of actions that are left, if the schedule has an end.
    pub(super) fn left(&self) -> Option<usize> {
        self.is_finite.then_some(self.deck.len())
    }

    /// The next action; `None` at the end of a finite schedule.
    pub(super) fn next(&mut self) -> Option<Action> {
        if self.deck.is_empty() && !self.is_finite {
            self.shuffle();
        }
        let kind = self.deck.pop()?;
        let Strengths { rate, count, time } = match self.plan.strength {
            Strength::Smoke => smoke(kind),
            Strength::Mixed => mixed(kind, &mut self.random),
            Strength::Target => target(kind),
        };
        Some(Action {
            kind,
            rate: self.plan.rate.unwrap_or(rate),
            count: self.plan.count.unwrap_or(count),
            time: self.plan.action_time.unwrap_or(time),
            seed: self.random.random(),
        })
    }

    /// Quiet time after an action.
    pub(super) fn pause(&mut self) -> Duration {
        match self.plan.strength {
            Strength::Smoke => Duration::from_millis(600),
            Strength::Mixed => Duration::from_millis(self.random.random_range(1000..3000)),
            Strength::Target => Duration::from_secs(5),
        }
    }
}

/// Strength of one action.
struct Strengths {
    rate: u32,
    count: usize,
    time: Duration,
}

fn smoke(kind: Kind) -> Strengths {
    let (rate, count, ms) = match kind {
        Kind::FloodStun | Kind::FloodDtls => (5000, 0, 1500),
        Kind::FloodQuic => (500, 0, 1500),
        Kind::FloodHttp | Kind::FloodRtsp => (500, 0, 1500),
        Kind::GarbageStrangers => (2000, 0, 1500),
        Kind::HalfOpen => (0, 200, 1500),
        Kind::HoldConnections => (0, 1500, 1000),
        Kind::GarbageViewers => (0, 4, 3000),
        Kind::StopServer => (0, 0, 2000),
        Kind::KillPublisher => (0, 0, 1000),
        Kind::Logins => (50, 0, 1500),
        _ => (50, 4, 1500),
    };
    Strengths {
        rate,
        count,
        time: Duration::from_millis(ms),
    }
}

fn mixed(kind: Kind, random: &mut StdRng) -> Strengths {
    let rate = match kind {
        Kind::FloodStun | Kind::FloodDtls => random.random_range(1000..20_000),
        Kind::FloodQuic => random.random_range(200..2000),
        Kind::FloodHttp | Kind::FloodRtsp => random.random_range(200..3000),
        Kind::GarbageStrangers => random.random_range(500..10_000),
        Kind::Logins => random.random_range(50..1000),
        _ => random.random_range(20..200),
    };
    let (count, seconds) = match kind {
        Kind::HalfOpen => (random.random_range(200..1500), 25),
        Kind::HoldConnections => (random.random_range(500..6000), 5),
        Kind::GarbageViewers => (random.random_range(2..12), random.random_range(4..10)),
        Kind::StopServer | Kind::StopPublisher | Kind::StopViewers => (0, 5),
        Kind::KillPublisher | Kind::KillServer => (0, 2),
        Kind::Churn => (500, 10),
        _ => (random.random_range(2..16), random.random_range(3..10)),
    };
    Strengths {
        rate,
        count,
        time: Duration::from_secs(seconds),
    }
}

/// The table of targets: what each demand is about.
fn target(kind: Kind) -> Strengths {
    let (rate, count, seconds) = match kind {
        Kind::HalfOpen => (0, 1100, 30),
        Kind::HoldConnections => (0, 6000, 30),
        Kind::FloodStun | Kind::FloodDtls | Kind::FloodHttp | Kind::FloodRtsp => (50_000, 0, 30),
        Kind::FloodQuic => (5000, 0, 30),
        Kind::GarbageStrangers => (20_000, 0, 30),
        Kind::Logins => (1000, 0, 30),
        Kind::Churn => (0, 20_000, 0),
        Kind::Soak => (0, 0, 1800),
        Kind::StopServer | Kind::StopPublisher | Kind::StopViewers => (0, 0, 5),
        Kind::KillPublisher | Kind::KillServer => (0, 0, 2),
        Kind::GarbageViewers => (0, 12, 30),
        _ => (100, 8, 20),
    };
    Strengths {
        rate,
        count,
        time: Duration::from_secs(seconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(seed: u64, strength: Strength) -> Plan {
        Plan {
            program: "glassline".into(),
            folder: "/nowhere".into(),
            seed,
            time: Duration::from_secs(60),
            strength,
            only: Vec::new(),
            rate: None,
            count: None,
            action_time: None,
            viewers: 8,
            media_folder: None,
            descriptors: None,
        }
    }

    fn actions(plan: &Plan, count: usize) -> Vec<Action> {
        let mut schedule = Schedule::new(plan);
        std::iter::from_fn(|| schedule.next()).take(count).collect()
    }

    #[test]
    fn the_seed_alone_decides() {
        let of = |seed| actions(&plan(seed, Strength::Mixed), 60);
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
        assert_eq!(of(1).len(), 60, "a mixed schedule has no end");
    }

    #[test]
    fn the_smoke_ends_within_its_minute() {
        let smoke = actions(&plan(1, Strength::Smoke), 1000);
        assert_eq!(smoke.len(), USUAL.len() - NOT_IN_THE_SMOKE.len());
        let time: Duration = smoke.iter().map(|action| action.time).sum();
        assert!(time < Duration::from_secs(35), "{time:?}");
    }

    #[test]
    fn only_makes_what_it_names_once_and_flags_win() {
        let mut plan = plan(1, Strength::Target);
        plan.only = vec![Kind::KillServer, Kind::FloodStun];
        plan.rate = Some(7);
        let kinds: Vec<_> = actions(&plan, 9)
            .iter()
            .map(|it| (it.kind, it.rate))
            .collect();
        assert_eq!(kinds, [(Kind::KillServer, 7), (Kind::FloodStun, 7)]);
    }
}
