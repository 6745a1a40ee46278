//! Recordings as a part of the server: the configuration's plan, metrics, and what operators and hooks
//! are told.
//!
//! ```text
//! hub ─ StreamEvent ─► watch ─► Recorders (crate recording) ─► files
//!                        ├─ each second: RecorderEvent ─► EventLog, hooks
//!                        └─ each minute: delays by stage ─► a row beside the files
//! catalogue ─ closed files ─► copy ─► object storage ◄─ ranges ─ playback
//! ```

mod copying;
mod metrics;
mod stage_history;
mod watching;

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use glassline_config::Config;
use glassline_hub::Hub;
use glassline_recording::{Catalogue, Plan, RecorderParts, Recorders};
use glassline_runtime::{Clock, Supervisor};
use glassline_service::settings::AllowedConnections;
use glassline_service::{Departing, NamedViewer, NotEnded, Service, ViewerFigures};

use copying::Copying;
pub use copying::{CopyFigures, copy};
pub use watching::watch;

/// Longest time for which the end of the server waits for disks.
const GRACE: Duration = Duration::from_secs(4);

/// Ending of the file that keeps which disk is at which path, beside what is made over the API. Which streams
/// are recorded over the API has a file beside this one.
const KNOWN_FILE: &str = "recordings.json";

/// The recordings of a server.
#[derive(Debug)]
pub struct Recording {
    parts: RecorderParts,
    /// The recorders, from the first configuration on that names a folder.
    recorders: OnceLock<Recorders>,
    /// The storage that gets copies; `None` while none is configured.
    copying: tokio::sync::watch::Sender<Option<Arc<Copying>>>,
}

impl Recording {
    /// Starts what records, as the configuration says.
    pub fn start(
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
            copying: tokio::sync::watch::Sender::default(),
        };
        recording.plan(config);
        recording
    }

    /// Returns what records; `None` while no folder is configured.
    pub fn recorders(&self) -> Option<&Recorders> {
        self.recorders.get()
    }

    /// Returns where recordings are found; `None` while no folder is configured.
    pub fn catalogue(&self) -> Option<&Catalogue> {
        self.recorders().map(Recorders::catalogue)
    }

    /// Returns the figures of the copies; `None` while no storage is configured.
    pub fn copies(&self) -> Option<CopyFigures> {
        let copying = self.copying.borrow().clone();
        copying.map(|it| it.figures())
    }

    /// Puts the storage of a configuration in force. Copies under way go on if the storage stays.
    fn set_copying(&self, config: &Config, plan: &Plan) {
        let catalogue = self.catalogue();
        let wanted = catalogue.zip(config.recordings.copy.as_ref());
        let current = self.copying.borrow().clone();
        let copying = match (wanted, current) {
            (None, None) => return,
            (Some((_, copy)), Some(current)) if current.is_of(copy) => {
                return current.set_plan(plan.clone());
            }
            (Some((catalogue, copy)), _) => Copying::new(catalogue, copy, plan.clone())
                .inspect_err(|error| tracing::error!(%error, "recordings are not copied"))
                .ok(),
            (None, _) => None,
        };
        let copying = copying.map(Arc::new);
        if let Some(catalogue) = catalogue {
            catalogue.set_copies(copying.as_ref().map(|it| it.copies()));
        }
        self.copying.send_replace(copying);
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
        self.set_copying(config, &plan);
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
        if let Some(copies) = self.copies() {
            metrics::of_copies(&copies, text);
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
