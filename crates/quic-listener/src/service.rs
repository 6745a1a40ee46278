//! MoQ over QUIC as one of the server's protocols.

use std::sync::Arc;
use std::time::Instant;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use glassline_access::auth::Excluded;
use glassline_config::Config;
use glassline_service::settings::AllowedConnections;
use glassline_service::{
    Departing, Departure, NamedViewer, NotEnded, Service, ViewerFigures, excluded_at,
};

use super::{SessionView, Shared, metrics};

/// MoQ as one of the server's protocols; without state if QUIC is turned off.
#[derive(Debug)]
pub struct MoqService(pub Option<Arc<Shared>>);

impl MoqService {
    /// Returns all sessions at `now`.
    pub fn sessions(&self, now: Instant) -> Vec<SessionView> {
        let shared = self.0.as_ref();
        shared.map_or_else(Vec::new, |shared| shared.sessions(now))
    }

    /// Returns the SHA-256 of the certificate; `None` if QUIC is turned off.
    pub fn fingerprint(&self) -> Option<String> {
        let shared = self.0.as_ref();
        shared.map(|shared| shared.fingerprint().to_string())
    }

    /// Returns the SHA-256 of the certificate that comes next; `None` before it is announced.
    pub fn next_fingerprint(&self) -> Option<String> {
        let next = self.0.as_ref()?.next_fingerprint()?;
        Some(next.to_string())
    }
}

impl Service for MoqService {
    fn name(&self) -> &'static str {
        "moq"
    }

    fn metrics(&self, text: &mut String) {
        if let Some(shared) = &self.0 {
            metrics::write(shared, text);
        }
    }

    fn heed(&self, config: &Config, _: &AllowedConnections) {
        if let Some(shared) = &self.0 {
            shared.set_sessions(config.quic.clients, config.quic.clients_per_address());
            shared.set_congestion(config.quic.congestion);
        }
    }

    fn viewers(&self, now: Instant) -> BoxFuture<'_, Vec<ViewerFigures>> {
        let sessions = self.sessions(now).into_iter();
        let readers = sessions.filter(|it| it.publishes.is_empty());
        std::future::ready(readers.map(|it| figures(&it)).collect()).boxed()
    }

    fn publisher<'a>(&'a self, stream: &'a str) -> BoxFuture<'a, Option<NamedViewer>> {
        let mut sessions = self.sessions(Instant::now()).into_iter();
        let found = sessions.find(|it| it.publishes.iter().any(|name| name == stream));
        let named = found.map(|session| NamedViewer {
            name: session.id.to_string(),
            stream: Some(stream.to_owned()),
        });
        std::future::ready(named).boxed()
    }

    fn excludable<'a>(
        &'a self,
        viewer: &'a NamedViewer,
    ) -> BoxFuture<'a, Result<Option<Excluded>, NotEnded>> {
        let id = viewer.name.parse().ok();
        let mut sessions = self.sessions(Instant::now()).into_iter();
        let found = sessions.find(|it| Some(it.id) == id);
        let excluded = found.map(|it| excluded_at(&it.peer));
        std::future::ready(excluded.ok_or(NotEnded::Unknown)).boxed()
    }

    fn disconnect<'a>(&'a self, viewer: &'a NamedViewer) -> BoxFuture<'a, Result<(), NotEnded>> {
        let id = viewer.name.parse().ok();
        let shared = self.0.as_ref();
        let is_ended = shared
            .zip(id)
            .is_some_and(|(shared, id)| shared.dismiss(id));
        std::future::ready(if is_ended {
            Ok(())
        } else {
            Err(NotEnded::Unknown)
        })
        .boxed()
    }

    fn departing(self: Arc<Self>) -> BoxFuture<'static, Vec<Departing>> {
        let of = |shared: &Arc<Shared>| {
            let readers = shared.readers().into_iter();
            let departing = readers.map(|id| of_reader(Arc::clone(shared), id));
            departing.collect()
        };
        std::future::ready(self.0.as_ref().map(of).unwrap_or_default()).boxed()
    }

    /// A session over QUIC may read nothing yet.
    fn has_idle_readers(&self) -> bool {
        let shared = self.0.as_ref();
        shared.is_some_and(|shared| !shared.readers().is_empty())
    }
}

fn of_reader(shared: Arc<Shared>, id: u64) -> Departing {
    Departing {
        stream: None,
        came: None,
        is_page: false,
        send_away: Box::new(move |_| {
            let departure = match shared.send_elsewhere(id) {
                true => Departure::Sent,
                false => Departure::Gone,
            };
            std::future::ready(departure).boxed()
        }),
    }
}

fn figures(session: &SessionView) -> ViewerFigures {
    let sender = &session.sender;
    ViewerFigures {
        viewer: session.id.to_string(),
        address: session.peer.clone(),
        transport: "quic",
        rtt_ms: sender.transport_rtt_ms,
        // Losses are known only over the whole session.
        queue_bytes: sender.backlog_bytes,
        skips: sender.late_groups.unwrap_or_default(),
        ..ViewerFigures::default()
    }
}
