use std::sync::Arc;

/// The reason why a file cannot be played, shared by all clients that ask for the file.
#[derive(Clone, Debug, thiserror::Error)]
#[error("media file '{name}': {reason}")]
pub struct Error {
    /// Name of the file as the client gave it.
    pub name: String,
    /// What is wrong with the file, and at which byte; or that the server made a mistake with it.
    #[source]
    pub reason: Arc<dyn std::error::Error + Send + Sync>,
}
