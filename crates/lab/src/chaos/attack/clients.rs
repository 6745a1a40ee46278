//! Viewers that misbehave once they play, and crowds that join and vanish.

use std::time::{Duration, Instant};

use glassline_client::trust::Trust;
use glassline_client::viewers::{Conduct, Endpoint, Join, Mode, Options, Pool, State, Wait};

use super::{Attack, Concerns, STEP};
use crate::chaos::clock::unix_ms;
use crate::chaos::error::Error;
use crate::chaos::group::Origin;

/// Conducts of bad viewers, in turn.
const CONDUCTS: [Conduct; 3] = [Conduct::Garbage, Conduct::Stall, Conduct::Vanish];

/// Joins that are in progress at a time in a churn: below the limit of half-open viewers of an
/// address.
const JOINING_MAX: usize = 32;

/// Time between two publishers' restarts in the soak.
const RESTART_EVERY: Duration = Duration::from_secs(20);

/// Viewers of a first crowd, after which every thread and table of the server has the memory that
/// it keeps for the next viewers.
const FIRST_CROWD: usize = 200;

/// Time in which vanished viewers are forgotten, and the streams' rings no longer grow.
const SETTLE: Duration = Duration::from_secs(30);

/// Time in which memory may come back after a churn: vanished viewers are forgotten after about
/// 20 s of silence.
const FORGET: Duration = Duration::from_secs(40);

/// Time over which memory is averaged: streams need more and less of it from keyframe to keyframe.
const AVERAGED: Duration = Duration::from_secs(10);

/// Time between two looks at the server's memory.
const LOOK: Duration = Duration::from_millis(500);

/// Most resident memory that a churn may leave, as a share of what there was.
const CHURN_GROWTH_MAX: f64 = 0.05;

/// Memory of the server, in MiB.
#[derive(Clone, Copy, Debug, Default)]
struct Memory {
    /// Memory that no file backs.
    private: f64,
    resident: f64,
}

