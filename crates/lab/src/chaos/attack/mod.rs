//! Attacks: each performs one action and says what it did.
//!
//! ```text
//! Action ─► perform ─► datagrams, connections: floods, half-open and held requests of 127.0.0.66 …
//!                      garbage: broken bytes in every state of a connection
//!                      sealed, recording, moq: authentic peers that send garbage
//!                      processes: signals to server, publishers, viewers
//!                      cluster: servers of a cluster, NATS, servers that do not belong to it
//!                      resources: disk, descriptors, log; files: users, certificate
//!                   ─► Outcome: counts, a planned interruption, what was wrong at once
//! ```
//!
//! Strangers have loopback addresses of their own, so that limits per address hold them and not
//! the good viewers. Nothing is ever sent to another machine.

mod chunks;
mod clients;
mod cluster;
mod connections;
mod datagrams;
mod faults;
mod files;
mod floods;
mod garbage;
mod moq;
mod pacer;
mod processes;
mod recording;
mod resources;
mod sealed;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rand::SeedableRng as _;
use rand::rngs::StdRng;
use serde::{Deserialize, Serialize};

use super::action::{Action, Kind};
use super::clock::unix_ms;
use super::deployment::Deployment;
use super::error::Error;
use super::group::Origin;

/// Address of strangers that flood.
pub(super) const STRANGER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 66));

/// Time of a step of waiting, after which progress is shown.
const STEP: Duration = Duration::from_millis(50);

/// The outcome of an action.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Datagrams, connections, logins or signals that were sent.
    pub sent: u64,
    /// Of those, how many were answered; 0 where no answer is waited for.
    pub answered: u64,
    /// Of those, how many the server or the kernel refused.
    pub refused: u64,
    /// Interruptions that the action makes by design, in their order.
    pub interruptions: Vec<Interruption>,
    /// Reason why the action was not made, which is no fault of the server.
    pub skipped: Option<String>,
    /// Facts for the report.
    pub notes: Vec<String>,
    /// Demands that the server missed.
    pub misses: Vec<String>,
    /// Demands on time that the server missed, or the machine.
    pub late: Vec<String>,
}

/// An interruption by design: whose viewers lose video, and since when it should come back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interruption {
    /// Begin, in ms since 1970.
    pub from_ms: u64,
    /// End of the cause, in ms since 1970: viewers should be back soon.
    pub until_ms: u64,
    /// Viewers that are concerned.
    pub concerns: Concerns,
}

/// Viewers that an interruption concerns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Concerns {
    /// All viewers, because the server is interrupted.
    Everybody,
    /// Groups whose stream comes from one publisher.
    Origin(Origin),
    /// One group, by its name.
    Group(String),
}

/// An action in progress.
pub(super) struct Attack<'a> {
    pub(super) deployment: &'a mut Deployment,
    pub(super) action: Action,
    pub(super) random: StdRng,
    pub(super) outcome: Outcome,
    stop: &'a AtomicBool,
    /// Called now and then, to show progress.
    tick: &'a mut dyn FnMut(&mut Deployment),
}

/// Performs `action`, and returns what it did.
///
/// # Errors
/// The harness itself failed, or the run was interrupted. Faults of the server are in the outcome.
pub(super) fn perform(
    deployment: &mut Deployment,
    action: Action,
    stop: &AtomicBool,
    tick: &mut dyn FnMut(&mut Deployment),
) -> Result<Outcome, Error> {
    let mut attack = Attack {
        deployment,
        action,
        random: StdRng::seed_from_u64(action.seed),
        outcome: Outcome::default(),
        stop,
        tick,
    };
    attack.perform()?;
    Ok(attack.outcome)
}

impl Attack<'_> {
    fn perform(&mut self) -> Result<(), Error> {
        match self.action.kind {
            Kind::FloodStun | Kind::FloodDtls | Kind::FloodQuic => self.flood_datagrams(),
            Kind::FloodRtsp | Kind::FloodHttp => self.flood_connections(),
            Kind::HalfOpen => self.open_halves(),
            Kind::HoldConnections => self.hold_connections(),
            Kind::GarbageStrangers => self.flood_noise(),
            Kind::GarbageRtsp | Kind::GarbageHttp => self.send_broken_requests(),
            Kind::KillPublisher => self.kill_publisher(),
            Kind::StopPublisher => self.stop_publisher(),
            Kind::StopViewers => self.stop_viewers(),
            Kind::StopServer => self.stop_server(),
            Kind::KillServer => self.kill_server(),
            Kind::StallLog => self.stall_log(),
            Kind::FillDisk => self.fill_disk(),
            Kind::FillDescriptors => self.fill_descriptors(),
            Kind::Reload => self.reload_broken_files(),
            Kind::Logins => self.try_passwords(),
            Kind::GarbageViewers => self.misbehave(),
            Kind::Churn => self.churn(),
            Kind::Soak => self.soak(),
            Kind::GarbageSealed => self.send_sealed_garbage(),
            Kind::GarbageRecording => self.record_garbage(),
            Kind::GarbageMoq => self.send_hostile_sessions(),
            Kind::Panic => self.panic_in_a_shard(),
            Kind::StepClock => self.step_clock(),
            Kind::ClusterKillOwner
            | Kind::ClusterKillRelay
            | Kind::ClusterStopOwner
            | Kind::ClusterEmptyStore
            | Kind::ClusterWrongSecret
            | Kind::ClusterTakenName
            | Kind::ClusterReload
            | Kind::ClusterStepClock
            | Kind::ClusterRestart => self.disturb_the_cluster(),
        }
    }

    /// Waits, and shows progress meanwhile.
    fn wait(&mut self, time: Duration) -> Result<(), Error> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.step(STEP)?;
        }
        Ok(())
    }

    /// Sleeps for at most `time`, which is short, and shows progress.
    fn step(&mut self, time: Duration) -> Result<(), Error> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        std::thread::sleep(time);
        (self.tick)(self.deployment);
        Ok(())
    }

    /// Calls `work` every millisecond for the time of the action.
    fn repeat(
        &mut self,
        mut work: impl FnMut(&mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let end = Instant::now() + self.action.time;
        while Instant::now() < end {
            work(self)?;
            self.step(Duration::from_millis(1))?;
        }
        Ok(())
    }

    /// Notes an interruption by design that began at `from_ms` and whose cause ends now.
    fn interrupted(&mut self, from_ms: u64, concerns: Concerns) {
        self.outcome.interruptions.push(Interruption {
            from_ms,
            until_ms: unix_ms(),
            concerns,
        });
    }

    fn note(&mut self, text: String) {
        self.outcome.notes.push(text);
    }

    fn miss(&mut self, text: String) {
        self.outcome.misses.push(text);
    }

    fn late(&mut self, text: String) {
        self.outcome.late.push(text);
    }
}
