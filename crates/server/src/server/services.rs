//! The list of all protocols, and the start of the parts that serve clients: shards of WebRTC, RTSP, QUIC,
//! transcoding.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use glassline_access::audit::AuditLog;
use glassline_config::Config;
use glassline_messages::MessageLinks;
use glassline_playback::Playback;
use glassline_playback::recordings::Recording;
use glassline_quic_listener::{self as quic, MoqService, Quic};
use glassline_rooms::Rooms;
use glassline_rtsp_listener::{self as rtsp, Rtsp, RtspService};
use glassline_service::settings::{AllowedConnections, Settings};
use glassline_service::{self as service, Service};
use glassline_transcoding::{Transcoders, TranscodingThreads};
use tokio::task::JoinHandle;

use super::access::Access;
use super::foundation::Foundation;
use super::listeners::{self, HttpListeners};
use super::streams::Streams;
use super::{StartError, in_cluster, parts};
use crate::addresses::MediaAddresses;
use crate::app::{App, AppParts, HttpEndpoints};
use crate::hls::{self, Hls};
use crate::http::server::{ListenerCounters, Places};
use crate::http::{self, ViewerRoutes};
use crate::onvif::Onvif;
use crate::reload;
use crate::sessions::{Bounds, Negotiator, Registry, SessionDefaults, Shards, Shared};

/// A protocol by which viewers get streams.
struct Protocol {
    /// Returns its routes over HTTP.
    routes: fn() -> ViewerRoutes,
    /// Makes its part of the server's services, of what has started.
    service: fn(&Services, &AppParts) -> Arc<dyn Service>,
}

/// All protocols. Another one is a folder, and an entry here.
const PROTOCOLS: &[Protocol] = &[
    Protocol {
        routes: http::webrtc_routes,
        service: |_, app| Arc::clone(&app.sessions) as _,
    },
    Protocol {
        routes: ViewerRoutes::default,
        service: |started, _| {
            let shared = started.rtsp.as_ref().map(|it| Arc::clone(it.shared()));
            Arc::new(RtspService(shared))
        },
    },
    Protocol {
        routes: http::playback::routes,
        service: |started, _| Arc::clone(&started.playback) as _,
    },
    Protocol {
        routes: ViewerRoutes::default,
        service: |started, _| {
            let shared = started.quic.as_ref().map(|it| Arc::clone(it.shared()));
            Arc::new(MoqService(shared))
        },
    },
    Protocol {
        routes: hls::routes,
        service: |_, app| Arc::new(Hls::new(app)),
    },
    Protocol {
        routes: ViewerRoutes::default,
        service: |started, _| Arc::clone(&started.recording) as _,
    },
];

#[cfg(not(test))]
const EXAMPLES: &[Protocol] = &[];

/// The protocol that docs/guides/add-an-egress.md adds.
#[cfg(test)]
const EXAMPLES: &[Protocol] = &[Protocol {
    routes: crate::raw_h264::routes,
    service: |_, app| Arc::new(crate::raw_h264::RawH264::new(&app.config())),
}];

fn protocols() -> impl Iterator<Item = &'static Protocol> {
    PROTOCOLS.iter().chain(EXAMPLES)
}

/// Returns everything that viewers may ask for by HTTP.
pub(crate) fn viewer_routes() -> ViewerRoutes {
    let routes = protocols().map(|it| (it.routes)());
    routes.fold(http::page_routes(), ViewerRoutes::merge)
}

/// The threads that own peers of WebRTC, and what they share with the rest of the server.
#[derive(Debug)]
pub(super) struct Media {
    pub(super) addresses: Arc<MediaAddresses>,
    pub(super) messages: Arc<MessageLinks>,
    pub(super) shared: Arc<Shared>,
    pub(super) shards: Shards,
    /// The port of TCP for media, if it is turned on.
    pub(super) tcp: Option<TcpListener>,
}

