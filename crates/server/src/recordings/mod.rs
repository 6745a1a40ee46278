//! Recordings as a part of the server: the configuration's plan, metrics, and what operators and hooks
//! are told.
//!
//! ```text
//! hub ─ StreamEvent ─► watch ─► Recorders (crate recording) ─► files
//!                        ├─ each second: RecorderEvent ─► EventLog, hooks
//!                        └─ each minute: delays by stage ─► a row beside the files
//! ```

mod metrics;
mod stage_history;
mod watching;

use std::sync::{Arc, OnceLock};
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

/// Ending of the file that keeps which disk is at which path, beside what is made over the API. Which streams
/// are recorded over the API has a file beside this one.
const KNOWN_FILE: &str = "recordings.json";

/// The recordings of a server.
#[derive(Debug)]
pub(crate) struct Recording {
    parts: RecorderParts,
    /// The recorders, from the first configuration on that names a folder.
    recorders: OnceLock<Recorders>,
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
        let recording = Self {
            parts: RecorderParts {
                hub: Arc::clone(hub),
                clock,
                supervisor: Arc::clone(supervisor),
                known_file: state_file.map(|it| it.with_extension(KNOWN_FILE)),
            },
            recorders: OnceLock::new(),
        };
        recording.plan(config);
        recording
    }

    /// Returns what records; `None` while no folder is configured.
    pub(crate) fn recorders(&self) -> Option<&Recorders> {
        self.recorders.get()
    }

    /// Returns where recordings are found; `None` while no folder is configured.
    pub(crate) fn catalogue(&self) -> Option<&Catalogue> {
        self.recorders().map(Recorders::catalogue)
    }

    fn plan(&self, config: &Config) {
        let plan = config.recording_plan();
        if self.recorders().is_none() && !plan.folders.is_empty() {
            match Recorders::start(self.parts.clone()) {
                // One configuration is put in force after the other.
                Ok(recorders) => drop(self.recorders.set(recorders)),
                Err(error) => tracing::error!(%error, "nothing can be recorded"),
            }
        }
        let planned = self.recorders().map(|it| it.set_plan(plan));
        if let Some(Err(error)) = planned {
            tracing::error!(%error, "recordings: a folder has no thread");
        }
    }
}

impl Service for Recording {
    fn name(&self) -> &'static str {
        "recording"
    }

    fn metrics(&self, text: &mut String) {
        if let Some(recorders) = self.recorders() {
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
        if let Some(recorders) = self.recorders() {
            recorders.stop(GRACE);
        }
    }
}
