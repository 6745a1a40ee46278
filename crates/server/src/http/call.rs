//! Voice calls in rooms: the page, and the requests of the page and of `glassline call`.
//!
//! ```text
//! POST   /call/{room}?name=…                  offer that sends audio ─► 201, answer, Location: the session
//! GET    /call/{room}/{session}?since=VERSION who else is here, as soon as that changes
//! POST   /call/{room}/{session}/hear/{id}     offer that receives audio ─► 201, answer, Location: a leg
//! PATCH, DELETE  a session or a leg           as WHIP and WHEP have it (RFC 9725)
//! ```
//!
//! Joining requires the right to publish. Afterwards the session's unguessable name is the right to
//! everything else, as with WHEP. A participant who leaves or disappears is removed from the
//! others' lists when its session ends.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Extension, Json};
use glassline_access::auth::Pattern;
use glassline_cluster::Access;
use glassline_cluster_member::{Grant, NotHere};
use glassline_events::failures::ClientRole;
use glassline_rooms::{Full, Listing, Newcomer, Participant, ParticipantId, RoomName, RoomShare};
use glassline_runtime::{FaultPoint, SessionId};
use rand::RngCore;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::distant_session::hand_on_offer;
use super::extract::{Path, Query};
use super::problem::Problem;
use super::redirect::{self, RequestTarget};
use super::rules::{Errand, Right};
use super::server::{Scheme, Waiter};
use super::shown::Shown;
use super::viewer_routes::ViewerRoutes;
use super::{auth, body, pages, resource};
use crate::app::App;
use crate::sessions::{ConnectionAddresses, DataChannelSetup, JoinError, Offer};

/// Longest time until a request for changes is answered, with or without a change: less than the
/// timeouts of proxies, which are 30 s and more.
const WAIT: Duration = Duration::from_secs(20);

/// Most characters of a participant's name.
const NAME_CHARS_MAX: usize = 40;

/// The name that a webhook is told.
const PROTOCOL: &str = "call";

/// Returns the routes of calls. Joining needs a right; afterwards the session's name is the right.
pub(super) fn routes() -> ViewerRoutes {
    let session = get(others)
        .patch(change)
        .delete(leave)
        .options(resource::options);
    let leg = axum::routing::patch(change_leg)
        .get(present_leg)
        .delete(leave_leg)
        .options(resource::options);
    let joining = post(join).options(resource::options);
    let hearing = post(add_leg).options(resource::options);
    let (participant, viewer) = (ClientRole::Participant, ClientRole::Viewer);
    ViewerRoutes::of(PROTOCOL)
        .page("/call", Right::Read, get(pages::call).post(no_room))
        .page("/call/{room}", Right::Read, get(pages::call))
        .route(
            "/call/{room}",
            Right::Room
                .offers_of(participant)
                .going_on_with(Errand::Join),
            joining,
        )
        .route(
            "/call/{room}/{session}",
            Right::Session
                .sessions_of(participant)
                .going_on_with(Errand::Join),
            session,
        )
        .route(
            "/call/{room}/{session}/failure",
            Right::Session,
            post(give_up),
        )
        .route(
            "/call/{room}/{session}/hear/{id}",
            Right::Session.offers_of(viewer),
            hearing,
        )
        .route(
            "/call/{room}/{session}/hear/{id}/{leg}",
            Right::Session.sessions_of(viewer),
            leg,
        )
        .route(
            "/call/{room}/{session}/hear/{id}/{leg}/failure",
            Right::Session,
            post(give_up_leg),
        )
}

/// Refuses `POST /call`, which names no room.
async fn no_room() -> Problem {
    Problem::bad_request(
        "the address names no room: open /call/ROOM; everybody who opens the same address is in the call",
    )
}

#[derive(Debug, Deserialize)]
struct JoinQuery {
    #[serde(default)]
    name: String,
}

