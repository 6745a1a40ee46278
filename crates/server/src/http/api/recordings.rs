//! `/api/v1/streams/{name}/recording`: a recording is started, stopped and marked.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use glassline_access::auth::{Action, Role};
use glassline_cmaf::CmafTrack;
use glassline_hub::StreamName;
use glassline_media::Track;
use glassline_playback::recordings::Recording;
use glassline_recording::{NewMark, NotRecorded, Recorders, RecordingState, RecordingStatus};
use glassline_runtime::calendar;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::extract::{JsonBody, Path};
use super::super::openapi::Operation;
use super::super::playback;
use super::super::problem::Problem;
use super::super::rules::Right;
use super::super::viewer_routes::ViewerRoutes;
use super::StreamPath;
use crate::app::App;

/// Longest label of a mark, in characters.
const LABEL_MAX: usize = 200;

/// Longest time before and after the moment of a mark, in seconds: a day.
const AROUND_MAX: u32 = 86_400;

/// Returns the route of recordings, for viewers with the right and for operators.
pub(in crate::http) fn routes() -> ViewerRoutes {
    ViewerRoutes::of("playback").post(
        "/api/v1/streams/{name}/recording",
        Right::Do(Action::Record),
        Operation::new(
            "changeRecording",
            "Starts, stops or marks the recording of a stream",
        )
        .needs(Role::Operator)
        .problem(404, "No stream can be called so")
        .problem(
            409,
            "There is no folder for it, or another server records it",
        )
        .problem(422, "The body says nothing that can be done")
        .problem(503, "The mark, or the wish, cannot be written now"),
        change,
    )
}

/// The request about a recording.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RecordingChange {
    /// The action to take.
    action: RecordingAction,
    /// Text of the mark.
    #[serde(default)]
    #[schemars(length(max = 200))]
    label: String,
    /// Moment of the mark, in ms since 1970 (UTC); now without it.
    #[serde(default)]
    at_ms: Option<u64>,
    /// Seconds before the moment that are marked, too; 10 without this member.
    #[serde(default)]
    #[schemars(range(max = 86_400))]
    before_s: Option<u32>,
    /// Seconds after the moment that are marked, too; 10 without this member.
    #[serde(default)]
    #[schemars(range(max = 86_400))]
    after_s: Option<u32>,
    /// Whether the marked span is kept for ever.
    #[serde(default)]
    for_ever: bool,
}

/// An action on a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum RecordingAction {
    /// Records the stream whenever it has a source, also after a restart.
    Start,
    /// Does not record the stream, also after a restart.
    Stop,
    /// Records the stream as the configuration says, which is what it does at first.
    Configured,
    /// Marks a span.
    Mark,
}

/// Seconds around the moment of a mark that says nothing else.
const AROUND: u32 = 10;

/// The recording of a stream.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Recording")]
pub(super) struct RecordingView {
    /// The state of the recording: `recording`, `waiting` for a source, `losing` frames, or `off`.
    state: &'static str,
    /// The reason why frames are lost; null if none are.
    reason: Option<String>,
    /// Since when the present source is recorded, in ms since 1970.
    since_ms: Option<u64>,
    /// Codecs of the source's tracks that MP4 files have no place for: these tracks are not recorded.
    left_out: Vec<String>,
    /// Whether the configuration says that the stream is recorded.
    configured: bool,
    /// Bytes that were written since the server started.
    bytes: u64,
    /// The file that is written, below its folder.
    file: Option<String>,
    /// Time from the publication of the newest frame until it was written, in ms.
    lag_ms: f64,
    /// The losses since the server started, by reason.
    losses: Vec<LossView>,
}

/// The losses of a recording for one reason.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "RecordingLoss")]
struct LossView {
    /// Reason: `slow_disk`, `disk_full`, `read_only`, `disk_away`, `disk_error`, or `late` for a server
    /// that was too busy.
    reason: &'static str,
    /// Number of times that frames were lost for the reason.
    count: u64,
    /// Time for which frames are missing, in ms.
    lost_ms: u64,
}

impl RecordingView {
    /// Describes the recording of a stream; `None` if no folder is configured for it.
    pub(super) fn of(app: &App, name: &StreamName) -> Option<Self> {
        let status = recorders_of(app)?.status(name)?;
        let tracks = app.hub.stream(name.as_str()).map(|it| it.tracks());
        Some(Self::of_status(status, tracks.as_deref().unwrap_or(&[])))
    }

