//! The document and its page as they are served: `/openapi.json` and `/api`.

use std::sync::OnceLock;

use axum::http::{HeaderName, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value};

use super::super::pages;
use super::{Operation, Routes};

/// Returns the routes of the document, of the page that shows it, and of the page's files.
pub(in super::super) fn routes() -> Routes {
    Routes::default()
        .get(
            "/openapi.json",
            Operation::new("getDocument", "Describes everything that this port serves").json::<Map<
                String,
                Value,
            >>(
                200
            ),
            document,
        )
        .get(
            "/api",
            Operation::new("getApiPage", "Shows this document as a page").plain(
                200,
                "text/html",
                "The page",
            ),
            pages::api,
        )
        .get(
            "/-/{name}",
            Operation::new(
                "getPageFile",
                "Returns a script, style sheet or icon of a page",
            )
            .plain(200, "*/*", "The file")
            .problem(404, "No page has such a file")
            .for_everybody(),
            pages::asset,
        )
}

async fn document() -> Response {
    static DOCUMENT: OnceLock<String> = OnceLock::new();
    let text = DOCUMENT.get_or_init(|| super::super::of_operators().document().to_string());
    let headers: [(HeaderName, &str); 3] = [
        (header::CONTENT_TYPE, "application/json"),
        (header::CACHE_CONTROL, "no-cache"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, text.as_str()).into_response()
}
