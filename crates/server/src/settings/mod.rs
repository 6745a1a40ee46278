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

pub(crate) use allowed_connections::AllowedConnections;
pub(crate) use history::{History, Outcome, RecordedReload, Reload};
pub(crate) use requests::{Cause, Requests};

use glassline_config::Config;
use glassline_runtime::Current;

/// The configuration in force.
#[derive(Debug)]
pub(crate) struct Settings {
    /// Keys that a reload cannot change have the values of the start.
    pub(crate) config: Current<Config>,
    pub(crate) requests: Requests,
    pub(crate) history: History,
}

impl Settings {
    pub(crate) fn new(config: Config) -> Self {
        Self {
            config: Current::new(config),
            requests: Requests::default(),
            history: History::default(),
        }
    }
}
