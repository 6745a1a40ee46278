//! HLS as the rest of the server knows it.

use std::sync::Arc;
use std::time::Instant;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use glassline_access::auth::Excluded;
use glassline_config::Config;
use glassline_hub::Wake as _;
use glassline_service::settings::AllowedConnections;
use glassline_service::{Audience, Departing, NamedViewer, NotEnded, Service, ViewerFigures};

use super::audience::ViewerKey;
use super::broadcast::Broadcast;
use super::metrics;
use super::protocol::{Hls, waits};

impl Service for Hls {
    fn name(&self) -> &'static str {
        "hls"
    }

    fn metrics(&self, text: &mut String) {
        metrics::write(self, text);
    }

    /// Streams that begin from now on have the new settings, and those that are turned off end.
    fn heed(&self, config: &Config, _: &AllowedConnections) {
        let [all, of_address] = waits(config);
        self.waits.set(all, of_address);
        self.lock().settings = config.hls;
        if !config.hls.enabled {
            self.all().iter().for_each(|it| it.stop.wake());
        }
    }

    fn audience(&self) -> BoxFuture<'_, Option<Audience>> {
        let mut audience = Audience::new();
        for broadcast in self.all() {
            let name = broadcast.stream.name().to_string();
            audience.entry(name).or_default().shared += broadcast.viewers().count();
        }
        std::future::ready(Some(audience)).boxed()
    }

    fn viewers(&self, _: Instant) -> BoxFuture<'_, Vec<ViewerFigures>> {
        let all = self.all();
        let figures = all.iter().flat_map(figures).collect();
        std::future::ready(figures).boxed()
    }

    fn excludable<'a>(
        &'a self,
        viewer: &'a NamedViewer,
    ) -> BoxFuture<'a, Result<Option<Excluded>, NotEnded>> {
        let found = self.viewer(&viewer.name);
        let found = found.map(|key| Some(Excluded::Address(key.address)));
        std::future::ready(found.ok_or(NotEnded::Unknown)).boxed()
    }

    fn disconnect<'a>(&'a self, viewer: &'a NamedViewer) -> BoxFuture<'a, Result<(), NotEnded>> {
        let ended = match self.viewer(&viewer.name) {
            None => NotEnded::Unknown,
            Some(_) => NotEnded::Misnamed(
                "a viewer of HLS has no session: exclude it, or take its right away, and its pass ends within ten minutes",
            ),
        };
        std::future::ready(Err(ended)).boxed()
    }

    /// Returns nobody: players come back by themselves, wherever their address leads.
    fn departing(self: Arc<Self>) -> BoxFuture<'static, Vec<Departing>> {
        std::future::ready(Vec::new()).boxed()
    }

    fn stop(&self) {
        self.lock().is_stopped = true;
        for broadcast in self.all() {
            broadcast.close();
            broadcast.stop.wake();
        }
    }
}

impl Hls {
    fn viewer(&self, name: &str) -> Option<ViewerKey> {
        let all = self.all();
        all.iter().find_map(|broadcast| {
            let viewers = broadcast.viewers();
            viewers.present().find(|it| it.name() == name)
        })
    }
}

fn figures(broadcast: &Arc<Broadcast>) -> Vec<ViewerFigures> {
    let viewers = broadcast.viewers();
    let figures = viewers.present().map(|key| ViewerFigures {
        stream: broadcast.stream.name().to_string(),
        viewer: key.name(),
        address: key.address.to_string(),
        transport: "http",
        ..ViewerFigures::default()
    });
    figures.collect()
}
