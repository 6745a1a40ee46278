use std::sync::Arc;

use glassline_hub::{Hub, StreamEvent, StreamEvents};

use super::TaskWaker;

/// Reads the events of a hub's streams in a task.
#[derive(derive_more::Debug)]
#[debug("{events:?}")]
pub struct HubEvents {
    woken: Arc<TaskWaker>,
    events: StreamEvents,
}

impl HubEvents {
    /// Creates a reader, which gets the present streams first.
    pub fn new(hub: &Arc<Hub>) -> Self {
        let woken = Arc::new(TaskWaker::default());
        let events = hub.events(Arc::clone(&woken) as _);
        Self { woken, events }
    }

    /// Waits until something happens, and returns that. Cancelling loses no event.
    pub async fn next(&mut self) -> Vec<StreamEvent> {
        self.woken.woken().await;
        self.take()
    }

    /// Returns what has happened since the last call.
    pub fn take(&mut self) -> Vec<StreamEvent> {
        let mut happened = Vec::new();
        self.events.poll(&mut happened);
        happened
    }
}
