use std::sync::Arc;

use glassline_demux as demux;

/// The reason why a file cannot be played, shared by all clients that ask for the file.
#[derive(Clone, Debug, thiserror::Error)]
#[error("media file '{name}': {reason}")]
pub struct Error {
    /// Name of the file as the client gave it.
    pub name: String,
    /// The fault of the file and the byte where it is; or a mistake of the server with the file.
    #[source]
    pub reason: Arc<dyn std::error::Error + Send + Sync>,
}

impl Error {
    /// Returns what clients are told: the reason without paths of this machine.
    pub fn for_clients(&self) -> String {
        match self.reason.downcast_ref::<demux::Error>() {
            Some(error) => told(error),
            None => "the server failed while reading it; its log has the reason".to_owned(),
        }
    }
}

fn told(error: &demux::Error) -> String {
    match error.offset {
        Some(offset) => format!("byte {offset}: {}", error.reason),
        None => error.reason.to_string(),
    }
}
