//! Events of a viewer's session, as server-sent events (draft-ietf-wish-whep §4.5.1), in the two forms that
//! clients know.
//!
//! ```text
//! POST …/sse ["layers"] ─► 201, Location: …/sse/layers ─► GET ─► {"1": [{"rid", "width", …}]}
//! GET  …/sse ───────────────────────────────────────────────► {"1": {"layers": [{"encodingId", …}]}}
//! ```
//!
//! The first form is that of the draft, the second one that of Broadcast Box and its players. Either names
//! the `m=` line of the video by its identification tag.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::extract::Path;
use super::problem::Problem;
use super::session_layers::SessionLayers;
use super::stream_path::name_in_path;
use super::{body, resource};
use crate::app::App;
use crate::sessions::SessionRecord;

/// The only event that there is.
const LAYERS: &str = "layers";

/// Most streams of events of one session.
const STREAMS_MAX: usize = 2;

/// Interval at which changes are looked for.
const LOOKS: Duration = Duration::from_secs(1);

/// Interval of signs of life.
const SIGNS_OF_LIFE: Duration = Duration::from_secs(15);

/// The form of the event's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// A list of layers, as the draft has it.
    Draft,
    /// An object with the list, as deployed players have it.
    Deployed,
}

/// Adds the URLs of events and of the choice of a layer to the answer to an offer, whose session has the
/// URL `location`.
pub(super) fn announce(response: &mut Response, location: &str) {
    let relation = "urn:ietf:params:whep:ext:core";
    let links = [
        format!("<{location}/sse>; rel=\"{relation}:server-sent-events\"; events=\"{LAYERS}\""),
        format!("<{location}/layer>; rel=\"{relation}:layer\""),
    ];
    for link in links {
        if let Ok(link) = HeaderValue::from_str(&link) {
            response.headers_mut().append(header::LINK, link);
        }
    }
}

/// Takes the events that a client wants: `POST /{stream}/whep/{session}/sse`.
pub(super) async fn subscribe(
    State(app): State<App>,
    Path((name, session)): Path<(String, String)>,
    body: Body,
) -> Result<Response, Problem> {
    resource::find(&app.sessions, &name, &session)?;
    let body = body::read(body).await?;
    let wanted: Vec<String> = serde_json::from_slice(&body).map_err(|error| {
        let line = error.line();
        Problem::bad_request(format!("not a list of events, like [\"layers\"]: {error}"))
            .with("line", line)
    })?;
    if let Some(unknown) = wanted.iter().find(|it| *it != LAYERS) {
        let detail = format!("there is no event '{unknown}': this server tells 'layers'");
        return Err(Problem::bad_request(detail));
    }
    if wanted.is_empty() {
        let detail = "the list names no event: this server tells 'layers'";
        return Err(Problem::bad_request(detail));
    }
    let name = name_in_path(&name);
    let location = format!("/{name}/whep/{session}/sse/{LAYERS}");
    Ok((StatusCode::CREATED, [(header::LOCATION, location)]).into_response())
}

/// Tells events in the form of deployed players: `GET /{stream}/whep/{session}/sse`.
pub(super) async fn follow_at_once(
    State(app): State<App>,
    Path((name, session)): Path<(String, String)>,
) -> Result<Response, Problem> {
    follow(app, &name, &session, Form::Deployed)
}

/// Tells the events of a subscription: `GET /{stream}/whep/{session}/sse/layers`.
pub(super) async fn follow_subscribed(
    State(app): State<App>,
    Path((name, session)): Path<(String, String)>,
) -> Result<Response, Problem> {
    follow(app, &name, &session, Form::Draft)
}

