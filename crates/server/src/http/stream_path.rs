//! Names with folders in paths: `/site/cam1/whep` and `/site%2Fcam1/whep` are one path.
//!
//! ```text
//!  /site/cam1/whep/SESSION ─ fold ─► /site%2Fcam1/whep/SESSION ─► route /{stream}/whep/{session}
//! ```
//!
//! Routes take a name as one segment, so its slashes are encoded in front of them. Answers write a name
//! with plain slashes, which proxies hand on as they are. Where a name ends is the rule of
//! [`stream_names`].

use std::borrow::Cow;
use std::fmt::Write as _;

use axum::Router;
use axum::extract::Request;
use axum::http::Uri;
use axum::http::uri::PathAndQuery;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use glassline_ingest::stream_names::{self, RESERVED};

/// An encoded slash.
const SLASH: &str = "%2F";

/// Paths below which a name follows.
const OF_NAMES: [&str; 2] = ["/api/v1/streams/", "/api/v1/sources/"];

/// Folds the paths of requests in front of `router`.
pub(super) fn in_front_of(router: Router) -> Router {
    // A layer of the router itself would run after the route is chosen.
    Router::new().fallback_service(router).layer(from_fn(apply))
}

async fn apply(mut request: Request, next: Next) -> Response {
    if let Some(folded) = folded(request.uri()) {
        *request.uri_mut() = folded;
    }
    next.run(request).await
}

/// Returns the URI with a name in its path as one segment; `None` if it is that already.
pub(super) fn folded(uri: &Uri) -> Option<Uri> {
    let path = fold(uri.path())?;
    let whole = match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path,
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(whole.parse::<PathAndQuery>().ok()?);
    Uri::from_parts(parts).ok()
}

/// Returns `path` as its client may write it: with plain slashes in names.
pub(super) fn unfold(path: &str) -> Cow<'_, str> {
    match path.contains(SLASH) {
        true => path.replace(SLASH, "/").into(),
        false => path.into(),
    }
}

/// Writes a name as a part of a URL's path: all but unreserved characters are percent-encoded (RFC 3986
/// §2.1, §2.3). Slashes stay as they are, unless the name is that of a file whose path would be read as
/// that of a route.
pub(super) fn name_in_path(name: &str) -> String {
    let keeps_slashes = stream_names::stands_in_paths(name);
    let mut written = String::with_capacity(name.len());
    for byte in name.bytes() {
        let is_kept = byte == b'/' && keeps_slashes;
        if is_kept || byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            written.push(char::from(byte));
        } else {
            let _ = write!(written, "%{byte:02X}");
        }
    }
    written
}

fn fold(path: &str) -> Option<String> {
    let below = OF_NAMES
        .iter()
        .find_map(|it| path.strip_prefix(it).map(|below| (*it, below)));
    let (before, below) = match below {
        Some(found) => found,
        None => ("/", path.strip_prefix('/')?),
    };
    let first = below.split('/').next().unwrap_or_default();
    // Files of pages, and routes of their own.
    let is_route = before == "/" && (first.starts_with(['-', '.']) || RESERVED.contains(&first));
    let segments: Vec<&str> = below.split('/').collect();
    let (name, rest) = segments.split_at(stream_names::below(segments.iter().copied()));
    if is_route || name.len() < 2 {
        return None;
    }
    let name = name.join(SLASH);
    let rest = rest.iter().map(|it| format!("/{it}"));
    Some(format!("{before}{name}{}", rest.collect::<String>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_part_of_a_path() {
        assert_eq!(name_in_path("cam-1.a_b~c"), "cam-1.a_b~c");
        assert_eq!(name_in_path("site/cam1"), "site/cam1");
        assert_eq!(name_in_path("films/a ä?.ogg"), "films/a%20%C3%A4%3F.ogg");
        assert_eq!(name_in_path("films/whep/a.ogg"), "films%2Fwhep%2Fa.ogg");
        assert_eq!(name_in_path("api/a.ogg"), "api%2Fa.ogg");
    }

    #[test]
    fn a_name_with_folders_is_one_segment() {
        for (path, expected) in [
            ("/site/cam1", "/site%2Fcam1"),
            ("/site/cam1/whep", "/site%2Fcam1/whep"),
            ("/a/b/c/whip/id/report", "/a%2Fb%2Fc/whip/id/report"),
            ("/films/c%20d.mkv/whep", "/films%2Fc%20d.mkv/whep"),
            ("/site%2Fcam1/hall/publish", "/site%2Fcam1%2Fhall/publish"),
            ("/api/v1/streams/site/cam1", "/api/v1/streams/site%2Fcam1"),
            (
                "/api/v1/streams/site/cam1/latency",
                "/api/v1/streams/site%2Fcam1/latency",
            ),
            (
                "/api/v1/sources/site/cam1/restart",
                "/api/v1/sources/site%2Fcam1/restart",
            ),
            // The page of an impossible name says why.
            ("/demo/", "/demo%2F"),
            ("/a//b", "/a%2F%2Fb"),
            ("/a/../b", "/a%2F..%2Fb"),
        ] {
            assert_eq!(fold(path).as_deref(), Some(expected), "{path}");
        }
        for path in [
            "/",
            "/cam",
            "/cam/whep",
            "/cam/whep/id/clock",
            "/whep/whep/id",
            "/whip/id/failure",
            "/call/team/id/hear/a/b",
            "/-/wall",
            "/.well-known/acme-challenge/token",
            "/api/v1/streams",
            "/api/v1/streams/cam/latency",
            "/api/v1/users/ann",
            "/readyz",
            "/site%2Fcam1/whep",
        ] {
            assert_eq!(fold(path), None, "{path}");
        }
        assert_eq!(unfold("/site%2Fcam1/whep/id"), "/site/cam1/whep/id");
        let uri: Uri = "https://h:8443/site/cam1?token=a/b".parse().expect("a URI");
        let folded = folded(&uri).map(|it| it.to_string());
        let expected = "https://h:8443/site%2Fcam1?token=a/b";
        assert_eq!(folded.as_deref(), Some(expected));
    }
}
