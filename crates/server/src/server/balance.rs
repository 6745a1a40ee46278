//! Viewers go to another server of the cluster, which has come, while this one has clearly more than
//! its share of them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use glassline_cluster_member::{Crowding, Member};
use glassline_config::{Config, Rebalance};
use glassline_runtime::{Part, spawn_kept};
use glassline_service::{Departing, Sent};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::departures::{departing, may_move, send_group};
use crate::app::App;

/// Fewest viewers of a stream that are worth a pull by another server, which costs as much as some
/// twenty of them.
const WORTH_A_PULL: usize = 4;

/// How this server shares its viewers with the others of its cluster.
#[derive(Clone, Debug)]
pub(super) struct Spread {
    member: Arc<Member>,
    which: Rebalance,
}

impl Spread {
    pub(super) fn new(config: &Config, member: Option<&Arc<Member>>) -> Option<Self> {
        let cluster = config.cluster.as_ref()?;
        Some(Self {
            member: Arc::clone(member?),
            which: cluster.rebalance,
        })
    }
}

/// Sends viewers to other servers whenever the member says so.
pub(super) fn spawn(
    app: &App,
    spread: Option<&Spread>,
    stopped: &watch::Receiver<bool>,
) -> Option<JoinHandle<()>> {
    let (app, spread, until) = (app.clone(), spread?.clone(), stopped.clone());
    let supervisor = Arc::clone(&app.supervisor);
    let run = move || share(app.clone(), spread.clone(), until.clone());
    let task = Part::Background.task("balance");
    Some(spawn_kept(&supervisor, task, stopped, run))
}

async fn share(app: App, spread: Spread, mut stopped: watch::Receiver<bool>) {
    let Spread { member, which } = spread;
    let mut crowding = member.crowding();
    loop {
        tokio::select! {
            changed = crowding.changed() => if changed.is_err() { return },
            // A dropped sender means that the server ends.
            _ = stopped.wait_for(|stopped| *stopped) => return,
        }
        let named = *crowding.borrow_and_update();
        if let Some(Crowding { count, came_before }) = named {
            let mut movable = departing(&app).await;
            let came_before = |at: Instant| at < came_before;
            movable.retain(|it| may_move(it, which) && it.came.is_some_and(came_before));
            let sent = send_group(&app, best_first(&member, movable), count, Sent::Moved);
            let sent = sent.await.sent;
            if sent > 0 {
                tracing::info!(
                    viewers = sent,
                    "viewers are sent to servers that have fewer"
                );
            }
            (0..sent).for_each(|_| member.note_moved());
        }
    }
}

/// Returns those viewers whose move costs no pull, or one for many of them: first those of the streams
/// with the most viewers.
fn best_first(member: &Member, viewers: Vec<Departing>) -> Vec<Departing> {
    let mut audience: HashMap<String, usize> = HashMap::new();
    for stream in viewers.iter().filter_map(|it| it.stream.as_deref()) {
        *audience.entry(stream.to_owned()).or_default() += 1;
    }
    audience.retain(|stream, count| *count >= WORTH_A_PULL || member.is_shared(stream));
    let count = |it: &Departing| {
        let stream = it.stream.as_deref();
        stream.and_then(|stream| audience.get(stream)).copied()
    };
    let mut worth: Vec<(usize, Departing)> = viewers
        .into_iter()
        .filter_map(|viewer| Some((count(&viewer)?, viewer)))
        .collect();
    worth.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    worth.into_iter().map(|(_, viewer)| viewer).collect()
}