    /// Describes the recording of a source with `tracks`.
    fn of_status(status: RecordingStatus, tracks: &[Track]) -> Self {
        let losses = status.losses.into_iter().map(|it| LossView {
            reason: it.reason,
            count: it.count,
            lost_ms: ms(it.time),
        });
        Self {
            state: status.state.as_str(),
            reason: status.reason,
            since_ms: status.since.map(since_1970),
            left_out: tracks
                .iter()
                .filter(|it| !CmafTrack::is_carried(it))
                .map(|it| it.codec.to_string())
                .collect(),
            configured: status.is_automatic,
            bytes: status.bytes,
            file: status.file.map(|it| it.display().to_string()),
            lag_ms: status.lag.as_secs_f64() * 1e3,
            losses: losses.collect(),
        }
    }
}

/// Returns what the recording of a stream does; `None` of a stream that is not recorded.
pub(in crate::http) fn state(app: &App, name: &StreamName) -> Option<&'static str> {
    let status = recorders_of(app)?.status(name)?;
    (status.state != RecordingState::Off).then(|| status.state.as_str())
}

async fn change(
    State(app): State<App>,
    Path(StreamPath { name }): Path<StreamPath>,
    JsonBody(body): JsonBody<RecordingChange>,
) -> Result<Json<RecordingView>, Problem> {
    let name = StreamName::parse(&name).map_err(|error| {
        let status = StatusCode::NOT_FOUND;
        Problem::new(status, "No such stream", error.to_string())
    })?;
    let none = || Problem::from(NotRecorded::NoFolder(name.clone()));
    let recorders = recorders_of(&app).ok_or_else(none)?;
    match body.action {
        RecordingAction::Start => recorders.wish(&name, Some(true))?,
        RecordingAction::Stop => recorders.wish(&name, Some(false))?,
        RecordingAction::Configured => recorders.wish(&name, None)?,
        RecordingAction::Mark => {
            let mark = body.mark(&name, calendar::now())?;
            playback::mark(&app, mark).await?;
        }
    }
    let view = RecordingView::of(&app, &name);
    Ok(Json(view.ok_or_else(none)?))
}

fn recorders_of(app: &App) -> Option<&Recorders> {
    app.services.get::<Recording>()?.recorders()
}

impl RecordingChange {
    /// Returns the mark that is to be made.
    fn mark(&self, stream: &StreamName, now: SystemTime) -> Result<NewMark, Problem> {
        let wrong =
            |detail: &str| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "No such mark", detail);
        if self.label.chars().count() > LABEL_MAX || self.label.chars().any(char::is_control) {
            let detail = "a label has at most 200 characters, and none that cannot be seen";
            return Err(wrong(detail));
        }
        let around = [self.before_s, self.after_s].map(|it| it.unwrap_or(AROUND));
        if around.iter().any(|it| *it > AROUND_MAX) {
            return Err(wrong("`before_s` and `after_s` are at most 86,400: a day"));
        }
        let at = self
            .at_ms
            .map_or(now, |it| UNIX_EPOCH + Duration::from_millis(it));
        let [before, after] = around.map(|it| Duration::from_secs(it.into()));
        // A mark of no length would be no span.
        let to = at + after.max(Duration::from_millis(1));
        let from = at.checked_sub(before).filter(|it| *it >= UNIX_EPOCH);
        let is_near = at < now + Duration::from_secs(AROUND_MAX.into());
        match from.filter(|_| is_near) {
            Some(from) => Ok(NewMark {
                stream: stream.clone(),
                label: self.label.clone(),
                from,
                to,
                is_for_ever: self.for_ever,
            }),
            None => Err(wrong("`at_ms` is no time of a recording")),
        }
    }
}

impl From<NotRecorded> for Problem {
    fn from(error: NotRecorded) -> Self {
        let detail = error.to_string();
        match error {
            NotRecorded::NotKept(..) => Self::try_later("Not kept", detail),
            _ => Self::new(StatusCode::CONFLICT, "Not recorded here", detail),
        }
    }
}

fn since_1970(at: SystemTime) -> u64 {
    ms(at.duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
