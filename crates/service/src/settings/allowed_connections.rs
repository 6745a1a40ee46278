//! Divides the connections that the process may have between its listeners.

use glassline_config::Config;
use glassline_runtime::DescriptorBudget;

/// Descriptors that are reserved for each thread that polls: its poll, its waker, its sockets.
const DESCRIPTORS_OF_THREAD: usize = 8;

/// Descriptors that are reserved for each configured source: connections and files.
const DESCRIPTORS_OF_SOURCE: usize = 4;

/// Most descriptors that are reserved for files of the media folder.
const MEDIA_FILES: usize = 128;

/// Fewest and most connections of operators. A page has two, a person some pages, and monitoring a few.
const OPERATORS: (usize, usize) = (32, 512);

/// Part of the free descriptors that operators may use: one in this number.
const OPERATORS_PART: usize = 16;

/// Connections that the listeners may have open at the same time, so that descriptors remain for
/// the rest of the server.
#[derive(Clone, Copy, Debug)]
pub struct AllowedConnections {
    budget: DescriptorBudget,
    /// Connections of viewers by HTTP and HTTPS.
    pub http: usize,
    /// Connections of RTSP clients, within TLS or not.
    pub rtsp: usize,
    /// Connections of media over TCP.
    pub media: usize,
    /// Connections of operators, so that the server can be looked into while it is full.
    pub operators: usize,
}

impl AllowedConnections {
    /// Returns what is configured, or less if the process may not open enough files. Must be called
    /// when most other descriptors are open.
    pub fn of(config: &Config, threads: usize) -> Self {
        let threads = config.shards.unwrap_or(threads);
        let files = config.rtsp.media_folder.as_ref();
        let files = files.map_or(0, |_| config.rtsp.media_clients.min(MEDIA_FILES));
        let planned =
            threads * DESCRIPTORS_OF_THREAD + config.sources.len() * DESCRIPTORS_OF_SOURCE + files;
        let budget = DescriptorBudget::of_process(planned);
        let operators = budget.free() / OPERATORS_PART;
        let operators = operators.clamp(OPERATORS.0, OPERATORS.1);
        Self::within(budget.less(operators), operators, config)
    }

    /// Returns what `config` allows within the descriptors that were free at the start.
    pub fn again(self, config: &Config) -> Self {
        Self::within(self.budget, self.operators, config)
    }

    /// Returns the most connections of operators from one address: all but a quarter, so that another
    /// address always finds a place.
    pub const fn operators_per_address(self) -> usize {
        self.operators - self.operators / 4
    }

    fn within(budget: DescriptorBudget, operators: usize, config: &Config) -> Self {
        let has_rtsp = config.rtsp.address.is_some() || config.rtsp.tls.address.is_some();
        let used = |is_used: bool, wanted: usize| if is_used { wanted } else { 0 };
        let grants = budget.share([
            ("http.connections", config.http.connections),
            ("rtsp.clients", used(has_rtsp, config.rtsp.clients)),
            (
                "media.tcp_connections",
                used(config.media.tcp, config.media.tcp_connections),
            ),
        ]);
        for shortage in grants.iter().filter_map(|grant| budget.shortage(*grant)) {
            tracing::warn!("{shortage}");
        }
        let [http, rtsp, media] = grants.map(|grant| grant.granted);
        Self {
            budget,
            http,
            rtsp,
            media,
            operators,
        }
    }
}
