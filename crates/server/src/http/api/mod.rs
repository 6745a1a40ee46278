//! `/api/v1`: the streams, their latency, and the server's state.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use glassline_access::auth::Pattern;
use glassline_hub::{State as StreamState, Stream};
use glassline_latency::StreamLatency;
use glassline_quic_listener::{MoqService, Sender};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod advice;
mod cameras;
mod clock;
mod cluster;
pub(in crate::http) mod events;
pub(in crate::http) mod exclusions;
pub(crate) mod failures;
mod files;
mod history;
mod load_test;
mod media_ports;
pub(crate) mod publishing;
pub(crate) mod quic;
pub(in crate::http) mod recordings;
mod reloads;
mod report;
pub(crate) mod rtsp;
mod source_trials;
mod sources;
mod track_view;
pub(crate) mod transcoding;
pub(crate) mod webrtc;

use super::auth::Reader;
use super::extract::{Path, Query};
use super::openapi::{Operation, Routes};
use super::paging::{Extent, Page};
use super::problem::Problem;
use super::rules::Right;
use super::viewer_routes::ViewerRoutes;
use crate::app::App;
pub(super) use clock::clock;
use media_ports::{IsHere, MediaPorts};
use publishing::SourceView;
use recordings::RecordingView;
pub(super) use report::report;
pub(super) use sources::panicked;
use track_view::TrackView;

/// Returns the routes of the API that both listeners have.
pub(super) fn routes() -> ViewerRoutes {
    let no_stream = "There is no stream of this name";
    ViewerRoutes::default()
        .get(
            "/api/v1/streams",
            Right::Read,
            Operation::new("listStreams", "Lists the streams that the asker may read"),
            streams,
        )
        .get(
            "/api/v1/streams/{name}",
            Right::Read,
            Operation::new("getStream", "Returns one stream").problem(404, no_stream),
            stream,
        )
        .get(
            "/api/v1/streams/{name}/latency",
            Right::Read,
            Operation::new(
                "getLatency",
                "Returns the delay of each stage of a stream, and a page of its viewers",
            )
            .problem(404, no_stream),
            stream_latency,
        )
        .get(
            "/api/v1/streams/{name}/frame-code",
            Right::Read,
            Operation::new(
                "getFrameCode",
                "Tells how to read the number drawn into frames",
            )
            .problem(404, "The frames of this stream have no number"),
            frame_code,
        )
        .get(
            "/api/v1/streams/{name}/publishing",
            Right::ReadOrPublish,
            Operation::new("getPublishing", "Measures what is published as a stream"),
            publishing::publishing,
        )
        .get(
            "/api/v1/files",
            Right::Read,
            Operation::new("listFiles", "Lists the files of the media folder"),
            files::files,
        )
        .get(
            "/api/v1/clock",
            Right::Read,
            Operation::new("getClock", "Returns two times of the server's clock"),
            clock,
        )
        .get(
            "/api/v1/server",
            Right::Read,
            Operation::new("getServer", "Returns the state of the server"),
            server,
        )
}

/// Returns the routes of the API for operators alone.
pub(super) fn operators() -> Routes {
    sources::routes()
        .merge(reloads::routes())
        .merge(source_trials::routes())
        .merge(cameras::routes())
        .merge(cluster::routes())
        .merge(events::routes())
        .merge(exclusions::routes())
        .merge(history::routes())
        .merge(load_test::routes())
        .get(
            "/api/v1/rtsp/clients",
            Operation::new("listRtspClients", "Lists the RTSP clients with a session"),
            rtsp::clients,
        )
        .get(
            "/api/v1/rtsp/requests",
            Operation::new(
                "countRtspRequests",
                "Counts RTSP requests by method and status",
            ),
            rtsp::requests,
        )
        .get(
            "/api/v1/quic/sessions",
            Operation::new("listQuicSessions", "Lists the QUIC sessions"),
            quic::sessions,
        )
        .get(
            "/api/v1/transcodings",
            Operation::new("listTranscodings", "Lists the tracks that are transcoded"),
            transcoding::transcodings,
        )
        .get(
            "/api/v1/failures",
            Operation::new(
                "listFailures",
                "Lists the connections that failed in the last hour",
            ),
            failures::failures,
        )
        .get(
            "/api/v1/webrtc/viewers",
            Operation::new("listViewers", "Lists the WebRTC viewers and participants"),
            webrtc::viewers,
        )
        .get(
            "/api/v1/webrtc/data-publishers",
            Operation::new(
                "listDataPublishers",
                "Lists who publishes messages beside streams",
            ),
            webrtc::publishers,
        )
        .get(
            "/api/v1/webrtc/publishers",
            Operation::new("listWhipPublishers", "Lists the WHIP publishers")
                .problem(503, "A thread that owns publishers makes no progress"),
            publishing::publishers,
        )
}

