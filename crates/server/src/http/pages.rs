//! The pages that are built into the binary: index, wall, player, publish, call and dashboard.

use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use schemars::JsonSchema;
use serde::Deserialize;

use super::extract::Path;
use super::problem::Problem;
use super::rules::Right;
use super::viewer_routes::ViewerRoutes;
use crate::app::App;

/// Only this server's own files run in the pages. Frames are shown as blobs, and the stream as a
/// media object.
const CONTENT_SECURITY_POLICY: &str = "default-src 'self'; img-src 'self' data: blob:; media-src 'self' blob:; \
     base-uri 'none'; form-action 'none'; frame-ancestors *";

/// The policy for pages of operators, which no other page may frame: a click there changes the server.
const POLICY_OF_OPERATORS: &str = "default-src 'self'; img-src 'self' data: blob:; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'";

pub(super) const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SVG: &str = "image/svg+xml";

macro_rules! assets {
    ($($name:literal => $kind:expr),* $(,)?) => {
        &[$(($name, $kind, include_str!(concat!("../../assets/", $name)))),*]
    };
}

/// The static files under `/-/`.
const ASSETS: &[(&str, &str, &str)] = assets! {
    "accounts.js" => SCRIPT,
    "add_source.js" => SCRIPT,
    "api.css" => STYLE,
    "api.js" => SCRIPT,
    "api_page.js" => SCRIPT,
    "audit_list.js" => SCRIPT,
    "audio_view.js" => SCRIPT,
    "base.css" => STYLE,
    "call.css" => STYLE,
    "call.js" => SCRIPT,
    "clock.js" => SCRIPT,
    "cluster_list.js" => SCRIPT,
    "colors.js" => SCRIPT,
    "commands.js" => SCRIPT,
    "confirm.js" => SCRIPT,
    "controls.js" => SCRIPT,
    "copy_line.js" => SCRIPT,
    "dashboard.css" => STYLE,
    "dashboard.js" => SCRIPT,
    "dom.js" => SCRIPT,
    "events_list.js" => SCRIPT,
    "exclusion_list.js" => SCRIPT,
    "export_dialog.js" => SCRIPT,
    "failure.js" => SCRIPT,
    "format.js" => SCRIPT,
    "framecode.js" => SCRIPT,
    "frames.js" => SCRIPT,
    "heat_map.js" => SCRIPT,
    "hls.min.mjs" => SCRIPT,
    "hls_playback.js" => SCRIPT,
    "hls_stages.js" => SCRIPT,
    "how.js" => SCRIPT,
    "ice_servers.js" => SCRIPT,
    "icon.svg" => SVG,
    "index.css" => STYLE,
    "index.js" => SCRIPT,
    "key.js" => SCRIPT,
    "layer_orders.js" => SCRIPT,
    "lifeline.js" => SCRIPT,
    "links.js" => SCRIPT,
    "lip_sync.js" => SCRIPT,
    "load_charts.js" => SCRIPT,
    "load_test.js" => SCRIPT,
    "login_list.js" => SCRIPT,
    "loudness.js" => SCRIPT,
    "mark_dialog.js" => SCRIPT,
    "names.js" => SCRIPT,
    "onvif.js" => SCRIPT,
    "overview.js" => SCRIPT,
    "panel.js" => SCRIPT,
    "past.js" => SCRIPT,
    "pattern.js" => SCRIPT,
    "pattern_list.js" => SCRIPT,
    "pauses.js" => SCRIPT,
    "pictures.js" => SCRIPT,
    "player.css" => STYLE,
    "player.js" => SCRIPT,
    "ptz.js" => SCRIPT,
    "publication.js" => SCRIPT,
    "publish.css" => STYLE,
    "publish.js" => SCRIPT,
    "publishing.js" => SCRIPT,
    "quality.js" => SCRIPT,
    "reach.js" => SCRIPT,
    "recorded.js" => SCRIPT,
    "reload_card.js" => SCRIPT,
    "retry.js" => SCRIPT,
    "rooms_list.js" => SCRIPT,
    "sending.js" => SCRIPT,
    "servers.js" => SCRIPT,
    "session.js" => SCRIPT,
    "sign_in.css" => STYLE,
    "sign_in.js" => SCRIPT,
    "sources.js" => SCRIPT,
    "stage_strip.js" => SCRIPT,
    "stalls.js" => SCRIPT,
    "stats.js" => SCRIPT,
    "stream_actions.js" => SCRIPT,
    "stream_detail.js" => SCRIPT,
    "stream_table.js" => SCRIPT,
    "talk.js" => SCRIPT,
    "theme.js" => SCRIPT,
    "thumbnail.js" => SCRIPT,
    "tiles.js" => SCRIPT,
    "time_strip.js" => SCRIPT,
    "timeline.css" => STYLE,
    "timeline.js" => SCRIPT,
    "trust.css" => STYLE,
    "uplot.css" => STYLE,
    "uplot.js" => SCRIPT,
    "view.js" => SCRIPT,
    "viewer_table.js" => SCRIPT,
    "voice.js" => SCRIPT,
    "wall_clock.js" => SCRIPT,
    "wall.css" => STYLE,
    "wall.js" => SCRIPT,
    "watch_url.js" => SCRIPT,
    "waterfall.css" => STYLE,
    "waterfall.js" => SCRIPT,
    "whep.js" => SCRIPT,
    "words.js" => SCRIPT,
};