/// Ends the streams of events of a session: `DELETE /{stream}/whep/{session}/sse/layers`.
pub(super) async fn unsubscribe(
    State(app): State<App>,
    Path((name, session)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    let record = resource::find(&app.sessions, &name, &session)?;
    record.events().send_replace(());
    Ok(StatusCode::OK)
}

fn follow(app: App, name: &str, session: &str, form: Form) -> Result<Response, Problem> {
    let record = resource::find(&app.sessions, name, session)?;
    if record.events().receiver_count() >= STREAMS_MAX {
        let detail = format!(
            "{STREAMS_MAX} streams of events of this session are open: end one of them first"
        );
        let title = "Too many streams of events";
        return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, title, detail));
    }
    let mut looks = interval(LOOKS);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let follower = Follower {
        ended: record.events().subscribe(),
        app,
        record,
        form,
        looks,
        told: None,
    };
    let events = stream::unfold(follower, |mut follower| async move {
        let event = follower.next().await?;
        Some((Ok::<_, Infallible>(event), follower))
    });
    let signs_of_life = KeepAlive::new().interval(SIGNS_OF_LIFE);
    Ok(Sse::new(events).keep_alive(signs_of_life).into_response())
}

/// A client that listens.
struct Follower {
    app: App,
    record: Arc<SessionRecord>,
    form: Form,
    looks: Interval,
    ended: watch::Receiver<()>,
    /// The choice that was told last.
    told: Option<SessionLayers>,
}

impl Follower {
    /// Returns the next event; `None` once the session or the subscription has ended.
    async fn next(&mut self) -> Option<Event> {
        loop {
            tokio::select! {
                _ = self.looks.tick() => {}
                _ = self.ended.changed() => return None,
            }
            self.app.sessions.by_id(&self.record.id)?;
            let choice = SessionLayers::of(&self.app, &self.record, Instant::now());
            let is_news = match &self.told {
                None => true,
                Some(told) => without_rates(told) != without_rates(&choice),
            };
            if is_news {
                let data = data_of(&choice, self.form).to_string();
                self.told = Some(choice);
                return Some(Event::default().event(LAYERS).data(data));
            }
        }
    }
}

/// Returns the choice without what changes all the time.
fn without_rates(choice: &SessionLayers) -> SessionLayers {
    let mut choice = choice.clone();
    choice.layers.iter_mut().for_each(|it| it.bitrate = 0);
    choice
}

fn data_of(choice: &SessionLayers, form: Form) -> Value {
    let layers = choice.layers.iter().map(|it| {
        let mut layer = json!({
            "rid": it.rid, "encodingId": it.rid, "width": it.width, "height": it.height,
            "bitrate": it.bitrate, "inUse": it.in_use,
        });
        if it.in_use {
            layer["reason"] = choice.reason.as_str().into();
        }
        layer
    });
    let layers: Vec<_> = layers.collect();
    let mid = match choice.mid.as_str() {
        "" => return json!({}),
        mid => mid,
    };
    match form {
        Form::Draft => json!({mid: layers}),
        Form::Deployed => json!({mid: {"layers": layers}}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::session_layers::SessionLayer;

    #[test]
    fn both_forms_name_the_line_of_the_video_and_the_layer_in_use_with_its_reason() {
        let layer = |rid: &str, height, in_use| SessionLayer {
            rid: rid.to_owned(),
            width: Some(2 * height),
            height: Some(height),
            bitrate: 1_000,
            in_use,
        };
        let choice = SessionLayers {
            mid: "1".to_owned(),
            layers: vec![layer("h", 720, false), layer("l", 180, true)],
            reason: "the path carries 0.8 of 2.7 Mbit/s".to_owned(),
        };
        let draft = data_of(&choice, Form::Draft);
        assert_eq!(draft["1"][0]["rid"], "h");
        assert_eq!(draft["1"][1]["inUse"], true);
        assert_eq!(
            draft["1"][1]["reason"],
            "the path carries 0.8 of 2.7 Mbit/s"
        );
        assert!(draft["1"][0].get("reason").is_none());
        let deployed = data_of(&choice, Form::Deployed);
        assert_eq!(deployed["1"]["layers"][1]["encodingId"], "l");
        assert_eq!(data_of(&SessionLayers::default(), Form::Draft), json!({}));
        let mut other = choice.clone();
        other.layers[0].bitrate = 7;
        assert_eq!(without_rates(&choice), without_rates(&other), "no news");
    }
}