/// Answers the offer of a new participant: `POST /call/{room}`.
async fn join(
    State(app): State<App>,
    ConnectInfo(connection): ConnectInfo<ConnectionAddresses>,
    Path(room): Path<String>,
    Query(query): Query<JoinQuery>,
    Extension(target): Extension<Arc<RequestTarget>>,
    request: Request,
) -> Result<Response, Problem> {
    let room = room_name(&room)?;
    resource::expect_type(request.headers(), resource::SDP)?;
    let name = called(&query.name)?;
    let mut drawn = [0; 6];
    rand::rng().fill_bytes(&mut drawn);
    let id = ParticipantId::new(drawn);
    let scheme = request.extensions().get::<Scheme>().copied();
    let (parts, body) = request.into_parts();
    let (uri, headers) = (&parts.uri, &parts.headers);
    let sent = target.grant(&app, uri);
    let shown = Shown::new(connection, headers, uri).by(target.rules().protocol);
    let stream = room.stream(&id);
    let user = match &sent {
        Some(grant) => {
            let user = admitted(&app, &room, grant)?;
            auth::check_excluded(&app.users, &shown, user.as_deref(), Some(stream.as_str()))?;
            user
        }
        None => auth::participant(&app.users, &app.sites, &shown, stream.as_str()).await?,
    };
    // Whoever cannot follow a redirect meets the others by this server's help.
    let access = match redirect::stays(uri) {
        true => Access::Here,
        false => redirect::access(scheme, headers),
    };
    let share = match enter(&app, &room, access, sent.is_some()).await {
        Ok(share) => share,
        Err(NotHere::At(to)) => return Ok(target.invite(&app, &to, uri, user.as_deref())),
        // A participant that came through a balancer meets the others there all the same.
        Err(NotHere::Hidden(server)) if sent.is_none() => {
            let request = Request::from_parts(parts, body);
            let user = user.as_deref();
            return Ok(hand_on_offer(&app, &target, &server, request, user).await);
        }
        Err(why) => return Err(elsewhere(&room, &why)),
    };
    let body = body::read(body).await?;
    let sdp = resource::text(&body)?;
    let offer = Offer::new(sdp, connection);
    let newcomer = Newcomer {
        id,
        name,
        user: user.clone(),
        share,
    };
    let answered = app.sessions.join_room(&app.rooms, &room, newcomer, offer);
    let answered = answered.map_err(|error| refused(&room, error))?;
    app.supervisor.fault_point(FaultPoint::RoomJoin);
    let location = format!("/call/{room}/{}", answered.record.id.as_str());
    let created = resource::created(&app, answered, location);
    Ok(resource::end_with(&app.users, user.as_deref(), created))
}

/// Enters the room in the cluster, if this server is in one.
async fn enter(
    app: &App,
    room: &RoomName,
    access: Access,
    is_sent: bool,
) -> Result<Option<Box<dyn RoomShare>>, NotHere> {
    let Some(member) = app.sessions.directory().and_then(|it| it.member()) else {
        return Ok(None);
    };
    let held = member.enter_room(room, access, is_sent).await?;
    Ok(Some(Box::new(held)))
}

/// Takes over what the server that sent a participant here found about its rights. Returns the user.
fn admitted(app: &App, room: &RoomName, grant: &Grant) -> Result<Option<String>, Problem> {
    if let (Some(user), Some(until)) = (&grant.user, redirect::end_of(grant)) {
        let voices = Pattern::parse(&room.voices());
        let voices = voices.map_err(|error| Problem::bad_request(error.to_string()))?;
        app.users.vouch(user, &voices, until);
    }
    Ok(grant.user.clone())
}

/// Returns the problem of a participant that meets the others neither here nor where it can go.
fn elsewhere(room: &RoomName, why: &NotHere) -> Problem {
    let detail = match why {
        NotHere::Hidden(server) => format!(
            "'{room}' is at the server '{server}' of the cluster, which has no address for this \
             client: set `cluster.public.http` there"
        ),
        _ => format!("it is being decided which server of the cluster has '{room}'; try again"),
    };
    Problem::try_later("Room is elsewhere", detail).with("room", room.to_string())
}

#[derive(Debug, Deserialize)]
struct WatchQuery {
    since: Option<u64>,
}

/// The other participants of a room.
#[derive(Debug, Serialize)]
struct Others {
    /// Version of the list, to be sent as `since`; it rises with every change.
    version: u64,
    /// The identifier of the asking participant in the others' lists.
    you: String,
    others: Vec<Other>,
}

#[derive(Debug, Serialize)]
struct Other {
    id: String,
    /// The participant's name; 'Guest 1' and so on for one that gave none.
    name: String,
}

