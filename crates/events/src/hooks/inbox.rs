//! Events that other parts of the server tell hooks.

use std::collections::VecDeque;

use glassline_runtime::calendar;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::event::{Event, EventKind};

/// Most events that wait until the hooks' task reads them, which takes milliseconds.
const EVENTS_MAX: usize = 4096;

/// Events that wait for the task of the hooks. Beyond 4096, the oldest is dropped.
#[derive(Debug, Default)]
pub struct Inbox {
    events: Mutex<VecDeque<Event>>,
    arrived: Notify,
}

impl Inbox {
    /// Tells hooks what has just happened to a stream.
    pub fn push(&self, kind: EventKind, stream: &str, reason: Option<String>) {
        let mut events = self.events.lock();
        if events.len() == EVENTS_MAX {
            events.pop_front();
        }
        events.push_back(Event {
            reason,
            ..Event::new(kind, stream, calendar::now())
        });
        drop(events);
        self.arrived.notify_one();
    }

    /// Waits for events, and returns them.
    pub async fn next(&self) -> Vec<Event> {
        loop {
            let events: Vec<Event> = self.events.lock().drain(..).collect();
            if !events.is_empty() {
                return events;
            }
            self.arrived.notified().await;
        }
    }
}
