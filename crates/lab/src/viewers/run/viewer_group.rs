//! Viewers of a run: when they join, and which of them misbehave.

use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant};

use glassline_client::viewers::{
    Conduct, Endpoint, Id, Join, Mode, Options, Pool, Progress, State, Wait,
};
use glassline_media::Histogram;

use super::mark::{Mark, READING_INTERVAL};
use crate::statistics::quantile;
use crate::viewers::plan::Plan;
use crate::viewers::{RECEIVE_BUFFER_BYTES, SWEEP};

/// Most viewers that are joining at a time: servers bound half-open sessions of an address, and
/// all viewers have the same one.
const JOINING_MAX: usize = 50;

/// Most requests at a time.
const SIGNALLING_THREADS: usize = 16;

/// Time between two polls of joins.
pub(super) const LOOK: Duration = Duration::from_millis(10);

/// When no viewer has joined for this time, the step goes on without the rest.
const JOIN_PATIENCE: Duration = Duration::from_secs(15);

/// Number of failed joins after which, if most of the step's joins failed, the rest is not tried.
const FAILED_MIN: usize = 20;

/// All clients of a run.
#[derive(Debug)]
pub(super) struct ViewerGroup {
    pool: Pool,
    plan: Plan,
    viewers: usize,
    bad: usize,
    /// Reason of the first failure of a well-behaved viewer.
    first_failure: Option<String>,
}

impl ViewerGroup {
    pub(super) fn start(plan: &Plan) -> io::Result<Self> {
        let options = Options {
            wait: Wait::Sweep(SWEEP),
            token: plan.token.clone(),
            signalling_threads: SIGNALLING_THREADS,
            receive_buffer: RECEIVE_BUFFER_BYTES,
            gro: plan.gro,
            reports: plan.reports,
            trust: plan.trust,
            ..Options::default()
        };
        Ok(Self {
            pool: Pool::start(options)?,
            plan: plan.clone(),
            viewers: 0,
            bad: 0,
            first_failure: None,
        })
    }

    /// Begins to join viewers up to `viewers`; [`advance`](Self::advance) continues. With
    /// `scout`, the first viewer joins alone.
    pub(super) fn begin_joining(&mut self, viewers: usize, scout: bool) -> Joining {
        let asked = viewers.saturating_sub(self.viewers);
        Joining {
            scout,
            bad: self.plan.bad_clients(viewers).saturating_sub(self.bad),
            began: Instant::now(),
            last_joined: Instant::now(),
            waiting: BTreeSet::new(),
            joined: Joined {
                asked,
                ..Joined::default()
            },
            to_join: asked,
            scout_failure: None,
        }
    }

    /// Checks which viewers have joined, and starts the next joins. Returns true when all have
    /// joined or failed.
    pub(super) fn advance(&mut self, joining: &mut Joining) -> bool {
        let now = Instant::now();
        for viewer in self.pool.progress() {
            if viewer.conduct != Conduct::Good || !joining.waiting.contains(&viewer.id) {
                continue;
            }
            match viewer.state {
                State::Playing => {
                    joining.waiting.remove(&viewer.id);
                    joining.last_joined = now;
                    let time = viewer.join_time.unwrap_or_default();
                    joining.joined.times_ms.push(time.as_secs_f64() * 1e3);
                }
                State::Ended => {
                    joining.waiting.remove(&viewer.id);
                    joining.last_joined = now;
                    joining.joined.failed += 1;
                    let reason = viewer.failure.as_deref().unwrap_or("it ended");
                    self.first_failure.get_or_insert_with(|| reason.to_owned());
                }
                _ => {}
            }
        }
        joining.joined.took = now - joining.began;
        let has_joined = !joining.joined.times_ms.is_empty();
        if joining.scout && !has_joined && joining.joined.failed > 0 {
            joining.scout_failure = self.first_failure.clone();
            return true;
        }
        if now - joining.last_joined > JOIN_PATIENCE {
            let waiting = joining.waiting.len();
            let reason = format!("no media within {} s", JOIN_PATIENCE.as_secs());
            if joining.scout && !has_joined {
                joining.scout_failure = Some(reason.clone());
            }
            joining.joined.failed += waiting + joining.to_join;
            self.first_failure.get_or_insert(reason);
            return true;
        }
        let failed = joining.joined.failed;
        if failed >= FAILED_MIN && failed > joining.joined.times_ms.len() {
            joining.joined.asked -= joining.to_join;
            joining.to_join = 0;
        }
        let room = if joining.scout && !has_joined {
            1
        } else {
            JOINING_MAX
        };
        while joining.to_join > 0 && joining.waiting.len() < room {
            joining.to_join -= 1;
            let id = self.join_good();
            joining.waiting.insert(id);
        }
        if joining.waiting.is_empty() && joining.to_join == 0 {
            // Misbehaving clients are not waited for: a client that vanishes never reports
            // success.
            for _ in 0..std::mem::take(&mut joining.bad) {
                self.join_bad();
            }
            return true;
        }
        false
    }

