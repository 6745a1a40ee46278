//! Starts single parts of the server from its configuration.

use std::net::SocketAddr;
use std::sync::Arc;

use glassline_access::auth::Users;
use glassline_config::Config;
use glassline_events::hooks::{self, Hook, Inbox};
use glassline_hub::Hub;
use glassline_ingest as ingest;
use glassline_ingest::library::{self, Library};
use glassline_playback::recordings;
use glassline_rtsp_listener::{self as rtsp, Listener, Rtsp};
use glassline_runtime::{Clock, Current, Part, Supervisor, spawn_kept};
use glassline_service::settings::AllowedConnections;
use glassline_webrtc::Certificate;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::StartError;
use crate::app::App;
use crate::sessions::{SessionDefaults, Settings};

/// Runs the hooks, whose list may change.
pub(super) fn run_hooks(
    app: &App,
    list: &watch::Sender<Arc<[Hook]>>,
    sources: &Arc<ingest::Sources>,
    inbox: &Arc<Inbox>,
    stopped: &watch::Receiver<bool>,
) -> JoinHandle<()> {
    let inbox = Arc::clone(inbox);
    let (sources, until) = (Arc::clone(sources), stopped.clone());
    let (hub, list) = (Arc::clone(&app.hub), list.subscribe());
    let (counters, supervisor) = (Arc::clone(&app.hooks), Arc::clone(&app.supervisor));
    let run = move || {
        hooks::run(
            list.clone(),
            Arc::clone(&sources),
            Arc::clone(&hub),
            Arc::clone(&inbox),
            Arc::clone(&counters),
            Arc::clone(&supervisor),
            until.clone(),
        )
    };
    let task = Part::Background.task("hooks");
    spawn_kept(&app.supervisor, task, stopped, run)
}

/// Records streams, and tells operators and hooks what happens to recordings.
pub(super) fn record(
    app: &App,
    inbox: &Arc<Inbox>,
    stopped: &watch::Receiver<bool>,
) -> JoinHandle<()> {
    let (services, hub, until) = (app.services.clone(), Arc::clone(&app.hub), stopped.clone());
    let (events, inbox) = (Arc::clone(&app.http.events), Arc::clone(inbox));
    let latencies = Arc::clone(&app.latencies);
    let watch = move || {
        let (events, inbox) = (Arc::clone(&events), Arc::clone(&inbox));
        recordings::watch(
            services.clone(),
            Arc::clone(&hub),
            Arc::clone(&latencies),
            events,
            inbox,
            until.clone(),
        )
    };
    let task = Part::Recording.task("recordings");
    spawn_kept(&app.supervisor, task, stopped, watch)
}

/// Copies recordings to object storage, if one is configured.
pub(super) fn copy_recordings(app: &App, stopped: &watch::Receiver<bool>) -> JoinHandle<()> {
    let (services, until) = (app.services.clone(), stopped.clone());
    let (events, audit) = (Arc::clone(&app.http.events), Arc::clone(&app.http.audit));
    let copy = move || {
        let (events, audit) = (Arc::clone(&events), Arc::clone(&audit));
        recordings::copy(services.clone(), events, audit, until.clone())
    };
    let task = Part::Recording.task("copies of recordings");
    spawn_kept(&app.supervisor, task, stopped, copy)
}

/// Keeps the keys of an identity provider fresh, also of one that a reload brings.
pub(super) fn keep_keys(
    users: &Arc<Users>,
    supervisor: &Arc<Supervisor>,
    stopped: &watch::Receiver<bool>,
) -> JoinHandle<()> {
    let (users, until) = (Arc::clone(users), stopped.clone());
    let keep = move || {
        let (users, until) = (Arc::clone(&users), until.clone());
        async move { users.keep_keys_fresh(until).await }
    };
    let task = Part::Background.task("keys of tokens");
    spawn_kept(supervisor, task, stopped, keep)
}

/// Returns the settings for answering offers, for shards that listen on `media`.
pub(super) fn of_sessions(
    config: &Config,
    media: SocketAddr,
    clock: Clock,
) -> Result<Settings, StartError> {
    Ok(Settings {
        certificate: Arc::new(Certificate::generate()?),
        media,
        media_tcp: config.media.tcp,
        clock,
        defaults: Current::new(SessionDefaults::of(config)),
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
