//! WHIP (RFC 9725), for data: one HTTP exchange makes a publisher of messages beside a
//! stream. Its session's URL then takes `PATCH` and `DELETE` as a viewer's does.
//!
//! The stream's media comes by another way; an offer that has media is turned down
//! rather than answered without it.

use axum::body::Bytes;
use axum::extract::{ConnectInfo, Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use glassline_hub::StreamName;
use glassline_webrtc::sdp::SessionDescription;

use super::problem::Problem;
use super::whep::{self, Beside, SDP};
use super::{App, Ends};
use crate::config::DataAccess;
use crate::messages::Side;

/// `POST /{stream}/whip`
pub(super) async fn offer(
    State(app): State<App>,
    ConnectInfo(ends): ConnectInfo<Ends>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Bytes,
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
    whep::expect_type(&headers, SDP)?;
    let offer = whep::text(&body)?;
    if let Some(kind) = media_in(offer)? {
        let detail = format!(
            "the offer has m={kind}: messages alone are published here; send pictures and sound \
             by RTSP or MoQ, and offer m=application by itself"
        );
        let title = "No media by WHIP";
        return Err(Problem::new(StatusCode::NOT_ACCEPTABLE, title, detail));
    }
    let name = StreamName::parse(&name).map_err(|error| Problem::bad_request(error.to_string()))?;
    let stream = app.hub.admit(name.clone());
    let stream =
        stream.map_err(|error| Problem::try_later("Too many streams", error.to_string()))?;
    let beside = Beside::stream(&app, &stream, Side::Publisher);
    let answered = whep::join(&app, stream, &[], ends, offer, beside)?;
    let location = format!("/{name}/whip/{}", answered.entry.id);
    Ok(answered.response(location))
}

/// What the offer has that is not data channels, if there is anything.
pub(super) fn media_in(offer: &str) -> Result<Option<String>, Problem> {
    let offer = SessionDescription::parse(offer).map_err(|error| whep::malformed(&error))?;
    let mut sections = offer.media.into_iter().filter(|media| !media.is_rejected());
    let media = sections.find(|media| media.kind != "application");
    Ok(media.map(|media| media.kind))
}
