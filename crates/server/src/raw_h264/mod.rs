//! `GET /{stream}/raw.h264`: the coded H.264 of a stream, from the next keyframe on.
//!
//! ```text
//!  GET ─► guard: right to read ─► play ─► Reader ─► body: units of the hub
//!  metrics, dashboard, drain, stop ─► RawH264 ─ leave ─► Reader ─► the body ends
//! ```
//!
//! An example of a whole protocol for docs/guides/add-an-egress.md. Tests alone compile it.

mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream;
use glassline_config::Config;
use glassline_hub::{Stream, Subscription, ViewerToken};
use glassline_media::{Codec, MediaUnit, TrackIndex};
use glassline_runtime::{Counter, TaskWaker};
use glassline_service::metrics::Metric;
use glassline_service::settings::AllowedConnections;
use glassline_service::{
    Audience, Departing, Departure, NamedViewer, NotEnded, Service, ViewerFigures,
};
use parking_lot::Mutex;

use crate::app::App;
use crate::http::ViewerRoutes;
use crate::http::extract::Path;
use crate::http::problem::Problem;
use crate::http::rules::Right;
use crate::sessions::ConnectionAddresses;

/// Returns the routes of the protocol, each with its right.
pub(crate) fn routes() -> ViewerRoutes {
    ViewerRoutes::of("raw").route("/{stream}/raw.h264", Right::Read, get(play))
}

/// The protocol, with everybody who reads.
#[derive(Debug)]
pub(crate) struct RawH264 {
    readers: Mutex<Readers>,
    bytes: Counter,
}

#[derive(Debug)]
struct Readers {
    next: u64,
    /// Most who may read at the same time.
    max: usize,
    present: BTreeMap<u64, Arc<Reader>>,
}

/// One who reads.
#[derive(Debug)]
struct Reader {
    number: u64,
    stream: String,
    address: String,
    came: Instant,
    /// Woken when the reader is to leave.
    leave: TaskWaker,
}

/// Answers a reader: `GET /{stream}/raw.h264`.
async fn play(
    State(app): State<App>,
    ConnectInfo(connection): ConnectInfo<ConnectionAddresses>,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    let stream = app.hub.stream(&name);
    let stream = stream.ok_or_else(|| Problem::no_stream(&name))?;
    let tracks = stream.tracks();
    let track = tracks.iter().position(|it| it.codec == Codec::H264);
    let track = track.map(TrackIndex).ok_or_else(|| {
        let detail = format!("'{name}' has no track of H.264: read it by another protocol");
        Problem::new(StatusCode::NOT_FOUND, "No H.264", detail)
    })?;
    let arrival = Arc::<TaskWaker>::default();
    let reading = Reading {
        entry: ReaderEntry::take(app, &name, connection)?,
        subscription: stream.subscribe(Arc::clone(&arrival) as _),
        _viewer: stream.add_viewer(),
        stream,
        arrival,
        track,
        missed: None,
        units: Vec::new(),
    };
    reading.stream.request_keyframe();
    let body = stream::unfold(reading, |mut reading| async {
        let bytes = reading.next().await?;
        Some((Ok::<_, std::io::Error>(bytes), reading))
    });
    let kind = [
        (header::CONTENT_TYPE, "video/h264"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    Ok((kind, Body::from_stream(body)).into_response())
}

/// A place among the readers that is free again when the body is dropped.
struct ReaderEntry {
    app: App,
    reader: Arc<Reader>,
}

impl ReaderEntry {
    fn take(app: App, stream: &str, connection: ConnectionAddresses) -> Result<Self, Problem> {
        let reader = {
            let mut readers = service(&app).readers.lock();
            if readers.present.len() >= readers.max {
                let detail = "as many clients as allowed read already: raise limits.viewers";
                return Err(Problem::try_later("Server full", detail));
            }
            readers.next += 1;
            let reader = Arc::new(Reader {
                number: readers.next,
                stream: stream.to_owned(),
                address: connection.peer.to_string(),
                came: Instant::now(),
                leave: TaskWaker::default(),
            });
            readers.present.insert(reader.number, Arc::clone(&reader));
            reader
        };
        Ok(Self { app, reader })
    }
}

impl Drop for ReaderEntry {
    fn drop(&mut self) {
        let mut readers = service(&self.app).readers.lock();
        readers.present.remove(&self.reader.number);
    }
}

fn service(app: &App) -> &RawH264 {
    app.services.get().expect("it is in the list of protocols")
}

/// The body of an answer.
struct Reading {
    entry: ReaderEntry,
    subscription: Subscription,
    _viewer: ViewerToken,
    stream: Arc<Stream>,
    arrival: Arc<TaskWaker>,
    track: TrackIndex,
    /// Units that the hub had dropped at the latest keyframe; `None` until there was one.
    missed: Option<u64>,
    units: Vec<Arc<MediaUnit>>,
}

impl Reading {
    /// Returns the next bytes; `None` when the reader is to leave. The hub bounds what waits: whoever is
    /// too slow goes on with the next keyframe.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            tokio::select! {
                () = self.arrival.woken() => {}
                () = self.entry.reader.leave.woken() => return None,
            }
            self.subscription.poll(&mut self.units);
            let missed = self.subscription.missed();
            if self.missed.is_some_and(|before| before != missed) {
                self.missed = None;
                self.stream.request_keyframe();
            }
            let mut bytes = Vec::new();
            for unit in self.units.drain(..).filter(|it| it.track == self.track) {
                if unit.keyframe {
                    self.missed.get_or_insert(missed);
                }
                let frame = unit.coded_frame().filter(|_| self.missed.is_some());
                for piece in frame.iter().flat_map(|it| it.pieces()) {
                    bytes.extend_from_slice(piece);
                }
            }
            if !bytes.is_empty() {
                let service = service(&self.entry.app);
                service.bytes.add(bytes.len() as u64);
                return Some(bytes.into());
            }
        }
    }
}

