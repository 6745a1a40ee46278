//! `/api/v1/streams/{name}/ptz`: cameras that viewers and operators move.
//!
//! A movement ends two seconds after the last request for it; so does that of a page that is closed.

use std::sync::Arc;

use axum::Json;
use axum::extract::{ConnectInfo, FromRequestParts, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use glassline_access::auth::{Action, Role};
use glassline_hub::StreamName;
use glassline_onvif::{Error, Velocity};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::api::{StreamPath, panicked};
use super::auth::{self, Change, Reader};
use super::created::NoContent;
use super::extract::{JsonBody, Path};
use super::openapi::{Argument, Operation};
use super::problem::Problem;
use super::rules::Right;
use super::server::Waiter;
use super::shown::Shown;
use super::viewer_routes::ViewerRoutes;
use crate::app::App;
use crate::onvif::{MoveError, Mover, PtzError};
use crate::sessions::ConnectionAddresses;

/// Returns the routes of movable cameras, for viewers and operators.
pub(super) fn routes() -> ViewerRoutes {
    let of = |id, summary| {
        Operation::new(id, summary)
            .needs(Role::Operator)
            .problem(404, "The stream has no camera that can be moved")
    };
    let moving = |id, summary| {
        of(id, summary)
            .problem(502, "The camera does not obey")
            .problem(503, "The camera has too many commands")
    };
    ViewerRoutes::of("ptz")
        .get(
            "/api/v1/streams/{name}/ptz",
            Right::Read,
            of("getPtz", "Tells how the camera of a stream can be moved"),
            show,
        )
        .post(
            "/api/v1/streams/{name}/ptz/move",
            Right::Do(Action::Ptz),
            moving("moveCamera", "Moves a camera for two seconds, or stops it"),
            move_by,
        )
        .post(
            "/api/v1/streams/{name}/ptz/preset",
            Right::Do(Action::Ptz),
            moving("goToPreset", "Moves a camera to a position that it keeps")
                .problem(422, "The camera has no such position"),
            go_to_preset,
        )
}

/// How a camera can be moved.
#[derive(Debug, Default, Serialize, JsonSchema)]
struct Ptz {
    /// Whether the asker has the right to move the camera; the camera is not asked otherwise.
    allowed: bool,
    /// Whether the camera pans and tilts.
    pan_tilt: bool,
    /// Whether the camera zooms.
    zoom: bool,
    /// Positions that the camera keeps.
    presets: Vec<PresetView>,
}

/// A position that a camera keeps.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Preset")]
struct PresetView {
    /// Name for requests.
    token: String,
    /// Name for people.
    name: String,
}

/// A movement: the speed of each axis from -1 to 1, right, up and nearer being positive. Without any
/// speed the camera stops.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Movement {
    #[serde(default)]
    #[schemars(range(min = -1, max = 1))]
    pan: f32,
    #[serde(default)]
    #[schemars(range(min = -1, max = 1))]
    tilt: f32,
    #[serde(default)]
    #[schemars(range(min = -1, max = 1))]
    zoom: f32,
}

/// The position to go to.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Target {
    /// Name of the position for requests.
    preset: String,
}

impl Movement {
    fn velocity(&self) -> Result<Velocity, Problem> {
        let Self { pan, tilt, zoom } = *self;
        if [pan, tilt, zoom].iter().all(|it| it.abs() <= 1.0) {
            return Ok(Velocity { pan, tilt, zoom });
        }
        let detail = "body: the speeds `pan`, `tilt` and `zoom` are from -1 to 1";
        Err(Problem::bad_request(detail.to_owned()))
    }
}

async fn show(
    State(app): State<App>,
    Path(StreamPath { name }): Path<StreamPath>,
    MayMove(allowed): MayMove,
    waiter: Waiter,
) -> Result<Json<Ptz>, Problem> {
    if !allowed {
        return Ok(Json(Ptz::default()));
    }
    let asking = async {
        let mover = mover(&app, &name).await?;
        let presets = mover.presets().await;
        Ok::<_, Problem>((mover, presets))
    };
    let (mover, presets) = waiter.during(asking).await??;
    let presets = presets.into_iter().map(|it| PresetView {
        token: it.token,
        name: it.name,
    });
    Ok(Json(Ptz {
        allowed,
        pan_tilt: mover.axes().pan_tilt,
        zoom: mover.axes().zoom,
        presets: presets.collect(),
    }))
}

async fn move_by(
    State(app): State<App>,
    Path(StreamPath { name }): Path<StreamPath>,
    waiter: Waiter,
    JsonBody(movement): JsonBody<Movement>,
) -> Result<NoContent, Problem> {
    let velocity = movement.velocity()?;
    let mover = waiter.during(mover(&app, &name)).await??;
    // A client that goes away must not leave half of a command.
    let moving = tokio::spawn(async move { mover.move_by(velocity).await });
    moving.await.map_err(|_| panicked())??;
    Ok(NoContent)
}

async fn go_to_preset(
    State(app): State<App>,
    Path(StreamPath { name }): Path<StreamPath>,
    waiter: Waiter,
    JsonBody(Target { preset }): JsonBody<Target>,
) -> Result<NoContent, Problem> {
    let mover = waiter.during(mover(&app, &name)).await??;
    let going = tokio::spawn(async move { mover.go_to_preset(&preset).await });
    going
        .await
        .map_err(|_| panicked())?
        .map_err(|error| match error {
            MoveError::Camera(Error::Refused { reason, .. }) => Problem::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "No such position",
                format!("the camera of '{name}' does not go there: {reason}"),
            ),
            other => other.into(),
        })?;
    Ok(NoContent)
}

async fn mover(app: &App, name: &str) -> Result<Arc<Mover>, Problem> {
    let Ok(stream) = StreamName::parse(name) else {
        return Err(Problem::no_stream(name));
    };
    let camera = app.stored.sources.camera(&stream);
    Ok(app.onvif.cameras.mover(&stream, camera).await?)
}

/// Whether a request that may read a stream may move its camera, too: the guard of operators has
/// checked theirs.
struct MayMove(bool);

impl FromRequestParts<App> for MayMove {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let Path(StreamPath { name }) = Path::from_request_parts(parts, app).await?;
        let reader = parts.extensions.get::<Reader>();
        let connection = parts.extensions.get::<ConnectInfo<ConnectionAddresses>>();
        let (Some(reader), Some(ConnectInfo(connection))) = (reader, connection) else {
            return Ok(Self(reader.is_none()));
        };
        let shown = Shown::new(*connection, &parts.headers, &parts.uri);
        Ok(Self(auth::does(
            &app.users,
            reader,
            &shown,
            Change::new(Action::Ptz, &name),
        )))
    }
}

impl Argument for MayMove {}

impl From<PtzError> for Problem {
    fn from(error: PtzError) -> Self {
        let title = match error {
            PtzError::NoCamera(_) => "No camera",
            PtzError::Off(_) | PtzError::Not { .. } => "The camera cannot be moved",
        };
        Self::new(StatusCode::NOT_FOUND, title, error.to_string())
    }
}

impl From<MoveError> for Problem {
    fn from(error: MoveError) -> Self {
        match error {
            MoveError::Busy => Self::try_later("Too many commands", error.to_string()),
            MoveError::Camera(_) => Self::new(
                StatusCode::BAD_GATEWAY,
                "The camera does not obey",
                error.to_string(),
            ),
        }
    }
}
