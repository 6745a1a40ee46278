//! RTSP as one of the server's protocols.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use glassline_access::auth::Excluded;
use glassline_config::Config;
use glassline_service::settings::AllowedConnections;
use glassline_service::{
    Audience, Departing, Departure, NamedViewer, NotEnded, Service, ViewerFigures,
};

use super::{ClientView, Handle, Shared, metrics};

/// RTSP as one of the server's protocols; without state if it is turned off.
#[derive(Debug)]
pub struct RtspService(pub Option<Arc<Shared>>);

impl RtspService {
    /// Returns the threads that serve clients.
    pub fn threads(&self) -> impl Iterator<Item = &Handle> {
        self.0.iter().flat_map(|shared| shared.threads())
    }

    /// Returns the clients of all threads that have a session.
    pub async fn clients(&self) -> Vec<ClientView> {
        let mut clients = Vec::new();
        for thread in self.threads() {
            clients.extend(thread.clients().await.unwrap_or_default());
        }
        clients
    }

    async fn playing(&self) -> Vec<ClientView> {
        let mut clients = self.clients().await;
        clients.retain(|it| it.state == "playing");
        clients
    }

    fn has_stream(&self, name: &str) -> bool {
        let hub = self.0.as_ref().map(|shared| &shared.hub);
        hub.is_some_and(|hub| hub.stream(name).is_some())
    }
}

impl Service for RtspService {
    fn name(&self) -> &'static str {
        "rtsp"
    }

    fn metrics(&self, text: &mut String) {
        if let Some(shared) = &self.0 {
            metrics::write(shared, text);
        }
    }

    fn heed(&self, config: &Config, allowed: &AllowedConnections) {
        if let Some(shared) = &self.0 {
            shared.renew_logins();
            shared.set_delays(config.rtsp.lag(), config.rtsp.stall());
            shared.set_connections(allowed.rtsp, config.rtsp.clients_per_address());
        }
    }

    fn stop(&self) {
        if let Some(shared) = &self.0 {
            shared.stop();
        }
    }

    fn audience(&self) -> BoxFuture<'_, Option<Audience>> {
        async {
            let mut audience = Audience::new();
            for client in self.playing().await {
                let count = audience.entry(client.stream).or_default();
                match client.private {
                    true => count.private += 1,
                    false => count.shared += 1,
                }
            }
            Some(audience)
        }
        .boxed()
    }

    fn viewers(&self, _: Instant) -> BoxFuture<'_, Vec<ViewerFigures>> {
        async { self.playing().await.into_iter().map(figures).collect() }.boxed()
    }

    fn publisher<'a>(&'a self, stream: &'a str) -> BoxFuture<'a, Option<NamedViewer>> {
        async move {
            let mut clients = self.clients().await.into_iter();
            let found = clients.find(|it| !it.is_player() && it.stream == stream);
            found.map(|client| NamedViewer {
                name: client.address.to_string(),
                stream: Some(stream.to_owned()),
            })
        }
        .boxed()
    }

    fn excludable<'a>(
        &'a self,
        viewer: &'a NamedViewer,
    ) -> BoxFuture<'a, Result<Option<Excluded>, NotEnded>> {
        async {
            let address: SocketAddr = viewer.name.parse().map_err(|_| NotEnded::Unknown)?;
            let mut clients = self.clients().await.into_iter();
            let found = clients.find(|it| it.address == address);
            let client = found.ok_or(NotEnded::Unknown)?;
            let user = client.user.map(Excluded::User);
            Ok(Some(user.unwrap_or(Excluded::Address(address.ip()))))
        }
        .boxed()
    }

    fn disconnect<'a>(&'a self, viewer: &'a NamedViewer) -> BoxFuture<'a, Result<(), NotEnded>> {
        async {
            let address: SocketAddr = viewer.name.parse().map_err(|_| NotEnded::Unknown)?;
            for thread in self.threads() {
                if thread.dismiss(address).await == Some(true) {
                    return Ok(());
                }
            }
            Err(NotEnded::Unknown)
        }
        .boxed()
    }

    fn departing(self: Arc<Self>) -> BoxFuture<'static, Vec<Departing>> {
        async move {
            let mut departing = Vec::new();
            for thread in self.threads() {
                // A thread without an answer ends, or is stuck; its players stay until the end.
                let clients = thread.clients().await.unwrap_or_default().into_iter();
                let players = clients.filter(|it| it.is_player() && self.has_stream(&it.stream));
                departing.extend(players.map(|client| of_player(thread.clone(), client)));
            }
            departing
        }
        .boxed()
    }
}

fn of_player(thread: Handle, client: ClientView) -> Departing {
    let address = client.address;
    Departing {
        stream: Some(client.stream),
        came: Some(client.since),
        is_page: false,
        send_away: Box::new(move |_| {
            let thread = thread.clone();
            async move {
                match thread.send_elsewhere(address).await {
                    Some(true) => Departure::Sent,
                    Some(false) => Departure::Gone,
                    None => Departure::Later,
                }
            }
            .boxed()
        }),
    }
}

fn figures(client: ClientView) -> ViewerFigures {
    let address = client.address.to_string();
    let lag = client.lag_ms as f64;
    ViewerFigures {
        stream: client.stream,
        viewer: address.clone(),
        address,
        transport: client.transport,
        queue_ms: Some(lag),
        skips: client.skips.into(),
        ..ViewerFigures::default()
    }
}
