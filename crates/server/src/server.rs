//! Starts and stops all parts of the server: hub, sources, shards, RTSP, QUIC, HTTP.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use glassline_hub::Hub;
use glassline_quic::Fingerprint;
use glassline_webrtc::Certificate;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use crate::app::App;
use crate::auth::Users;
use crate::config::{Config, DataAccess};
use crate::http;
use crate::http::server::ListenerCounters;
use crate::ingest::library::{self, Library};
use crate::ingest::{self, FrameCodes, SourceSpec};
use crate::latency::LatencyRegistry;
use crate::metrics::LOG;
use crate::quic::{self, Quic};
use crate::reload::Reload;
use crate::rooms::{self, Rooms};
use crate::rtsp::{self, Listener, Rtsp};
use crate::runtime::{Clock, DescriptorBudget, Part, Supervisor, run_once, spawn_kept};
use crate::sessions::{self, Bounds, Command, DataPolicy, Negotiator};
use crate::sessions::{Registry, Settings, Shards, Shared};
use crate::sweep::{end_lost_participants, keep_sweeping};
use crate::transcoding::TranscodingThreads;

/// Most connections of operators at the same time.
const ADMIN_CONNECTIONS: usize = 32;

/// Descriptors that are reserved for each thread that polls: its poll, its waker, its sockets.
const DESCRIPTORS_OF_THREAD: usize = 8;

/// Descriptors that are reserved for each configured source: connections and files.
const DESCRIPTORS_OF_SOURCE: usize = 4;

/// Most descriptors that are reserved for files of the media folder.
const MEDIA_FILES: usize = 128;

/// A running server with its listeners, threads and tasks.
#[derive(Debug)]
pub struct Server {
    listeners: Vec<(&'static str, SocketAddr)>,
    hub: Arc<Hub>,
    shared: Arc<Shared>,
    shards: Shards,
    rtsp: Option<Rtsp>,
    quic: Option<Quic>,
    transcoding: TranscodingThreads,
    stop: watch::Sender<bool>,
    reload: Arc<Notify>,
    sources: ingest::Sources,
    supervisor: Arc<Supervisor>,
    tasks: Vec<JoinHandle<()>>,
}

impl Server {
    /// Opens all listeners, and starts the shards and the sources `specs`.
    ///
    /// # Errors
    /// Returns [`StartError`] with the listener or the source, and what to change.
    pub async fn start(config: Config, specs: Vec<SourceSpec>) -> Result<Self, StartError> {
        let clock = Clock::start();
        let supervisor = Supervisor::start()?;
        if LOG.turns.get() > 0 {
            supervisor.register_counted(Part::Log, "log", &LOG.turns);
        }
        let http = listen("http", "http.address or --http", config.http.address)?;
        let admin = listen("admin", "admin.address or --admin", config.admin.address)?;
        let latencies = Arc::new(LatencyRegistry::default());
        let registry = Arc::new(Registry::new(Bounds {
            viewers: config.limits.viewers,
            half_open: config.limits.half_open,
            half_open_per_address: config.limits.half_open_per_address,
            handshake: config.limits.handshake(),
        }));
        let shared = Arc::new(Shared::new(
            registry,
            Arc::clone(&latencies),
            config.media.advertise.clone(),
            Arc::clone(&supervisor),
        ));
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let shards = Shards::start(
            config.media.address,
            config.shards.unwrap_or(cores),
            &shared,
        )?;
        let hub = Arc::new(Hub::new(config.limits.hub()));
        let codes = FrameCodes::default();
        let (stop, stopped) = watch::channel(false);
        let sources = ingest::spawn(&hub, specs, &codes, &supervisor, stopped.clone()).await?;
        let users = Arc::new(Users::new(&config.auth));
        let sites = Arc::new(config.sites());
        let library = library(&config, &hub, &supervisor)?;
        let listeners = open_rtsp_listeners(&config, cores)?;
        let identity = listeners.iter().find_map(Listener::identity);
        let mut reload = Reload::new(&config, &users, identity, &supervisor);
        let asked = Arc::new(Notify::new());
        let rtsp_listeners = listeners
            .iter()
            .map(|listener| (listener.name(), listener.local_addr()))
            .collect::<Vec<_>>();
        let allowed = AllowedConnections::of(&config, cores);
        let services = rtsp::Services {
            hub: Arc::clone(&hub),
            latencies: Arc::clone(&latencies),
            users: Arc::clone(&users),
            sites: Arc::clone(&sites),
            library: library.clone(),
            wall: clock.wall(),
            supervisor: Arc::clone(&supervisor),
        };
        let rtsp = start_rtsp(&config, allowed, listeners, services)?;
        let users_and_sites = (&users, &sites);
        let quic = Quic::start(
            &config.quic,
            &hub,
            users_and_sites,
            clock,
            &supervisor,
            &stopped,
        )?;
        if let Some(quic) = &quic {
            reload.watch_quic(&config.quic, quic.shared());
        }
        let mut listeners = vec![("http", http.local_addr()), ("media", shards.local_addr())];
        listeners.extend(rtsp_listeners);
        listeners.extend(quic.as_ref().map(|quic| ("quic", quic.local_addr())));
        listeners.push(("admin", admin.local_addr()));
        let rooms = Arc::new(Rooms::new(rooms::Bounds {
            rooms: config.limits.rooms,
            participants: config.limits.room_participants,
        }));
        let settings = settings(&config, shards.local_addr(), clock)?;
        let audio = &config.transcoding;
        let (transcoders, transcoding) =
            TranscodingThreads::start(audio.audio_streams, audio.settings(), &supervisor)?;
        let sessions = Negotiator::new(
            Arc::clone(&shared),
            Arc::clone(&hub),
            library.clone(),
            Arc::clone(&transcoders),
            settings,
        );
        let app = App {
            config: Arc::new(config),
            users,
            sites,
            rooms,
            library,
            hub: Arc::clone(&hub),
            sessions: Arc::new(sessions),
            transcoders,
            supervisor: Arc::clone(&supervisor),
            rtsp: rtsp.as_ref().map(|rtsp| Arc::clone(rtsp.shared())),
            quic: quic.as_ref().map(|quic| Arc::clone(quic.shared())),
            latencies: Arc::clone(&latencies),
            codes,
            clock,
            http: ListenerCounters::default(),
        };
        let task = (Part::Background, "participants");
        let (of_rooms, until) = (app.clone(), stopped.clone());
        let ending = move || end_lost_participants(of_rooms.clone(), until.clone());
        let participants = spawn_kept(&supervisor, task, &stopped, ending);
        let [public, operators] = serve_http(app, allowed, http, admin, &stopped);
        let reload = reload.run(Arc::clone(&asked), stopped.clone());
        let task = (Part::Background, "reload");
        let reload = run_once(Arc::clone(&supervisor), task, stopped.clone(), reload);
        let tasks = vec![
            public,
            operators,
            participants,
            tokio::spawn(reload),
            tokio::spawn(keep_sweeping(
                Arc::clone(&shared),
                Arc::clone(&hub),
                latencies,
                stopped,
            )),
        ];
        Ok(Self {
            listeners,
            hub,
            shared,
            shards,
            rtsp,
            quic,
            transcoding,
            stop,
            reload: asked,
            sources,
            supervisor,
            tasks,
        })
    }