impl Attack<'_> {
    /// Viewers that stall, vanish or send garbage; those that end are replaced.
    pub(super) fn misbehave(&mut self) -> Result<(), Error> {
        let pool = self.pool()?;
        self.join_bad(&pool, self.action.count)?;
        self.wait(self.action.time)?;
        self.outcome.sent = self.action.count as u64 + pool.replaced();
        Ok(())
    }

    fn join_bad(&mut self, pool: &Pool, count: usize) -> Result<(), Error> {
        let configuration = &self.deployment.configuration;
        let urls = [configuration.whep("demo"), configuration.rtsp_url("demo")];
        for index in 0..count {
            let endpoint = Endpoint::parse(&urls[index % urls.len()]);
            let endpoint = endpoint.map_err(std::io::Error::other)?;
            pool.join(Join {
                endpoint,
                mode: Mode::Count,
                conduct: CONDUCTS[index / urls.len() % CONDUCTS.len()],
            });
        }
        Ok(())
    }

    pub(super) fn pool(&self) -> Result<Pool, Error> {
        let token = self.deployment.configuration.read_token.clone();
        let options = Options {
            wait: Wait::Sweep(Duration::from_millis(20)),
            token: Some(token),
            trust: Trust::Anyone,
            ..Options::default()
        };
        Ok(Pool::start(options)?)
    }

    /// Joins `count` viewers, a few at a time; each leaves when it plays. Compares the server's
    /// memory before and after, when all are forgotten.
    pub(super) fn churn(&mut self) -> Result<(), Error> {
        let count = self.action.count;
        self.crowd(FIRST_CROWD.min(count))?;
        self.outcome = super::Outcome::default();
        self.wait(SETTLE)?;
        let before = self.mean_memory()?;
        self.crowd(count)?;
        self.outcome.sent = count as u64;
        self.judge_churn(before)
    }

    fn crowd(&mut self, count: usize) -> Result<(), Error> {
        let url = self.deployment.configuration.whep("demo");
        let endpoint = Endpoint::parse(&url).map_err(std::io::Error::other)?;
        let pool = self.pool()?;
        let mut joining = std::collections::BTreeMap::new();
        let mut begun = 0;
        while begun < count || !joining.is_empty() {
            while begun < count && joining.len() < JOINING_MAX {
                let id = pool.join(Join::new(endpoint.clone()).counting());
                joining.insert(id, Instant::now());
                begun += 1;
            }
            for viewer in pool.progress() {
                let is_done = matches!(viewer.state, State::Playing | State::Ended);
                if is_done && joining.remove(&viewer.id).is_some() {
                    self.outcome.answered += u64::from(viewer.state == State::Playing);
                    self.outcome.refused += u64::from(viewer.state == State::Ended);
                    pool.leave(viewer.id);
                }
            }
            self.step(Duration::from_millis(2))?;
        }
        Ok(())
    }

    fn judge_churn(&mut self, before: Option<Memory>) -> Result<(), Error> {
        let is_back = |now: Memory, before: Memory| {
            now.resident <= before.resident * (1.0 + CHURN_GROWTH_MAX)
        };
        let end = Instant::now() + FORGET;
        let mut compared = None;
        while compared.is_none_or(|(now, before)| !is_back(now, before)) && Instant::now() < end {
            compared = self.mean_memory()?.zip(before);
            if compared.is_none() {
                return Ok(());
            }
        }
        if let Some((now, before)) = compared {
            let text = format!(
                "resident memory: {:.1} MiB before, {:.1} after ({:+.1} %); without files {:.1} and {:.1}",
                before.resident,
                now.resident,
                (now.resident / before.resident - 1.0) * 100.0,
                before.private,
                now.private
            );
            if is_back(now, before) {
                self.note(text);
            } else {
                self.miss(text);
            }
        }
        Ok(())
    }

    /// Watches for [`AVERAGED`], and returns the mean of the server's memory; `None` if the server
    /// does not run.
    fn mean_memory(&mut self) -> Result<Option<Memory>, Error> {
        let end = Instant::now() + AVERAGED;
        let (mut sum, mut looks) = (Memory::default(), 0.0);
        while Instant::now() < end {
            let Some(memory) = self.server_memory() else {
                return Ok(None);
            };
            sum.private += memory.private;
            sum.resident += memory.resident;
            looks += 1.0;
            self.wait(LOOK)?;
        }
        Ok(Some(Memory {
            private: sum.private / looks,
            resident: sum.resident / looks,
        }))
    }

    fn server_memory(&self) -> Option<Memory> {
        let id = self.deployment.server().ok()?.id();
        let mut process = crate::meter::Process::of(id).ok()?;
        let usage = process.look().ok()?;
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        Some(Memory {
            private: mib(usage.private_bytes),
            resident: mib(usage.resident_bytes),
        })
    }

    /// A fifth of all clients are bad, and publishers are killed in turn.
    pub(super) fn soak(&mut self) -> Result<(), Error> {
        let pool = self.pool()?;
        self.join_bad(&pool, self.deployment.plan.viewers / 4)?;
        let end = Instant::now() + self.action.time;
        let origins: Vec<Origin> = self
            .deployment
            .publishers
            .iter()
            .map(|it| it.origin)
            .collect();
        let mut turns = origins.iter().cycle();
        while Instant::now() < end {
            let left = end.saturating_duration_since(Instant::now());
            self.supervise_publishers(RESTART_EVERY.min(left))?;
            // The last one would not be seen to come back.
            if Instant::now() + RESTART_EVERY > end {
                continue;
            }
            if let Some(origin) = turns.next() {
                let from = unix_ms();
                self.deployment.start_publisher(*origin)?;
                self.interrupted(from, Concerns::Origin(*origin));
                self.outcome.sent += 1;
            }
        }
        self.note(format!("{} bad viewers were replaced", pool.replaced()));
        Ok(())
    }

    /// Waits for `time`, and starts publishers again that end meanwhile: the server refuses a name
    /// until it has noticed that the publisher before was killed.
    fn supervise_publishers(&mut self, time: Duration) -> Result<(), Error> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.step(STEP)?;
            self.deployment.restart_ended_publishers()?;
        }
        Ok(())
    }
}
