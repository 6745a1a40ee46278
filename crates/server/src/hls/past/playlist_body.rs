//! The body of an answer with a playlist of the past, made while the client takes it.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Write as _};

use axum::body::Body;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::{FutureExt as _, stream};
use glassline_hls::RecordedText;
use glassline_runtime::{FairPlace, SourcePrefix};

/// A playlist for one client, which has a place among those who read what was recorded.
#[derive(Debug)]
pub(in super::super) struct PlaylistBody {
    text: RecordedText,
    place: FairPlace<SourcePrefix>,
}

/// The text that is still to be sent.
struct Rest {
    text: RecordedText,
    /// Absent where the client takes plain text, and behind the end.
    gzip: Option<GzEncoder<Vec<u8>>>,
}

impl PlaylistBody {
    pub(super) const fn new(text: RecordedText, place: FairPlace<SourcePrefix>) -> Self {
        Self { text, place }
    }

    /// Returns the entity tag that follows from the text.
    pub(in super::super) fn entity_tag(&self) -> String {
        let mut hasher = DefaultHasher::new();
        self.text.hash(&mut hasher);
        format!("W/\"{:016x}\"", hasher.finish())
    }

    /// Returns the body, compressed (RFC 1952) if `is_gzip`. It breaks off as soon as another address needs
    /// the place.
    pub(in super::super) fn into_body(self, is_gzip: bool) -> Body {
        let encoder = || GzEncoder::new(Vec::new(), Compression::fast());
        let rest = Rest {
            text: self.text,
            gzip: is_gzip.then(encoder),
        };
        let pieces = stream::unfold((rest, self.place), |(mut rest, place)| async {
            // Other requests have their turn between two pieces.
            tokio::task::yield_now().await;
            let piece = match place.displaced().now_or_never() {
                None => Ok(rest.next()?),
                Some(()) => Err(io::Error::other(
                    "another address needed the place, because this one has more of them",
                )),
            };
            Some((piece, (rest, place)))
        });
        Body::from_stream(pieces)
    }
}

impl Rest {
    fn next(&mut self) -> Option<Bytes> {
        let Some(encoder) = &mut self.gzip else {
            return self.text.next().map(Bytes::from);
        };
        for piece in self.text.by_ref() {
            // Writing to memory cannot fail.
            let _ = encoder.write_all(piece.as_bytes());
            let _ = encoder.flush();
            let compressed = std::mem::take(encoder.get_mut());
            if !compressed.is_empty() {
                return Some(compressed.into());
            }
        }
        let end = self.gzip.take()?.finish();
        Some(end.unwrap_or_default().into())
    }
}
