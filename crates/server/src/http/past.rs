//! Recordings over WHEP: `POST /{stream}/whep?at=TIME`, and `POST /{stream}/whep/{session}/at` to go
//! elsewhere in any viewer's session: to recordings, and to the live stream.
//!
//! ```text
//!  at, by ─► recordings? ─┬─ open in the session ─► a seek in them
//!                         └─ none ─► opened beside the live stream ─ first frame ─► the peer goes over
//!  live ───────────────────────────────────────────────────────────────────────────► the peer goes back
//! ```

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use axum::http::StatusCode;
use glassline_hub::{Stream, StreamName};
use glassline_ingest::library::{Failure, Play, SourceError};
use glassline_playback::time_text::{rfc3339, time};
use glassline_playback::{Past, PastReading, Playback, Subject, instant_of};
use glassline_runtime::{await_tracks, calendar, may_come};
use serde::{Deserialize, Serialize};

use super::extract::Path;
use super::problem::Problem;
use super::{body, resource};
use crate::app::App;
use crate::sessions::{AnsweredOffer, ConnectionAddresses, Offer, PastSession, SessionRecord};

/// Longest distance from the present that counts as live: files have no frames of it yet.
const PRESENT: Duration = Duration::from_secs(1);

/// Most seconds that a request goes back or ahead: a century.
const SECONDS_MAX: f64 = 3_155_760_000.0;

/// The request as a client writes it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestBody {
    /// The instant, or `live`; the present one if it is absent.
    at: Option<String>,
    /// Seconds from the frame that is shown, negative ones back.
    by: Option<f64>,
    /// Seconds of the recording in a second, from 0.125 to 64, negative ones backwards; 0 pauses.
    scale: Option<f64>,
}

/// The answer: what the session shows now.
#[derive(Debug, Serialize)]
pub(super) struct Shown {
    /// Time of the first frame, or `live`.
    at: String,
}

/// Where a request leads.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Destination {
    Live,
    Instant(SystemTime),
    /// On from the present frame.
    Here,
}

/// Makes a viewer of what was recorded of `name` from `at` on.
pub(super) async fn watch(
    app: &App,
    name: &str,
    at: &str,
    offer: Offer<'_>,
) -> Result<AnsweredOffer, Problem> {
    let at = moment(at)?;
    let (playback, of) = subject(app, name)?;
    let stream = of.stream.clone();
    let found = playback.past(of, at).await?;
    let PastReading { reading, place } = playback.open_past(found.past, offer.client())?;
    let past = PastSession::new(reading, place);
    let answered = app.sessions.watch_past(&stream, past.stream(), offer)?;
    past.begin(from(at, 1.0));
    answered.record.past().await.set(Some(past));
    Ok(answered)
}

/// Leads a session to recordings, elsewhere in them, or to the live stream:
/// `POST /{stream}/whep/{session}/at`.
pub(super) async fn go_to(
    State(app): State<App>,
    ConnectInfo(connection): ConnectInfo<ConnectionAddresses>,
    Path((name, session)): Path<(String, String)>,
    body: Body,
) -> Result<Json<Shown>, Problem> {
    let record = resource::find(&app.sessions, &name, &session)?;
    let body = body::read(body).await?;
    let request: RequestBody = serde_json::from_slice(&body).map_err(|error| {
        Problem::bad_request(format!(
            "{error}: write {{\"at\": TIME}}, {{\"at\": \"live\"}}, {{\"by\": -10}}, or {{\"scale\": 4}}"
        ))
    })?;
    let mut past = record.past().await;
    let shown = past.get().map(|it| instant_of(it.position()));
    let destination = destination(&request, shown, calendar::now())?;
    let scale = request.scale.unwrap_or(1.0);
    let begun = match (destination, past.get()) {
        (Destination::Live, None) => None,
        (Destination::Live, Some(_)) => {
            go_live(&app, &record).await?;
            past.set(None);
            None
        }
        (Destination::Here, None) => return Err(not_of_recordings()),
        (_, Some(past)) if scale == 0.0 => {
            past.pause();
            Some(instant_of(past.position()))
        }
        (Destination::Here, Some(past)) => {
            let play = Play {
                scale,
                ..Play::default()
            };
            play_in(past, play).await?
        }
        (Destination::Instant(at), Some(past)) => {
            let (playback, of) = subject(&app, &name)?;
            // What is shown goes on where nothing was recorded.
            playback.past(of, at).await?;
            Some(first_shown(
                at,
                scale,
                play_in(past, from(at, scale)).await?,
            ))
        }
        (Destination::Instant(at), None) => {
            let client = connection.peer.ip();
            let opened = open(&app, &record, client, at).await?;
            let begun = play_in(&opened, from(at, scale)).await?;
            go_over(&app, &record, opened.stream()).await?;
            past.set(Some(opened));
            Some(first_shown(at, scale, begun))
        }
    };
    let at = begun.map_or_else(|| "live".to_owned(), rfc3339);
    Ok(Json(Shown { at }))
}

/// Returns where a request leads from the instant that is shown, or from the live stream.
fn destination(
    request: &RequestBody,
    shown: Option<SystemTime>,
    now: SystemTime,
) -> Result<Destination, Problem> {
    let at = match (request.at.as_deref(), request.by) {
        (Some(_), Some(_)) => {
            let detail = "`at` is a time, and `by` leads away from the frame that is shown: write one of them";
            return Err(Problem::bad_request(detail));
        }
        (None, None) => return Ok(Destination::Here),
        (Some("live"), None) => return Ok(Destination::Live),
        (Some(at), None) => return Ok(Destination::Instant(moment(at)?)),
        (None, Some(by)) if by.abs() > SECONDS_MAX => {
            let detail = format!("by={by}: write a number of seconds");
            return Err(Problem::bad_request(detail));
        }
        (None, Some(by)) => {
            let (from, distance) = (shown.unwrap_or(now), Duration::from_secs_f64(by.abs()));
            match by < 0.0 {
                true => from
                    .checked_sub(distance)
                    .map_or(UNIX_EPOCH, |at| at.max(UNIX_EPOCH)),
                false => from + distance,
            }
        }
    };
    Ok(match at + PRESENT >= now {
        true => Destination::Live,
        false => Destination::Instant(at),
    })
}

