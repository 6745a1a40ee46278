//! WHIP (RFC 9725): one HTTP exchange creates the session of a publisher.
//!
//! ```text
//! POST /{stream}/whip[?override]   with the right to publish the stream
//! POST /whip[?override]            Authorization: Bearer STREAM[:TOKEN | :USER:PASSWORD]
//!   offer with media ─► publisher of the stream, with messages beside it if data channels are on
//!   offer of data channels alone ─► publisher of messages next to a stream
//! ```
//!
//! An offer is answered as a whole or refused. The session's URL then takes `PATCH` and `DELETE`
//! like a viewer's. The name of a session that was made with a stream key is the right to it, as
//! with calls.

use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use axum::routing::{patch, post};
use glassline_cluster_member::ClaimRefusal;
use glassline_config::DataAccess;
use glassline_events::failures::ClientRole;
use glassline_hub::StreamName;
use glassline_ingest::stream_names;
use serde::Deserialize;

use super::extract::{Path, Query};
use super::problem::Problem;
use super::rules::{Errand, Right};
use super::shown::Shown;
use super::stream_path::name_in_path;
use super::viewer_routes::ViewerRoutes;
use super::{api, auth, body, layer_orders, resource, whep};
use crate::app::App;
use crate::sessions::{ConnectionAddresses, Offer, PublishOfferError};

/// The name that a webhook is told.
const PROTOCOL: &str = "whip";

/// Returns the routes of publishers below a stream, and of those with a stream key.
pub(super) fn routes() -> ViewerRoutes {
    let publisher = ClientRole::Publisher;
    let offers = |right: Right| right.offers_of(publisher).going_on_with(Errand::Publish);
    let sessions = |right: Right| right.sessions_of(publisher).going_on_with(Errand::Publish);
    let below_stream = post(offer).get(resource::endpoint);
    let by_key = post(offer_by_key).get(resource::endpoint);
    let of_key = patch(change).get(present).delete(leave);
    let clock = axum::routing::get(api::clock);
    ViewerRoutes::of(PROTOCOL)
        .route("/whip", offers(Right::Key), resource::of_offers(by_key))
        .route(
            "/whip/{session}",
            sessions(Right::Key),
            resource::of_offers(of_key),
        )
        .route("/whip/{session}/failure", Right::Key, post(give_up))
        .route(
            "/{stream}/whip",
            offers(Right::Publish),
            resource::of_offers(below_stream),
        )
        .route(
            "/{stream}/whip/{session}",
            sessions(Right::Publish),
            whep::session_methods(),
        )
        .route("/{stream}/whip/{session}/clock", Right::Publish, clock)
        .route(
            "/{stream}/whip/{session}/layers",
            Right::Publish,
            axum::routing::get(layer_orders::follow),
        )
        .route(
            "/{stream}/whip/{session}/report",
            Right::Publish,
            post(api::publishing::report),
        )
        .route(
            "/{stream}/whip/{session}/failure",
            Right::Publish,
            post(whep::give_up),
        )
}

/// Query of an offer.
#[derive(Debug, Deserialize)]
struct OfferQuery {
    /// Replaces the present publisher of the stream, unless the value is `false`.
    #[serde(rename = "override")]
    takes_over: Option<String>,
}

impl OfferQuery {
    fn takes_over(&self) -> bool {
        self.takes_over.as_deref().is_some_and(|it| it != "false")
    }
}

/// The request of a publisher that has an offer.
struct Request {
    connection: ConnectionAddresses,
    query: OfferQuery,
    headers: HeaderMap,
    body: Body,
}

/// Answers a publisher's offer: `POST /{stream}/whip`.
async fn offer(
    State(app): State<App>,
    ConnectInfo(connection): ConnectInfo<ConnectionAddresses>,
    Path(name): Path<String>,
    Query(query): Query<OfferQuery>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let location = format!("/{}/whip", name_in_path(&name));
    let request = Request {
        connection,
        query,
        headers,
        body,
    };
    answer(&app, &name, request, &location).await
}

/// Answers the offer of a publisher that names the stream by its key: `POST /whip`.
async fn offer_by_key(
    State(app): State<App>,
    ConnectInfo(connection): ConnectInfo<ConnectionAddresses>,
    Query(query): Query<OfferQuery>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let shown = Shown::new(connection, &headers, &uri).by(PROTOCOL);
    let (name, user) = auth::stream_of_key(&app.users, &app.sites, &shown).await?;
    let request = Request {
        connection,
        query,
        headers,
        body,
    };
    let answered = answer(&app, &name, request, "/whip").await?;
    Ok(resource::end_with(&app.users, user.as_deref(), answered))
}

