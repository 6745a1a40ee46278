//! The API about publishing: what arrives of a stream's publisher, what hurts its viewers, and what an
//! encoder needs to know of this server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use glassline_hub::{LayerFigures, SourceNote, State as StreamState, Stream, StreamName};
use glassline_ingest::Arrivals;
use glassline_ingest::stream_names;
use glassline_latency::PublisherClock;
use glassline_latency::StreamLatency;
use glassline_media::{Kind, LayerAbsence, LayerIndex, Track, TrackIndex, TrackLayer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::extract::{Path, Query};
use super::super::paging::{Extent, Page};
use super::super::problem::Problem;
use super::super::{body, resource};
use super::advice::{self, Advice};
use super::{OfStream, StreamPath, VIEWERS_MAX, known};
use crate::app::App;
use crate::sessions::SessionRecord;

/// Longest wait for the thread that owns a publisher.
const ANSWER: Duration = Duration::from_secs(2);

/// Video codecs that WHIP receives, best known first, by their names in SDP.
const VIDEO_CODECS: [&str; 5] = ["H264", "VP8", "VP9", "AV1", "H265"];

/// The publication of a stream, and the publications that are possible.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Publishing {
    stream: String,
    /// State of the stream; `absent` if there is none of this name.
    state: &'static str,
    /// The reason why no client may publish the stream: a camera or file has the name; null if clients
    /// may.
    configured: Option<String>,
    detail: Option<String>,
    /// Seconds since the present source began.
    uptime_s: Option<f64>,
    viewers: usize,
    /// The present source, or the latest one.
    source: Option<SourceView>,
    tracks: Vec<PublishedTrack>,
    /// The changes that the publisher should make for its viewers.
    advice: Vec<Advice>,
    /// The media that arrived of a WHIP publisher; null for other sources.
    whip: Option<WhipPublisher>,
    /// Delays by stage, from the capture if it is known to the viewers that report.
    latency: Option<StreamLatency>,
    accepts: Accepts,
}

/// The note of a source about itself.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SourceView {
    /// How the media comes: `whip`, `rtsp`, `camera`, `moq` or `file`.
    protocol: &'static str,
    /// The tracks of the source that are not published, each with the reason.
    left_out: Vec<String>,
}

impl SourceView {
    pub(super) fn of(note: &SourceNote) -> Self {
        Self {
            protocol: note.protocol,
            left_out: note.left_out.clone(),
        }
    }
}

/// A track of a stream, with figures of the last two seconds.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PublishedTrack {
    kind: &'static str,
    codec: &'static str,
    width: Option<u32>,
    height: Option<u32>,
    channels: Option<u8>,
    /// Payload bits a second.
    bitrate_bps: u64,
    /// Frames a second; null for audio.
    frame_rate: Option<f64>,
    /// Number of temporal layers of the best encoding; absent for a single one.
    #[serde(skip_serializing_if = "Option::is_none")]
    temporal_layers: Option<usize>,
    /// Seconds between the latest two keyframes; null for audio, and before the second one.
    keyframe_interval_s: Option<f64>,
    /// Seconds since the latest keyframe; null for audio.
    since_keyframe_s: Option<f64>,
    /// Whether the video has B-frames.
    b_frames: bool,
    /// Encodings of the track that its publisher sends at the same time, or of which this server makes the
    /// lower ones; empty for a single one.
    layers: Vec<PublishedLayer>,
}

/// One of several encodings of a track, with figures of the last two seconds.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PublishedLayer {
    /// Name of the layer, which is the RID of a simulcast layer.
    rid: String,
    width: Option<u16>,
    height: Option<u16>,
    /// Payload bits a second.
    bitrate_bps: u64,
    /// Frames a second.
    frame_rate: f64,
    /// Number of temporal layers; absent for a single one.
    #[serde(skip_serializing_if = "Option::is_none")]
    temporal_layers: Option<usize>,
    /// Seconds since the latest keyframe; null before the first one.
    since_keyframe_s: Option<f64>,
    /// Whether the layer is the best that is alive, which viewers get whose path carries it.
    is_best: bool,
    /// Codec of the layer where it is another one than that of the track: viewers get such a layer in place
    /// of all others.
    #[serde(skip_serializing_if = "Option::is_none")]
    codec: Option<&'static str>,
    /// Whether the layer is one of a ladder, which this server encodes while somebody watches it.
    is_made_here: bool,
    /// `live`, `paused` for a layer that is neither fetched nor encoded because nobody watches it, or `failed`.
    state: &'static str,
    /// The reason why the layer does not come; absent if it comes.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

/// A publisher by WHIP.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WhipPublisher {
    /// First letters of the session's name.
    publisher: String,
    #[serde(flatten)]
    arrivals: Arrivals,
}