/// The stream that a path names.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct StreamPath {
    /// Name of the stream.
    pub(super) name: String,
}

/// Filter of lists whose entries belong to a stream.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct OfStream {
    /// Lists only what belongs to this stream.
    stream: Option<String>,
}

impl OfStream {
    /// Returns whether an entry of `stream` is wanted.
    fn wants(&self, stream: &str) -> bool {
        self.stream.as_ref().is_none_or(|wanted| wanted == stream)
    }
}

/// A stream in a list.
#[derive(Debug, Serialize, JsonSchema)]
struct StreamView {
    name: String,
    state: &'static str,
    /// The status as viewers see it: `live`, `hangs`, `waiting` or `unreachable`.
    status: &'static str,
    detail: Option<String>,
    /// The stand-in for the source: `placeholder`, or `fallback` with the stream's name; null if
    /// nothing is.
    stand_in: Option<String>,
    /// Seconds since the source published its latest unit; null if no source publishes.
    silent_s: Option<f64>,
    viewers: usize,
    tracks: Vec<TrackView>,
    /// The present source, or the latest one.
    source: Option<SourceView>,
    /// Seconds since the present source began.
    uptime_s: Option<f64>,
    bitrate_bps: u64,
    packets: u64,
    /// Number of sources that the stream has had, one after the other.
    sources: u64,
    /// Whether a number is drawn into each frame, which `…/frame-code` tells how to read.
    frame_code: bool,
    /// Whether clients may publish the stream: false for the name of a camera or file.
    takes_publishers: bool,
    /// The recording of the stream; null if no folder is configured for it.
    recording: Option<RecordingView>,
}

fn view(app: &App, stream: &Arc<Stream>, now: Instant) -> StreamView {
    let state = stream.state();
    let totals = stream.totals();
    StreamView {
        name: stream.name().to_string(),
        state: state.as_str(),
        status: stream.status(now).as_str(),
        silent_s: stream.silent_for(now).map(|it| it.as_secs_f64()),
        detail: state.detail().map(str::to_owned),
        stand_in: stream.standing_in().map(|it| it.to_string()),
        viewers: stream.viewers(),
        tracks: TrackView::of_all(app, stream, now),
        source: stream.source_note().map(|note| SourceView::of(&note)),
        uptime_s: match state {
            StreamState::Live { since } => Some(now.saturating_duration_since(since).as_secs_f64()),
            _ => None,
        },
        bitrate_bps: stream.bitrate(now).bps(),
        packets: totals.packets,
        sources: totals.sources,
        frame_code: app.frame_code(stream.name().as_str()).is_some(),
        takes_publishers: stream.check_client().is_ok(),
        recording: RecordingView::of(app, stream.name()),
    }
}

/// Returns a number of pixels; 0 stands for an unknown one.
const fn known(pixels: u32) -> Option<u32> {
    if pixels > 0 { Some(pixels) } else { None }
}

/// A page of the list of streams, by name.
#[derive(Debug, Serialize, JsonSchema)]
struct Streams {
    streams: Vec<StreamView>,
    #[serde(flatten)]
    extent: Extent,
}

/// Filters of the list of streams.
#[derive(Debug, Deserialize, JsonSchema)]
struct StreamFilter {
    /// Lists only streams whose names fit the pattern, like `cam*` or `site/**`.
    name: Option<Pattern>,
    /// Lists only streams of which viewers can expect this.
    status: Option<WantedStatus>,
}

/// The status of a stream as viewers see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum WantedStatus {
    Live,
    Hangs,
    Waiting,
    Unreachable,
}

impl WantedStatus {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Hangs => "hangs",
            Self::Waiting => "waiting",
            Self::Unreachable => "unreachable",
        }
    }
}

/// Returns the streams that the client may read.
async fn streams(
    State(app): State<App>,
    reader: Option<Extension<Reader>>,
    Query(filter): Query<StreamFilter>,
    page: Page,
) -> Json<Streams> {
    let now = Instant::now();
    let mut streams = visible(&app, reader.as_deref());
    streams.retain(|stream| {
        let name = filter.name.as_ref();
        let status = filter.status.map(WantedStatus::as_str);
        name.is_none_or(|it| it.matches(stream.name().as_str()))
            && status.is_none_or(|it| it == stream.status(now).as_str())
    });
    let (streams, extent) = page.of(streams);
    let streams = streams.iter().map(|stream| view(&app, stream, now));
    Json(Streams {
        streams: streams.collect(),
        extent,
    })
}