/// `GET /call/{room}/{session}`: returns the list at once if it is newer than `since`, and else
/// waits for the next change.
async fn others(
    State(app): State<App>,
    Path((room, session)): Path<(String, String)>,
    Query(query): Query<WatchQuery>,
    waiter: Waiter,
) -> Result<Response, Problem> {
    let session = SessionId::new(&session);
    let (mut listing, participant) = find(&app, &room_name(&room)?, &session)?;
    let Ok(_waits) = participant.waits.try_acquire() else {
        let detail =
            "two requests for the list of participants are waiting already; wait for one of them";
        let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "Too many requests", detail);
        return Err(problem.header(header::RETRY_AFTER, "1"));
    };
    // Whichever of these ends first, the present list is the answer.
    let is_newer = |it: &Arc<Listing>| query.since != Some(it.version);
    let changing = async {
        let _ = tokio::time::timeout(WAIT, listing.wait_for(is_newer)).await;
    };
    waiter.during(changing).await?;
    let listing = Arc::clone(&listing.borrow());
    let you = listing.of_session(&session);
    let you = you.ok_or_else(Problem::no_session)?.id.clone();
    let others = listing.people.iter().filter(|it| it.id != you);
    let others = others.map(|it| Other {
        id: it.id.as_str().to_owned(),
        name: it.name.to_string(),
    });
    let body = Json(Others {
        version: listing.version,
        you: you.as_str().to_owned(),
        others: others.collect(),
    });
    let headers = [(header::CACHE_CONTROL, "no-store")];
    Ok(axum::response::IntoResponse::into_response((headers, body)))
}