    /// Returns the address of each listener: `http`, `media`, `rtsp`, `rtsps` and `quic` if they
    /// are turned on, and `admin`.
    pub fn listeners(&self) -> &[(&'static str, SocketAddr)] {
        &self.listeners
    }

    /// Reads users and the certificate of RTSPS again, soon. Errors are logged; the previous
    /// content then stays in force.
    pub fn reload(&self) {
        self.reload.notify_one();
    }

    /// Returns the SHA-256 of the present certificate of QUIC, if QUIC is turned on.
    pub fn quic_fingerprint(&self) -> Option<Fingerprint> {
        let quic = self.quic.as_ref()?;
        Some(quic.shared().fingerprint())
    }

    /// Returns the hub, which has all streams.
    pub fn hub(&self) -> &Arc<Hub> {
        &self.hub
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
        for shard in self.shared.shards() {
            if shard.send(Command::Stop).is_err() {
                tracing::warn!(
                    "a shard does not take the command to stop: its inbox is full; its viewers get no goodbye"
                );
            }
        }
        if let Some(rtsp) = &self.rtsp {
            rtsp.stop();
        }
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

/// Returns the settings for answering offers, for shards that listen on `media`.
fn settings(config: &Config, media: SocketAddr, clock: Clock) -> Result<Settings, StartError> {
    let data = &config.webrtc.data;
    Ok(Settings {
        certificate: Arc::new(Certificate::generate()?),
        media,
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

/// Opens the media folder, if one is configured.
fn library(
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
    Library::new(folder, Arc::clone(hub), limits, supervisor).map(|library| Some(Arc::new(library)))
}

/// Opens the ports of RTSP, plain and within TLS; either may be turned off.
fn open_rtsp_listeners(config: &Config, cores: usize) -> Result<Vec<Listener>, StartError> {
    let threads = config.shards.unwrap_or(cores);
    let open = |name, setting, address, identity| {
        Listener::open(address, threads, identity).map_err(|source| StartError::Listen {
            name,
            setting,
            address,
            source,
        })
    };
    let mut listeners = Vec::new();
    if let Some(address) = config.rtsp.address {
        let setting = "rtsp.address or --rtsp (`off` for none)";
        listeners.push(open("rtsp", setting, address, None)?);
    }
    if let Some(address) = config.rtsp.tls.address {
        let identity = config.rtsp.tls.identity()?;
        let setting = "rtsp.tls.address or --rtsps (`off` for none)";
        listeners.push(open("rtsps", setting, address, identity)?);
    }
    Ok(listeners)
}

fn start_rtsp(
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

fn listen(
    name: &'static str,
    setting: &'static str,
    address: SocketAddr,
) -> Result<http::server::Listener, StartError> {
    http::server::Listener::open(address).map_err(|source| StartError::Listen {
        name,
        setting,
        address,
        source,
    })
}

/// Connections that the listeners may have open at the same time, so that descriptors remain for
/// the rest of the server.
#[derive(Clone, Copy, Debug)]
struct AllowedConnections {
    http: usize,
    rtsp: usize,
}

impl AllowedConnections {
    /// Returns what is configured, or less if the process may not open enough files. Must be called
    /// when most other descriptors are open.
    fn of(config: &Config, threads: usize) -> Self {
        let threads = config.shards.unwrap_or(threads);
        let has_rtsp = config.rtsp.address.is_some() || config.rtsp.tls.address.is_some();
        let files = config.rtsp.media_folder.as_ref();
        let files = files.map_or(0, |_| config.rtsp.media_clients.min(MEDIA_FILES));
        let planned = ADMIN_CONNECTIONS
            + threads * DESCRIPTORS_OF_THREAD
            + config.sources.len() * DESCRIPTORS_OF_SOURCE
            + files;
        let budget = DescriptorBudget::of_process(planned);
        let grants = budget.share([
            ("http.connections", config.http.connections),
            (
                "rtsp.clients",
                if has_rtsp { config.rtsp.clients } else { 0 },
            ),
        ]);
        for shortage in grants.iter().filter_map(|grant| budget.shortage(*grant)) {
            tracing::warn!("{shortage}");
        }
        let [http, rtsp] = grants.map(|grant| grant.granted);
        Self { http, rtsp }
    }
}

/// Starts to serve both HTTP listeners: `public` for viewers, `admin` for operators.
fn serve_http(
    app: App,
    allowed: AllowedConnections,
    public: http::server::Listener,
    admin: http::server::Listener,
    stopped: &watch::Receiver<bool>,
) -> [JoinHandle<()>; 2] {
    let for_viewers = http::server::Options {
        name: "http",
        connections: allowed.http,
        connections_per_address: app.config.http.connections_per_address,
    };
    // Operators have places of their own, so that the server can be looked into while it is full.
    let for_operators = http::server::Options {
        name: "admin",
        connections: ADMIN_CONNECTIONS,
        connections_per_address: ADMIN_CONNECTIONS,
    };
    let counters = app.http.clone();
    let supervisor = Arc::clone(&app.supervisor);
    let serve = |listener, router, options, counters| {
        let supervisor = Arc::clone(&supervisor);
        let serving = http::server::serve(
            listener,
            router,
            options,
            counters,
            supervisor,
            stopped.clone(),
        );
        tokio::spawn(serving)
    };
    [
        serve(
            public,
            http::public(app.clone()),
            for_viewers,
            counters.public,
        ),
        serve(admin, http::admin(app), for_operators, counters.admin),
    ]
}

/// The reason why the server could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A TCP port could not be opened.
    #[error(
        "{name}: cannot listen on TCP {address}: {source}; \
         stop the program that holds port {port} (`ss -ltnp 'sport = :{port}'` names it) or change {setting}",
        port = address.port()
    )]
    Listen {
        /// Name of the listener.
        name: &'static str,
        /// Configuration key of the address.
        setting: &'static str,
        /// Address that could not be opened.
        address: SocketAddr,
        /// The error that the system returned.
        source: std::io::Error,
    },
    /// The media port could not be opened, or its threads could not be started.
    #[error(transparent)]
    Shards(#[from] sessions::StartError),
    /// A source can never work.
    #[error(transparent)]
    Source(#[from] ingest::StartError),
    /// The certificate for DTLS could not be made.
    #[error("cannot make a DTLS certificate: {0}")]
    Certificate(#[from] glassline_webrtc::dtls::GenerateError),
    /// The port or certificate of QUIC does not work.
    #[error(transparent)]
    Quic(#[from] quic::StartError),
    /// The certificate for RTSP within TLS does not work.
    #[error(transparent)]
    Identity(#[from] crate::config::IdentityError),
    /// The system refused something else.
    #[error("cannot start: {0}")]
    System(#[from] std::io::Error),
}
