//! `/api/v1/files`: the files of the media folder, which play when somebody asks for them.

use axum::extract::State;
use axum::{Extension, Json};
use serde::Serialize;

use super::Reader;
use crate::app::App;

#[derive(Debug, Serialize)]
pub(super) struct Files {
    files: Vec<FileView>,
    /// Whether the folder has more files than the list.
    more: bool,
}

#[derive(Debug, Serialize)]
struct FileView {
    /// Path below the folder, which is the name of the stream.
    name: String,
    /// Whether the file has a page, `/NAME`: files of the folder itself do.
    page: bool,
}

/// Returns the files that the client may read; none without `rtsp.media_folder`.
pub(super) async fn files(
    State(app): State<App>,
    reader: Option<Extension<Reader>>,
) -> Json<Files> {
    let Some(library) = &app.library else {
        return Json(Files {
            files: Vec::new(),
            more: false,
        });
    };
    let listing = library.list().await;
    let is_seen = |name: &&String| reader.as_ref().is_none_or(|reader| reader.sees(name));
    let files = listing.names.iter().filter(is_seen).map(|name| FileView {
        name: name.clone(),
        page: !name.contains('/'),
    });
    Json(Files {
        files: files.collect(),
        more: listing.is_cut,
    })
}
