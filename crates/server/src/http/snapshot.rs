//! `GET /{stream}/snapshot.jpg`: the newest keyframe as an image.

use std::ops::RangeInclusive;
use std::sync::Arc;

use axum::extract::{ConnectInfo, RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use glassline_hub::{Demand, LayerWish, Stream};
use glassline_transcode::{NoStill, SizeLimit};
use glassline_transcoding::snapshots::{NoSnapshot, Snapshots};
use schemars::JsonSchema;
use serde::Deserialize;

use super::extract::{Path, has_word};
use super::layer_request;
use super::problem::Problem;
use super::rules::Right;
use super::server::Waiter;
use super::viewer_routes::ViewerRoutes;
use crate::app::App;
use crate::sessions::ConnectionAddresses;

/// Returns the route of images.
pub(super) fn routes() -> ViewerRoutes {
    ViewerRoutes::default().route("/{stream}/snapshot.jpg", Right::Read, get(latest))
}

/// Widths and heights that may be asked for.
const SIZES: RangeInclusive<u16> = 16..=4096;

/// Answers with the newest keyframe of a stream within `?width=` and `?height=`: that of the
/// layer `?layer=`, or of the smallest one that is large enough. With `?wake`, a source on demand is
/// connected for it.
async fn latest(
    State(app): State<App>,
    ConnectInfo(connection): ConnectInfo<ConnectionAddresses>,
    waiter: Waiter,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let limit = size_limit(query.as_deref().unwrap_or_default())?;
    let layer = layer_request::wish(query.as_deref())?;
    let (stream, _pull_demand) = awaited_stream(&app, connection, &waiter, &name).await?;
    // An image of a page that lists streams must not connect all cameras.
    let _demand = match has_word(query.as_deref(), "wake") {
        true => Some(waiter.during(Snapshots::wake(&stream)).await?),
        false => None,
    };
    answer(&app, (&stream, layer.as_ref()), limit, &headers, &waiter).await
}

/// Returns a stream of this server, or one that another server has, which is waited for and stays as long
/// as the demand is held.
pub(super) async fn awaited_stream(
    app: &App,
    connection: ConnectionAddresses,
    waiter: &Waiter,
    name: &str,
) -> Result<(Arc<Stream>, Option<Demand>), Problem> {
    let pulled = match (app.hub.stream(name), app.sessions.directory()) {
        (None, Some(directory)) => directory.begin(name, connection.peer.ip()),
        _ => None,
    };
    let demand = match &pulled {
        Some(stream) => Some(waiter.during(Snapshots::wake(stream)).await?),
        None => None,
    };
    let stream = app.hub.stream(name);
    let stream = stream.ok_or_else(|| Problem::no_stream(name))?;
    Ok((stream, demand))
}

/// Answers with the newest keyframe of `stream` within `limit`.
pub(super) async fn answer(
    app: &App,
    (stream, layer): (&Arc<Stream>, Option<&LayerWish>),
    limit: SizeLimit,
    headers: &HeaderMap,
    waiter: &Waiter,
) -> Result<Response, Problem> {
    let making = app.snapshots.of(stream, layer, limit, waiter.source());
    let snapshot = waiter.during(making).await??;
    let shown = [
        (header::ETAG, snapshot.entity_tag.clone()),
        // Whoever may not watch must not get it from a shared cache.
        (header::CACHE_CONTROL, "private, max-age=1".to_owned()),
    ];
    if has_already(headers, &snapshot.entity_tag) {
        return Ok((StatusCode::NOT_MODIFIED, shown).into_response());
    }
    let kind = [(header::CONTENT_TYPE, "image/jpeg")];
    Ok((shown, kind, snapshot.jpeg.clone()).into_response())
}

/// Reads `width` and `height` of a query; other keys are of other readers.
fn size_limit(query: &str) -> Result<SizeLimit, Problem> {
    let mut limit = SizeLimit::default();
    for (key, value) in url::form_urlencoded::parse(query.as_bytes()) {
        let place = match key.as_ref() {
            "width" => &mut limit.width,
            "height" => &mut limit.height,
            _ => continue,
        };
        *place = Some(pixels(&key, &value)?);
    }
    Ok(limit)
}

fn pixels(key: &str, value: &str) -> Result<u16, Problem> {
    let pixels = value.parse().ok().filter(|it| SIZES.contains(it));
    pixels.ok_or_else(|| {
        let (least, most) = SIZES.into_inner();
        Problem::bad_request(format!(
            "{key}={value}: the {key} is a number of pixels from {least} to {most}"
        ))
    })
}

/// Largest size of the image.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Size {
    /// Most pixels from left to right.
    #[schemars(range(min = 16, max = 4096))]
    width: Option<u16>,
    /// Most pixels from top to bottom.
    #[schemars(range(min = 16, max = 4096))]
    height: Option<u16>,
}

