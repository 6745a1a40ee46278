//! Recordings over WHEP: `POST /{stream}/whep?at=TIME`, and `POST /{stream}/whep/{session}/at` to go
//! elsewhere, or to the live stream, within the session.

use std::time::{SystemTime, UNIX_EPOCH};

use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use glassline_hub::StreamName;
use glassline_ingest::library::Play;
use glassline_runtime::calendar;
use serde::Deserialize;

use super::extract::Path;
use super::problem::Problem;
use super::{body, resource};
use crate::app::App;
use crate::playback::time_text::{rfc3339, time};
use crate::playback::{PastReading, Playback};
use crate::sessions::{AnsweredOffer, Offer, PastSession};

/// The request as a client writes it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestBody {
    /// The instant, or `live`; the present one if it is absent.
    at: Option<String>,
    /// Seconds of the recording in a second, from 0.125 to 64, negative ones backwards; 0 pauses.
    scale: Option<f64>,
}

/// Makes a viewer of what was recorded of `name` from `at` on.
pub(super) async fn watch(
    app: &App,
    name: &str,
    at: &str,
    offer: Offer<'_>,
) -> Result<AnsweredOffer, Problem> {
    let stream = StreamName::parse(name);
    let stream = stream.map_err(|error| Problem::bad_request(format!("{name}: {error}")))?;
    let at = moment(at)?;
    let playback = app.services.get::<Playback>();
    let of = playback.and_then(|it| Some((it, it.subject(stream.clone(), None)?)));
    let Some((playback, of)) = of else {
        let detail =
            "this server keeps no recordings: the setting `recordings.folder` names their folder";
        return Err(Problem::new(StatusCode::NOT_FOUND, "No recordings", detail));
    };
    let found = playback.past(of, at).await?;
    let PastReading { reading, place } = playback.open_past(found.past, offer.client())?;
    let past = PastSession::new(stream.as_str().to_owned(), reading, place);
    let answered = app.sessions.watch_past(past, offer)?;
    if let Some(past) = answered.record.past() {
        past.play(from(at, 1.0));
    }
    Ok(answered)
}

/// Moves a session of recordings: `POST /{stream}/whep/{session}/at`.
pub(super) async fn go_to(
    State(app): State<App>,
    Path((name, session)): Path<(String, String)>,
    body: Body,
) -> Result<StatusCode, Problem> {
    let record = resource::find(&app.sessions, &name, &session)?;
    let body = body::read(body).await?;
    let request: RequestBody = serde_json::from_slice(&body).map_err(|error| {
        Problem::bad_request(format!(
            "{error}: write {{\"at\": TIME}}, {{\"at\": \"live\"}}, or {{\"scale\": 4}}"
        ))
    })?;
    let Some(past) = record.past() else {
        let detail =
            "the session plays a live stream: POST the offer to whep?at=TIME for recordings";
        return Err(Problem::new(
            StatusCode::CONFLICT,
            "Not of recordings",
            detail,
        ));
    };
    let scale = request.scale.unwrap_or(1.0);
    match request.at.as_deref() {
        Some("live") => {
            let live = app.hub.stream(&name).filter(|it| !it.tracks().is_empty());
            past.follow(live.ok_or_else(|| Problem::no_stream(&name))?);
        }
        _ if scale == 0.0 => past.pause(),
        Some(at) => past.play(from(moment(at)?, scale)),
        None => past.play(Play {
            scale,
            ..Play::default()
        }),
    }
    Ok(StatusCode::NO_CONTENT)
}

fn from(at: SystemTime, scale: f64) -> Play {
    Play {
        from: Some(at.duration_since(UNIX_EPOCH).unwrap_or_default()),
        scale,
        ..Play::default()
    }
}

fn moment(text: &str) -> Result<SystemTime, Problem> {
    let at = time(text).ok_or_else(|| {
        Problem::bad_request(format!(
            "at={text}: write a time as 2026-11-30T14:03:05Z, with any zone, or as seconds since 1970"
        ))
    })?;
    if at > calendar::now() {
        let detail = format!("{} is in the future: nothing is recorded yet", rfc3339(at));
        return Err(Problem::new(StatusCode::NOT_FOUND, "Not recorded", detail));
    }
    Ok(at)
}
