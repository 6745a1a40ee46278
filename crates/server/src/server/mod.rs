//! Starts and stops all parts of the server.
//!
//! ```text
//! Foundation (clock, supervisor, hub) ► Access (users, certificates) ► ports of HTTP
//!     ► Media (shards) ► Streams (sources, folder, cluster) ► Services (RTSP, QUIC) ► tasks
//! ```
//!
//! Each layer knows those before it.

mod access;
mod balance;
mod certificates;
mod departures;
mod drain;
mod foundation;
mod in_cluster;
mod listeners;
mod observing;
mod parts;
mod services;
mod start_error;
mod streams;
mod tasks;
mod telemetry;
mod trial;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use glassline_access::tls::{LanNames, LanSource, RootCertificate};
use glassline_config::Config;
use glassline_hub::Hub;
use glassline_ingest::{self as ingest, SourceSpec};
use glassline_quic::Fingerprint;
use glassline_quic_listener::Quic;
use glassline_rtsp_listener::Rtsp;
use glassline_runtime::Supervisor;
use glassline_service as service;
use glassline_service::settings::{Cause, Settings};
use glassline_transcoding::TranscodingThreads;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::reload::Reloading;
use crate::sessions::Shards;
use access::Access;
use drain::Leaving;
use foundation::Foundation;
use listeners::HttpListeners;
use services::{Media, Services};
use streams::Streams;
use tasks::Running;

pub use certificates::check_certificates;
#[cfg(test)]
pub(crate) use services::viewer_routes;
pub use start_error::StartError;
pub use trial::{
    Fault, Tried, advertised_ips, try_advertised, try_authority, try_certificates, try_config,
    try_folders, try_listeners, try_nats, try_sources,
};

/// A running server with its listeners, threads and tasks.
#[derive(Debug)]
pub struct Server {
    listeners: Vec<(&'static str, SocketAddr)>,
    hub: Arc<Hub>,
    shards: Shards,
    rtsp: Option<Rtsp>,
    quic: Option<Quic>,
    transcoding: TranscodingThreads,
    lan: Option<Arc<LanSource>>,
    stop: watch::Sender<bool>,
    settings: Arc<Settings>,
    protocols: service::Services,
    sources: Arc<ingest::Sources>,
    supervisor: Arc<Supervisor>,
    tasks: Vec<JoinHandle<()>>,
    leaving: Option<Leaving>,
}

impl Server {
    /// Opens all listeners, and starts the shards and the sources `specs`.
    ///
    /// # Errors
    /// Returns [`StartError`] with the listener or the source, and what to change.
    pub async fn start(config: Config, specs: Vec<SourceSpec>) -> Result<Self, StartError> {
        Self::start_with(config, specs, Reloading::default()).await
    }

    /// Starts a server as [`start`](Self::start) does, which reads its configuration again as
    /// `reloading` says.
    ///
    /// # Errors
    /// Returns [`StartError`] with the listener or the source, and what to change.
    pub async fn start_with(
        config: Config,
        specs: Vec<SourceSpec>,
        reloading: Reloading,
    ) -> Result<Self, StartError> {
        config.check_ports()?;
        config.check_cluster()?;
        config.check_programs(&specs)?;
        let foundation = Foundation::start(&config)?;
        let access = Access::load(&config)?;
        let http = HttpListeners::open(&config, &access.certificates)?;
        let mut media = Media::start(&config, &foundation).await?;
        let streams =
            Streams::start(&config, &specs, &foundation, &access, &media.messages).await?;
        let mut services = Services::start(&config, &foundation, &access, &media, &streams)?;
        let listeners = services.listeners(&config, &http, &media);
        let app = services.app(config, &foundation, &access, &streams, &http);
        let running = Running {
            app: &app,
            foundation: &foundation,
            access: &access,
            streams: &streams,
            services: &services,
        };
        let mut tasks = running.start(&mut media, http, &specs, reloading)?;
        tasks.extend(services.joined.take());
        Ok(Self {
            listeners,
            hub: foundation.hub,
            shards: media.shards,
            rtsp: services.rtsp,
            quic: services.quic,
            transcoding: services.transcoding,
            lan: access.certificates.lan,
            stop: foundation.stop,
            settings: Arc::clone(&app.settings),
            protocols: app.services.clone(),
            sources: streams.sources,
            supervisor: foundation.supervisor,
            tasks,
            leaving: streams.leaving,
        })
    }

    /// Returns the address of each listener: `http`, `https`, `media`, `media-tcp`, `rtsp`, `rtsps`, `quic`,
    /// `admin` and `admin-https`, without those that are turned off.
    pub fn listeners(&self) -> &[(&'static str, SocketAddr)] {
        &self.listeners
    }

    /// Reads the configuration, users and certificates again, soon. Errors are logged; the previous
    /// content then stays in force.
    pub fn reload(&self) {
        self.settings.requests.ask(Cause::Signal);
    }

    /// Waits until every [`reload`](Self::reload) that was asked for before this call is done.
    pub async fn reloaded(&self) {
        self.settings.requests.finished().await;
    }

    /// Returns the SHA-256 of the present certificate of QUIC, if QUIC is turned on.
    pub fn quic_fingerprint(&self) -> Option<Fingerprint> {
        let quic = self.quic.as_ref()?;
        Some(quic.shared().fingerprint())
    }

    /// Returns the private authority's root certificate and the names that the server has in its
    /// certificate; `None` if `tls` is not `lan`.
    pub fn lan(&self) -> Option<(&RootCertificate, LanNames)> {
        let lan = self.lan.as_ref()?;
        Some((lan.root(), lan.names()))
    }

    /// Returns the hub, which has all streams.
    pub fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// Returns the thread that makes no progress, and for how long, if there is one. Threads that wait
    /// for a disk, or for the reader of the log, do not count.
    pub fn stuck(&self) -> Option<String> {
        self.supervisor.stuck(None).map(|it| it.to_string())
    }

    /// Waits until the server cannot go on, because one of its parts panics again and again. Returns
    /// the reason; the process should then end, so that its service manager starts it again.
    pub async fn failed(&self) -> String {
        self.supervisor.failed().await
    }

    /// Takes no new viewers, ends all sessions, and returns within `grace`.
    pub async fn shutdown(self, grace: Duration) {
        // An error means that no task is left to be stopped.
        let _ = self.stop.send(true);
        for protocol in self.protocols.iter() {
            protocol.stop();
        }
        drop(self.protocols);
        self.transcoding.stop();
        let farewell = async {
            let shards = tokio::task::spawn_blocking(|| {
                self.shards.join();
                if let Some(rtsp) = self.rtsp {
                    rtsp.join();
                }
                self.transcoding.join();
            });
            self.sources.join().await;
            if let Some(quic) = self.quic {
                quic.join().await;
            }
            for task in self.tasks {
                let _ = task.await;
            }
            let _ = shards.await;
        };
        if tokio::time::timeout(grace, farewell).await.is_err() {
            tracing::warn!(
                grace_s = grace.as_secs_f64(),
                "shutdown: not everything ended in time"
            );
        }
    }
}