/// Answers a participant's offer to hear another one: `POST /call/{room}/{session}/hear/{id}`.
async fn add_leg(
    State(app): State<App>,
    ConnectInfo(connection): ConnectInfo<ConnectionAddresses>,
    Path((room, session, id)): Path<(String, String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    resource::expect_type(&headers, resource::SDP)?;
    let room = room_name(&room)?;
    let (listing, participant) = find(&app, &room, &SessionId::new(&session))?;
    let body = body::read(body).await?;
    let sdp = resource::text(&body)?;
    let other = {
        let listing = listing.borrow();
        let mut people = listing.people.iter();
        people
            .find(|it| it.id.as_str() == id && it.id != participant.id)
            .map(|it| it.id.clone())
    };
    let stream = other.and_then(|other| {
        let stream = app.hub.stream(room.stream(&other).as_str())?;
        Some((stream, other))
    });
    let (stream, other) = stream.ok_or_else(|| {
        let detail = format!("'{id}' is not another participant of '{room}'; it may have left");
        Problem::new(StatusCode::NOT_FOUND, "No such participant", detail)
    })?;
    let data = DataChannelSetup::between(&room, &participant.id, &other);
    let offer = Offer::new(sdp, connection);
    let answered = app.sessions.watch_with_data(stream, offer, data)?;
    let location = format!(
        "/call/{room}/{session}/hear/{id}/{}",
        answered.record.id.as_str()
    );
    let created = resource::created(&app, answered, location);
    let user = participant.user.as_deref();
    Ok(resource::end_with(&app.users, user, created))
}

/// Adds a participant's candidates, or restarts ICE: `PATCH /call/{room}/{session}`.
async fn change(
    State(app): State<App>,
    ConnectInfo(connection): ConnectInfo<ConnectionAddresses>,
    Path((room, session)): Path<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let (_, participant) = find(&app, &room_name(&room)?, &SessionId::new(&session))?;
    let record = app.sessions.by_id(&participant.session);
    let record = record.ok_or_else(Problem::no_session)?;
    resource::change(&app.sessions, &record, connection, &headers, body).await
}

/// Ends a participant's session: `DELETE /call/{room}/{session}`.
async fn leave(
    State(app): State<App>,
    Path((room, session)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let (_, participant) = find(&app, &room_name(&room)?, &SessionId::new(&session))?;
    let record = app.sessions.by_id(&participant.session);
    let record = record.ok_or_else(Problem::no_session)?;
    resource::end(&app.sessions, &record).await
}

/// Ends a participant's session that does not connect: `POST /call/{room}/{session}/failure`.
async fn give_up(
    State(app): State<App>,
    Path((room, session)): Path<(String, String)>,
    body: Body,
) -> Result<Response, Problem> {
    let (_, participant) = find(&app, &room_name(&room)?, &SessionId::new(&session))?;
    let record = app.sessions.by_id(&participant.session);
    let record = record.ok_or_else(Problem::no_session)?;
    resource::give_up(&app.sessions, &record, body).await
}

/// The names in a leg's URL: room, session, the participant that it hears, and the leg's own
/// session.
type Leg = (String, String, String, String);

/// `PATCH` of a leg.
async fn change_leg(
    State(app): State<App>,
    ConnectInfo(connection): ConnectInfo<ConnectionAddresses>,
    Path(leg): Path<Leg>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let record = resource::find(&app.sessions, &stream_of(&leg), &leg.3)?;
    resource::change(&app.sessions, &record, connection, &headers, body).await
}

/// Tells that a leg exists: `GET` and `HEAD` of a leg.
async fn present_leg(State(app): State<App>, Path(leg): Path<Leg>) -> Result<StatusCode, Problem> {
    resource::find(&app.sessions, &stream_of(&leg), &leg.3).map(|_| StatusCode::NO_CONTENT)
}

/// `DELETE` of a leg.
async fn leave_leg(State(app): State<App>, Path(leg): Path<Leg>) -> Result<Response, Problem> {
    let record = resource::find(&app.sessions, &stream_of(&leg), &leg.3)?;
    resource::end(&app.sessions, &record).await
}

/// Ends a leg that does not connect: `POST` of its failure.
async fn give_up_leg(
    State(app): State<App>,
    Path(leg): Path<Leg>,
    body: Body,
) -> Result<Response, Problem> {
    let record = resource::find(&app.sessions, &stream_of(&leg), &leg.3)?;
    resource::give_up(&app.sessions, &record, body).await
}

/// Returns the stream that a leg hears. The leg's own name is right enough, even after one of the
/// two participants has left.
fn stream_of((room, _, id, _): &Leg) -> String {
    RoomName::parse(room).map_or_else(|_| String::new(), |room| room.stream_of(id))
}

/// Returns the participant who speaks in `session`, with the list of the participants in its room.
/// A participant whose user has lost the right to be in the room is as good as gone.
fn find(
    app: &App,
    room: &RoomName,
    session: &SessionId,
) -> Result<(watch::Receiver<Arc<Listing>>, Participant), Problem> {
    let listing = app.rooms.watch(room).ok_or_else(Problem::no_session)?;
    let participant = listing.borrow().of_session(session).cloned();
    let participant = participant.ok_or_else(Problem::no_session)?;
    let stream = room.stream(&participant.id);
    let user = participant.user.as_deref();
    if user.is_some_and(|user| auth::missing_right(&app.users, user, stream.as_str()).is_some()) {
        return Err(Problem::no_session());
    }
    Ok((listing, participant))
}

fn room_name(text: &str) -> Result<RoomName, Problem> {
    RoomName::parse(text).map_err(|error| Problem::bad_request(error.to_string()))
}

/// Checks the name that a participant wants to have.
fn called(name: &str) -> Result<&str, Problem> {
    let name = name.trim();
    if name.chars().count() > NAME_CHARS_MAX || name.contains(char::is_control) {
        let detail =
            format!("a name has at most {NAME_CHARS_MAX} characters, and no control characters");
        return Err(Problem::bad_request(detail));
    }
    Ok(name)
}

fn refused(room: &RoomName, error: JoinError) -> Problem {
    match error {
        JoinError::Offer(error) => error.into(),
        JoinError::NotOpus { offered } => {
            let detail = format!("a room takes Opus audio; the offer sends {offered}");
            let problem = Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "No common codec", detail);
            problem.with("wanted", "opus")
        }
        JoinError::Full(full) => no_place(room, full),
        JoinError::NoStream(why) => Problem::try_later("Too many streams", why),
    }
}

fn no_place(room: &RoomName, full: Full) -> Problem {
    let title = match full {
        Full::Room { .. } => "Room full",
        _ => "Too many rooms",
    };
    Problem::try_later(title, full.to_string()).with("room", room.to_string())
}
