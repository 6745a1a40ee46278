//! Where a redirection leads.

use url::Url;

use crate::message::{Method, Request, Response};

/// Returns the absolute URL of the presentation that a response to `request` redirects to; empty if
/// it names none. `presentation` is the URL that the client asked to describe.
///
/// A response to SETUP may name the track's URL, as the request did: what the request had behind the
/// presentation's URL is then removed from the target.
pub(super) fn target(request: &Request, response: &Response, presentation: &str) -> String {
    let location = response.headers.get("Location").unwrap_or_default();
    let mut target = absolute(location, &request.uri);
    if request.method == Method::Setup
        && let Some(track) = request.uri.strip_prefix(presentation)
        && let Some(length) = target.strip_suffix(track).map(str::len)
    {
        target.truncate(length);
    }
    target
}

/// Returns `location` as an absolute URL (RFC 3986 §5); empty if it is empty. What cannot be resolved
/// stays as it is.
pub(super) fn absolute(location: &str, base: &str) -> String {
    let location = location.trim();
    if location.is_empty() {
        return String::new();
    }
    let resolved = Url::parse(base).and_then(|base| base.join(location));
    resolved.map_or_else(|_| location.to_owned(), String::from)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::message::Status;

    const URL: &str = "rtsp://camera:8554/live/main?channel=1";

    fn leads(method: Method, uri: &str, location: &str) -> String {
        let request = Request::new(method, uri, 3);
        let mut response = Response::to(&request, Status(302));
        response.headers.push("Location", location);
        target(&request, &response, URL)
    }

    #[test]
    fn a_location_is_absolute_or_relative_to_the_request() {
        for (location, wanted) in [
            ("rtsp://other/x?y=1", "rtsp://other/x?y=1"),
            (" rtsps://other:322/x ", "rtsps://other:322/x"),
            ("/x", "rtsp://camera:8554/x"),
            ("sub", "rtsp://camera:8554/live/sub"),
            ("../sub?a", "rtsp://camera:8554/sub?a"),
            ("//other/x", "rtsp://other/x"),
            ("?channel=2", "rtsp://camera:8554/live/main?channel=2"),
            ("rtsp://u:p@[::1]/x", "rtsp://u:p@[::1]/x"),
            ("", ""),
        ] {
            assert_eq!(leads(Method::Describe, URL, location), wanted, "{location}");
        }
    }

    #[test]
    fn a_redirected_track_leads_to_its_presentation() {
        let track = format!("{URL}/trackID=0");
        for location in ["rtsp://other/x/trackID=0", "rtsp://other/x"] {
            assert_eq!(leads(Method::Setup, &track, location), "rtsp://other/x");
        }
        let kept = leads(Method::Describe, URL, "rtsp://other/x/trackID=0");
        assert_eq!(kept, "rtsp://other/x/trackID=0");
    }

    proptest! {
        #[test]
        fn no_location_panics(location in "\\PC{0,40}", base in "(rtsp://)?[a-z/:@?%]{0,20}") {
            let request = Request::new(Method::Setup, &base, 1);
            let mut response = Response::to(&request, Status(301));
            response.headers.push("Location", &location);
            target(&request, &response, &base);
        }
    }
}
