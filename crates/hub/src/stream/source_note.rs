//! The note of a source about itself, for people and the API.

/// The note of a source about itself. The hub only keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceNote {
    /// Protocol of the media: `whip`, `rtsp`, `camera`, `moq` or `file`.
    pub protocol: &'static str,
    /// The tracks of the source that are not published, each with the reason.
    pub left_out: Vec<String>,
}
