//! The layer that a client names in its URL: `rtsp://HOST/cam?layer=sub`.

use std::sync::Arc;

use glassline_hub::{LayerWish, Stream};
use glassline_ingest::LayerStreams;
use glassline_rtsp::server::Refusal;

/// The layer of a URL, as it is written; none for the best one.
#[derive(Clone, Debug, Default)]
pub(super) struct WishedLayer(Option<Box<str>>);

impl WishedLayer {
    /// Reads the query of a URL.
    pub(super) fn of(query: Option<&str>) -> Self {
        let mut pairs = url::form_urlencoded::parse(query.unwrap_or_default().as_bytes());
        let named = pairs.find(|(name, _)| name == "layer");
        Self(named.map(|(_, value)| value.into()))
    }

    /// Returns the layer as it is written.
    pub(super) fn text(&self) -> Option<&str> {
        self.0.as_deref()
    }

    /// Returns the stream that the client plays: `stream`, or that of its layer.
    ///
    /// # Errors
    /// Returns the refusal for a layer that is not there; the log has the layers that are.
    pub(super) fn stream(
        &self,
        streams: &LayerStreams,
        stream: Arc<Stream>,
    ) -> Result<Arc<Stream>, Refusal> {
        let Some(text) = &self.0 else {
            return Ok(stream);
        };
        let refused = |why: &dyn std::fmt::Display| {
            tracing::warn!(stream = %stream.name(), "an RTSP client gets no stream: {why}");
            Refusal::NotFound
        };
        let wish = text.parse::<LayerWish>();
        let wish = wish.map_err(|error| refused(&error))?;
        let of_layer = streams.of(&stream, &wish);
        of_layer.map_err(|error| refused(&error))
    }
}
