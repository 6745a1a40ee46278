use std::sync::Arc;

/// Why a file cannot be played, shared by all who ask for it.
#[derive(Clone, Debug, thiserror::Error)]
#[error("media file '{name}': {reason}")]
pub struct Error {
    /// As it was asked for.
    pub name: String,
    /// What is wrong, and where.
    #[source]
    pub reason: Arc<glassline_demux::Error>,
}