impl Media {
    /// # Errors
    /// Returns [`StartError`] if the port is taken, or the system has no thread to give.
    pub(super) async fn start(
        config: &Config,
        foundation: &Foundation,
    ) -> Result<Self, StartError> {
        let registry = Arc::new(Registry::new(Bounds::of(&config.limits)));
        let addresses = Arc::new(MediaAddresses::new(config.media.advertise.clone()));
        addresses.start().await;
        let messages = MessageLinks::new(SessionDefaults::of(config).data);
        let shared = Arc::new(Shared::new(
            registry,
            Arc::clone(&foundation.latencies),
            Arc::clone(&addresses),
            Arc::clone(&foundation.failures),
            Arc::clone(&foundation.supervisor),
            Arc::clone(&messages),
        ));
        let mut shards = Shards::start(
            config.media.address,
            config.media.tcp,
            config.shards.unwrap_or(cores()),
            &shared,
        )?;
        let tcp = shards.take_tcp();
        Ok(Self {
            addresses,
            messages,
            shared,
            shards,
            tcp,
        })
    }
}

/// The parts that serve clients beside the shards.
#[derive(Debug)]
pub(super) struct Services {
    /// Connections that the listeners may have.
    pub(super) allowed: AllowedConnections,
    /// Addresses of the listeners of RTSP, by their names.
    rtsp_listeners: Vec<(&'static str, SocketAddr)>,
    pub(super) rtsp: Option<Rtsp>,
    pub(super) quic: Option<Quic>,
    recording: Arc<Recording>,
    playback: Arc<Playback>,
    /// Ends when this server has left its cluster.
    pub(super) joined: Option<JoinHandle<()>>,
    transcoders: Arc<Transcoders>,
    pub(super) transcoding: TranscodingThreads,
    sessions: Arc<Negotiator>,
}

impl Services {
    /// # Errors
    /// Returns [`StartError`] with the listener, and what to change.
    pub(super) fn start(
        config: &Config,
        foundation: &Foundation,
        access: &Access,
        media: &Media,
        streams: &Streams,
    ) -> Result<Self, StartError> {
        let cores = cores();
        let listeners = listeners::open_rtsp(config, &access.certificates, cores)?;
        let rtsp_listeners = listeners.iter();
        let rtsp_listeners = rtsp_listeners.map(|it| (it.name(), it.local_addr()));
        let rtsp_listeners = rtsp_listeners.collect();
        let allowed = AllowedConnections::of(config, cores);
        let (hub, supervisor) = (&foundation.hub, &foundation.supervisor);
        let recording = Recording::start(config, hub, foundation.clock, supervisor);
        let recording = Arc::new(recording);
        let playback = Arc::new(Playback::new(Arc::clone(&recording), supervisor));
        if let Some(member) = streams.directory().as_ref().and_then(|it| it.member()) {
            playback.join(http::playback::others(member));
        }
        let of_rtsp = rtsp_services(foundation, access, streams, &playback);
        let rtsp = parts::start_rtsp(config, allowed, listeners, of_rtsp)?;
        let quic = start_quic(config, foundation, access, streams)?;
        let (cluster, stopped) = (streams.cluster.as_ref(), &foundation.stopped);
        let joined = in_cluster::join(config, cluster, quic.as_ref(), stopped);
        let of_sessions = parts::of_sessions(config, media.shards.local_addr(), foundation.clock)?;
        let limits = reload::transcoded(config);
        let settings = config.transcoding.settings();
        let (transcoders, transcoding) =
            TranscodingThreads::start(limits, settings, &foundation.supervisor)?;
        transcoders.set_video(reload::of_video(config));
        let sessions = Negotiator::new(
            Arc::clone(&media.shared),
            Arc::clone(&foundation.hub),
            streams.library.clone(),
            streams.directory(),
            Arc::clone(&transcoders),
            Arc::clone(&streams.loudspeakers),
            of_sessions,
        );
        Ok(Self {
            allowed,
            rtsp_listeners,
            rtsp,
            quic,
            recording,
            playback,
            joined,
            transcoders,
            transcoding,
            sessions: Arc::new(sessions),
        })
    }

