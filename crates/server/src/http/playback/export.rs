//! Parts as files to be saved: `GET /api/v1/streams/{name}/export`.

use std::net::IpAddr;

use axum::extract::{ConnectInfo, FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::response::Response;
use glassline_access::audit::Change;
use glassline_access::auth::Role;
use glassline_cmaf::SpanCut;
use glassline_hub::StreamName;
use glassline_playback::{ClipForm, Wanted};
use glassline_runtime::calendar;
use schemars::JsonSchema;
use serde::Deserialize;

use super::super::api::StreamPath;
use super::super::extract::{Path, Query};
use super::super::guard::DoneBy;
use super::super::openapi::{Argument, Description};
use super::super::operators::Visitor;
use super::super::problem::Problem;
use super::super::server::Waiter;
use super::get::{answer, clip};
use super::{moment, subject, wanted_part};
use crate::app::App;
use crate::sessions::ConnectionAddresses;

/// The part that is exported.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct ExportQuery {
    /// Time of the first frame: RFC 3339 with any zone, or seconds since 1970.
    start: String,
    /// Length in seconds, or like `1h2m3s`; at most a day.
    #[serde(default)]
    duration: Option<String>,
    /// Time of the end, in place of the length.
    #[serde(default)]
    end: Option<String>,
    /// Where the file begins.
    #[serde(default)]
    cut: Cut,
    /// Layer of the video; the best one by default.
    #[serde(default)]
    layer: Option<String>,
}

/// Where a file begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Cut {
    /// The file begins at the keyframe before the start.
    #[default]
    Keyframe,
    /// The file begins at the start; players skip what is before it.
    Exact,
}

impl ExportQuery {
    fn wanted(&self) -> Result<Wanted, Problem> {
        match (&self.duration, &self.end) {
            (Some(length), None) => wanted_part(&self.start, length, false),
            (None, Some(end)) => {
                let (from, to) = (moment("start", &self.start)?, moment("end", end)?);
                let length = to.duration_since(from).ok().filter(|it| !it.is_zero());
                let length = length.ok_or_else(|| {
                    let detail = format!("end={end}: an end must be later than the start");
                    Problem::bad_request(detail)
                })?;
                let length = length.as_secs_f64();
                wanted_part(&self.start, &length.to_string(), false)
            }
            _ => Err(Problem::bad_request(
                "the query has either `duration` or `end`, and not both",
            )),
        }
    }
}

impl Cut {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Keyframe => "keyframe",
            Self::Exact => "exact",
        }
    }
}

/// Answers with the file. Gaps are skipped.
pub(super) async fn export(
    State(app): State<App>,
    Path(StreamPath { name }): Path<StreamPath>,
    Query(query): Query<ExportQuery>,
    client: ExportClient,
) -> Result<Response, Problem> {
    let of = subject(&app, Some(&name), query.layer.clone())?;
    let wanted = query.wanted()?;
    let form = ClipForm::Whole(match query.cut {
        Cut::Keyframe => SpanCut::Keyframe,
        Cut::Exact => SpanCut::Exact,
    });
    let stream = of.stream.clone();
    let clip = clip(&app, &client.waiter, of, wanted, form).await?;
    let mut response = answer(&app, &client.waiter, clip, &client.headers)?;
    let begins: String = query
        .start
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .collect();
    let file = format!(
        "attachment; filename=\"{}-{begins}.mp4\"",
        stream.as_str().replace('/', "-")
    );
    if let Ok(value) = HeaderValue::try_from(file) {
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_DISPOSITION, value);
    }
    if client.is_get {
        let status = response.status().as_u16();
        let change = client.change(&stream, &query, status);
        app.http.audit.note(change, calendar::now()).await;
    }
    Ok(response)
}

/// The client of an export, and how it asks.
#[derive(Debug)]
pub(super) struct ExportClient {
    waiter: Waiter,
    headers: HeaderMap,
    /// Name of the user or operator.
    who: String,
    role: Option<Role>,
    from: IpAddr,
    /// Whether the file itself is wanted, and not only its head.
    is_get: bool,
}

impl ExportClient {
    /// Returns the export as the audit log has it, without tokens of the query.
    fn change(self, stream: &StreamName, query: &ExportQuery, status: u16) -> Change {
        let (start, length) = (&query.start, query.duration.as_deref());
        let (key, end) = match query.end.as_deref() {
            Some(end) => ("end", end),
            None => ("duration", length.unwrap_or_default()),
        };
        Change {
            who: self.who,
            role: self.role,
            from: self.from,
            action: "exportRecording",
            target: format!(
                "GET /api/v1/streams/{stream}/export?start={start}&{key}={end}&cut={}",
                query.cut.as_str()
            ),
            status,
            reason: None,
        }
    }
}

impl FromRequestParts<App> for ExportClient {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let waiter = Waiter::from_request_parts(parts, app).await;
        let waiter = waiter.unwrap_or_else(|never| match never {});
        let extensions = &parts.extensions;
        let caller = extensions.get::<Visitor>().and_then(Visitor::caller);
        let user = extensions.get::<DoneBy>().and_then(|it| it.0.clone());
        let operator = caller.map(|it| it.operator().name().to_owned());
        let connection = extensions.get::<ConnectInfo<ConnectionAddresses>>();
        let ConnectInfo(connection) = connection
            .ok_or_else(|| Problem::bad_request("the address of the client is not known"))?;
        Ok(Self {
            waiter,
            headers: parts.headers.clone(),
            who: operator.or(user).unwrap_or_else(|| UNNAMED.to_owned()),
            role: caller.map(super::super::operators::Caller::role),
            from: connection.peer.ip(),
            is_get: parts.method == Method::GET,
        })
    }
}

/// Name in the audit log of whoever needs none: the holder of the publish token, or this machine.
const UNNAMED: &str = "(publish token or this machine)";

impl Argument for ExportClient {
    fn describe(to: &mut Description) {
        to.header("Range", "One range of bytes of the file");
        to.header(
            "If-None-Match",
            "Entity tag of the file that the client has",
        );
    }
}