/// Returns the routes of the pages about streams, and of their files.
pub(super) fn routes() -> ViewerRoutes {
    ViewerRoutes::default()
        .page("/", Right::Read, get(index))
        .page("/-/wall", Right::Read, get(wall))
        .page("/-/reach.html", Right::Read, get(reach))
        .page("/{stream}", Right::Read, get(player))
        .page("/{stream}/publish", Right::ReadOrPublish, get(publish))
        .route("/-/{name}", Right::Open, get(asset))
}

/// Serves the page that lists all streams: `GET /`.
async fn index() -> Response {
    page(StatusCode::OK, include_str!("../../assets/index.html"))
}

/// Serves the page that shows many streams at once: `GET /-/wall`.
async fn wall() -> Response {
    page(StatusCode::OK, include_str!("../../assets/wall.html"))
}

/// `GET /{stream}`: the same page for every stream, even for one that does not exist yet; the page
/// then waits for it.
async fn player(State(app): State<App>, Path(stream): Path<String>) -> Response {
    let status = match has_stream(&app, &stream).await {
        true => StatusCode::OK,
        false => StatusCode::NOT_FOUND,
    };
    page_with_ice_servers(&app, status, include_str!("../../assets/player.html"))
}

/// Returns whether there is a stream of this name, or a file that the page makes one of.
pub(super) async fn has_stream(app: &App, name: &str) -> bool {
    match (&app.library, app.hub.stream(name)) {
        (_, Some(_)) => true,
        // A file of the media folder plays when the page asks for its media.
        (Some(library), None) => library.has(name).await,
        (None, None) => false,
    }
}

/// Serves the page that publishes a stream: `GET /{stream}/publish`.
async fn publish(State(app): State<App>) -> Response {
    let body = include_str!("../../assets/publish.html");
    page_in_cluster(&app, StatusCode::OK, body, "")
}

/// `GET /call` and `GET /call/{room}`
pub(super) async fn call(State(app): State<App>) -> Response {
    let body = include_str!("../../assets/call.html");
    page_in_cluster(&app, StatusCode::OK, body, "")
}

/// Serves the empty page through which others reach servers that have come since they were made:
/// `GET /-/reach.html`.
async fn reach(State(app): State<App>) -> Response {
    let body = include_str!("../../assets/reach.html");
    page_in_cluster(&app, StatusCode::OK, body, "")
}

/// Serves the page that shows the description of the API: `GET /api` for operators.
pub(super) async fn api() -> Response {
    of_operators(include_str!("../../assets/api.html"))
}

/// Serves the dashboard: `GET /` for operators.
pub(super) async fn dashboard() -> Response {
    of_operators(include_str!("../../assets/dashboard.html"))
}

/// Serves the page on which operators sign in: `GET /sign-in`.
pub(super) async fn sign_in() -> Response {
    of_operators(include_str!("../../assets/sign_in.html"))
}

/// Returns a page for viewers.
pub(super) fn of_viewers(body: &'static str) -> Response {
    page(StatusCode::OK, body)
}

