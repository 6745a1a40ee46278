//! What the dashboard shows of the server: one tree, whose numbers are rounded so that they change
//! only when people would see a difference.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant, SystemTime};

use glassline_cluster_member::Owner;
use glassline_events::{EventKind, status_reason};
use glassline_hub::{State as StreamState, Stream};
use glassline_media::{Kind, TrackIndex};
use glassline_playback::recordings::{CopyFigures, Recording};
use glassline_rooms::is_voice;
use glassline_transcoding::TranscodingView;
use schemars::JsonSchema;
use serde::Serialize;

use super::rooms::{self, RoomsNow};
use super::rounding::{significant, thousandths};
use super::viewers::{self, ViewersNow};
use crate::app::App;
use crate::http::api::events::{self, EventView};
use crate::http::api::recordings;
use crate::http::track_row::TrackRow;

/// Most events that are listed, the latest ones.
const EVENTS_MAX: usize = 60;

/// The server at one time. Times are seconds since the server began.
#[derive(Debug, Serialize, JsonSchema)]
pub(in crate::http) struct Overview {
    server: ServerRow,
    /// Streams by name, without the voices of rooms.
    streams: BTreeMap<String, StreamRow>,
    viewers: ViewersNow,
    rooms: RoomsNow,
    /// Certificates by the section of the configuration that names them.
    certificates: BTreeMap<&'static str, CertificateRow>,
    /// The latest events by their names. Who signed in is not among them.
    events: BTreeMap<String, EventView>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ServerRow {
    version: &'static str,
    /// Number of the process.
    pid: u32,
    /// Seconds since the server began.
    now_s: u64,
    /// CPU time per wall time since the overview before, in cores.
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_cores: Option<f64>,
    /// Number of cores that the process may use.
    cores: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_mib: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    descriptors: Option<usize>,
    /// WebRTC sessions of every kind, and those that are not connected yet.
    sessions: usize,
    half_open: usize,
    /// Threads that make no progress.
    stuck: Vec<String>,
    /// Number of changes of the last load test since the server started; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    load_tests: Option<u64>,
    /// Number of times that the configuration was read again since the server started; absent of a
    /// server without a configuration file.
    #[serde(skip_serializing_if = "Option::is_none")]
    reloads: Option<u64>,
    /// The copies of recordings in object storage; absent while none is configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    copies: Option<CopiesRow>,
    /// Whether the server is in a cluster that agrees through NATS.
    in_cluster: bool,
    /// Ports of the listener for viewers: HTTP, HTTPS, RTSP, RTSPS.
    ports: Ports,
}

/// Copies of recordings in object storage.
#[derive(Debug, Serialize, JsonSchema)]
struct CopiesRow {
    /// Finished files that wait for their copy.
    waiting_files: u64,
    waiting_mib: u64,
    /// Minutes since the oldest of them began; absent if none waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    oldest_min: Option<u64>,
    /// Files that could not be read, and are not tried again.
    refused_files: u64,
    /// The reason why the newest attempt failed; absent if it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

impl From<CopyFigures> for CopiesRow {
    fn from(figures: CopyFigures) -> Self {
        let waiting = figures.waiting;
        Self {
            waiting_files: waiting.files,
            waiting_mib: waiting.bytes >> 20,
            oldest_min: waiting.oldest.map(|_| figures.oldest.as_secs() / 60),
            refused_files: waiting.refused,
            problem: figures.copied.trouble.map(|it| it.reason),
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
struct Ports {
    http: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    https: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rtsp: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rtsps: Option<u16>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct StreamRow {
    /// `live`, `hangs`, `waiting` or `unreachable`.
    status: &'static str,
    /// The reason why the stream has this status; absent of a live one.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    /// The stand-in for the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    stand_in: Option<String>,
    /// How the media comes: `whip`, `rtsp`, `camera`, `moq` or `file`.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'static str>,
    /// Time at which the present source began.
    #[serde(skip_serializing_if = "Option::is_none")]
    since_s: Option<u64>,
    /// Whether the server fetches the stream itself, so that its source can be restarted.
    fetched: bool,
    /// Where the source was named: `configuration`, or `api`, which changes and deletes it; absent without
    /// a source.
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<&'static str>,
    /// The server of the cluster that has the stream; absent outside a cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<Owner>,
    /// Number of sources that the stream has had.
    sources: u64,
    tracks: Vec<TrackRow>,
    bitrate_bps: u64,
    /// Frames a second of the video.
    #[serde(skip_serializing_if = "Option::is_none")]
    frame_rate: Option<f64>,
    /// Seconds between the latest two keyframes.
    #[serde(skip_serializing_if = "Option::is_none")]
    keyframe_interval_s: Option<f64>,
    /// The state of the recording: `recording`, `losing` frames, or `waiting` for a source; absent of a
    /// stream that is not recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    recording: Option<&'static str>,
    viewers: usize,
    /// Tracks that are encoded again for viewers who need another codec; absent while none is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    transcodings: Vec<TranscodingRow>,
}

/// A track that is encoded again.
#[derive(Debug, Serialize, JsonSchema)]
struct TranscodingRow {
    from: &'static str,
    to: &'static str,
    /// Viewers that get the new track.
    viewers: usize,
    /// Processor time since it began, in cores.
    cores: f64,
}

impl From<TranscodingView> for TranscodingRow {
    fn from(view: TranscodingView) -> Self {
        Self {
            from: view.from,
            to: view.to,
            viewers: view.viewers,
            cores: (view.cpu_ratio * 100.0).round() / 100.0,
        }
    }
}

/// Returns the transcodings of each stream.
fn transcodings(app: &App, now: Instant) -> HashMap<String, Vec<TranscodingRow>> {
    let mut of_streams: HashMap<String, Vec<TranscodingRow>> = HashMap::new();
    for mut view in app.transcoders.views(now) {
        let name = std::mem::take(&mut view.stream);
        of_streams.entry(name).or_default().push(view.into());
    }
    of_streams
}

#[derive(Debug, Serialize, JsonSchema)]
struct CertificateRow {
    present: bool,
    /// Days until clients no longer accept the certificate, rounded down; negative afterwards.
    #[serde(skip_serializing_if = "Option::is_none")]
    days: Option<i64>,
    /// The reason why the newest attempt to renew the certificate failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

/// The use of the processor at an earlier time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usage {
    at: Instant,
    cpu: Duration,
}

impl Usage {
    pub(super) fn now(now: Instant) -> Self {
        Self {
            at: now,
            cpu: glassline_net::process_cpu(),
        }
    }

    /// Returns the mean number of cores in use since `before`; `None` if that is too short a time.
    fn cores_since(&self, before: &Self) -> Option<f64> {
        let wall = self.at.saturating_duration_since(before.at).as_secs_f64();
        let cpu = self.cpu.saturating_sub(before.cpu).as_secs_f64();
        (wall >= 0.1).then(|| thousandths(cpu / wall))
    }
}

/// Returns the overview at the time of `usage`; `before` is the use of the processor at the overview
/// before.
pub(super) async fn of(app: &App, usage: Usage, before: Option<Usage>) -> Overview {
    let now = usage.at;
    let streams = app.hub.streams();
    let streams = streams.iter().filter(|it| !is_voice(it.name().as_str()));
    let events = events::all(app, now, |kind| kind != EventKind::SignIn);
    let events = events.into_iter().take(EVENTS_MAX);
    let mut transcodings = transcodings(app, now);
    let mut row = |of: &Stream| {
        let again = transcodings.remove(of.name().as_str());
        stream(app, of, again.unwrap_or_default(), now)
    };
    Overview {
        server: server(app, usage, before),
        streams: streams.map(|it| (it.name().to_string(), row(it))).collect(),
        viewers: viewers::of(&app.services, now).await,
        rooms: rooms::of(app, now),
        certificates: certificates(app),
        events: events.map(|it| (it.id.clone(), it)).collect(),
    }
}

fn server(app: &App, usage: Usage, before: Option<Usage>) -> ServerRow {
    let (sessions, half_open) = app.sessions.shared().registry.counts();
    let threads = app.supervisor.threads().into_iter();
    let config = app.config();
    let (ports, rtsp) = (app.http.ports, &config.rtsp);
    ServerRow {
        version: env!("CARGO_PKG_VERSION"),
        pid: std::process::id(),
        now_s: app.clock.uptime().as_secs(),
        cpu_cores: before.and_then(|before| usage.cores_since(&before)),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        memory_mib: glassline_net::rss_bytes().map(|bytes| bytes >> 20),
        descriptors: glassline_net::open_fds(),
        sessions,
        half_open,
        stuck: threads
            .filter(|it| it.is_stuck)
            .map(|it| it.thread)
            .collect(),
        load_tests: app.stored.load_test.changes(),
        reloads: reloads(app),
        copies: app
            .services
            .get::<Recording>()
            .and_then(|it| Some(it.copies()?.into())),
        in_cluster: app
            .sessions
            .directory()
            .is_some_and(|it| it.member().is_some()),
        ports: Ports {
            http: ports.http,
            https: ports.https,
            rtsp: rtsp.address.map(|it| it.port()),
            rtsps: rtsp.tls.address.map(|it| it.port()),
        },
    }
}

/// Returns the number of readings of the configuration; `None` without a file to read.
fn reloads(app: &App) -> Option<u64> {
    let latest = app.settings.history.latest().map(|it| it.number);
    latest.or_else(|| app.config().file().map(|_| 0))
}

fn stream(
    app: &App,
    stream: &Stream,
    transcodings: Vec<TranscodingRow>,
    now: Instant,
) -> StreamRow {
    let (state, status) = (stream.state(), stream.status(now));
    let tracks = stream.tracks();
    let video = tracks.iter().position(|it| it.kind() == Kind::Video);
    let figures = video.map(|index| stream.figures(TrackIndex(index), now));
    let frame_rate = figures.as_ref().map(|it| it.frame_rate);
    let fetched = app.stored.sources.fetches(stream.name());
    let interval = figures.as_ref().and_then(|it| it.keyframe_interval);
    StreamRow {
        status: status.as_str(),
        detail: status_reason(&state, status, fetched),
        stand_in: stream.standing_in().map(|it| it.to_string()),
        source: stream.source_note().map(|note| note.protocol),
        since_s: match state {
            StreamState::Live { since } => Some(since_start(app, since)),
            _ => None,
        },
        fetched,
        origin: app.stored.sources.origin(stream.name()),
        owner: owner(app, stream),
        sources: stream.totals().sources,
        tracks: tracks.iter().map(TrackRow::from).collect(),
        bitrate_bps: significant(stream.bitrate(now).bps()),
        frame_rate: frame_rate.filter(|rate| *rate > 0.0).map(f64::round),
        keyframe_interval_s: interval.map(|it| (it.as_secs_f64() * 10.0).round() / 10.0),
        recording: recordings::state(app, stream.name()),
        viewers: stream.viewers(),
        transcodings,
    }
}

/// Returns the server of the cluster that has a stream.
fn owner(app: &App, stream: &Stream) -> Option<Owner> {
    let member = app.sessions.directory()?.member()?;
    member.owner(stream.name())
}

/// Returns the time `at` in seconds since the server began.
fn since_start(app: &App, at: Instant) -> u64 {
    at.saturating_duration_since(app.clock.epoch()).as_secs()
}

fn certificates(app: &App) -> BTreeMap<&'static str, CertificateRow> {
    let now = SystemTime::now();
    let rows = app.tls.certificates.iter().map(|store| {
        let status = store.status();
        let row = CertificateRow {
            present: status.is_present,
            days: status.expires_in_s(now).map(|it| it.div_euclid(86_400)),
            problem: status.problem,
        };
        (status.source, row)
    });
    rows.collect()
}
