//! Hooks: commands and webhooks that tell others what happens to streams.
//!
//! ```text
//! hub ─ StreamEvent ─► Observer: what hooks are told ─► Event ─┬► queue ─► one at a time: command
//! recordings ─► Inbox ─────────────────────────────────────────┴► queue ─► one at a time: POST
//! ```
//!
//! Nothing of media waits for a hook: each has a queue and a task of its own, and an event beyond the
//! queue is dropped and counted. Hooks stand in the configuration only, and no request changes them.

mod command;
mod delivery;
mod event;
mod inbox;
mod observer;
mod settings;
mod webhook;

use std::sync::Arc;

use glassline_hub::{Hub, StreamEvent};
use glassline_runtime::{HubEvents, Supervisor};
use tokio::sync::watch;

pub use delivery::{HookCounters, Outcome};
pub use event::EventKind;
pub use inbox::Inbox;
pub use settings::Hook;
pub use settings::checked;

use delivery::Queue;
use glassline_ingest::Sources;
use observer::Observer;

/// Reads the events of `hub` and runs `hooks`, whose list may change, until `stopped` becomes true.
/// `sources` know which streams the server itself fetches.
pub async fn run(
    mut hooks: watch::Receiver<Arc<[Hook]>>,
    sources: Arc<Sources>,
    hub: Arc<Hub>,
    inbox: Arc<Inbox>,
    counters: Arc<HookCounters>,
    supervisor: Arc<Supervisor>,
    mut stopped: watch::Receiver<bool>,
) {
    let start = |hook: &Hook| Queue::start(hook.clone(), &counters, &supervisor);
    let mut queues: Vec<Queue> = hooks.borrow_and_update().iter().map(start).collect();
    let mut observer = Observer::new(|name| sources.fetches(name));
    // Without hooks nobody reads.
    let mut events = (!queues.is_empty()).then(|| HubEvents::new(&hub));
    loop {
        let told = tokio::select! {
            happened = next(&mut events) => observer.observe(&happened),
            // Without hooks nobody is told.
            told = inbox.next() => told,
            Ok(()) = hooks.changed() => {
                let wanted = Arc::clone(&hooks.borrow_and_update());
                // A hook that stays keeps its queue; one that is gone delivers what it has.
                let mut before = std::mem::take(&mut queues);
                queues.extend(wanted.iter().map(|hook| {
                    match before.iter().position(|it| it.is_of(hook)) {
                        Some(same) => before.swap_remove(same),
                        None => start(hook),
                    }
                }));
                if queues.is_empty() {
                    events = None;
                } else if events.is_none() {
                    // What is there already is no event for the first hook.
                    let reader = events.insert(HubEvents::new(&hub));
                    observer.forget();
                    observer.observe(&reader.take());
                }
                continue;
            }
            _ = stopped.wait_for(|stop| *stop) => return,
        };
        for event in told {
            let event = Arc::new(event);
            for queue in &queues {
                queue.push(&event);
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