/// Answers the offer of a publisher that has the right to publish the stream `name`. `location` is
/// the URL under which the session is found.
async fn answer(
    app: &App,
    name: &str,
    request: Request,
    location: &str,
) -> Result<Response, Problem> {
    resource::expect_type(&request.headers, resource::SDP)?;
    let body = body::read(request.body).await?;
    let sdp = resource::text(&body)?;
    let offer = Offer::new(sdp, request.connection);
    let media = offer.media().map_err(|error| resource::malformed(&error))?;
    let name =
        stream_names::parse(name).map_err(|error| Problem::bad_request(error.to_string()))?;
    let answered = if media.is_some() {
        let published = app
            .sessions
            .publish_media(name, offer, request.query.takes_over());
        published.await.map_err(refused)?
    } else {
        publish_messages(app, name, offer)?
    };
    let location = format!("{location}/{}", answered.record.id.as_str());
    Ok(resource::created(app, answered, location))
}

/// Makes a publisher of messages alone.
fn publish_messages(
    app: &App,
    name: StreamName,
    offer: Offer<'_>,
) -> Result<crate::sessions::AnsweredOffer, Problem> {
    if app.config().webrtc.data.viewers == DataAccess::Off {
        let detail =
            "data channels are off here: `webrtc.data.viewers` or --data-channels turns them on";
        return Err(Problem::new(
            StatusCode::NOT_FOUND,
            "No data channels",
            detail,
        ));
    }
    let stream = app.hub.admit(name);
    let stream =
        stream.map_err(|error| Problem::try_later("Too many streams", error.to_string()))?;
    Ok(app.sessions.publish_messages(stream, offer)?)
}

fn refused(error: PublishOfferError) -> Problem {
    match error {
        PublishOfferError::Offer(error) => error.into(),
        PublishOfferError::Taken(name) => taken(&format!("'{name}' has a publisher already")),
        PublishOfferError::Configured(why) => configured(&why),
        PublishOfferError::NotClaimed(
            refusal @ (ClaimRefusal::Configured { .. } | ClaimRefusal::AtSource { .. }),
        ) => configured(&refusal),
        PublishOfferError::NotClaimed(refusal @ ClaimRefusal::Taken { .. }) => {
            taken(&refusal.to_string())
        }
        PublishOfferError::NotClaimed(refusal) => {
            Problem::try_later("Cannot publish now", refusal.to_string())
        }
        PublishOfferError::NoStream(why) => Problem::try_later("Cannot publish now", why),
    }
}

/// Returns the problem of a publisher under the name of a camera or file, which `?override` does not
/// replace.
fn configured(why: &dyn std::fmt::Display) -> Problem {
    let title = "The name has a source";
    Problem::new(StatusCode::CONFLICT, title, why.to_string()).with("configured", true)
}

fn taken(why: &str) -> Problem {
    let detail = format!("{why}; stop it, or POST to the same URL with ?override to replace it");
    Problem::new(StatusCode::CONFLICT, "Stream has a publisher", detail)
}

/// Adds candidates, or restarts ICE: `PATCH /whip/{session}`.
async fn change(
    State(app): State<App>,
    ConnectInfo(connection): ConnectInfo<ConnectionAddresses>,
    Path(session): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let record = resource::find_keyed(&app.sessions, &session)?;
    resource::change(&app.sessions, &record, connection, &headers, body).await
}

/// Tells that a session exists: `GET` and `HEAD /whip/{session}`.
async fn present(
    State(app): State<App>,
    Path(session): Path<String>,
) -> Result<StatusCode, Problem> {
    resource::find_keyed(&app.sessions, &session).map(|_| StatusCode::NO_CONTENT)
}

/// Ends a session: `DELETE /whip/{session}`.
async fn leave(State(app): State<App>, Path(session): Path<String>) -> Result<Response, Problem> {
    let record = resource::find_keyed(&app.sessions, &session)?;
    resource::end(&app.sessions, &record).await
}

/// Ends a session that does not connect, with what the publisher has seen, and answers 410 with the
/// reason: `POST /whip/{session}/failure`.
async fn give_up(
    State(app): State<App>,
    Path(session): Path<String>,
    body: Body,
) -> Result<Response, Problem> {
    let record = resource::find_keyed(&app.sessions, &session)?;
    resource::give_up(&app.sessions, &record, body).await
}
