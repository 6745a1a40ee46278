//! A protocol by which viewers get streams, as the rest of the server knows it.
//!
//! ```text
//!  sessions, rtsp, quic, … ─ implement ─► Service ◄─ ask ─ metrics, dashboard, reload, drain, balance
//!  server/services.rs: the list of all protocols, each with its routes
//! ```
//!
//! Whatever asks goes through the list; nothing else knows which protocols there are.

// This crate is outside the sans-IO cores: what happens to a viewer has its instant.
#![expect(
    clippy::disallowed_methods,
    reason = "the shell reads the clock for the cores"
)]

pub mod metrics;
pub mod settings;

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use futures_util::future::BoxFuture;
use glassline_access::auth::Excluded;
use glassline_config::Config;

use crate::settings::AllowedConnections;

/// A protocol by which viewers get streams.
pub trait Service: Any + fmt::Debug + Send + Sync {
    /// Returns the name for the API, the dashboard and labels of metrics.
    fn name(&self) -> &'static str;

    /// Writes the protocol's own counters as Prometheus text.
    fn metrics(&self, text: &mut String);

    /// Puts the protocol's part of a configuration in force, after its rights. Cannot fail and does not
    /// wait.
    fn heed(&self, config: &Config, allowed: &AllowedConnections) {
        let _ = (config, allowed);
    }

    /// Returns how many viewers there are of each stream or file, for a protocol whose viewers metrics
    /// tell from all others; `None` for the rest.
    fn audience(&self) -> BoxFuture<'_, Option<Audience>> {
        Box::pin(async { None })
    }

    /// Returns everybody who watches at `now`.
    fn viewers(&self, now: Instant) -> BoxFuture<'_, Vec<ViewerFigures>>;

    /// Returns the client that publishes `stream` by this protocol, as [`disconnect`](Self::disconnect) takes
    /// it; `None` if none does.
    fn publisher<'a>(&'a self, stream: &'a str) -> BoxFuture<'a, Option<NamedViewer>> {
        let _ = stream;
        Box::pin(async { None })
    }

    /// Returns how an exclusion knows a viewer or publisher: by its user, otherwise by its address; `None` if the viewer
    /// cannot be told from others.
    fn excludable<'a>(
        &'a self,
        viewer: &'a NamedViewer,
    ) -> BoxFuture<'a, Result<Option<Excluded>, NotEnded>> {
        Box::pin(async {
            let mut viewers = self.viewers(Instant::now()).await.into_iter();
            let found = viewers.find(|it| it.viewer == viewer.name);
            Ok(excluded_at(&found.ok_or(NotEnded::Unknown)?.address))
        })
    }

    /// Ends the session of a viewer on behalf of an operator.
    fn disconnect<'a>(&'a self, viewer: &'a NamedViewer) -> BoxFuture<'a, Result<(), NotEnded>>;

    /// Returns the viewers of streams who can be sent to another server, without those of files.
    fn departing(self: Arc<Self>) -> BoxFuture<'static, Vec<Departing>>;

    /// Takes no new viewers and ends all sessions, because the server stops.
    fn stop(&self) {}

    /// Returns whether somebody is connected whom the hub's counts of viewers do not show.
    fn has_idle_readers(&self) -> bool {
        false
    }
}

/// Returns what keeps the client at a socket's address away; `None` if the text is no such address.
pub fn excluded_at(address: &str) -> Option<Excluded> {
    let address = address.parse::<SocketAddr>().ok();
    address.map(|it| Excluded::Address(it.ip()))
}

/// All protocols of a server.
#[derive(Clone, Debug, Default)]
pub struct Services(Arc<[Arc<dyn Service>]>);

impl Services {
    /// Creates the list of all protocols, in the order in which they are shown.
    pub fn new(services: Vec<Arc<dyn Service>>) -> Self {
        Self(services.into())
    }

    /// Returns all protocols in the order of the list.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Service>> {
        self.0.iter()
    }

    /// Returns the protocol called `name`.
    pub fn named(&self, name: &str) -> Option<&Arc<dyn Service>> {
        self.iter().find(|it| it.name() == name)
    }

    /// Returns the protocol of type `S`, for its own handlers.
    pub fn get<S: Service>(&self) -> Option<&S> {
        self.iter().find_map(|it| {
            let it: &dyn Any = &**it;
            it.downcast_ref()
        })
    }
}

/// Numbers of viewers by the stream or file that they watch.
pub type Audience = BTreeMap<String, ViewerCount>;

/// Number of viewers of a stream or file.
#[derive(Clone, Copy, Debug, Default)]
pub struct ViewerCount {
    /// Viewers of the stream that all share, and whom the hub counts.
    pub shared: usize,
    /// Viewers with a private reading of a file.
    pub private: usize,
}

/// A viewer with the figures that tell how well the stream reaches it.
#[derive(Clone, Debug, Default)]
pub struct ViewerFigures {
    /// Name of the stream; empty for a session that may read any number of streams.
    pub stream: String,
    /// The name that lists have for the viewer, by which an operator ends its session.
    pub viewer: String,
    /// Address of the viewer, with the port where that is known.
    pub address: String,
    /// `udp`, `tcp`, `tls`, `http`, `multicast` or `quic`.
    pub transport: &'static str,
    /// Whether a TURN server relays the media.
    pub relayed: bool,
    /// Round-trip time between server and viewer in ms.
    pub rtt_ms: Option<f64>,
    /// Part of the packets that were lost, of 1.
    pub loss: Option<f64>,
    /// Delay of the viewer behind the stream that its path causes, in ms.
    pub queue_ms: Option<f64>,
    /// Bytes of media that wait to be sent or acknowledged.
    pub queue_bytes: Option<u64>,
    /// Number of times that the viewer skipped because it was late.
    pub skips: u64,
    /// The reason why the viewer gets less than the best layer, with the remedy.
    pub limited: Option<String>,
}

/// The viewer or publisher whose session an operator ends.
#[derive(Clone, Debug)]
pub struct NamedViewer {
    /// The name that lists have for the client.
    pub name: String,
    /// The stream that it watches or publishes, if the operator said so.
    pub stream: Option<String>,
}

/// Reason why an operator could not end a viewer's session.
#[derive(Clone, Debug)]
pub enum NotEnded {
    /// The viewer is not named as its protocol names viewers; the text says how.
    Misnamed(&'static str),
    /// Nobody is called that.
    Unknown,
    /// Several viewers of the stream have names that begin so.
    Several(usize),
    /// The thread that serves the viewer takes no command now.
    Busy,
}

/// Reason why a viewer is sent to another server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The server drains, and every viewer leaves.
    Draining,
    /// Another server has fewer viewers.
    Moved,
}

/// State of a viewer who was to be sent away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// The viewer was told to go to another server.
    Sent,
    /// The thread that serves the viewer takes no command now.
    Later,
    /// The viewer left before.
    Gone,
}

/// Sends a viewer away for a reason.
type SendAway = Box<dyn Fn(Sent) -> BoxFuture<'static, Departure> + Send + Sync>;

/// A viewer who can be served by another server.
#[derive(derive_more::Debug)]
#[debug("Departing {{ stream: {stream:?}, .. }}")]
pub struct Departing {
    /// The stream that is watched; `None` if that is not known.
    pub stream: Option<String>,
    /// Time at which the viewer came; `None` if it is not led to another server while this one stays.
    pub came: Option<Instant>,
    /// Whether the viewer is a page of this server, which finds the way by itself.
    pub is_page: bool,
    /// Sends the viewer to another server.
    pub send_away: SendAway,
}
