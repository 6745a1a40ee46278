//! `/-/playback/…` and `/{stream}/timeline`: what was recorded, as lists, bytes, thumbnails and a page.
//!
//! ```text
//! GET /-/playback/list?path=&start=&end=                 [{start, duration, url, loss}]   as MediaMTX has it
//! GET /-/playback/get?path=&start=&duration=&format=     MP4, whole or by Range           as MediaMTX has it
//! GET /-/playback/marks?path=&start=&end=                [{start, end, label}]
//! GET /-/playback/stages?path=&start=&end=               [{start, p95_ms}]
//! GET /-/playback/thumbnail?path=&at=&width=&height=       JPEG
//! POST /-/playback/ask?path=                             what another server of the cluster asks
//! GET /api/v1/streams/{name}/export?start=&duration=     MP4 to be saved; audited
//! ```
//!
//! A stream may be called `list` or `get`, so that MediaMTX's paths stand below one that no stream has. Its
//! interfaces take the address of the playback server, which is `http://HOST:8889/-/playback` here.

mod export;
mod get;
mod list;
mod range;
mod servers;
mod thumbnail;

use std::time::{Duration, SystemTime};

use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, post};
use glassline_access::auth::{Action, Role};
use glassline_hub::StreamName;
use glassline_playback::recordings::Recording;
use glassline_playback::time_text::{duration, rfc3339, time};
use glassline_playback::{NoFootage, Playback, Subject, Wanted};
use glassline_recording::{Catalogue, CatalogueError, NewMark};
use glassline_runtime::calendar;
use serde::Deserialize;

use super::openapi::Operation;
use super::pages;
use super::problem::Problem;
use super::rules::Right;
use super::viewer_routes::ViewerRoutes;
use crate::app::App;

pub(crate) use servers::others;

/// Longest part that is given at once.
const PART_MAX: Duration = Duration::from_secs(24 * 3600);

/// Returns the routes of recordings.
pub(crate) fn routes() -> ViewerRoutes {
    let watching = Right::Do(Action::Playback);
    ViewerRoutes::of("playback")
        .route("/-/playback/list", watching, get(list::list))
        .route("/-/playback/get", watching, get(get::part))
        .route("/-/playback/marks", watching, get(list::marks))
        .route("/-/playback/stages", watching, get(list::stages))
        .route("/-/playback/thumbnail", watching, get(thumbnail::thumbnail))
        .route("/-/playback/ask", Right::Server, post(servers::answer))
        .page("/{stream}/timeline", watching, get(timeline))
        .get(
            "/api/v1/streams/{name}/export",
            Right::Do(Action::Export),
            Operation::new(
                "exportRecording",
                "Returns a part of what was recorded as one MP4 file",
            )
            .needs(Role::Operator)
            .plain(200, "video/mp4", "The file")
            .plain(206, "video/mp4", "The part of the file that `Range` names")
            .problem(400, "The part is none")
            .problem(404, "Nothing was recorded then")
            .problem(416, "The range begins behind the end")
            .problem(503, "Too much is read, or a disk fails"),
            export::export,
        )
}

/// Serves the page of a stream's recordings: `GET /{stream}/timeline`.
async fn timeline() -> Response {
    pages::of_viewers(include_str!("../../../assets/timeline.html"))
}

/// The part of a stream that a query names, as MediaMTX's do.
#[derive(Debug, Deserialize)]
struct PartQuery {
    path: Option<String>,
    start: Option<String>,
    duration: Option<String>,
    layer: Option<String>,
    gaps: Option<String>,
}

impl PartQuery {
    fn subject(&self, app: &App) -> Result<Subject, Problem> {
        subject(app, self.path.as_deref(), self.layer.clone())
    }

    fn wanted(&self) -> Result<Wanted, Problem> {
        let start = self.start.as_deref().ok_or_else(|| missing("start"))?;
        let length = self
            .duration
            .as_deref()
            .ok_or_else(|| missing("duration"))?;
        let stops_at_gap = match self.gaps.as_deref() {
            None | Some("skip") => false,
            Some("cut") => true,
            Some(other) => {
                return Err(Problem::bad_request(format!(
                    "gaps={other}: `skip` joins what is recorded around a gap, `cut` ends at the first one"
                )));
            }
        };
        wanted_part(start, length, stops_at_gap)
    }
}

fn missing(key: &str) -> Problem {
    Problem::bad_request(format!("the query has no `{key}`"))
}

