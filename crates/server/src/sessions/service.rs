//! WebRTC as one of the server's protocols.

use std::sync::Arc;
use std::time::Instant;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use glassline_access::auth::Excluded;
use glassline_config::Config;
use glassline_latency::{PathView, WatchedPath};
use glassline_rooms::is_voice;
use glassline_service::settings::AllowedConnections;
use glassline_service::{
    Departing, Departure, NamedViewer, NotEnded, Sent, Service, ViewerFigures,
};

use super::{
    Bounds, ChangeError, Command, EndReason, Negotiator, SessionDefaults, SessionRecord, metrics,
};

impl Service for Negotiator {
    fn name(&self) -> &'static str {
        "webrtc"
    }

    fn metrics(&self, text: &mut String) {
        metrics::write(self.shared(), text);
    }

    fn heed(&self, config: &Config, _: &AllowedConnections) {
        self.set_defaults(SessionDefaults::of(config));
        self.shared()
            .registry
            .set_bounds(Bounds::of(&config.limits));
    }

    fn stop(&self) {
        for shard in self.shared().shards() {
            if shard.send(Command::Stop).is_err() {
                tracing::warn!(
                    "a shard does not take the command to stop: its inbox is full; its viewers get no goodbye"
                );
            }
        }
    }

    /// Participants of rooms, who hear each other's voices, are no viewers.
    fn viewers(&self, now: Instant) -> BoxFuture<'_, Vec<ViewerFigures>> {
        let watched = self.shared().latencies.watched(now).into_iter();
        let watched = watched.filter(|it| !is_voice(it.stream.as_str()));
        std::future::ready(watched.map(figures).collect()).boxed()
    }

    fn publisher<'a>(&'a self, stream: &'a str) -> BoxFuture<'a, Option<NamedViewer>> {
        let mut records = self.publishers().into_iter();
        let found = records.find(|it| it.stream.as_str() == stream);
        let named = found.map(|record| NamedViewer {
            name: record.id.as_str().to_owned(),
            stream: Some(stream.to_owned()),
        });
        std::future::ready(named).boxed()
    }

    fn excludable<'a>(
        &'a self,
        viewer: &'a NamedViewer,
    ) -> BoxFuture<'a, Result<Option<Excluded>, NotEnded>> {
        let found = self.named(viewer);
        std::future::ready(found.map(|it| it.excludable())).boxed()
    }

    fn disconnect<'a>(&'a self, viewer: &'a NamedViewer) -> BoxFuture<'a, Result<(), NotEnded>> {
        async {
            let record = self.named(viewer)?;
            match self.dismiss(&record).await {
                // The viewer left in the meantime.
                Ok(()) | Err(ChangeError::Ended | ChangeError::Stale { .. }) => Ok(()),
                Err(ChangeError::Busy) => Err(NotEnded::Busy),
            }
        }
        .boxed()
    }

    fn departing(self: Arc<Self>) -> BoxFuture<'static, Vec<Departing>> {
        let records = self.viewers_of_streams().into_iter();
        let departing = records.map(|record| {
            let sessions = Arc::clone(&self);
            Departing {
                stream: Some(record.stream.to_string()),
                came: Some(record.created()),
                is_page: record.has_reported(),
                send_away: Box::new(move |why| {
                    let (sessions, record) = (Arc::clone(&sessions), Arc::clone(&record));
                    async move {
                        match sessions.send_elsewhere(&record, why.into()).await {
                            Ok(()) => Departure::Sent,
                            Err(ChangeError::Busy) => Departure::Later,
                            Err(_) => Departure::Gone,
                        }
                    }
                    .boxed()
                }),
            }
        });
        std::future::ready(departing.collect()).boxed()
    }
}

impl Negotiator {
    /// Returns the session that an operator names by its first letters and its stream.
    fn named(&self, viewer: &NamedViewer) -> Result<Arc<SessionRecord>, NotEnded> {
        let stream = viewer.stream.as_deref().unwrap_or_default();
        if stream.is_empty() || viewer.name.is_empty() {
            let rule = "a WebRTC viewer is named by its letters and ?stream=NAME";
            return Err(NotEnded::Misnamed(rule));
        }
        let mut found = self.beginning_with(stream, &viewer.name);
        match (found.pop(), found.len()) {
            (None, _) => Err(NotEnded::Unknown),
            (Some(record), 0) => Ok(record),
            (Some(_), others) => Err(NotEnded::Several(others + 1)),
        }
    }
}

impl From<Sent> for EndReason {
    fn from(sent: Sent) -> Self {
        match sent {
            Sent::Draining => Self::Draining,
            Sent::Moved => Self::Moved,
        }
    }
}

fn figures(path: WatchedPath) -> ViewerFigures {
    let WatchedPath {
        stream,
        viewer,
        selected,
        congestion,
    } = path;
    let queue_ms = congestion.as_ref().and_then(queue);
    let layer = congestion.as_ref().and_then(|it| it.layer.as_ref());
    let limited = layer.filter(|it| it.reason.starts_with("the path"));
    ViewerFigures {
        stream: stream.to_string(),
        viewer,
        transport: selected.remote.protocol,
        relayed: selected.relayed,
        address: selected.remote.address,
        rtt_ms: selected.rtt_ms,
        loss: selected.loss,
        queue_ms,
        limited: limited.map(|it| it.reason.clone()),
        queue_bytes: congestion.map(|it| it.in_flight_bytes),
        skips: 0,
    }
}

/// Returns the delay of the queue that the path keeps now, in ms: the time by which the round trip is
/// longer than at its best.
fn queue(path: &PathView) -> Option<f64> {
    Some((path.rtt_ms? - path.rtt_min_ms?).max(0.0))
}
