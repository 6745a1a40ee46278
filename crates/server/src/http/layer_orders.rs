//! Which layers a publisher should send, told as that changes: `GET /{stream}/whip/{session}/layers`.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use glassline_ingest::whip::LayerOrder;
use serde_json::json;

use super::extract::Path;
use super::problem::Problem;
use super::resource;
use crate::app::App;

/// Interval of signs of life, by which either end notices that the connection is gone.
const SIGNS_OF_LIFE: Duration = Duration::from_secs(5);

/// Tells the publisher of a session which of its layers to send. While it listens, layers that nobody
/// needs are paused.
pub(super) async fn follow(
    State(app): State<App>,
    Path((name, session)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let record = resource::find(&app.sessions, &name, &session)?;
    let orders = app.sessions.layer_orders(&record).ok_or_else(|| {
        let detail = "the session publishes no media, or its layers are followed already: read the response \
                      that is open, or end it first";
        Problem::new(StatusCode::CONFLICT, "No layers to follow", detail)
    })?;
    let events = stream::unfold(orders, |mut orders| async move {
        let event = event(&orders.next().await?);
        Some((Ok::<_, Infallible>(event), orders))
    });
    let signs_of_life = KeepAlive::new().interval(SIGNS_OF_LIFE);
    Ok(Sse::new(events).keep_alive(signs_of_life).into_response())
}

fn event(orders: &[LayerOrder]) -> Event {
    let layers = orders
        .iter()
        .map(|it| json!({"rid": it.rid, "active": it.active}));
    let layers: Vec<_> = layers.collect();
    Event::default()
        .event("layers")
        .data(json!({"layers": layers}).to_string())
}
