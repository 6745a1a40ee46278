//! Opens the ports for TCP.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use glassline_config::Config;
use glassline_rtsp_listener as rtsp;

use super::StartError;
use super::certificates::Certificates;
use crate::app::{App, HttpPorts};
use crate::hls::LiveFiles;
use crate::http::server::Handlers;
use crate::http::{self, ViewerRoutes, server};

/// Opens the ports of RTSP, plain and within TLS; either may be turned off.
pub(super) fn open_rtsp(
    config: &Config,
    certificates: &Certificates,
    cores: usize,
) -> Result<Vec<rtsp::Listener>, StartError> {
    let threads = config.shards.unwrap_or(cores);
    let open = |name, setting, address, tls| {
        rtsp::Listener::open(address, threads, tls).map_err(|source| StartError::Listen {
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
        let setting = "rtsp.tls.address or --rtsps (`off` for none)";
        let store = certificates.rtsps.as_ref();
        let store = store.ok_or(StartError::NoCertificate {
            setting: "rtsp.tls.address",
            address,
        })?;
        listeners.push(open("rtsps", setting, address, Some(store.rtsps()?))?);
    }
    Ok(listeners)
}

/// The open ports of HTTP: for viewers and for operators, each plain and perhaps within TLS.
#[derive(Debug)]
pub(super) struct HttpListeners {
    plain: server::Listener,
    tls: Option<server::Listener>,
    admin: server::Listener,
    admin_tls: Option<server::Listener>,
}

impl HttpListeners {
    pub(super) fn open(config: &Config, certificates: &Certificates) -> Result<Self, StartError> {
        let within_tls = |name, key, setting, address: Option<SocketAddr>| {
            let Some(address) = address else {
                return Ok(None);
            };
            let store = certificates.of_https(key, address)?;
            let listener = listen(name, setting, address)?;
            Ok::<_, StartError>(Some(
                listener.within_tls(store.https(certificates.challenges())?),
            ))
        };
        let http = &config.http;
        let setting = "https.address or --https (`off` for none)";
        let https = config.https_address();
        Ok(Self {
            plain: listen("http", "http.address or --http", http.address)?,
            tls: within_tls("https", "https.address", setting, https)?,
            admin: listen("admin", "admin.address or --admin", config.admin.address)?,
            admin_tls: within_tls(
                "admin-https",
                "admin.https",
                "admin.https",
                config.admin.https,
            )?,
        })
    }

    /// Returns the ports for viewers alone.
    pub(super) fn ports(&self) -> HttpPorts {
        let https = self.tls.as_ref().map(|it| it.local_addr().port());
        HttpPorts {
            http: self.plain.local_addr().port(),
            https,
        }
    }

    /// Returns the ports for viewers, and those for operators, by their names.
    pub(super) fn addresses(&self) -> [Vec<(&'static str, SocketAddr)>; 2] {
        let of = |name, listener: &Option<server::Listener>| {
            let address = listener.as_ref().map(server::Listener::local_addr);
            address.map(|address| (name, address))
        };
        let viewers = std::iter::once(("http", self.plain.local_addr()));
        let operators = std::iter::once(("admin", self.admin.local_addr()));
        [
            viewers.chain(of("https", &self.tls)).collect(),
            operators
                .chain(of("admin-https", &self.admin_tls))
                .collect(),
        ]
    }

    /// Starts to serve all ports, those for viewers with `routes`.
    pub(super) fn serve(
        self,
        app: &App,
        routes: fn() -> ViewerRoutes,
        stopped: &watch::Receiver<bool>,
    ) -> Vec<JoinHandle<()>> {
        answer_other_servers(app, routes());
        let member = app.sessions.directory().and_then(|it| it.member());
        let viewers = Clients {
            places: app.http.places.clone(),
            handlers: Handlers::from(http::public(app.clone(), routes()))
                .behind(Arc::new(LiveFiles(app.clone()))),
            drain: member.map(|it| it.draining()),
        };
        let operators = Clients {
            places: app.http.operators.clone(),
            handlers: http::admin(app.clone()).into(),
            drain: None,
        };
        let counters = &app.http.counters;
        let start = |clients: &Clients, name, listener: Option<_>, counters: &Arc<_>| {
            let options = server::Options {
                name,
                places: clients.places.clone(),
                failures: Arc::clone(&app.failures),
                drain: clients.drain.clone(),
            };
            let serving = server::serve(
                listener?,
                clients.handlers.clone(),
                options,
                Arc::clone(counters),
                Arc::clone(&app.supervisor),
                stopped.clone(),
            );
            Some(tokio::spawn(serving))
        };
        let started = [
            start(&viewers, "http", Some(self.plain), &counters.public),
            start(&viewers, "https", self.tls, &counters.public_tls),
            start(&operators, "admin", Some(self.admin), &counters.admin),
            start(
                &operators,
                "admin-https",
                self.admin_tls,
                &counters.admin_tls,
            ),
        ];
        started.into_iter().flatten().collect()
    }
}

/// The parts that ports for one kind of clients share.
struct Clients {
    places: server::Places,
    handlers: Handlers,
    drain: server::Drain,
}

/// Answers requests that other servers of the cluster hand on.
fn answer_other_servers(app: &App, routes: ViewerRoutes) {
    let Some(member) = app.sessions.directory().and_then(|it| it.member()) else {
        return;
    };
    let routes = http::of_servers(app, routes);
    let answer = move |stream, local| {
        let answering = http::distant_session::answer(stream, local, routes.clone());
        Box::pin(answering) as std::pin::Pin<Box<dyn Future<Output = ()> + Send>>
    };
    member.answer_with(Box::new(answer));
}

fn listen(
    name: &'static str,
    setting: &'static str,
    address: SocketAddr,
) -> Result<server::Listener, StartError> {
    server::Listener::open(address).map_err(|source| StartError::Listen {
        name,
        setting,
        address,
        source,
    })
}