    /// Returns the addresses of all listeners by their names.
    pub(super) fn listeners(
        &self,
        config: &Config,
        http: &HttpListeners,
        media: &Media,
    ) -> Vec<(&'static str, SocketAddr)> {
        let [mut listeners, operators] = http.addresses();
        let media = media.shards.local_addr();
        listeners.push(("media", media));
        if config.media.tcp {
            listeners.push(("media-tcp", media));
        }
        listeners.extend(&self.rtsp_listeners);
        let quic = self.quic.as_ref();
        listeners.extend(quic.map(|quic| ("quic", quic.local_addr())));
        listeners.extend(operators);
        listeners
    }

    /// Returns what the handlers of HTTP use.
    pub(super) fn app(
        &self,
        config: Config,
        foundation: &Foundation,
        access: &Access,
        streams: &Streams,
        http: &HttpListeners,
    ) -> App {
        let mut parts = AppParts {
            rooms: Arc::new(Rooms::new(reload::room_bounds(&config.limits))),
            http: self.http_endpoints(&config, foundation, http),
            settings: Arc::new(Settings::new(config)),
            users: Arc::clone(&access.users),
            sites: Arc::clone(&access.sites),
            failures: Arc::clone(&foundation.failures),
            library: streams.library.clone(),
            hub: Arc::clone(&foundation.hub),
            hooks: Arc::default(),
            sessions: Arc::clone(&self.sessions),
            transcoders: Arc::clone(&self.transcoders),
            snapshots: Arc::default(),
            stored: streams.stored.clone(),
            onvif: Onvif::default(),
            supervisor: Arc::clone(&foundation.supervisor),
            latencies: Arc::clone(&foundation.latencies),
            codes: foundation.codes.clone(),
            clock: foundation.clock,
            tls: access.tls_parts(),
            services: service::Services::default(),
        };
        let services = protocols().map(|it| (it.service)(self, &parts));
        parts.services = service::Services::new(services.collect());
        App::new(parts)
    }

    fn http_endpoints(
        &self,
        config: &Config,
        foundation: &Foundation,
        http: &HttpListeners,
    ) -> HttpEndpoints {
        let allowed = &self.allowed;
        let places = Places::with_proxies(
            allowed.http,
            config.http.connections_per_address,
            &config.http.trusted_proxies,
        );
        HttpEndpoints {
            counters: ListenerCounters::default(),
            ports: http.ports(),
            places,
            operators: Places::new(allowed.operators, allowed.operators_per_address()),
            audit: Arc::new(AuditLog::open(config.admin.state_file.as_deref())),
            events: Arc::clone(&foundation.events),
            history: Arc::default(),
        }
    }
}

fn rtsp_services(
    foundation: &Foundation,
    access: &Access,
    streams: &Streams,
    playback: &Arc<Playback>,
) -> rtsp::Services {
    rtsp::Services {
        hub: Arc::clone(&foundation.hub),
        latencies: Arc::clone(&foundation.latencies),
        users: Arc::clone(&access.users),
        sites: Arc::clone(&access.sites),
        library: streams.library.clone(),
        playback: Arc::clone(playback),
        directory: streams.directory(),
        clock: foundation.clock,
        failures: Arc::clone(&foundation.failures),
        supervisor: Arc::clone(&foundation.supervisor),
    }
}

fn start_quic(
    config: &Config,
    foundation: &Foundation,
    access: &Access,
    streams: &Streams,
) -> Result<Option<Quic>, quic::StartError> {
    let services = quic::Services {
        hub: Arc::clone(&foundation.hub),
        users: Arc::clone(&access.users),
        sites: Arc::clone(&access.sites),
        clock: foundation.clock,
        failures: Arc::clone(&foundation.failures),
        supervisor: Arc::clone(&foundation.supervisor),
        cluster: streams.cluster.clone(),
    };
    let store = access.certificates.quic.clone();
    let state_file = config.admin.state_file.as_deref();
    let source = quic::CertificateSource::new(&config.quic, store, state_file);
    Quic::start(&config.quic, source, services, &foundation.stopped)
}

/// Returns the number of processors that this process may use.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
