//! `/api/v1/files`: the files of the media folder, which play when somebody asks for them.

use axum::extract::State;
use axum::{Extension, Json};
use glassline_access::auth::Pattern;
use glassline_ingest::stream_names;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::extract::Query;
use super::super::paging::{Extent, Page};
use super::Reader;
use crate::app::App;

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Files {
    files: Vec<FileView>,
    /// Whether the folder has more files than the list.
    more: bool,
    #[serde(flatten)]
    extent: Extent,
}

/// Filter of the list of files.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct FileFilter {
    /// Lists only files whose names fit the pattern, like `cam*` or `site/**`.
    name: Option<Pattern>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct FileView {
    /// Path below the folder, which is the name of the stream.
    name: String,
    /// Whether the file has a page, `/NAME`: all but those in a folder called like a path of the server.
    page: bool,
    /// The reason why the file is not played, and how to convert it: its format is not read, or it was
    /// broken when it was last read. Absent for a file against which nothing is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
}

/// Returns the files that the client may read; none without `rtsp.media_folder`.
pub(super) async fn files(
    State(app): State<App>,
    reader: Option<Extension<Reader>>,
    Query(filter): Query<FileFilter>,
    page: Page,
) -> Json<Files> {
    let mut names = Vec::new();
    let mut more = false;
    if let Some(library) = &app.library {
        let listing = library.list().await;
        names.extend(listing.names.iter().cloned());
        more = listing.is_cut;
    }
    names.retain(|name| {
        reader.as_ref().is_none_or(|reader| reader.sees(name))
            && filter.name.as_ref().is_none_or(|it| it.matches(name))
    });
    let (names, extent) = page.of(names);
    let files = names.into_iter().map(|name| FileView {
        page: stream_names::stands_in_paths(&name),
        refused: app.library.as_ref().and_then(|it| it.refusal(&name)),
        name,
    });
    Json(Files {
        files: files.collect(),
        more,
        extent,
    })
}