/// Returns the recordings of a stream.
fn subject<'a>(app: &'a App, name: &str) -> Result<(&'a Playback, Subject), Problem> {
    let stream = StreamName::parse(name);
    let stream = stream.map_err(|error| Problem::bad_request(format!("{name}: {error}")))?;
    let playback = app.services.get::<Playback>();
    let found = playback.and_then(|it| Some((it, it.subject(stream, None)?)));
    found.ok_or_else(|| {
        let detail =
            "this server keeps no recordings: the setting `recordings.folder` names their folder";
        Problem::new(StatusCode::NOT_FOUND, "No recordings", detail)
    })
}

/// Opens what was recorded from `at` on, for a session that shows the live stream.
async fn open(
    app: &App,
    record: &SessionRecord,
    client: IpAddr,
    at: SystemTime,
) -> Result<PastSession, Problem> {
    let name = record.resource_name();
    let (playback, of) = subject(app, name)?;
    playback.past(of.clone(), at).await?;
    let live = app
        .hub
        .stream(name)
        .ok_or_else(|| Problem::no_stream(name))?;
    // The recordings have one layer.
    let tracks = live.tracks();
    let tracks = tracks.iter().map(|it| it.clone().with_layers(Vec::new()));
    let past = Past::with_tracks(of, tracks.collect());
    let PastReading { reading, place } = playback.open_past(past, client)?;
    Ok(PastSession::new(reading, place))
}

/// Plays on in recordings. Returns the time of the first frame, if it has come.
async fn play_in(past: &PastSession, play: Play) -> Result<Option<SystemTime>, Problem> {
    let begun = past.play(play).await.map_err(|error| match error {
        Failure::Source(SourceError::Nothing(why)) => {
            Problem::new(StatusCode::NOT_FOUND, "Not recorded", why)
        }
        other => Problem::try_later("Not played", other.to_string()),
    })?;
    Ok(begun.map(instant_of))
}

/// Returns when the first frame was recorded that is shown, of a playback from `at` on that has `begun` with a
/// keyframe: those before `at` pass at once.
fn first_shown(at: SystemTime, scale: f64, begun: Option<SystemTime>) -> SystemTime {
    match begun {
        Some(begun) if scale < 0.0 => begun,
        Some(begun) => begun.max(at),
        None => at,
    }
}

/// Leads a session back to the live stream.
async fn go_live(app: &App, record: &SessionRecord) -> Result<(), Problem> {
    let name = record.resource_name();
    let live = app
        .hub
        .stream(name)
        .ok_or_else(|| Problem::no_stream(name))?;
    let _demand = match may_come(&live) {
        true => Some(await_tracks(&live).await),
        false => None,
    };
    if live.tracks().is_empty() {
        let status = live.status(std::time::Instant::now());
        return Err(Problem::not_live(live.name(), &live.state(), status));
    }
    go_over(app, record, &live).await
}

async fn go_over(app: &App, record: &SessionRecord, to: &Arc<Stream>) -> Result<(), Problem> {
    match app.sessions.go_over(record, Arc::clone(to)).await? {
        true => Ok(()),
        false => {
            let detail = "the session has not negotiated these codecs, or is not connected: make another one";
            Err(Problem::new(StatusCode::CONFLICT, "Other tracks", detail))
        }
    }
}

fn not_of_recordings() -> Problem {
    let detail =
        "the session shows the live stream: `scale` is for recordings, to which `at` and `by` lead";
    Problem::new(StatusCode::CONFLICT, "Not of recordings", detail)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn request(text: &str) -> RequestBody {
        serde_json::from_str(text).expect("a request")
    }

    #[test]
    fn steps_count_from_what_is_shown_and_end_at_the_present() {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        let (now, shown) = (at(1000), Some(at(500)));
        let leads = |text: &str, shown| destination(&request(text), shown, now).ok();
        assert_eq!(
            leads(r#"{"by": -10}"#, None),
            Some(Destination::Instant(at(990)))
        );
        assert_eq!(
            leads(r#"{"by": -10}"#, shown),
            Some(Destination::Instant(at(490)))
        );
        assert_eq!(
            leads(r#"{"by": 60}"#, shown),
            Some(Destination::Instant(at(560)))
        );
        assert_eq!(leads(r#"{"by": 499}"#, shown), Some(Destination::Live));
        assert_eq!(leads(r#"{"by": 900}"#, shown), Some(Destination::Live));
        assert_eq!(leads(r#"{"by": -0.5}"#, None), Some(Destination::Live));
        assert_eq!(
            leads(r#"{"by": -3e9}"#, None),
            Some(Destination::Instant(UNIX_EPOCH))
        );
        assert_eq!(
            leads(r#"{"at": "500"}"#, None),
            Some(Destination::Instant(at(500)))
        );
        assert_eq!(leads(r#"{"at": "live"}"#, shown), Some(Destination::Live));
        assert_eq!(leads(r#"{"scale": 4}"#, shown), Some(Destination::Here));
        for refused in [
            r#"{"by": 1e300}"#,
            r#"{"by": -10, "at": "live"}"#,
            r#"{"at": "then"}"#,
        ] {
            assert_eq!(leads(refused, shown), None, "{refused}");
        }
    }
}
