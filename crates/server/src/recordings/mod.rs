//! Recordings as a part of the server: the configuration's plan, metrics, and what operators and hooks
//! are told.
//!
//! ```text
//! hub ─ StreamEvent ─► watch ─► Recorders (crate recording) ─► files
//!                        └─ each second: RecorderEvent ─► EventLog, hooks
//! ```

mod metrics;
mod watching;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use glassline_hub::Hub;
use glassline_recording::{Catalogue, RecorderParts, Recorders};
use glassline_runtime::{Clock, Supervisor};

use crate::config::Config;
use crate::service::{Departing, NamedViewer, NotEnded, Service, ViewerFigures};
use crate::settings::AllowedConnections;

pub(crate) use watching::watch;

/// Longest time for which the end of the server waits for disks.
const GRACE: Duration = Duration::from_secs(4);

/// Name of the file that keeps which disk is at which path, beside what is made over the API.
const KNOWN_FILE: &str = "recordings.json";

/// The recordings of a server.
#[derive(Debug)]
pub(crate) struct Recording {
    /// The recorders; `None` if the system had no thread for them at the start.
    recorders: Option<Recorders>,
}

impl Recording {
    /// Starts what records, as the configuration says.
    pub(crate) fn start(
        config: &Config,
        hub: &Arc<Hub>,
        clock: Clock,
        supervisor: &Arc<Supervisor>,
    ) -> Self {
        let state_file = config.admin.state_file.as_deref();
        let known_file = state_file.and_then(Path::parent);
        let started = Recorders::start(RecorderParts {
            hub: Arc::clone(hub),
            clock,
            supervisor: Arc::clone(supervisor),
            known_file: known_file.map(|it| it.join(KNOWN_FILE)),
        });
        let recording = Self {
            recorders: started
                .inspect_err(|error| tracing::error!(%error, "nothing can be recorded"))
                .ok(),
        };
        recording.plan(config);
        recording
    }

    /// Returns what records; `None` if that could not be started.
    pub(crate) const fn recorders(&self) -> Option<&Recorders> {
        self.recorders.as_ref()
    }

    /// Returns where recordings are found; `None` if nothing can be recorded.
    pub(crate) fn catalogue(&self) -> Option<&Catalogue> {
        self.recorders.as_ref().map(Recorders::catalogue)
    }

    fn plan(&self, config: &Config) {
        let planned = self.recorders.iter();
        for planned in planned.map(|it| it.set_plan(config.recordings.plan())) {
            if let Err(error) = planned {
                tracing::error!(%error, "recordings: a folder has no thread");
            }
        }
    }
}

impl Service for Recording {
    fn name(&self) -> &'static str {
        "recording"
    }

    fn metrics(&self, text: &mut String) {
        if let Some(recorders) = &self.recorders {
            metrics::write(recorders, text);
        }
    }

    fn heed(&self, config: &Config, _: &AllowedConnections) {
        self.plan(config);
    }

    fn viewers(&self, _: Instant) -> BoxFuture<'_, Vec<ViewerFigures>> {
        async { Vec::new() }.boxed()
    }

    fn disconnect<'a>(&'a self, _: &'a NamedViewer) -> BoxFuture<'a, Result<(), NotEnded>> {
        async { Err(NotEnded::Unknown) }.boxed()
    }

    fn departing(self: Arc<Self>) -> BoxFuture<'static, Vec<Departing>> {
        async { Vec::new() }.boxed()
    }

    fn stop(&self) {
        if let Some(recorders) = &self.recorders {
            recorders.stop(GRACE);
        }
    }
}
