//! The configuration in force, and how it came to be: requests to read it again, and what became of
//! them.
//!
//! ```text
//! SIGHUP, POST /api/v1/reloads ─► Requests ─► reload ─┬► Settings::config, whole
//!                                                     └► History ─► API, metrics
//! ```

mod allowed_connections;
mod history;
mod requests;

pub use allowed_connections::AllowedConnections;
pub use history::{History, Outcome, RecordedReload, Reload};
pub use requests::{Cause, Requests};

use glassline_config::Config;
use glassline_runtime::Current;

/// The configuration in force.
#[derive(Debug)]
pub struct Settings {
    /// Keys that a reload cannot change have the values of the start.
    pub config: Current<Config>,
    /// Requests to read the configuration again.
    pub requests: Requests,
    /// The latest reloads and their outcomes.
    pub history: History,
}

impl Settings {
    /// Puts the configuration of the start in force.
    pub fn new(config: Config) -> Self {
        Self {
            config: Current::new(config),
            requests: Requests::default(),
            history: History::default(),
        }
    }
}