/// The protocols that this server takes from encoders, and their addresses.
#[derive(Debug, Serialize, JsonSchema)]
struct Accepts {
    /// Video codecs of WHIP, by their names in SDP.
    video: [&'static str; 5],
    /// TCP port of RTSP; null if it is off.
    rtsp_port: Option<u16>,
    /// TCP port of RTSP within TLS; null if it is off.
    rtsps_port: Option<u16>,
}

impl Accepts {
    fn of(app: &App) -> Self {
        let config = app.config();
        let rtsp = &config.rtsp;
        Self {
            video: VIDEO_CODECS,
            rtsp_port: rtsp.address.map(|it| it.port()),
            rtsps_port: rtsp.tls.address.map(|it| it.port()),
        }
    }
}

/// Returns what is published as a stream: `GET /api/v1/streams/{name}/publishing`. A name without
/// stream is no error: it is free.
pub(in crate::http) async fn publishing(
    State(app): State<App>,
    Path(StreamPath { name }): Path<StreamPath>,
) -> Result<Json<Publishing>, Problem> {
    let name =
        stream_names::parse(&name).map_err(|error| Problem::bad_request(error.to_string()))?;
    Ok(Json(view(&app, &name).await))
}

/// The report of a page each second while it publishes.
#[derive(Debug, Deserialize)]
pub(crate) struct PublisherReport {
    /// The server's clock minus the publisher's calendar clock, by which it states capture times, in
    /// ms.
    clock_offset_ms: f64,
    /// Uncertainty of `clock_offset_ms`, in ms.
    clock_error_ms: f64,
    /// Mean time that a frame spends in the encoder, in ms.
    encode_ms: f64,
    /// Mean time from the encoder to the server, in ms.
    uplink_ms: f64,
    /// If the frames have the server's time drawn into them: how long before its capture a frame may
    /// have been drawn, in ms.
    #[serde(default)]
    drawn_ms: Option<f64>,
}

impl PublisherReport {
    fn clock(&self, epoch: Instant) -> Result<PublisherClock, Problem> {
        let fields = [
            ("clock_offset_ms", self.clock_offset_ms),
            ("clock_error_ms", self.clock_error_ms),
            ("encode_ms", self.encode_ms),
            ("uplink_ms", self.uplink_ms),
            ("drawn_ms", self.drawn_ms.unwrap_or(0.0)),
        ];
        if let Some((field, _)) = fields.iter().find(|(_, value)| !value.is_finite()) {
            let detail = format!("`{field}` is not a finite number");
            return Err(Problem::bad_request(detail));
        }
        Ok(PublisherClock {
            epoch,
            offset_ms: self.clock_offset_ms,
            error_ms: self.clock_error_ms.max(0.0),
            encode_ms: self.encode_ms.max(0.0),
            uplink_ms: self.uplink_ms.max(0.0),
            drawn_ms: self.drawn_ms.map(|ms| ms.max(0.0)),
        })
    }
}

/// Takes what a page tells of itself, and answers with what arrives of it:
/// `POST /{stream}/whip/{session}/report`.
pub(crate) async fn report(
    State(app): State<App>,
    Path((name, session)): Path<(String, String)>,
    body: Body,
) -> Result<Json<Publishing>, Problem> {
    let record = resource::find(&app.sessions, &name, &session)?;
    let body = body::read(body).await?;
    let report: PublisherReport = serde_json::from_slice(&body).map_err(|error| {
        let line = error.line();
        Problem::bad_request(format!("not a report: {error}")).with("line", line)
    })?;
    let clock = report.clock(app.clock.epoch())?;
    if !record.take_report(Instant::now()) {
        return Err(Problem::too_many_reports());
    }
    let publisher = app.sessions.publisher_of(&record.stream);
    if publisher.is_some_and(|it| it.id == record.id)
        && let Some(captures) = app.sessions.captures(&record.stream)
    {
        captures.tell(clock, Instant::now());
    }
    Ok(Json(view(&app, &record.stream).await))
}

async fn view(app: &App, name: &StreamName) -> Publishing {
    let whip = match app.sessions.publisher_of(name) {
        Some(record) => whip_publisher(app, &record).await,
        None => None,
    };
    let accepts = Accepts::of(app);
    let now = Instant::now();
    let Some(stream) = app.hub.stream(name.as_str()) else {
        return Publishing {
            stream: name.to_string(),
            state: "absent",
            configured: None,
            detail: None,
            uptime_s: None,
            viewers: 0,
            source: None,
            tracks: Vec::new(),
            advice: Vec::new(),
            whip,
            latency: None,
            accepts,
        };
    };
    let state = stream.state();
    let since = match state {
        StreamState::Live { since } => Some(since),
        _ => None,
    };
    let figures = figures(&stream, now);
    let heeds = whip
        .as_ref()
        .and_then(|it| it.arrivals.keyframes_on_request);
    let advice = match since {
        Some(_) => advice::of(&figures, heeds.unwrap_or(false), stream.source_oversized()),
        None => Vec::new(),
    };
    Publishing {
        stream: name.to_string(),
        state: state.as_str(),
        configured: stream.check_client().err().map(|it| it.to_string()),
        detail: state.detail().map(str::to_owned),
        uptime_s: since.map(|at| now.saturating_duration_since(at).as_secs_f64()),
        viewers: stream.viewers(),
        source: stream.source_note().map(|note| SourceView::of(&note)),
        tracks: TrackIndex::enumerate(&figures)
            .map(|(index, measured)| PublishedTrack::of(measured, layers(&stream, index, now)))
            .collect(),
        advice,
        whip,
        latency: Some(
            app.latencies
                .latency(&stream, &(0..VIEWERS_MAX as usize), now),
        ),
        accepts,
    }
}

/// Measures the tracks of a stream on what the hub keeps of them.
fn figures(stream: &Arc<Stream>, now: Instant) -> Vec<(Track, LayerFigures)> {
    let tracks = stream.tracks();
    let tracks = TrackIndex::enumerate(tracks.iter().cloned());
    let figures = tracks.map(|(index, track)| (track, stream.figures(index, now)));
    figures.collect()
}

/// Measures the encodings of a track that has several.
pub(in crate::http) fn layers(
    stream: &Stream,
    track: TrackIndex,
    now: Instant,
) -> Vec<PublishedLayer> {
    let best = stream.preferred(track).layer;
    let tracks = stream.tracks();
    let named = tracks.get(track.get()).map_or(&[][..], |it| &it.layers);
    let layers = named.iter().enumerate().map(|(position, described)| {
        let layer = LayerIndex::of_encoding(position);
        let figures = stream.figures(TrackLayer { track, layer }, now);
        let (width, height) = described.size.unzip();
        let other = described.other_codec.as_ref();
        let (state, detail) = match &described.absence {
            None => ("live", None),
            Some(LayerAbsence::Paused) => ("paused", None),
            Some(LayerAbsence::Failed(why)) => ("failed", Some(why.clone())),
        };
        PublishedLayer {
            rid: described.rid.clone(),
            width,
            height,
            bitrate_bps: figures.bitrate.bps(),
            frame_rate: figures.frame_rate,
            temporal_layers: temporal_layers(&figures),
            since_keyframe_s: figures.since_keyframe.map(|it| it.as_secs_f64()),
            is_best: layer == best,
            codec: other.map(|it| it.codec.encoding_name()),
            is_made_here: described.is_made_here,
            state,
            detail,
        }
    });
    layers.collect()
}

/// Returns the number of temporal layers of an encoding that has several.
pub(super) fn temporal_layers(figures: &LayerFigures) -> Option<usize> {
    let layers = figures.temporal_rates.of_layers().len();
    (layers > 0).then_some(layers)
}

impl PublishedTrack {
    fn of((track, figures): &(Track, LayerFigures), layers: Vec<PublishedLayer>) -> Self {
        let is_video = track.kind() == Kind::Video;
        let seconds = |time: Option<Duration>| time.filter(|_| is_video).map(|it| it.as_secs_f64());
        Self {
            kind: track.kind().as_str(),
            codec: track.codec.encoding_name(),
            width: known(track.video.width),
            height: known(track.video.height),
            channels: (track.kind() == Kind::Audio).then_some(track.channels),
            bitrate_bps: figures.bitrate.bps(),
            frame_rate: is_video.then_some(figures.frame_rate),
            temporal_layers: temporal_layers(figures),
            keyframe_interval_s: seconds(figures.keyframe_interval),
            since_keyframe_s: seconds(figures.since_keyframe),
            b_frames: track.video.reordered,
            layers,
        }
    }
}

/// Asks the thread that owns a publisher what arrived; `None` if the publisher has no media yet.
async fn whip_publisher(app: &App, record: &SessionRecord) -> Option<WhipPublisher> {
    let arrivals = app.sessions.arrivals(record).ok()?;
    let arrivals = tokio::time::timeout(ANSWER, arrivals).await.ok()?.ok()?;
    Some(WhipPublisher {
        publisher: record.id.beginning().to_owned(),
        arrivals,
    })
}

/// A publisher by WHIP in the list of all.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ListedPublisher {
    stream: String,
    #[serde(flatten)]
    publisher: WhipPublisher,
}

