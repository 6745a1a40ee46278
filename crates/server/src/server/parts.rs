//! Starts single parts of the server from its configuration.

use std::net::SocketAddr;
use std::sync::Arc;

use glassline_hub::Hub;
use glassline_webrtc::Certificate;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::StartError;
use super::listeners::AllowedConnections;
use crate::app::App;
use crate::auth::Users;
use crate::config::{Config, DataAccess};
use crate::hooks;
use crate::ingest;
use crate::ingest::library::{self, Library};
use crate::rtsp::{self, Listener, Rtsp};
use crate::runtime::{Clock, Part, Supervisor, spawn_kept};
use crate::sessions::{DataPolicy, Settings};

/// Runs the hooks; does nothing without any.
pub(super) fn run_hooks(
    app: &App,
    sources: &Arc<ingest::Sources>,
    stopped: &watch::Receiver<bool>,
) -> Option<JoinHandle<()>> {
    if app.config.hooks.is_empty() {
        return None;
    }
    let (app, sources, until) = (app.clone(), Arc::clone(sources), stopped.clone());
    let supervisor = Arc::clone(&app.supervisor);
    let run = move || {
        hooks::run(
            Arc::from(app.config.hooks.clone()),
            Arc::clone(&sources),
            Arc::clone(&app.hub),
            (Arc::clone(&app.hooks), Arc::clone(&app.supervisor)),
            until.clone(),
        )
    };
    let task = (Part::Background, "hooks");
    Some(spawn_kept(&supervisor, task, stopped, run))
}

/// Keeps the keys of an identity provider fresh; does nothing without one.
pub(super) fn keep_keys(
    users: &Arc<Users>,
    supervisor: &Arc<Supervisor>,
    stopped: &watch::Receiver<bool>,
) -> Option<JoinHandle<()>> {
    users.keys()?;
    let (users, until) = (Arc::clone(users), stopped.clone());
    let keep = move || {
        let (users, until) = (Arc::clone(&users), until.clone());
        async move { users.keep_keys_fresh(until).await }
    };
    let task = (Part::Background, "keys of tokens");
    Some(spawn_kept(supervisor, task, stopped, keep))
}

/// Returns the settings for answering offers, for shards that listen on `media`.
pub(super) fn settings(
    config: &Config,
    media: SocketAddr,
    clock: Clock,
) -> Result<Settings, StartError> {
    let data = &config.webrtc.data;
    Ok(Settings {
        certificate: Arc::new(Certificate::generate()?),
        media,
        media_tcp: config.media.tcp,
        wall: clock.wall(),
        handshake: config.limits.handshake(),
        pacing: config.webrtc.pacing.algorithm(),
        lag: config.webrtc.lag(),
        data: data.bounds().map(|bounds| DataPolicy {
            bounds,
            viewers_send: data.viewers == DataAccess::Write,
        }),
    })
}

/// Opens the media folder, if one is configured. Needs a tokio runtime.
pub(super) fn library(
    config: &Config,
    hub: &Arc<Hub>,
    supervisor: &Arc<Supervisor>,
) -> std::io::Result<Option<Arc<Library>>> {
    let Some(folder) = config.rtsp.media_folder.clone() else {
        return Ok(None);
    };
    let limits = library::Limits {
        private: config.rtsp.media_clients,
        ..library::Limits::default()
    };
    let library = Arc::new(Library::new(folder, Arc::clone(hub), limits, supervisor)?);
    // The first list makes the library look for files that cannot be played.
    let listing = Arc::clone(&library);
    tokio::spawn(async move { listing.list().await });
    Ok(Some(library))
}

/// Starts the threads of RTSP; returns `None` without listeners.
pub(super) fn start_rtsp(
    config: &Config,
    allowed: AllowedConnections,
    listeners: Vec<Listener>,
    services: rtsp::Services,
) -> Result<Option<Rtsp>, StartError> {
    if listeners.is_empty() {
        return Ok(None);
    }
    let limits = config.limits.hub();
    let options = rtsp::Options {
        connections_max: allowed.rtsp,
        connections_per_address: config.rtsp.clients_per_address(),
        udp: config.rtsp.udp,
        udp_port: config.rtsp.udp_port,
        multicast: config.rtsp.multicast.as_ref().map(|it| rtsp::GroupRange {
            first: it.group.first,
            count: it.group.count,
            port: it.port,
            ttl: it.ttl,
            interface: it.interface,
        }),
        srtp: config.rtsp.tls.srtp.into(),
        lag: config.rtsp.lag(),
        stall: config.rtsp.stall(),
        ring_bytes: limits.ring_bytes,
        ring_span: limits.ring_span,
    };
    Ok(Some(Rtsp::start(&options, listeners, services)?))
}
