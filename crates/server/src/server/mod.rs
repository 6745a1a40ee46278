//! Starts and stops all parts of the server: hub, sources, shards, RTSP, QUIC, HTTP.

mod balance;
mod certificates;
mod departures;
mod drain;
mod in_cluster;
mod listeners;
mod observing;
mod parts;
mod start_error;
mod telemetry;
mod trial;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use glassline_hub::Hub;
use glassline_quic::Fingerprint;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::addresses::MediaAddresses;
use crate::app::{App, HttpEndpoints, TlsParts};
use crate::audit::AuditLog;
use crate::auth::Users;
use crate::config::Config;
use crate::events::EventLog;
use crate::failures::Failures;
use crate::hooks::HookCounters;
use crate::http::server::{ListenerCounters, Places};
use crate::ingest::{self, FrameCodes, SourceSpec};
use crate::latency::LatencyRegistry;
use crate::messages::MessageLinks;
use crate::metrics::LOG;
use crate::quic::Quic;
use crate::reload::{self, Configuration, Parts, Reload, Reloading};
use crate::rooms::Rooms;
use crate::rtsp::{self, Rtsp};
use crate::runtime::{Clock, ConnectionLimit, Part, Supervisor, run_once, spawn_kept};
use crate::sessions::{self, Command, Negotiator, Registry, Shards, Shared};
use crate::settings::{AllowedConnections, Cause, Settings};
use crate::stored::{self, Stored};
use crate::sweep::{Swept, end_lost_sessions, keep_sweeping};
use crate::talk::Loudspeakers;
use crate::tls::{LanNames, LanSource, RootCertificate};
use crate::transcoding::TranscodingThreads;
use balance::Spread;
use certificates::Certificates;
use drain::Leaving;
use listeners::HttpListeners;
use parts::{keep_keys, library, of_sessions, run_hooks, start_rtsp};