/// A page of the list of publishers by WHIP.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "WhipPublishers")]
pub(crate) struct Publishers {
    publishers: Vec<ListedPublisher>,
    #[serde(flatten)]
    extent: Extent,
}

/// Lists the publishers by WHIP: `GET /api/v1/webrtc/publishers`.
pub(in crate::http) async fn publishers(
    State(app): State<App>,
    Query(filter): Query<OfStream>,
    page: Page,
) -> Result<Json<Publishers>, Problem> {
    let mut records = app.sessions.publishers();
    records.retain(|record| filter.wants(record.stream.as_str()));
    let collecting = async {
        let mut publishers = Vec::new();
        for record in records {
            if let Some(publisher) = whip_publisher(&app, &record).await {
                let stream = record.stream.to_string();
                publishers.push(ListedPublisher { stream, publisher });
            }
        }
        publishers
    };
    // Each thread answers within microseconds; a stuck one must not add up.
    let collected = tokio::time::timeout(2 * ANSWER, collecting).await;
    let mut publishers = collected.map_err(|_| {
        let detail = "a thread that owns publishers makes no progress: see /healthz";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "No answer", detail)
    })?;
    publishers.sort_by(|a, b| a.stream.cmp(&b.stream));
    let (publishers, extent) = page.of(publishers);
    Ok(Json(Publishers { publishers, extent }))
}
