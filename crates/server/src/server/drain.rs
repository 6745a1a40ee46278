//! The server leaves its cluster: viewers go to other servers a few at a time, and the process ends
//! when nobody is left.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_cluster_member::{Draining, Member};
use glassline_config::Config;
use glassline_runtime::{Part, spawn_kept};
use glassline_service::Sent;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::Server;
use super::departures::{departing, send_group};
use crate::app::App;

/// Time from the drain's begin until the first viewer is sent away: balancers and other servers learn
/// of the drain, and sources arrive at their new servers. At most a fifth of the drain.
const NOTICE: Duration = Duration::from_secs(2);

/// Time from one group of viewers to the next.
const STEP: Duration = Duration::from_millis(250);

/// How this server leaves its cluster, which agrees through NATS.
#[derive(Debug)]
pub(super) struct Leaving {
    member: Arc<Member>,
    /// Longest time that it takes; zero ends at once.
    within: Duration,
}

impl Leaving {
    pub(super) fn new(config: &Config, member: Option<&Arc<Member>>) -> Option<Self> {
        let cluster = config.cluster.as_ref()?;
        Some(Self {
            member: Arc::clone(member?),
            within: Duration::from_secs(cluster.drain_s.into()),
        })
    }
}

impl Server {
    /// Begins to leave the cluster before the process ends, for `cluster.drain_s`: sources go to other
    /// servers at once, then viewers, and publishers at the deadline. Returns the time that it takes at
    /// most; `None` if there is nothing to wait for: the server is in no cluster that agrees through
    /// NATS, `cluster.drain_s` is 0, or no other server is known to serve.
    pub fn drain(&self) -> Option<Duration> {
        let Leaving { member, within } = self.leaving.as_ref()?;
        if within.is_zero() {
            return None;
        }
        if !member.has_company() {
            tracing::info!("no other server of the cluster serves: this one stops without a drain");
            return None;
        }
        member.drain(*within);
        Some(*within)
    }

    /// Waits until the drain is over: its deadline has come, or nobody watches or publishes here any
    /// more. Returns false if an operator took the drain back.
    pub async fn drained(&self) -> bool {
        let Some(Leaving { member, .. }) = &self.leaving else {
            return true;
        };
        let draining = member.draining();
        loop {
            let Some(Draining { since, until }) = *draining.borrow() else {
                return false;
            };
            let now = Instant::now();
            let is_told = now >= since + notice(until - since);
            if now >= until || (is_told && self.is_left(member)) {
                return true;
            }
            tokio::time::sleep(STEP).await;
        }
    }

    /// Returns whether nobody watches or publishes here any more, other servers included.
    fn is_left(&self, member: &Member) -> bool {
        let streams = self.hub.streams();
        let viewers: usize = streams.iter().map(|stream| stream.viewers()).sum();
        let has_readers = self.protocols.iter().any(|it| it.has_idle_readers());
        viewers == 0 && member.publishers() == 0 && !has_readers
    }
}

fn notice(whole: Duration) -> Duration {
    NOTICE.min(whole / 5)
}

/// Sends viewers to other servers when this one leaves the cluster; does nothing in none.
pub(super) fn spawn(
    app: &App,
    leaving: Option<&Leaving>,
    stopped: &watch::Receiver<bool>,
) -> Option<JoinHandle<()>> {
    let (app, member, until) = (app.clone(), Arc::clone(&leaving?.member), stopped.clone());
    let supervisor = Arc::clone(&app.supervisor);
    let run = move || send_viewers_away(app.clone(), member.draining(), until.clone());
    let task = Part::Background.task("drain");
    Some(spawn_kept(&supervisor, task, stopped, run))
}

/// Sends viewers away whenever the server drains, so that all have gone when half of the drain is
/// over. A viewer who comes during the drain stays until its end.
async fn send_viewers_away(
    app: App,
    mut draining: watch::Receiver<Option<Draining>>,
    mut stopped: watch::Receiver<bool>,
) {
    loop {
        let began = *draining.borrow_and_update();
        let sending = async {
            if let Some(began) = began {
                send_away(&app, began).await;
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = sending => {}
            changed = draining.changed() => if changed.is_err() { return },
            // A dropped sender means that the server ends.
            _ = stopped.wait_for(|stopped| *stopped) => return,
        }
    }
}

async fn send_away(app: &App, Draining { since, until }: Draining) {
    let whole = until - since;
    tokio::time::sleep_until((since + notice(whole)).into()).await;
    let mut left = departing(app).await;
    tracing::info!(viewers = left.len(), "viewers are sent to other servers");
    let gone = since + whole / 2;
    while !left.is_empty() {
        let now = Instant::now();
        if now >= until {
            return;
        }
        let steps = gone.saturating_duration_since(now).as_millis() / STEP.as_millis();
        let group = left.len() / usize::try_from(steps).unwrap_or(usize::MAX).max(1);
        left = send_group(app, left, group.max(1), Sent::Draining)
            .await
            .left;
        tokio::time::sleep(STEP).await;
    }
}
