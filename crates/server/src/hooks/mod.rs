//! Hooks: commands and webhooks that tell others what happens to streams.
//!
//! ```text
//! hub ─ every 200 ms ─► Observer: what is different ─► Event ─┬► queue ─► one at a time: command
//!                                                             └► queue ─► one at a time: POST
//! ```
//!
//! Nothing of media waits for a hook: each has a queue and a task of its own, and an event beyond the
//! queue is dropped and counted. Hooks stand in the configuration only, and no request changes them.

mod command;
mod delivery;
mod event;
mod observer;
mod settings;
mod webhook;

use std::sync::Arc;
use std::time::Duration;

use glassline_hub::{Hub, State};
use tokio::sync::watch;

pub(crate) use delivery::{HookCounters, Outcome};
pub use event::EventKind;
pub use settings::Hook;
pub(crate) use settings::checked;

use crate::ingest::Sources;
use crate::rooms;
use crate::runtime::Supervisor;
use delivery::Queue;
use observer::{Observed, Observer};

/// Interval at which the streams are looked at. What begins and ends between two looks is seen only
/// if its stream remembers it.
const INTERVAL: Duration = Duration::from_millis(200);

/// Looks at the streams of `hub` and runs `hooks`, whose list may change, until `stopped` becomes
/// true. `sources` know which streams the server itself fetches.
pub(crate) async fn run(
    mut hooks: watch::Receiver<Arc<[Hook]>>,
    sources: Arc<Sources>,
    hub: Arc<Hub>,
    (counters, supervisor): (Arc<HookCounters>, Arc<Supervisor>),
    mut stopped: watch::Receiver<bool>,
) {
    let start = |hook: &Hook| Queue::start(hook.clone(), &counters, &supervisor);
    let mut queues: Vec<Queue> = hooks.borrow_and_update().iter().map(start).collect();
    let mut observer = Observer::default();
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            _ = ticks.tick(), if !queues.is_empty() => {}
            Ok(()) = hooks.changed() => {
                if queues.is_empty() {
                    // What is there already is no event for the first hook.
                    observer = Observer::default();
                    observer.look(observed(&hub, &sources));
                }
                let wanted = Arc::clone(&hooks.borrow_and_update());
                // A hook that stays keeps its queue; one that is gone delivers what it has.
                let mut before = std::mem::take(&mut queues);
                queues.extend(wanted.iter().map(|hook| {
                    match before.iter().position(|it| it.is_of(hook)) {
                        Some(same) => before.swap_remove(same),
                        None => start(hook),
                    }
                }));
                continue;
            }
            _ = stopped.wait_for(|stop| *stop) => return,
        }
        for event in observer.look(observed(&hub, &sources)) {
            let event = Arc::new(event);
            for queue in &queues {
                queue.push(&event);
            }
        }
    }
}

/// Returns what the streams are doing. Voices of rooms are private, and no hook is told of them.
fn observed(hub: &Hub, sources: &Sources) -> Vec<Observed> {
    let streams = hub.streams();
    let streams = streams
        .iter()
        .filter(|it| !rooms::is_voice(it.name().as_str()));
    let observed = streams.map(|stream| {
        let name = stream.name().to_string();
        let (live_since, reason) = match stream.state() {
            State::Live { since } => (Some(since), None),
            State::Down { detail } | State::Ended { detail } => (None, Some(detail)),
            _ => (None, None),
        };
        Observed {
            is_source: sources.fetches(stream.name()),
            name,
            live_since,
            reason,
            viewers: stream.viewers(),
        }
    });
    observed.collect()
}
