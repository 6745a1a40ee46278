//! Viewers who are sent to other servers of the cluster.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_config::Rebalance;
use glassline_service::{Departing, Departure, Sent};

use crate::app::App;

/// A stream that sent nothing for this long is on its way to another server, or has stopped.
const FLOWS: Duration = Duration::from_secs(1);

/// Returns the viewers of streams by all protocols, without those of files.
pub(super) async fn departing(app: &App) -> Vec<Departing> {
    let mut departing = Vec::new();
    for service in app.services.iter() {
        departing.extend(Arc::clone(service).departing().await);
    }
    departing
}

/// The outcome for a group of viewers who were to be sent away.
pub(super) struct SentGroup {
    /// Number of viewers who were sent away.
    pub(super) sent: usize,
    /// Viewers who are still here.
    pub(super) left: Vec<Departing>,
}

/// Sends up to `group` viewers away, for the reason `why`. Viewers of a stream that is on its way from
/// this server to another one stay a little: they would find it nowhere.
pub(super) async fn send_group(
    app: &App,
    viewers: Vec<Departing>,
    group: usize,
    why: Sent,
) -> SentGroup {
    let mut left = Vec::new();
    let mut sent = 0;
    for viewer in viewers {
        let flows = viewer.stream.as_deref().is_none_or(|name| flows(app, name));
        if sent == group || !flows {
            left.push(viewer);
            continue;
        }
        match (viewer.send_away)(why).await {
            Departure::Sent => sent += 1,
            Departure::Later => left.push(viewer),
            Departure::Gone => {}
        }
    }
    SentGroup { sent, left }
}

/// Returns whether media of the stream arrives.
fn flows(app: &App, name: &str) -> bool {
    app.hub.stream(name).is_some_and(|stream| {
        let silent = stream.silent_for(Instant::now());
        silent.is_some_and(|silent| silent < FLOWS)
    })
}

/// Returns whether a viewer may be sent away although this server stays.
pub(super) fn may_move(viewer: &Departing, which: Rebalance) -> bool {
    match which {
        Rebalance::Pages => viewer.is_page,
        Rebalance::All => viewer.came.is_some(),
        Rebalance::Off => false,
    }
}