pub use certificates::check_certificates;
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
    shared: Arc<Shared>,
    shards: Shards,
    rtsp: Option<Rtsp>,
    quic: Option<Quic>,
    transcoding: TranscodingThreads,
    lan: Option<Arc<LanSource>>,
    stop: watch::Sender<bool>,
    settings: Arc<Settings>,
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
        let clock = Clock::start();
        let supervisor = Supervisor::start()?;
        if LOG.turns.get() > 0 {
            supervisor.register_counted(Part::Log, "log", &LOG.turns);
        }
        let certificates = Certificates::load(&config)?;
        let http = HttpListeners::open(&config, &certificates)?;
        let latencies = Arc::new(LatencyRegistry::default());
        let registry = Arc::new(Registry::new(reload::bounds(&config.limits)));
        let failures = Arc::<Failures>::default();
        let events = Arc::<EventLog>::default();
        let addresses = Arc::new(MediaAddresses::new(config.media.advertise.clone()));
        addresses.start().await;
        let messages = MessageLinks::new(reload::session_defaults(&config).data);
        let shared = Arc::new(Shared::new(
            registry,
            Arc::clone(&latencies),
            Arc::clone(&addresses),
            Arc::clone(&failures),
            Arc::clone(&supervisor),
            Arc::clone(&messages),
        ));
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut shards = Shards::start(
            config.media.address,
            config.media.tcp,
            config.shards.unwrap_or(cores),
            &shared,
        )?;
        let hub = Arc::new(Hub::new(config.limits.hub()));
        let codes = FrameCodes::default();
        let (stop, stopped) = watch::channel(false);
        let loudspeakers = Arc::new(Loudspeakers::new(&specs));
        let hooks = Arc::<HookCounters>::default();
        let cluster = in_cluster::services(&config, &hub, clock, &supervisor, &messages, &codes)?;
        let member = cluster
            .as_ref()
            .and_then(|it| it.directory.member())
            .cloned();
        let leaving = Leaving::new(&config, member.as_ref());
        let spread = Spread::new(&config, member.as_ref());
        let sources = ingest::spawn(
            &hub,
            specs.clone(),
            ingest::Surroundings {
                codes: codes.clone(),
                supervisor: Arc::clone(&supervisor),
                udp_ports: config.rtsp.camera_udp_ports,
            },
            stopped.clone(),
            in_cluster::permit(member.as_ref()),
        );
        let sources = Arc::new(sources.await?);
        in_cluster::expect(&config, member.as_ref());
        let users = Arc::new(Users::new(&config.auth));
        users.load_keys().await?;
        let running = (&sources, &loudspeakers);
        let stored = stored(&config, &specs, running, &users).await?;
        let sites = Arc::new(config.sites());
        let library = library(&config, &hub, &supervisor)?;
        let listeners = listeners::open_rtsp(&config, &certificates, cores)?;
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
            directory: cluster.as_ref().map(|it| Arc::clone(&it.directory)),
            clock,
            failures: Arc::clone(&failures),
            supervisor: Arc::clone(&supervisor),
        };
        let rtsp = start_rtsp(&config, allowed, listeners, services)?;
        let directory = cluster.as_ref().map(|it| Arc::clone(&it.directory));
        let users_and_sites = (&users, &sites);
        let quic = Quic::start(
            (&config.quic, certificates.quic.clone()),
            &hub,
            users_and_sites,
            clock,
            (&failures, &supervisor),
            &stopped,
            cluster.clone(),
        )?;
        let joined = in_cluster::join(&config, cluster.as_ref(), quic.as_ref(), &stopped);
        let [mut listeners, operators] = http.addresses();
        listeners.push(("media", shards.local_addr()));
        if config.media.tcp {
            listeners.push(("media-tcp", shards.local_addr()));
        }
        listeners.extend(rtsp_listeners);
        listeners.extend(quic.as_ref().map(|quic| ("quic", quic.local_addr())));
        listeners.extend(operators);
        let rooms = Arc::new(Rooms::new(reload::room_bounds(&config.limits)));
        let media_tcp = shards.take_tcp();
        let of_sessions = of_sessions(&config, shards.local_addr(), clock)?;
        let limits = reload::transcoded(&config);
        let (transcoders, transcoding) =
            TranscodingThreads::start(limits, config.transcoding.settings(), &supervisor)?;
        let sessions = Negotiator::new(
            Arc::clone(&shared),
            Arc::clone(&hub),
            (library.clone(), directory),
            Arc::clone(&transcoders),
            loudspeakers,
            of_sessions,
        );
        let http_config = &config.http;
        let places = Places::with_proxies(
            allowed.http,
            http_config.connections_per_address,
            &http_config.trusted_proxies,
        );
        let operators = Places::new(allowed.operators, allowed.operators_per_address());
        let hook_list = watch::Sender::new(Arc::from(config.hooks.clone()));
        let audit = AuditLog::open(config.admin.state_file.as_deref());
        let settings = Arc::new(Settings::new(config));
        let app = App {
            settings: Arc::clone(&settings),
            users,
            sites,
            failures,
            rooms,
            library,
            hub: Arc::clone(&hub),
            hooks,
            sessions: Arc::new(sessions),
            transcoders,
            snapshots: Arc::default(),
            stored,
            supervisor: Arc::clone(&supervisor),
            rtsp: rtsp.as_ref().map(|rtsp| Arc::clone(rtsp.shared())),
            quic: quic.as_ref().map(|quic| Arc::clone(quic.shared())),
            latencies: Arc::clone(&latencies),
            codes,
            clock,
            http: HttpEndpoints {
                counters: ListenerCounters::default(),
                ports: http.ports(),
                places,
                operators,
                audit: Arc::new(audit),
                events: Arc::clone(&events),
            },
            tls: TlsParts {
                lan: certificates.lan.clone(),
                challenges: certificates.challenges().cloned(),
                certificates: certificates.stores().into(),
            },
        };
        let swept = Swept {
            shared: Arc::clone(&shared),
            hub: Arc::clone(&hub),
            latencies,
            audit: Arc::clone(&app.http.audit),
        };
        let task = (Part::Background, "participants");
        let (of_rooms, until) = (app.clone(), stopped.clone());
        let ending = move || end_lost_sessions(of_rooms.clone(), until.clone());
        let participants = spawn_kept(&supervisor, task, &stopped, ending);
        let draining = drain::spawn(&app, leaving.as_ref(), &stopped);
        let spreading = balance::spawn(&app, spread.as_ref(), &stopped);
        let keys = keep_keys(&app.users, &supervisor, &stopped);
        let hooks = run_hooks(&app, &hook_list, &sources, &stopped);
        let observing = observing::spawn(&app, &events, &stopped);
        let telemetry = telemetry::start(&app, &stopped)?;
        let mut tasks = http.serve(&app, &stopped);
        tasks.extend(telemetry);
        let media_connections = ConnectionLimit::new(allowed.media, allowed.media.div_ceil(4));
        let files = certificates.files.iter();
        let parts = Parts {
            app,
            hooks: hook_list,
            transcoding: transcoding.clone(),
            media_tcp: media_connections.clone(),
            allowed,
            certificates: files
                .map(|(store, files)| (Arc::clone(store), files.section))
                .collect(),
            log: reloading.log,
        };
        let running = settings.config.get();
        let configuration = Configuration::new(&running, &specs, reloading.load, parts);
        let reload = Reload::new(configuration, &certificates.files, (&supervisor, &events));
        tasks.extend([keys, hooks].into_iter().chain(draining).chain(spreading));
        tasks.push(observing);
        tasks.extend(certificates.keep(&supervisor, &stopped));
        tasks.extend(joined);
        if let Some(socket) = media_tcp {
            let (shared, supervisor) = (Arc::clone(&shared), Arc::clone(&supervisor));
            let serving = sessions::serve_tcp(
                socket,
                media_connections,
                shared,
                supervisor,
                stopped.clone(),
            )?;
            tasks.push(tokio::spawn(serving));
        }
        let task = (Part::Background, "media addresses");
        let until = stopped.clone();
        let asking = move || Arc::clone(&addresses).keep(until.clone());
        tasks.push(spawn_kept(&supervisor, task, &stopped, asking));
        let reload = reload.run(Arc::clone(&settings), stopped.clone());
        let task = (Part::Background, "reload");
        let reload = run_once(Arc::clone(&supervisor), task, stopped.clone(), reload);
        tasks.extend([
            participants,
            tokio::spawn(reload),
            tokio::spawn(keep_sweeping(swept, stopped)),
        ]);
        Ok(Self {
            listeners,
            hub,
            shared,
            shards,
            rtsp,
            quic,
            transcoding,
            lan: certificates.lan,
            stop,
            settings,
            sources,
            supervisor,
            tasks,
            leaving,
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

/// Reads what was made over the API: starts its sources, and adds its users and tokens to `users`.
async fn stored(
    config: &Config,
    specs: &[SourceSpec],
    (sources, loudspeakers): (&Arc<ingest::Sources>, &Arc<Loudspeakers>),
    users: &Arc<Users>,
) -> Result<Stored, StartError> {
    let services = stored::Services {
        running: Arc::clone(sources),
        loudspeakers: Arc::clone(loudspeakers),
    };
    let path = config.admin.state_file.clone();
    Ok(Stored::load(path, &config.admin.sources, specs, services, users).await?)
}
