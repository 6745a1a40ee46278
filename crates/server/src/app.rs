//! The parts of a running server that HTTP handlers use.
//!
//! The server's start fills this in. No part belongs to HTTP alone.

use std::ops::Deref;
use std::sync::Arc;

use glassline_access::audit::AuditLog;
use glassline_access::auth::{Sites, Users};
use glassline_access::tls::{CertificateStore, Challenges, LanSource};
use glassline_config::Config;
use glassline_events::failures::Failures;
use glassline_events::hooks::HookCounters;
use glassline_events::{EventLog, History};
use glassline_hub::{Hub, StreamName};
use glassline_ingest::library::Library;
use glassline_latency::{FrameCode, FrameCodes, LatencyRegistry};
use glassline_rooms::Rooms;
use glassline_runtime::{Clock, Supervisor};
use glassline_service::Services;
use glassline_service::settings::Settings;
use glassline_transcoding::Transcoders;
use glassline_transcoding::snapshots::Snapshots;

use crate::http::server::{ListenerCounters, Places};
use crate::onvif::Onvif;
use crate::sessions::Negotiator;
use crate::stored::Stored;

/// One running server, as what answers requests has it.
///
/// A request passes a dozen layers, and each of them has a clone: to copy all parts instead took a
/// quarter of the time of a small request.
#[derive(Clone, Debug)]
pub(crate) struct App(Arc<AppParts>);

impl App {
    /// Shares the parts of a server.
    pub(crate) fn new(parts: AppParts) -> Self {
        Self(Arc::new(parts))
    }
}

impl Deref for App {
    type Target = AppParts;

    fn deref(&self) -> &AppParts {
        &self.0
    }
}

/// The parts of one running server.
#[derive(Debug)]
pub(crate) struct AppParts {
    /// The configuration in force.
    pub(crate) settings: Arc<Settings>,
    pub(crate) users: Arc<Users>,
    /// Which pages of browsers may use the server.
    pub(crate) sites: Arc<Sites>,
    /// The connections that failed.
    pub(crate) failures: Arc<Failures>,
    /// Rooms of voice calls.
    pub(crate) rooms: Arc<Rooms>,
    /// The media folder, whose files become streams on request; `None` if no folder is configured.
    pub(crate) library: Option<Arc<Library>>,
    pub(crate) hub: Arc<Hub>,
    /// The counts of the events that hooks are told.
    pub(crate) hooks: Arc<HookCounters>,
    pub(crate) sessions: Arc<Negotiator>,
    /// Transcodes audio for browsers.
    pub(crate) transcoders: Arc<Transcoders>,
    /// The newest keyframes of streams as JPEG images.
    pub(crate) snapshots: Arc<Snapshots>,
    /// The sources of streams, and the users and tokens that are made over the API.
    pub(crate) stored: Stored,
    /// Cameras that are found and moved by ONVIF.
    pub(crate) onvif: Onvif,
    /// Watches the threads and tasks of the server.
    pub(crate) supervisor: Arc<Supervisor>,
    pub(crate) latencies: Arc<LatencyRegistry>,
    pub(crate) codes: FrameCodes,
    pub(crate) clock: Clock,
    /// The listeners of HTTP.
    pub(crate) http: HttpEndpoints,
    /// Certificates, and where they come from.
    pub(crate) tls: TlsParts,
    /// The protocols by which viewers get streams.
    pub(crate) services: Services,
}

/// The certificates of the server, for handlers.
#[derive(Debug)]
pub(crate) struct TlsParts {
    /// The private authority, whose root certificate devices must trust; `None` if there is none.
    pub(crate) lan: Option<Arc<LanSource>>,
    /// The answers to the challenges of an authority, if `tls` is `acme`.
    pub(crate) challenges: Option<Arc<Challenges>>,
    /// The certificates of all listeners within TLS.
    pub(crate) certificates: Arc<[Arc<CertificateStore>]>,
}

/// The listeners of HTTP, for handlers.
#[derive(Debug)]
pub(crate) struct HttpEndpoints {
    /// Counters of their connections.
    pub(crate) counters: ListenerCounters,
    /// The ports for viewers.
    pub(crate) ports: HttpPorts,
    /// Places of the connections for viewers.
    pub(crate) places: Places,
    /// Places of the connections for operators.
    pub(crate) operators: Places,
    /// The changes by operators.
    pub(crate) audit: Arc<AuditLog>,
    /// The events of the server and its streams.
    pub(crate) events: Arc<EventLog>,
    /// How busy the server was.
    pub(crate) history: Arc<History>,
}

/// The ports of HTTP for viewers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HttpPorts {
    /// Port of plain HTTP.
    pub(crate) http: u16,
    /// Port of HTTPS; `None` if it is turned off.
    pub(crate) https: Option<u16>,
}

impl AppParts {
    /// Returns the configuration in force, as it is for the time of one request.
    pub(crate) fn config(&self) -> Arc<Config> {
        self.settings.config.get()
    }

    /// Returns how to read the number in the frames of the stream `name`: that of a clip, or the
    /// server's time in ms that a publishing page draws.
    pub(crate) fn frame_code(&self, name: &str) -> Option<FrameCode> {
        if let Some(code) = self.codes.get(name) {
            return Some(code);
        }
        let name = StreamName::parse(name).ok()?;
        let told = self.sessions.captures(&name)?.clock()?;
        told.drawn_ms.map(|_| FrameCode {
            fps: 1000,
            frames: 1 << 16,
            epoch: self.clock.epoch(),
        })
    }
}
