//! Opens the ports for TCP, and divides the connections that the process may have between them.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::StartError;
use super::certificates::Certificates;
use crate::app::{App, HttpPorts};
use crate::config::Config;
use crate::http::{self, server};
use crate::rtsp;
use crate::runtime::DescriptorBudget;

/// Most connections of operators at the same time.
const ADMIN_CONNECTIONS: usize = 32;

/// Descriptors that are reserved for each thread that polls: its poll, its waker, its sockets.
const DESCRIPTORS_OF_THREAD: usize = 8;

/// Descriptors that are reserved for each configured source: connections and files.
const DESCRIPTORS_OF_SOURCE: usize = 4;

/// Most descriptors that are reserved for files of the media folder.
const MEDIA_FILES: usize = 128;

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

    /// Starts to serve all ports.
    pub(super) fn serve(
        self,
        app: &App,
        allowed: AllowedConnections,
        stopped: &watch::Receiver<bool>,
    ) -> Vec<JoinHandle<()>> {
        let viewers = server::Places::with_proxies(
            allowed.http,
            app.config.http.connections_per_address,
            &app.config.http.trusted_proxies,
        );
        // Operators have places of their own, so that the server can be looked into while it is
        // full.
        let operators = server::Places::new(ADMIN_CONNECTIONS, ADMIN_CONNECTIONS);
        let (public, admin) = (http::public(app.clone()), http::admin(app.clone()));
        let counters = &app.http.counters;
        let plain = [
            (
                "http",
                Some(self.plain),
                &viewers,
                &public,
                &counters.public,
            ),
            ("https", self.tls, &viewers, &public, &counters.public_tls),
            (
                "admin",
                Some(self.admin),
                &operators,
                &admin,
                &counters.admin,
            ),
            (
                "admin-https",
                self.admin_tls,
                &operators,
                &admin,
                &counters.admin_tls,
            ),
        ];
        let open = plain
            .into_iter()
            .filter_map(|(name, listener, places, router, counters)| {
                let serving = server::serve(
                    listener?,
                    router.clone(),
                    server::Options {
                        name,
                        places: places.clone(),
                        failures: Arc::clone(&app.failures),
                    },
                    Arc::clone(counters),
                    Arc::clone(&app.supervisor),
                    stopped.clone(),
                );
                Some(tokio::spawn(serving))
            });
        open.collect()
    }
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

/// Connections that the listeners may have open at the same time, so that descriptors remain for
/// the rest of the server.
#[derive(Clone, Copy, Debug)]
pub(super) struct AllowedConnections {
    http: usize,
    pub(super) rtsp: usize,
    pub(super) media: usize,
}

impl AllowedConnections {
    /// Returns what is configured, or less if the process may not open enough files. Must be called
    /// when most other descriptors are open.
    pub(super) fn of(config: &Config, threads: usize) -> Self {
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
            (
                "media.tcp_connections",
                if config.media.tcp {
                    config.media.tcp_connections
                } else {
                    0
                },
            ),
        ]);
        for shortage in grants.iter().filter_map(|grant| budget.shortage(*grant)) {
            tracing::warn!("{shortage}");
        }
        let [http, rtsp, media] = grants.map(|grant| grant.granted);
        Self { http, rtsp, media }
    }
}
