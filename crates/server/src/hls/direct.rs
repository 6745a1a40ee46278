//! Playlists and files of live streams without routes: each viewer asks for twenty a second.
//!
//! Requests that proxies hand on, paths with percent-encoded names and methods other than GET go by the routes,
//! with the same answers.

use axum::extract::Request;
use axum::http::Method;
use axum::response::{IntoResponse as _, Response};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use glassline_ingest::stream_names::{RESERVED, below};

use super::requests::PassedRequest;
use crate::app::App;
use crate::http::forwarded;
use crate::http::passed::guarded;
use crate::http::server::{DirectHandler, RequestClient};
use crate::sessions::ConnectionAddresses;

/// Answers the requests with a pass of live streams.
pub(crate) struct LiveFiles(pub(crate) App);

impl DirectHandler for LiveFiles {
    fn takes(&self, client: ConnectionAddresses, request: &Request<()>) -> bool {
        request.method() == Method::GET
            && Target::of(request.uri().path()).is_some()
            && forwarded::is_plain(&self.0, client)
    }

    fn answer(&self, client: RequestClient, request: Request<()>) -> BoxFuture<'static, Response> {
        let app = self.0.clone();
        async move {
            let answer = |request: Request<()>| answered(&app, &client, request);
            guarded(&app, client.addresses, request, answer).await
        }
        .boxed()
    }
}

async fn answered(app: &App, client: &RequestClient, request: Request<()>) -> Response {
    let target = Target::of(request.uri().path()).expect("the handler takes the request");
    let asked = PassedRequest::new(app, client, &request, target.name, target.pass);
    let answered = match target.wanted {
        Wanted::Playlist(playlist) => asked.playlist(playlist).await,
        Wanted::File { rendition, file } => asked.file(rendition, file).await,
    };
    answered.into_response()
}

/// The parts of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Target<'a> {
    /// Name of the stream.
    name: &'a str,
    pass: &'a str,
    wanted: Wanted<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted<'a> {
    Playlist(&'a str),
    File { rendition: &'a str, file: &'a str },
}

impl<'a> Target<'a> {
    /// Reads `/{stream}/hls/{pass}/{playlist}` and `/{stream}/hls/{pass}/{rendition}/{file}`; `None` for
    /// everything else, and for what was recorded.
    fn of(path: &'a str) -> Option<Self> {
        let path = path.strip_prefix('/').filter(|it| !it.contains('%'))?;
        let parts = below(path.split('/'));
        let (at, _) = path.match_indices('/').nth(parts - 1)?;
        let (name, rest) = path.split_at(at);
        let first = name.split('/').next().unwrap_or_default();
        if first.starts_with(['-', '.']) || RESERVED.contains(&first) {
            return None;
        }
        let mut rest = rest.strip_prefix("/hls/")?.split('/');
        let (pass, wanted, file) = (rest.next()?, rest.next()?, rest.next());
        let is_empty = |it: &str| it.is_empty();
        if rest.next().is_some() || is_empty(pass) || is_empty(wanted) || file.is_some_and(is_empty)
        {
            return None;
        }
        let wanted = match (wanted, file) {
            ("dvr.m3u8" | "vod.m3u8", None) | ("past", Some(_)) => return None,
            (playlist, None) => Wanted::Playlist(playlist),
            (rendition, Some(file)) => Wanted::File { rendition, file },
        };
        Some(Self { name, pass, wanted })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_as_routes_read_them() {
        let of = |path| {
            let target = Target::of(path)?;
            Some((target.name, target.pass, target.wanted))
        };
        let playlist = Wanted::Playlist("video0.m3u8");
        let file = Wanted::File {
            rendition: "audio0",
            file: "p7.m4s",
        };
        for (path, expected) in [
            ("/cam/hls/P1.x/video0.m3u8", Some(("cam", "P1.x", playlist))),
            (
                "/site/cam/hls/P1.x/video0.m3u8",
                Some(("site/cam", "P1.x", playlist)),
            ),
            ("/cam/hls/F1.x/audio0/p7.m4s", Some(("cam", "F1.x", file))),
            ("/hls/hls/F1.x/audio0/p7.m4s", Some(("hls", "F1.x", file))),
            ("/cam/hls/index.m3u8", None),
            ("/cam/hls/R1.x/dvr.m3u8", None),
            ("/cam/hls/P1.x/vod.m3u8", None),
            ("/cam/hls/R1.x/past/a.m4s", None),
            ("/cam/hls//video0.m3u8", None),
            ("/cam/hls/F1.x/audio0/", None),
            ("/cam/hls/F1.x/audio0/a/b", None),
            ("/site%2Fcam/hls/P1.x/video0.m3u8", None),
            ("/cam/whep/hls/P1.x/video0.m3u8", None),
            ("/api/hls/P1.x/video0.m3u8", None),
            ("/-/hls/P1.x/video0.m3u8", None),
            ("/cam", None),
            ("", None),
        ] {
            assert_eq!(of(path), expected, "{path}");
        }
    }
}
