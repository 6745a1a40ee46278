//! The streams that are measured.

use std::path::Path;

/// A stream by name.
#[derive(Clone, Debug)]
pub(crate) struct Media {
    /// Name in tables, and of the stream on the server.
    pub(crate) name: &'static str,
    /// Description of the stream for people, in a few words.
    pub(crate) about: &'static str,
    /// Right side of `--source NAME=`.
    pub(crate) source: String,
}

/// The stream of `glassline demo`.
pub(crate) fn demo() -> Media {
    Media {
        name: "demo",
        about: "built in: 1280x720, 30 frames/s, 1.2 Mbit/s, Opus",
        source: "demo".to_owned(),
    }
}

/// The demo's audio alone: joining it transfers almost no media.
pub(crate) fn audio() -> Media {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/demo.ogg");
    Media {
        name: "audio",
        about: "Opus only",
        source: file.display().to_string(),
    }
}