    fn join_good(&mut self) -> Id {
        let is_verifying = self.viewers < self.plan.verify;
        self.viewers += 1;
        self.pool.join(Join {
            endpoint: self.plan.endpoint.clone(),
            mode: if is_verifying {
                Mode::Verify
            } else {
                Mode::Count
            },
            conduct: Conduct::Good,
        })
    }

    /// Starts a misbehaving client; the three kinds alternate.
    fn join_bad(&mut self) {
        const CONDUCTS: [Conduct; 3] = [Conduct::Stall, Conduct::Vanish, Conduct::Garbage];
        let conduct = CONDUCTS[self.bad % CONDUCTS.len()];
        self.bad += 1;
        self.join_as(conduct, self.plan.endpoint.clone());
    }

    fn join_as(&self, conduct: Conduct, endpoint: Endpoint) -> Id {
        self.pool.join(Join {
            endpoint,
            mode: Mode::Count,
            conduct,
        })
    }

    /// Starts the clients that hinder others.
    pub(super) fn join_trouble(&self) -> Vec<Id> {
        let (trouble, endpoint) = (&self.plan.trouble, &self.plan.endpoint);
        let alike = trouble.conducts().map(|it| (it, endpoint.clone()));
        let over_tcp = endpoint.over_tcp().into_iter();
        let over_tcp = over_tcp.map(|it| (Conduct::Stall, it));
        let over_tcp = over_tcp.flat_map(|it| std::iter::repeat_n(it, trouble.stalled_over_tcp));
        let clients = alike.chain(over_tcp);
        clients
            .map(|(it, endpoint)| self.join_as(it, endpoint))
            .collect()
    }

    /// Stops the clients that hinder others; returns how many of them had ended by themselves.
    pub(super) fn leave_trouble(&self, troubles: &[Id]) -> usize {
        let viewers = self.pool.progress();
        let lives = |id: &&Id| {
            let mut viewers = viewers.iter();
            viewers.any(|viewer| viewer.id == **id && viewer.state != State::Ended)
        };
        let living = troubles.iter().filter(lives).count();
        for id in troubles {
            self.pool.leave(*id);
        }
        troubles.len() - living
    }

    /// Takes several readings of the well-behaved viewers.
    pub(super) fn mark(&mut self, readings: usize) -> Mark {
        let mut mark = Mark::nobody(Instant::now());
        for reading in 0..readings {
            if reading > 0 {
                std::thread::sleep(READING_INTERVAL);
            }
            let viewers = self.pool.progress();
            for viewer in viewers.iter().filter(|viewer| is_good_and_failed(viewer)) {
                let reason = viewer.failure.as_deref().unwrap_or("it ended");
                self.first_failure.get_or_insert_with(|| reason.to_owned());
            }
            let good = viewers.into_iter().filter(|v| v.conduct == Conduct::Good);
            mark.look(Instant::now(), good);
        }
        mark
    }

    pub(super) fn first_failure(&self) -> Option<&str> {
        self.first_failure.as_deref()
    }

    /// Intervals between frames of well-behaved viewers since the last call.
    pub(super) fn take_gaps(&self) -> Histogram {
        self.pool.take_gaps()
    }

    /// One-way delays to well-behaved viewers since the last call.
    pub(super) fn take_delays(&self) -> Histogram {
        self.pool.take_delays()
    }
}

fn is_good_and_failed(viewer: &Progress) -> bool {
    viewer.conduct == Conduct::Good && viewer.state == State::Ended
}

/// Joins of a step that are in progress.
#[derive(Debug)]
pub(super) struct Joining {
    scout: bool,
    bad: usize,
    began: Instant,
    last_joined: Instant,
    waiting: BTreeSet<Id>,
    to_join: usize,
    joined: Joined,
    scout_failure: Option<String>,
}

/// Finished joins of a step.
#[derive(Clone, Debug, Default)]
pub(super) struct Joined {
    /// Number of viewers that tried to join.
    pub(super) asked: usize,
    /// Number of them that received no media.
    pub(super) failed: usize,
    /// Times from request to first media packet of the others, in ms.
    pub(super) times_ms: Vec<f64>,
    /// Time until the last viewer had joined or failed.
    pub(super) took: Duration,
}

impl Joining {
    /// Reason why the run's first viewer failed.
    pub(super) fn scout_failure(&self) -> Option<String> {
        self.scout_failure.clone()
    }

    /// 95th percentile of the join times so far, in ms.
    pub(super) fn p95_ms(&self) -> Option<f64> {
        quantile(&self.joined.times_ms, 0.95)
    }

    pub(super) fn finish(self) -> Joined {
        self.joined
    }
}
