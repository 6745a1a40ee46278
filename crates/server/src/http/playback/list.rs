//! What was recorded of a stream, what was marked, and how long its stages took.

use std::collections::BTreeMap;

use axum::Extension;
use axum::Json;
use axum::extract::State;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Uri, header};
use glassline_playback::time_text::rfc3339;
use glassline_playback::{Listed, Stretch, always};
use glassline_recording::TimeRange;
use serde::{Deserialize, Serialize};

use super::super::extract::Query;
use super::super::problem::Problem;
use super::super::server::Scheme;
use super::super::stream_path::unfold;
use super::servers::told;
use super::{StatusCode, missing, moment, playback, subject};
use crate::app::App;

/// Times that a list is about.
#[derive(Debug, Deserialize)]
pub(super) struct RangeQuery {
    path: Option<String>,
    start: Option<String>,
    end: Option<String>,
    layer: Option<String>,
}

/// A stretch that plays as one.
#[derive(Debug, Serialize)]
pub(super) struct StretchView {
    /// Time of the first frame.
    start: String,
    /// Length in seconds.
    duration: f64,
    /// Address of its bytes.
    url: String,
    /// The reason why frames are missing before it, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    loss: Option<String>,
}

/// A span that somebody marked.
#[derive(Debug, Serialize)]
pub(super) struct MarkView {
    start: String,
    end: String,
    label: String,
    /// Whether the span is kept for ever.
    for_ever: bool,
}

impl RangeQuery {
    fn range(&self) -> Result<TimeRange, Problem> {
        let given =
            |key, text: &Option<String>| text.as_deref().map(|it| moment(key, it)).transpose();
        let range = TimeRange {
            from: given("start", &self.start)?.unwrap_or(always().from),
            to: given("end", &self.end)?.unwrap_or(always().to),
        };
        match range.from < range.to {
            true => Ok(range),
            false => Err(Problem::bad_request("`end` is not behind `start`")),
        }
    }
}

/// Lists what was recorded: `GET /-/playback/list`.
pub(super) async fn list(
    State(app): State<App>,
    scheme: Option<Extension<Scheme>>,
    uri: Uri,
    Query(query): Query<RangeQuery>,
    headers: HeaderMap,
) -> Result<(HeaderMap, Json<Vec<StretchView>>), Problem> {
    let of = subject(&app, query.path.as_deref(), query.layer.clone())?;
    let found = playback(&app)?.stretches(&of, query.range()?).await?;
    let Listed { items, missing } = found;
    if items.is_empty() {
        let nothing = format!("nothing of '{}' was recorded then", of.stream);
        let detail = match missing.0.as_slice() {
            [] => nothing,
            _ => format!("{nothing} by the servers that answer; {missing}"),
        };
        return Err(Problem::new(StatusCode::NOT_FOUND, "Not recorded", detail));
    }
    let scheme = scheme.map(|Extension(scheme)| scheme);
    let base = base(scheme, &uri, &headers);
    let view = |it: Stretch| {
        let start = rfc3339(it.from);
        let seconds = it
            .to
            .duration_since(it.from)
            .unwrap_or_default()
            .as_secs_f64();
        let query = url::form_urlencoded::Serializer::new(String::new())
            .append_pair("duration", &seconds.to_string())
            .append_pair("path", of.stream.as_str())
            .append_pair("start", &start)
            .finish();
        StretchView {
            url: format!("{base}/-/playback/get?{query}"),
            start,
            duration: seconds,
            loss: it.loss,
        }
    };
    let views = items.into_iter().map(view);
    Ok((told(&missing), Json(views.collect())))
}

/// Lists marks: `GET /-/playback/marks`.
pub(super) async fn marks(
    State(app): State<App>,
    Query(query): Query<RangeQuery>,
) -> Result<(HeaderMap, Json<Vec<MarkView>>), Problem> {
    let of = subject(&app, query.path.as_deref(), None)?;
    let found = playback(&app)?.marks(&of, query.range()?).await?;
    let views = found.items.into_iter().map(|it| MarkView {
        start: rfc3339(it.from),
        end: rfc3339(it.to),
        label: it.label,
        for_ever: it.is_for_ever,
    });
    Ok((told(&found.missing), Json(views.collect())))
}

/// The delays of a minute.
#[derive(Debug, Serialize)]
pub(super) struct MinuteView {
    /// Beginning of the minute.
    start: String,
    /// Milliseconds within which 95 of 100 frames passed each stage, in the worst ten seconds of the minute.
    p95_ms: BTreeMap<String, f32>,
}

/// Lists delays by stage: `GET /-/playback/stages`.
pub(super) async fn stages(
    State(app): State<App>,
    Query(query): Query<RangeQuery>,
) -> Result<(HeaderMap, Json<Vec<MinuteView>>), Problem> {
    let of = subject(&app, query.path.as_deref(), None)?;
    if query.start.is_none() {
        return Err(missing("start"));
    }
    let found = playback(&app)?.stage_minutes(&of, query.range()?).await?;
    let views = found.items.into_iter().map(|it| MinuteView {
        start: rfc3339(it.at()),
        p95_ms: it.p95_ms,
    });
    Ok((told(&found.missing), Json(views.collect())))
}

/// Returns scheme, host and the path of a proxy in front of the server's own.
fn base(scheme: Option<Scheme>, uri: &Uri, headers: &HeaderMap) -> String {
    let scheme = match scheme {
        Some(Scheme::Https) => "https",
        _ => "http",
    };
    let host = headers.get(header::HOST).and_then(|it| it.to_str().ok());
    let host = uri.authority().map(Authority::as_str).or(host);
    let path = unfold(uri.path());
    let before = path.split("/-/playback/").next().unwrap_or_default();
    match host {
        Some(host) => format!("{scheme}://{host}{before}"),
        None => before.to_owned(),
    }
}
