//! Viewers that misbehave once they play, and crowds that join and vanish.

use std::time::{Duration, Instant};

use glassline_client::trust::Trust;
use glassline_client::viewers::{Conduct, Endpoint, Join, Mode, Options, Pool, State, Wait};

use super::Attack;
use crate::chaos::error::Error;
use crate::chaos::group::Origin;

/// Conducts of bad viewers, in turn.
const CONDUCTS: [Conduct; 3] = [Conduct::Garbage, Conduct::Stall, Conduct::Vanish];

/// Joins that are in progress at a time in a churn: below the limit of half-open viewers of an
/// address.
const JOINING_MAX: usize = 32;

/// Time between two publishers' restarts in the soak.
const RESTART_EVERY: Duration = Duration::from_secs(20);

/// Time after which the streams' rings, which hold 20 s, no longer grow.
const RINGS_FULL: Duration = Duration::from_secs(25);

/// Time in which memory may come back after a churn: vanished viewers are forgotten after about
/// 20 s of silence.
const FORGET: Duration = Duration::from_secs(40);

/// Most memory that a churn may leave, as a share of what there was.
const CHURN_GROWTH_MAX: f64 = 0.05;

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

    fn pool(&self) -> Result<Pool, Error> {
        let token = self.deployment.configuration.read_token.clone();
        let options = Options {
            wait: Wait::Sweep(Duration::from_millis(20)),
            token: Some(token),
            trust: Trust::Anybody,
            ..Options::default()
        };
        Ok(Pool::start(options)?)
    }

    /// Joins `count` viewers, a few at a time; each leaves or vanishes when it plays.
    pub(super) fn churn(&mut self) -> Result<(), Error> {
        self.wait(RINGS_FULL)?;
        let before = self.server_memory();
        let url = self.deployment.configuration.whep("demo");
        let endpoint = Endpoint::parse(&url).map_err(std::io::Error::other)?;
        let pool = self.pool()?;
        let mut joining = std::collections::BTreeMap::new();
        let mut begun = 0;
        while begun < self.action.count || !joining.is_empty() {
            while begun < self.action.count && joining.len() < JOINING_MAX {
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
        self.outcome.sent = begun as u64;
        drop(pool);
        self.judge_churn(before)
    }

    fn judge_churn(&mut self, before: Option<u64>) -> Result<(), Error> {
        let limit = |before: u64| (before as f64 * (1.0 + CHURN_GROWTH_MAX)) as u64;
        let end = Instant::now() + FORGET;
        let is_back = |attack: &Self| {
            let now = attack.server_memory().zip(before);
            now.is_none_or(|(now, before)| now <= limit(before))
        };
        while Instant::now() < end && !is_back(self) {
            self.wait(Duration::from_millis(500))?;
        }
        if let Some((now, before)) = self.server_memory().zip(before) {
            let mib = |bytes: u64| bytes as f64 / 1048576.0;
            let text = format!(
                "memory: {:.1} MiB before, {:.1} after",
                mib(before),
                mib(now)
            );
            if now > limit(before) {
                self.miss(text.clone());
            }
            self.note(text);
        }
        Ok(())
    }

    fn server_memory(&self) -> Option<u64> {
        let id = self.deployment.server().ok()?.id();
        let mut process = crate::meter::Process::of(id).ok()?;
        Some(process.look().ok()?.resident_bytes)
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
            self.wait(RESTART_EVERY.min(left))?;
            if let Some(origin) = turns.next() {
                self.deployment.start_publisher(*origin)?;
                self.outcome.sent += 1;
            }
            self.deployment.restart_ended_publishers()?;
        }
        self.note(format!("{} bad viewers were replaced", pool.replaced()));
        Ok(())
    }
}
