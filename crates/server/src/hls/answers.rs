//! Answers with what caches may do with them.
//!
//! | answer | `Cache-Control` |
//! |---|---|
//! | Multivariant Playlist | `no-store`: it has the token that the client showed |
//! | playlist that was waited for | six Target Durations: the same question has the same answer |
//! | playlist as it is now | one second |
//! | initialization, part, segment | one hour, immutable |
//! | playlist or file to a client that shows a right in a header, in place of a pass | as long, and by this client alone |
//! | error | one second, so that a cache lets one of many clients ask again |

use std::convert::Infallible;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use glassline_media::Kind;

use super::files::Pieces;
use super::past::PlaylistBody;
use super::rendition::PlaylistText;

/// Media type of playlists (§4).
const PLAYLIST: HeaderValue = HeaderValue::from_static("application/vnd.apple.mpegurl");

/// Seconds for which files are kept, which never change under their name.
pub(super) const FILES_KEPT_S: u32 = 3600;

const FILE: HeaderValue = HeaderValue::from_static("public, max-age=3600, immutable");

/// Room for the headers of an answer.
const HEADERS: usize = 8;

const SHORT: HeaderValue = HeaderValue::from_static("public, max-age=1");

/// Seconds for which an answer is kept, and by whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    ByAll(u32),
    /// By the client that showed a right of its own: no cache of many clients could check that.
    ByClient(u32),
}

impl Keep {
    fn value(self, is_immutable: bool) -> HeaderValue {
        if self == Self::ByAll(FILES_KEPT_S) && is_immutable {
            return FILE;
        }
        let (by, seconds) = match self {
            Self::ByAll(seconds) => ("public", seconds),
            Self::ByClient(seconds) => ("private", seconds),
        };
        let immutable = if is_immutable { ", immutable" } else { "" };
        ours(&format!("{by}, max-age={seconds}{immutable}"))
    }
}

/// Answers with the Multivariant Playlist.
pub(super) fn index(text: String) -> Response {
    let headers = [
        (header::CONTENT_TYPE, PLAYLIST),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (headers, text).into_response()
}

/// Answers with a Media Playlist.
pub(super) fn playlist(text: &PlaylistText, keep: Keep, request: &HeaderMap) -> Response {
    let body = |is_gzip| match is_gzip {
        true => Body::from(text.gzip()),
        false => Body::from(text.plain.clone()),
    };
    media_playlist(&text.entity_tag, keep, request, body)
}

/// Answers with a Media Playlist of the past.
pub(super) fn recorded_playlist(text: PlaylistBody, keep: Keep, request: &HeaderMap) -> Response {
    let entity_tag = text.entity_tag();
    media_playlist(&entity_tag, keep, request, |is_gzip| {
        text.into_body(is_gzip)
    })
}

fn media_playlist(
    entity_tag: &str,
    keep: Keep,
    request: &HeaderMap,
    body: impl FnOnce(bool) -> Body,
) -> Response {
    let mut headers = HeaderMap::with_capacity(HEADERS);
    headers.insert(header::CACHE_CONTROL, keep.value(false));
    headers.insert(header::ETAG, ours(entity_tag));
    headers.append(header::VARY, HeaderValue::from_static("accept-encoding"));
    if has_already(request, entity_tag) {
        return not_modified(headers);
    }
    headers.insert(header::CONTENT_TYPE, PLAYLIST);
    let is_gzip = accepts_gzip(request);
    if is_gzip {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    found(headers, body(is_gzip))
}

fn found(headers: HeaderMap, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.headers_mut() = headers;
    response
}

fn not_modified(headers: HeaderMap) -> Response {
    let mut response = found(headers, Body::empty());
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    response
}

/// Answers with a file of a live stream.
pub(super) fn file(
    pieces: Pieces,
    kind: Kind,
    name: &str,
    keep: Keep,
    request: &HeaderMap,
) -> Response {
    let bytes: usize = pieces.iter().map(Bytes::len).sum();
    let body = match <[Bytes; 1]>::try_from(pieces) {
        Ok([whole]) => Body::from(whole),
        Err(pieces) => {
            let pieces = pieces.into_iter().map(Ok::<_, Infallible>);
            Body::from_stream(stream::iter(pieces))
        }
    };
    let media_type = match kind {
        Kind::Audio => "audio/mp4",
        _ => "video/mp4",
    };
    let file = FileBody {
        body,
        bytes: bytes as u64,
        media_type,
    };
    file.answer(name, keep, request)
}

/// Answers with a file of the past.
pub(super) fn recorded_file(
    body: Body,
    bytes: u64,
    name: &str,
    keep: Keep,
    request: &HeaderMap,
) -> Response {
    let file = FileBody {
        body,
        bytes,
        media_type: "video/mp4",
    };
    file.answer(name, keep, request)
}

struct FileBody {
    body: Body,
    bytes: u64,
    media_type: &'static str,
}

impl FileBody {
    fn answer(self, name: &str, keep: Keep, request: &HeaderMap) -> Response {
        let entity_tag = format!("\"{name}\"");
        let mut headers = HeaderMap::with_capacity(HEADERS);
        headers.insert(header::CACHE_CONTROL, keep.value(true));
        headers.insert(header::ETAG, ours(&entity_tag));
        if has_already(request, &entity_tag) {
            return not_modified(headers);
        }
        let media_type = HeaderValue::from_static(self.media_type);
        headers.insert(header::CONTENT_TYPE, media_type);
        headers.insert(header::CONTENT_LENGTH, self.bytes.into());
        found(headers, self.body)
    }
}

/// Lets caches keep an error for a second.
pub(super) fn kept_shortly(mut response: Response) -> Response {
    response.headers_mut().insert(header::CACHE_CONTROL, SHORT);
    response
}

fn ours(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).expect("ours is visible ASCII")
}

/// Returns whether the client takes gzip (RFC 9110 §12.5.3).
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let mut codings = list(headers, &header::ACCEPT_ENCODING);
    codings.any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let is_refused = matches!(weight.trim(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000");
        name.trim().eq_ignore_ascii_case("gzip") && !is_refused
    })
}

/// Returns whether the client has the entity with this tag (RFC 9110 §13.1.2).
fn has_already(headers: &HeaderMap, entity_tag: &str) -> bool {
    let opaque = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    list(headers, &header::IF_NONE_MATCH).any(|tag| opaque(tag) == opaque(entity_tag))
}

fn list<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let lines = headers.get_all(name).iter();
    lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(','))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_for_clients_that_take_it() {
        for (value, expected) in [
            ("gzip, deflate, br", true),
            ("br;q=1.0, GZIP;q=0.5", true),
            ("gzip;q=0", false),
            ("identity", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(value));
            assert_eq!(accepts_gzip(&headers), expected, "{value}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }
}
