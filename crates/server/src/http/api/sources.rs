//! `/api/v1/sources`: the sources of streams, which operators make, change and delete.

use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use glassline_access::auth::{Pattern, Role};
use glassline_config::SourceKeys;
use glassline_hub::StreamName;
use glassline_ingest::stream_names;
use glassline_ingest::{ChangeError, Input};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::created::{Created, NoContent};
use super::super::extract::{JsonBody, Path, Query};
use super::super::openapi::{Answer, Argument, Description, Operation, Routes};
use super::super::paging::{Extent, Page};
use super::super::problem::Problem;
use super::StreamPath;
use crate::app::App;
use crate::stored::{Expected, NamedSource, Put, StateFileError, StoredError};

/// Returns the routes of sources, for operators.
pub(super) fn routes() -> Routes {
    let absent = "There is no source of this name";
    let configured =
        "The configuration has a source of this name, or somebody publishes the stream";
    let wrong = "The source cannot be understood or started";
    let condition = "There is such a source already, and must not be";
    Routes::default()
        .get(
            "/api/v1/sources",
            Operation::new("listSources", "Lists the sources of streams"),
            list,
        )
        .get(
            "/api/v1/sources/{name}",
            Operation::new("getSource", "Returns the source of one stream").problem(404, absent),
            get,
        )
        .on(
            axum::http::Method::PUT,
            "/api/v1/sources/{name}",
            Operation::new(
                "putSource",
                "Makes a stream with its source, or changes the source",
            )
            .problem(403, "The address or file must not be named over the API")
            .problem(409, configured)
            .problem(404, "There is no such source to change")
            .problem(412, condition)
            .problem(413, "The source is too long, or there are too many")
            .problem(422, wrong),
            put,
        )
        .on(
            axum::http::Method::DELETE,
            "/api/v1/sources/{name}",
            Operation::new(
                "deleteSource",
                "Deletes a source and its stream, whose viewers end",
            )
            .problem(404, absent)
            .problem(409, configured),
            delete,
        )
        .on(
            axum::http::Method::POST,
            "/api/v1/sources/{name}/restart",
            Operation::new(
                "restartSource",
                "Ends the source of a stream and begins it anew; viewers stay",
            )
            .needs(Role::Operator)
            .problem(404, absent)
            .problem(
                409,
                "The source does not run, or clients publish the stream",
            )
            .problem(422, wrong),
            restart,
        )
}

/// The source of a stream.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "NamedSource")]
struct SourceEntry {
    /// Name of the stream.
    name: String,
    /// The source with its options, as the configuration has it; the password is hidden.
    source: String,
    kind: SourceKind,
    origin: Origin,
    /// The reason why a source that is kept does not run; null if it does.
    problem: Option<String>,
}

/// The kind of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum SourceKind {
    /// A camera that the server dials.
    Camera,
    /// A program that the server starts.
    Program,
    /// Files that are played.
    File,
    /// Whoever publishes under the stream's name.
    Publisher,
    /// The built-in clip.
    Demo,
    /// The server no longer knows a source of this form.
    Unknown,
}

/// Where a source was named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Origin {
    /// The source is in the operator's file, which alone changes it.
    Configuration,
    /// The source was made over the API, which changes and deletes it.
    Api,
}

impl From<NamedSource> for SourceEntry {
    fn from(source: NamedSource) -> Self {
        Self {
            name: source.name.to_string(),
            kind: match source.input {
                Some(Input::Camera(_)) => SourceKind::Camera,
                Some(Input::Command(_)) => SourceKind::Program,
                Some(Input::Files(_)) => SourceKind::File,
                Some(Input::Publisher(_)) => SourceKind::Publisher,
                Some(Input::Demo) => SourceKind::Demo,
                None => SourceKind::Unknown,
            },
            source: source.source,
            origin: match source.is_configured {
                true => Origin::Configuration,
                false => Origin::Api,
            },
            problem: source.problem,
        }
    }
}

/// A page of the list of sources, by name.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "NamedSources")]
struct SourceList {
    sources: Vec<SourceEntry>,
    #[serde(flatten)]
    extent: Extent,
}

/// Filters of the list of sources.
#[derive(Debug, Deserialize, JsonSchema)]
struct SourceFilter {
    /// Lists only sources whose names fit the pattern, like `cam*` or `site/**`.
    name: Option<Pattern>,
    /// Lists only sources of the configuration, or only those that were made over the API.
    origin: Option<Origin>,
}

async fn list(
    State(app): State<App>,
    Query(filter): Query<SourceFilter>,
    page: Page,
) -> Json<SourceList> {
    let sources = app.stored.sources.list().into_iter().map(SourceEntry::from);
    let sources = sources.filter(|it| {
        let name = filter.name.as_ref();
        name.is_none_or(|wanted| wanted.matches(&it.name))
            && filter.origin.is_none_or(|wanted| wanted == it.origin)
    });
    let (sources, extent) = page.of(sources.collect());
    Json(SourceList { sources, extent })
}

async fn get(
    State(app): State<App>,
    Path(StreamPath { name }): Path<StreamPath>,
) -> Result<Json<SourceEntry>, Problem> {
    let name = parse(&name)?;
    Ok(Json(app.stored.sources.get(&name)?.into()))
}