impl RawH264 {
    pub(crate) fn new(config: &Config) -> Self {
        let readers = Readers {
            next: 0,
            max: config.limits.viewers,
            present: BTreeMap::new(),
        };
        Self {
            readers: Mutex::new(readers),
            bytes: Counter::new(),
        }
    }

    fn readers_now(&self) -> Vec<Arc<Reader>> {
        self.readers.lock().present.values().cloned().collect()
    }
}

impl Service for RawH264 {
    fn name(&self) -> &'static str {
        "raw"
    }

    fn metrics(&self, text: &mut String) {
        let (name, help) = ("raw_bytes_total", "Bytes of H.264 given to readers.");
        Metric::counter(text, name, help).value(self.bytes.get());
    }

    fn heed(&self, config: &Config, _: &AllowedConnections) {
        self.readers.lock().max = config.limits.viewers;
    }

    fn audience(&self) -> BoxFuture<'_, Option<Audience>> {
        let mut audience = Audience::new();
        for reader in self.readers_now() {
            audience.entry(reader.stream.clone()).or_default().shared += 1;
        }
        std::future::ready(Some(audience)).boxed()
    }

    fn viewers(&self, _: Instant) -> BoxFuture<'_, Vec<ViewerFigures>> {
        let readers = self.readers_now().into_iter();
        let figures = readers.map(|reader| ViewerFigures {
            stream: reader.stream.clone(),
            viewer: reader.number.to_string(),
            address: reader.address.clone(),
            transport: "http",
            ..ViewerFigures::default()
        });
        std::future::ready(figures.collect()).boxed()
    }

    fn disconnect<'a>(&'a self, viewer: &'a NamedViewer) -> BoxFuture<'a, Result<(), NotEnded>> {
        let mut readers = self.readers_now().into_iter();
        let reader = readers.find(|it| it.number.to_string() == viewer.name);
        let ended = reader.map(|it| it.leave()).ok_or(NotEnded::Unknown);
        std::future::ready(ended).boxed()
    }

    fn departing(self: Arc<Self>) -> BoxFuture<'static, Vec<Departing>> {
        let readers = self.readers_now().into_iter();
        let departing = readers.map(|reader| Departing {
            stream: Some(reader.stream.clone()),
            came: Some(reader.came),
            is_page: false,
            send_away: Box::new(move |_| {
                reader.leave();
                std::future::ready(Departure::Sent).boxed()
            }),
        });
        std::future::ready(departing.collect()).boxed()
    }

    fn stop(&self) {
        for reader in self.readers_now() {
            reader.leave();
        }
    }
}

impl Reader {
    fn leave(&self) {
        glassline_hub::Wake::wake(&self.leave);
    }
}