fn of_operators(body: &'static str) -> Response {
    let mut page = page(StatusCode::OK, body);
    let policy = HeaderValue::from_static(POLICY_OF_OPERATORS);
    page.headers_mut()
        .insert(header::CONTENT_SECURITY_POLICY, policy);
    page
}

/// The file that a path names.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct AssetPath {
    /// Name of the file.
    name: String,
}

/// Serves a script, style sheet or icon of the pages: `GET /-/{name}`.
pub(super) async fn asset(Path(AssetPath { name }): Path<AssetPath>) -> Response {
    match ASSETS.iter().find(|(known, ..)| *known == name) {
        Some((_, kind, body)) => (headers(kind), *body).into_response(),
        None => Problem::new(
            StatusCode::NOT_FOUND,
            "No such file",
            format!("there is no /-/{name}"),
        )
        .into_response(),
    }
}

/// Returns a page that was made for this request.
pub(super) fn made(body: String) -> Response {
    (headers(HTML), body).into_response()
}

/// Returns a page that asks for ICE servers before it sends an offer if there are any. The question
/// takes a round trip, which a page without them does not pay.
fn page_with_ice_servers(app: &App, status: StatusCode, body: &'static str) -> Response {
    let attribute = match app.config().webrtc.ice_servers.is_empty() {
        true => "",
        false => " data-ice-servers",
    };
    page_in_cluster(app, status, body, attribute)
}

/// Returns a page that may connect to the servers of the cluster, which its media may come from, and
/// that knows which they are; `attributes`: others of its root element.
fn page_in_cluster(
    app: &App,
    status: StatusCode,
    body: &'static str,
    attributes: &str,
) -> Response {
    let member = app.sessions.directory().and_then(|it| it.member());
    let servers = member.map(|member| member.origins().join(" "));
    let mut tag = format!("<html{attributes}");
    if let Some(servers) = &servers {
        tag += &format!(" data-servers=\"{servers}\"");
    }
    let mut page = (status, headers(HTML), body.replacen("<html", &tag, 1)).into_response();
    if let Some(servers) = servers.filter(|it| !it.is_empty()) {
        let policy = format!("{CONTENT_SECURITY_POLICY}; connect-src 'self' {servers}");
        if let Ok(policy) = HeaderValue::try_from(policy) {
            let headers = page.headers_mut();
            headers.insert(header::CONTENT_SECURITY_POLICY, policy);
        }
    }
    page
}

fn page(status: StatusCode, body: &'static str) -> Response {
    (status, headers(HTML), body).into_response()
}

/// Returns the response headers of a page.
pub(super) fn headers_of_page() -> [(HeaderName, &'static str); 8] {
    headers(HTML)
}

/// Returns the response headers. They isolate the page from other origins, so that its clock has a
/// resolution of 5 µs instead of 100 µs.
fn headers(kind: &'static str) -> [(HeaderName, &'static str); 8] {
    [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-cache"),
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-embedder-policy"),
            "require-corp",
        ),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_that_a_page_or_module_names_is_shipped() {
        let pages = [
            include_str!("../../assets/index.html"),
            include_str!("../../assets/player.html"),
            include_str!("../../assets/publish.html"),
            include_str!("../../assets/api.html"),
            include_str!("../../assets/call.html"),
            include_str!("../../assets/dashboard.html"),
            include_str!("../../assets/sign_in.html"),
            include_str!("../../assets/reach.html"),
            include_str!("../../assets/problem.html"),
            include_str!("../../assets/trust.html"),
            include_str!("../../assets/wall.html"),
            include_str!("../../assets/timeline.html"),
        ];
        let texts = ASSETS.iter().map(|(_, _, body)| *body).chain(pages);
        let mut named = 0;
        for text in texts {
            for marker in ["\"/-/", "from './", "import('./"] {
                for rest in text.split(marker).skip(1) {
                    let name = rest.split(['"', '\'']).next().unwrap_or_default();
                    // Pages have routes of their own.
                    if !name.contains('.') {
                        continue;
                    }
                    assert!(
                        ASSETS.iter().any(|(known, ..)| *known == name),
                        "{name} is not shipped"
                    );
                    named += 1;
                }
            }
        }
        assert!(named > 20, "found {named} references");
    }
}