/// Returns the streams that `reader` may know of: all of them on the listener for operators, which
/// asks for no credentials.
pub(super) fn visible(app: &App, reader: Option<&Reader>) -> Vec<Arc<Stream>> {
    let mut streams = app.hub.streams();
    streams.retain(|stream| reader.is_none_or(|reader| reader.sees(stream.name().as_str())));
    streams
}

async fn stream(
    State(app): State<App>,
    Path(StreamPath { name }): Path<StreamPath>,
) -> Result<Json<StreamView>, Problem> {
    let stream = app
        .hub
        .stream(&name)
        .ok_or_else(|| Problem::no_stream(&name))?;
    Ok(Json(view(&app, &stream, Instant::now())))
}

/// A stream's stage delays, and its publisher's view of its own sending if the publisher reports
/// it.
#[derive(Debug, Serialize, JsonSchema)]
struct Latency {
    #[serde(flatten)]
    stages: StreamLatency,
    #[serde(skip_serializing_if = "Option::is_none")]
    publisher: Option<Publisher>,
}

/// A QUIC publisher's view of its sending. A missing field is unknown.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "QuicPublisher")]
struct Publisher {
    /// Useful bits a second received over the last second.
    goodput_bps: Option<u64>,
    #[serde(flatten)]
    sender: Sender,
}

/// Most viewers on a page of latency figures. Each one has some thirty frames with a dozen delays.
pub(super) const VIEWERS_MAX: u32 = 100;

async fn stream_latency(
    State(app): State<App>,
    Path(StreamPath { name }): Path<StreamPath>,
    page: Page,
) -> Result<Json<Latency>, Problem> {
    let stream = app
        .hub
        .stream(&name)
        .ok_or_else(|| Problem::no_stream(&name))?;
    let now = Instant::now();
    let moq = app.services.get::<MoqService>();
    let sessions = moq.into_iter().flat_map(|moq| moq.sessions(now));
    let mut publishers = sessions.filter(|it| it.publishes.contains(&name));
    let publisher = publishers.next().map(|session| Publisher {
        goodput_bps: session.goodput_bps,
        sender: session.sender,
    });
    Ok(Json(Latency {
        stages: app
            .latencies
            .latency(&stream, &page.at_most(VIEWERS_MAX).places(), now),
        publisher,
    }))
}

/// How to read the number that is drawn into the frame, and when frame 0 was captured.
#[derive(Debug, Serialize, JsonSchema)]
struct FrameCodeView {
    fps: u32,
    frames: u32,
    bits: u32,
    epoch_ns: i64,
}

async fn frame_code(
    State(app): State<App>,
    Path(StreamPath { name }): Path<StreamPath>,
) -> Result<Json<FrameCodeView>, Problem> {
    let code = app.frame_code(&name).ok_or_else(|| {
        let detail = format!("stream '{name}' has no numbers drawn into its frames");
        Problem::new(StatusCode::NOT_FOUND, "No frame code", detail)
    })?;
    Ok(Json(FrameCodeView {
        fps: code.fps,
        frames: code.frames,
        bits: 16,
        epoch_ns: app.clock.nanos(code.epoch),
    }))
}

/// The state of the server.
#[derive(Debug, Serialize, JsonSchema)]
struct ServerView {
    version: &'static str,
    uptime_s: f64,
    sessions: usize,
    half_open: usize,
    shards: usize,
    rss_bytes: Option<u64>,
    open_fds: Option<usize>,
    cpu_s: f64,
    ports: MediaPorts,
}

async fn server(State(app): State<App>, IsHere(is_here): IsHere) -> Json<ServerView> {
    let shared = app.sessions.shared();
    let (sessions, half_open) = shared.registry.counts();
    Json(ServerView {
        version: env!("CARGO_PKG_VERSION"),
        uptime_s: app.clock.uptime().as_secs_f64(),
        sessions,
        half_open,
        shards: shared.shards().len(),
        rss_bytes: glassline_net::rss_bytes(),
        open_fds: glassline_net::open_fds(),
        cpu_s: glassline_net::process_cpu().as_secs_f64(),
        ports: MediaPorts::of(&app.config(), is_here),
    })
}