impl Size {
    pub(super) const fn new(width: Option<u16>, height: Option<u16>) -> Self {
        Self { width, height }
    }

    /// Returns the limit that the query asks for.
    ///
    /// # Errors
    /// Returns a [`Problem`] for a number out of range.
    pub(super) fn limit(&self) -> Result<SizeLimit, Problem> {
        let checked = |key, side: Option<u16>| {
            let side = side.map(|side| pixels(key, &side.to_string()));
            side.transpose()
        };
        Ok(SizeLimit {
            width: checked("width", self.width)?,
            height: checked("height", self.height)?,
        })
    }
}

/// Whether the client has the image with this entity tag (RFC 9110 §13.1.2).
pub(super) fn has_already(headers: &HeaderMap, entity_tag: &str) -> bool {
    let lines = headers.get_all(header::IF_NONE_MATCH).iter();
    let mut tags = lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(','));
    tags.any(|tag| matches!(tag.trim(), "*") || tag.trim().trim_start_matches("W/") == entity_tag)
}

impl From<NoSnapshot> for Problem {
    fn from(error: NoSnapshot) -> Self {
        let detail = error.to_string();
        match error {
            NoSnapshot::NoVideo => Self::new(StatusCode::NOT_FOUND, "No video", detail),
            NoSnapshot::NoLayer(why) => Self::no_layer(&why),
            NoSnapshot::Idle => Self::new(StatusCode::CONFLICT, "Stream idle", detail),
            NoSnapshot::NoKeyframe => Self::try_later("No keyframe yet", detail),
            NoSnapshot::Refreshing => Self::try_later("No picture yet", detail),
            NoSnapshot::Busy => Self::try_later("Busy", detail),
            NoSnapshot::Undecodable(NoStill::Codec { codec }) => {
                Self::new(StatusCode::NOT_IMPLEMENTED, "No decoder", detail)
                    .with("codec", codec.to_string())
            }
            NoSnapshot::Undecodable(_) => {
                Self::new(StatusCode::NOT_IMPLEMENTED, "Keyframe not decoded", detail)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_bounded_and_other_keys_left_alone() {
        let both = size_limit("token=x&width=320&height=16").expect("good");
        assert_eq!((both.width, both.height), (Some(320), Some(16)));
        assert_eq!(size_limit("lipsync").expect("none"), SizeLimit::default());
        let hostile = [
            "width=0",
            "width=15",
            "height=4097",
            "height=-1",
            "width=99999999999999999999",
            "width=1e3",
            "width=",
            "width=320&height=x",
        ];
        for query in hostile {
            let refused = size_limit(query).expect_err(query);
            assert_eq!(refused.status(), StatusCode::BAD_REQUEST, "{query}");
        }
    }

    #[test]
    fn any_tag_of_a_list_counts_and_weak_ones_too() {
        let held = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::IF_NONE_MATCH, value.parse().expect("visible"));
            has_already(&headers, "\"aa\"")
        };
        assert!(held("\"aa\"") && held("\"bb\", \"aa\"") && held("W/\"aa\"") && held("*"));
        assert!(!held("\"ab\"") && !held("aa"));
        assert!(!has_already(&HeaderMap::new(), "\"aa\""));
    }
}