async fn put(
    State(app): State<App>,
    Path(StreamPath { name }): Path<StreamPath>,
    Condition(expected): Condition,
    JsonBody(keys): JsonBody<SourceKeys>,
) -> Result<PutSource, Problem> {
    let name = parse(&name)?;
    let (sources, of) = (app.stored.sources.clone(), name.clone());
    // A client that goes away must not leave half of a change.
    let putting = tokio::spawn(async move { sources.put(&of, keys, expected).await });
    let put = putting.await.map_err(|_| panicked())??;
    let view = app.stored.sources.get(&name)?.into();
    Ok(match put {
        Put::Changed => PutSource::Changed(view),
        Put::Created => PutSource::Created(Created {
            path: format!("/api/v1/sources/{name}"),
            view,
        }),
    })
}

async fn delete(
    State(app): State<App>,
    Path(StreamPath { name }): Path<StreamPath>,
) -> Result<NoContent, Problem> {
    let name = parse(&name)?;
    let sources = app.stored.sources.clone();
    let deleting = tokio::spawn(async move { sources.delete(&name).await });
    deleting.await.map_err(|_| panicked())??;
    Ok(NoContent)
}

async fn restart(
    State(app): State<App>,
    Path(StreamPath { name }): Path<StreamPath>,
) -> Result<NoContent, Problem> {
    let name = parse(&name)?;
    let sources = app.stored.sources.clone();
    let restarting = tokio::spawn(async move { sources.restart(&name).await });
    restarting.await.map_err(|_| panicked())??;
    Ok(NoContent)
}

fn parse(name: &str) -> Result<StreamName, Problem> {
    stream_names::parse(name).map_err(|error| Problem::bad_request(error.to_string()))
}

pub(in crate::http) fn panicked() -> Problem {
    let detail = "the server made a mistake; its log has the place in the code";
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "Server error", detail)
}

/// A source that was made or changed.
enum PutSource {
    Created(Created<SourceEntry>),
    Changed(SourceEntry),
}

impl IntoResponse for PutSource {
    fn into_response(self) -> Response {
        match self {
            Self::Created(created) => created.into_response(),
            Self::Changed(view) => Json(view).into_response(),
        }
    }
}

impl Answer for PutSource {
    fn describe(to: &mut Description) {
        <Created<SourceEntry> as Answer>::describe(to);
        <Json<SourceEntry> as Answer>::describe(to);
    }
}

/// The state that a request expects to be there, from `If-Match: *` and `If-None-Match: *` (RFC 9110
/// §13.1). Sources have no entity tags.
struct Condition(Expected);

const CONDITIONS: [(HeaderName, Expected, &str); 2] = [
    (
        header::IF_MATCH,
        Expected::Present,
        "`*`: changes only a source that is there",
    ),
    (
        header::IF_NONE_MATCH,
        Expected::Absent,
        "`*`: makes only a source that is not there",
    ),
];

impl<S: Send + Sync> FromRequestParts<S> for Condition {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        let mut expected = Expected::Any;
        for (header, meaning, _) in CONDITIONS {
            match parts
                .headers
                .get(&header)
                .map(|it| it.as_bytes().trim_ascii())
            {
                None => {}
                Some(b"*") => expected = meaning,
                // No source has a tag: none matches, and any differs.
                Some(_) if meaning == Expected::Absent => {}
                Some(_) => {
                    let detail = format!("a source has no entity tag: {header} can only be *");
                    return Err(Problem::new(
                        StatusCode::PRECONDITION_FAILED,
                        "No such tag",
                        detail,
                    ));
                }
            }
        }
        Ok(Self(expected))
    }
}

impl Argument for Condition {
    fn describe(to: &mut Description) {
        for (header, _, meaning) in CONDITIONS {
            to.header(header.as_str(), meaning);
        }
    }
}

impl From<StoredError> for Problem {
    fn from(error: StoredError) -> Self {
        let (status, title) = match &error {
            StoredError::Configured(_) => (StatusCode::CONFLICT, "Part of the configuration"),
            StoredError::Change(ChangeError::Published(_)) => (StatusCode::CONFLICT, "Published"),
            StoredError::Stopped(_) => (StatusCode::CONFLICT, "Does not run"),
            StoredError::NotFetched(_) => (StatusCode::CONFLICT, "Not fetched"),
            StoredError::Absent(_) => (StatusCode::NOT_FOUND, "No such source"),
            StoredError::Present(_) => (StatusCode::PRECONDITION_FAILED, "There already"),
            StoredError::NotPermitted(_) => (StatusCode::FORBIDDEN, "Not allowed"),
            StoredError::Spec(_) => (StatusCode::UNPROCESSABLE_ENTITY, "Not a source"),
            StoredError::Change(_) => (StatusCode::UNPROCESSABLE_ENTITY, "It does not start"),
            StoredError::TooLong(_) | StoredError::File(StateFileError::Full { .. }) => {
                (StatusCode::PAYLOAD_TOO_LARGE, "Too large")
            }
            StoredError::TooMany => (StatusCode::PAYLOAD_TOO_LARGE, "Too many"),
            StoredError::File(_) => (StatusCode::CONFLICT, "Not kept"),
        };
        Self::new(status, title, error.to_string())
    }
}
