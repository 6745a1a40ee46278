//! What every part of the server stands on.

use std::sync::Arc;

use glassline_config::Config;
use glassline_events::EventLog;
use glassline_events::failures::Failures;
use glassline_hub::Hub;
use glassline_latency::FrameCodes;
use glassline_latency::LatencyRegistry;
use glassline_runtime::{Clock, Part, Supervisor};
use glassline_service::metrics::LOG;
use tokio::sync::watch;

use super::StartError;

/// Clock, supervisor and hub, and where the parts note what happens to them.
#[derive(Debug)]
pub(super) struct Foundation {
    pub(super) clock: Clock,
    /// Watches the threads and tasks of the server.
    pub(super) supervisor: Arc<Supervisor>,
    pub(super) hub: Arc<Hub>,
    /// The connections that failed.
    pub(super) failures: Arc<Failures>,
    /// The events of the server and its streams.
    pub(super) events: Arc<EventLog>,
    pub(super) latencies: Arc<LatencyRegistry>,
    /// How to read the numbers in the frames of streams.
    pub(super) codes: FrameCodes,
    /// Ends the tasks of the server when it becomes true.
    pub(super) stop: watch::Sender<bool>,
    pub(super) stopped: watch::Receiver<bool>,
}

impl Foundation {
    /// # Errors
    /// Returns [`StartError`] if the system has no thread for the supervisor.
    pub(super) fn start(config: &Config) -> Result<Self, StartError> {
        let clock = Clock::start();
        let supervisor = Supervisor::start()?;
        if LOG.turns.get() > 0 {
            supervisor.register_counted(Part::Log, "log", &LOG.turns);
        }
        let (stop, stopped) = watch::channel(false);
        let hub = Hub::new(config.limits.hub());
        hub.set_ladder(config.transcoding.ladder);
        Ok(Self {
            clock,
            supervisor,
            hub: Arc::new(hub),
            failures: Arc::default(),
            events: Arc::default(),
            latencies: Arc::default(),
            codes: FrameCodes::default(),
            stop,
            stopped,
        })
    }
}
