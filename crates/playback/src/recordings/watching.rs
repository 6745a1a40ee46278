//! Feeds the recorders with what happens to streams, and tells operators and hooks what happens to
//! recordings.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_events::hooks::{self, Inbox};
use glassline_events::{Event, EventKind, EventLog, Severity};
use glassline_hub::{Hub, StreamEvent};
use glassline_latency::LatencyRegistry;
use glassline_recording::{RecorderEvent, RecorderEventKind as Kind, Recorders};
use glassline_runtime::{HubEvents, calendar};
use glassline_service::Services;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use super::Recording;
use super::stage_history::StageHistory;

/// Interval at which recordings and folders are looked at.
const INTERVAL: Duration = Duration::from_millis(500);

/// Feeds the recorders until `stopped` becomes true.
pub async fn watch(
    services: Services,
    hub: Arc<Hub>,
    latencies: Arc<LatencyRegistry>,
    log: Arc<EventLog>,
    inbox: Arc<Inbox>,
    mut stopped: watch::Receiver<bool>,
) {
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut happens = None;
    let mut history = StageHistory::new(latencies, Arc::clone(&hub));
    loop {
        let happened = tokio::select! {
            happened = next(&mut happens) => happened,
            _ = ticks.tick() => Vec::new(),
            _ = stopped.wait_for(|stop| *stop) => return,
        };
        let recorders = services.get::<Recording>().and_then(Recording::recorders);
        // Without a folder nobody reads what happens to streams.
        if let Some(recorders) = recorders {
            happens.get_or_insert_with(|| HubEvents::new(&hub));
            recorders.observe(&happened);
            look(recorders, &log, &inbox);
            if let Some(write) = history.look(recorders, Instant::now(), calendar::now()) {
                // The disk may hang: nobody waits for it.
                tokio::spawn(write);
            }
        }
    }
}

/// Waits for the next events; forever without a reader.
async fn next(events: &mut Option<HubEvents>) -> Vec<StreamEvent> {
    match events {
        Some(events) => events.next().await,
        None => std::future::pending().await,
    }
}

fn look(recorders: &Recorders, log: &EventLog, inbox: &Inbox) {
    for happened in recorders.tick() {
        if let Some(kind) = of_hooks(happened.kind) {
            inbox.push(kind, &happened.subject, happened.reason.clone());
        }
        log.note(of_operators(happened), Instant::now(), calendar::now());
    }
}

/// Returns the kind of an event that hooks are told; `None` for one of a folder.
const fn of_hooks(kind: Kind) -> Option<hooks::EventKind> {
    match kind {
        Kind::Started => Some(hooks::EventKind::RecordingStarted),
        Kind::Stopped => Some(hooks::EventKind::RecordingStopped),
        Kind::Losing => Some(hooks::EventKind::RecordingFailed),
        Kind::GoesOn => Some(hooks::EventKind::RecordingResumed),
        _ => None,
    }
}

/// Returns an event as operators read it.
fn of_operators(happened: RecorderEvent) -> Event {
    let (severity, text) = match happened.kind {
        Kind::Started => (Severity::Neutral, "is recorded"),
        Kind::Stopped => (Severity::Neutral, "is not recorded any more"),
        Kind::Losing => (Severity::Bad, "loses frames of its recording"),
        Kind::GoesOn => (Severity::Good, "is recorded again"),
        Kind::DiskBusy => (Severity::Bad, "has a disk that is nearly too slow"),
        Kind::DiskCalm => (Severity::Good, "has a disk that is fast enough again"),
        Kind::FolderFailed => (Severity::Bad, "takes no recordings"),
        Kind::FolderBack => (Severity::Good, "takes recordings again"),
        Kind::FolderSwapped => (Severity::Bad, "is another folder of recordings than before"),
    };
    Event {
        kind: EventKind::Recording,
        severity,
        subject: happened.subject,
        text: text.to_owned(),
        reason: happened.reason,
    }
}
