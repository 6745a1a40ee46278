//! WHIP (RFC 9725) for data channels: one HTTP exchange creates the session of a publisher of
//! messages next to a stream. The session's URL then takes `PATCH` and `DELETE` like a viewer's.
//!
//! The stream's media comes from another source. An offer that has media is refused and not
//! answered without the media.

use axum::body::Body;
use axum::extract::{ConnectInfo, Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use glassline_hub::StreamName;

use super::problem::Problem;
use super::{body, resource};
use crate::app::App;
use crate::config::DataAccess;
use crate::sessions::{ConnectionAddresses, Offer};

/// Answers the offer of a publisher of messages: `POST /{stream}/whip`.
pub(super) async fn offer(
    State(app): State<App>,
    ConnectInfo(connection): ConnectInfo<ConnectionAddresses>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    if app.config.webrtc.data.viewers == DataAccess::Off {
        let detail =
            "data channels are off here: `webrtc.data.viewers` or --data-channels turns them on";
        return Err(Problem::new(
            StatusCode::NOT_FOUND,
            "No data channels",
            detail,
        ));
    }
    resource::expect_type(&headers, resource::SDP)?;
    let body = body::read(body).await?;
    let sdp = resource::text(&body)?;
    let offer = Offer { sdp, connection };
    let media = offer.media().map_err(|error| resource::malformed(&error))?;
    if let Some(kind) = media {
        let detail = format!(
            "the offer has m={kind}: messages alone are published here; send video and audio \
             by RTSP or MoQ, and offer m=application by itself"
        );
        let title = "No media by WHIP";
        return Err(Problem::new(StatusCode::NOT_ACCEPTABLE, title, detail));
    }
    let name = StreamName::parse(&name).map_err(|error| Problem::bad_request(error.to_string()))?;
    let stream = app.hub.admit(name.clone());
    let stream =
        stream.map_err(|error| Problem::try_later("Too many streams", error.to_string()))?;
    let answered = app.sessions.publish_messages(stream, offer)?;
    let location = format!("/{name}/whip/{}", answered.record.id.as_str());
    Ok(resource::created(answered, location))
}
