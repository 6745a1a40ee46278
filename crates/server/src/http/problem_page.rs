//! Errors for browsers: whoever opens an address gets a page in place of JSON.
//!
//! A browser that navigates accepts `text/html`; programs, and the scripts of pages, do not, and get
//! [problems](super::problem). Below `/api/` everybody gets JSON, as with all answers there.

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::Response;
use glassline_runtime::is_deceptive;

use super::pages;
use super::problem::Refusal;

/// The page, with places for title and text.
const PAGE: &str = include_str!("../../assets/problem.html");

/// Replaces the JSON of errors in answers to browsers.
pub(super) async fn for_browsers(request: Request, next: Next) -> Response {
    let is_for_page = wants_page(&request);
    shown(is_for_page, next.run(request).await)
}

/// Returns whether a browser that navigates asks.
pub(super) fn wants_page<B>(request: &Request<B>) -> bool {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let is_of_api = request.uri().path().starts_with("/api/");
    is_read && !is_of_api && accepts_pages(request.headers())
}

/// Returns the answer to a request, of which an error is a page if `is_for_page`.
pub(super) fn shown(is_for_page: bool, response: Response) -> Response {
    let refusal = response.extensions().get::<Refusal>();
    match refusal.filter(|_| is_for_page).cloned() {
        Some(refusal) => page_of(&refusal, response),
        None => response,
    }
}

fn accepts_pages(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT);
    accepted.is_some_and(|it| it.to_str().is_ok_and(|it| it.contains("text/html")))
}

/// Returns `response` with a page in place of its body.
fn page_of(refusal: &Refusal, response: Response) -> Response {
    let text = match &refusal.remedy {
        Some(remedy) => format!("{}. To do: {remedy}", refusal.detail),
        None => refusal.detail.clone(),
    };
    let page = PAGE
        .replace("{{title}}", &escaped(refusal.title))
        .replace("{{detail}}", &escaped(&text.replace('`', "")));
    let (mut parts, _) = response.into_parts();
    parts.headers.remove(header::CONTENT_LENGTH);
    for (name, value) in pages::headers_of_page() {
        // The answer says already that nobody keeps it.
        if name != header::CACHE_CONTROL {
            parts.headers.insert(name, HeaderValue::from_static(value));
        }
    }
    let vary = HeaderValue::from_static("Accept");
    parts.headers.append(header::VARY, vary);
    Response::from_parts(parts, Body::from(page))
}

/// Returns `text` as HTML that shows it. Strangers have a part in it.
fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            it if is_deceptive(it) => html.push(char::REPLACEMENT_CHARACTER),
            it => html.push(it),
        }
    }
    html
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse as _;

    use super::super::problem::Problem;
    use super::*;

    #[tokio::test]
    async fn a_page_shows_what_strangers_wrote_as_text() {
        let problem = Problem::bad_request("<script> in a `name`: \u{202e} \"x\" & y");
        let problem = problem.with("remedy", "choose another one").into_response();
        let refusal = problem.extensions().get::<Refusal>().cloned();
        let page = page_of(&refusal.expect("an error"), problem);
        assert_eq!(page.status(), 400);
        assert_eq!(page.headers()[header::CONTENT_TYPE], pages::HTML);
        assert_eq!(page.headers()[header::CACHE_CONTROL], "no-store");
        let body = axum::body::to_bytes(page.into_body(), 1 << 16).await;
        let page = String::from_utf8(body.expect("short").to_vec()).expect("text");
        let shown =
            "&lt;script&gt; in a name: \u{fffd} &quot;x&quot; &amp; y. To do: choose another one";
        assert!(page.contains(shown), "{page}");
        assert!(page.contains("<h1>Bad request</h1>") && page.contains("href=\"/\""));
        assert!(!page.contains("<script>"));
    }

    #[test]
    fn a_browser_that_navigates_is_no_program() {
        for (accept, expected) in [
            ("text/html,application/xhtml+xml,*/*;q=0.8", true),
            ("*/*", false),
            ("application/sdp", false),
        ] {
            let value = HeaderValue::from_static(accept);
            let headers = HeaderMap::from_iter([(header::ACCEPT, value)]);
            assert_eq!(accepts_pages(&headers), expected, "{accept}");
        }
        assert!(!accepts_pages(&HeaderMap::new()));
    }
}