/// Returns the recordings of a stream, of this server and of the others of its cluster.
pub(crate) fn subject(
    app: &App,
    path: Option<&str>,
    layer: Option<String>,
) -> Result<Subject, Problem> {
    let of = playback(app)?.subject(stream_name(path)?, layer);
    of.ok_or_else(no_recordings)
}

fn stream_name(path: Option<&str>) -> Result<StreamName, Problem> {
    let path = path.ok_or_else(|| missing("path"))?;
    // MediaMTX's interfaces write a name with or without a slash before it.
    let stream = StreamName::parse(path.trim_start_matches('/'));
    stream.map_err(|error| Problem::bad_request(format!("path: {error}")))
}

fn moment(key: &str, text: &str) -> Result<SystemTime, Problem> {
    time(text).ok_or_else(|| {
        Problem::bad_request(format!(
            "{key}={text}: write a time as 2026-11-30T14:03:05Z, with any zone, or as seconds since 1970"
        ))
    })
}

/// Returns the part from `start` on, for a `length`.
pub(crate) fn wanted_part(
    start: &str,
    length: &str,
    stops_at_gap: bool,
) -> Result<Wanted, Problem> {
    let from = moment("start", start)?;
    let part = duration(length).filter(|it| !it.is_zero() && *it <= PART_MAX);
    let part = part.ok_or_else(|| {
        Problem::bad_request(format!(
            "duration={length}: write seconds, or 1h2m3s; more than nothing, and at most a day"
        ))
    })?;
    if from > calendar::now() {
        let detail = format!(
            "{} is in the future: nothing is recorded yet",
            rfc3339(from)
        );
        return Err(Problem::new(StatusCode::NOT_FOUND, "Not recorded", detail));
    }
    Ok(Wanted {
        from,
        to: from + part,
        stops_at_gap,
    })
}

/// Returns what this server has; `None` while no folder is configured.
fn catalogue(app: &App) -> Option<Catalogue> {
    let recording = app.services.get::<Recording>();
    recording.and_then(Recording::catalogue).cloned()
}

fn no_recordings() -> Problem {
    let detail =
        "this server keeps no recordings: the setting `recordings.folder` names their folder";
    Problem::new(StatusCode::NOT_FOUND, "No recordings", detail)
}

/// Marks a span of a stream, on each server that has something of it.
pub(super) async fn mark(app: &App, mark: NewMark) -> Result<(), Problem> {
    let of = subject(app, Some(mark.stream.as_str()), None)?;
    Ok(playback(app)?.mark(&of, mark).await?)
}

pub(crate) fn playback(app: &App) -> Result<&Playback, Problem> {
    let playback = app.services.get::<Playback>();
    playback.ok_or_else(|| Problem::try_later("No recordings", "this server plays no recordings"))
}

/// Returns the answer for a part without footage.
pub(crate) fn not_recorded(stream: &str, wanted: &Wanted) -> Problem {
    let (from, to) = (rfc3339(wanted.from), rfc3339(wanted.to));
    let detail = format!(
        "nothing of '{stream}' was recorded from {from} to {to}; GET /-/playback/list?path={stream} lists \
         what was"
    );
    Problem::new(StatusCode::NOT_FOUND, "Not recorded", detail)
}

impl From<NoFootage> for Problem {
    fn from(error: NoFootage) -> Self {
        let detail = error.to_string();
        match error {
            NoFootage::Nothing | NoFootage::NothingFound(_) => {
                Self::new(StatusCode::NOT_FOUND, "Not recorded", detail)
            }
            NoFootage::TooLong(_) => Self::bad_request(detail),
            NoFootage::Crowded => Self::try_later("Too many readers", detail),
            NoFootage::NoThumbnail(_) => {
                Self::new(StatusCode::NOT_IMPLEMENTED, "No thumbnail", detail)
            }
            // Marks alone need a folder.
            NoFootage::Catalogue(CatalogueError::NoFolder) => {
                Self::new(StatusCode::CONFLICT, "Not recorded here", detail)
            }
            NoFootage::Unmarked(..) => Self::try_later("Not marked", detail),
            NoFootage::Catalogue(_)
            | NoFootage::Unreadable(_)
            | NoFootage::Away(_)
            | NoFootage::Panicked => {
                tracing::warn!(error = %detail, "a recording cannot be played");
                Self::try_later("Recording unreadable", detail)
            }
        }
    }
}
