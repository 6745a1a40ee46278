//! Talking to a camera: one HTTP exchange creates the session of a voice.
//!
//! ```text
//! POST /{stream}/talk   with the right to publish the stream; an offer that sends audio
//!   ─► the camera answers first, then 201 with the camera's codec (PCMU or PCMA) alone; a codec that
//!      is transcoded for a camera that takes AAC, or for a talker without the camera's codec
//! GET  /{stream}/talk   204 if the stream comes from a camera that takes a voice
//! ```
//!
//! The session's URL takes `PATCH` and `DELETE` as that of WHIP does.

use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::routing::post;
use glassline_events::failures::ClientRole;
use glassline_runtime::Part;

use super::extract::Path;
use super::problem::Problem;
use super::rules::Right;
use super::server::Waiter;
use super::stream_path::name_in_path;
use super::viewer_routes::ViewerRoutes;
use super::{body, resource, whep};
use crate::app::App;
use crate::sessions::{ConnectionAddresses, Offer};
use crate::talk::{Loudspeaker, TalkError, Voice};

/// Returns the routes of talkers. A voice at a camera needs the right to publish its stream.
pub(super) fn routes() -> ViewerRoutes {
    let talker = ClientRole::Talker;
    ViewerRoutes::of("talk")
        .route(
            "/{stream}/talk",
            Right::Publish.offers_of(talker),
            resource::of_offers(post(offer).get(present)),
        )
        .route(
            "/{stream}/talk/{session}",
            Right::Publish.sessions_of(talker),
            whep::session_methods(),
        )
        .route(
            "/{stream}/talk/{session}/failure",
            Right::Publish,
            post(whep::give_up),
        )
}

/// Answers the offer of a talker: `POST /{stream}/talk`.
async fn offer(
    State(app): State<App>,
    ConnectInfo(connection): ConnectInfo<ConnectionAddresses>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    resource::expect_type(&headers, resource::SDP)?;
    let stream = app.hub.stream(&name).ok_or_else(|| unknown(&name))?;
    let body = body::read(body).await?;
    let sdp = resource::text(&body)?;
    let offer = Offer::new(sdp, connection);
    // A malformed offer does not bother the camera.
    offer.media().map_err(|error| resource::malformed(&error))?;
    let connected = app.sessions.loudspeakers().connect(stream.name()).await;
    let loudspeaker = connected.map_err(|error| refused(&error))?;
    let talk = app.sessions.talk(stream, loudspeaker.format(), offer);
    let (answered, voice) = match talk {
        Ok(answered) => answered,
        Err(error) => {
            loudspeaker.leave().await;
            return Err(error.into());
        }
    };
    let id = answered.record.id.as_str();
    let location = format!("/{}/talk/{id}", name_in_path(&name));
    let session = std::sync::Arc::clone(&answered.record);
    tokio::spawn(play(app.clone(), loudspeaker, voice, session));
    Ok(resource::created(&app, answered, location))
}

/// Carries a voice to its camera. The session ends if the camera fails.
async fn play(
    app: App,
    loudspeaker: Loudspeaker,
    voice: Voice,
    session: std::sync::Arc<crate::sessions::SessionRecord>,
) {
    let playing = loudspeaker.play(voice);
    let played = app.supervisor.catch_task(Part::Background, playing).await;
    match played {
        Ok(Ok(packets)) => {
            tracing::info!(session = %session.id, stream = %session.stream, packets, "talk ended");
            return;
        }
        Ok(Err(error)) => tracing::warn!(session = %session.id, "talk ended: {error}"),
        Err(panic) => tracing::warn!(session = %session.id, "talk ended: {panic}"),
    }
    // A session that ended meanwhile is as good as left.
    let _ = app.sessions.leave(&session).await;
}

/// Tells whether the stream comes from a camera that takes a voice: `GET /{stream}/talk`. The camera is
/// asked once in ten minutes.
async fn present(
    State(app): State<App>,
    Path(name): Path<String>,
    waiter: Waiter,
) -> Result<StatusCode, Problem> {
    let stream = app.hub.stream(&name).ok_or_else(|| unknown(&name))?;
    let loudspeakers = app.sessions.loudspeakers();
    let asked = waiter.during(loudspeakers.ask(stream.name())).await?;
    let takes_voice = asked.map_err(|error| refused(&error))?;
    match takes_voice {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(refused(&TalkError::NoBackChannel(stream.name().clone()))),
    }
}

fn unknown(name: &str) -> Problem {
    let detail = format!("'{name}' does not come from a camera of this server");
    Problem::new(StatusCode::NOT_FOUND, "No camera", detail)
}

fn refused(error: &TalkError) -> Problem {
    let text = error.to_string();
    match error {
        TalkError::NoCamera(_) => Problem::new(StatusCode::NOT_FOUND, "No camera", text),
        TalkError::Busy(_) => Problem::new(StatusCode::CONFLICT, "Somebody else talks", text),
        TalkError::NoBackChannel(_) | TalkError::NoCodec { .. } => Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "The camera takes no voice",
            text,
        ),
        TalkError::Voice { .. } => Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "No codec for the camera",
            text,
        ),
        TalkError::Camera { .. } => {
            Problem::new(StatusCode::BAD_GATEWAY, "The camera does not answer", text)
        }
    }
}
