//! The queue of each hook, and what became of its events.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use glassline_runtime::{Counter, Part, Supervisor};
use tokio::sync::mpsc;

use super::command;
use super::event::{Event, EventKind};
use super::settings::Hook;
use super::webhook::{self, Webhook, WebhookError};

/// Most events that wait for one hook, some 100 kB.
const QUEUE_MAX: usize = 256;

/// The outcome of an event at a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The command succeeded, or the webhook took it.
    Done,
    /// The command failed or was killed, or the webhook did not take it.
    Failed,
    /// Too many events waited for the hook.
    Dropped,
}

impl Outcome {
    /// Every outcome, in the order of metrics.
    pub const ALL: [Self; 3] = [Self::Done, Self::Failed, Self::Dropped];

    /// Returns the name in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Dropped => "dropped",
        }
    }
}

/// Events of all hooks since the server started.
#[derive(Debug, Default)]
pub struct HookCounters {
    outcomes: [[Counter; Outcome::ALL.len()]; EventKind::ALL.len()],
    /// Repetitions of webhooks.
    pub retries: Counter,
}

impl HookCounters {
    /// Returns the number of events of `kind` with this outcome.
    pub fn of(&self, kind: EventKind, outcome: Outcome) -> &Counter {
        &self.outcomes[kind as usize][outcome as usize]
    }
}

/// The queue of one hook. Its task ends when the queue is dropped and empty.
#[derive(Debug)]
pub(super) struct Queue {
    hook: Hook,
    events: mpsc::Sender<Arc<Event>>,
    counters: Arc<HookCounters>,
    /// Whether the log has said that the queue is full.
    is_full: AtomicBool,
}

impl Queue {
    /// Starts the task of `hook`. Needs a tokio runtime.
    pub(super) fn start(
        hook: Hook,
        counters: &Arc<HookCounters>,
        supervisor: &Arc<Supervisor>,
    ) -> Self {
        let (events, mut waiting) = mpsc::channel::<Arc<Event>>(QUEUE_MAX);
        let delivery = Arc::new(Delivery {
            hook: hook.clone(),
            counters: Arc::clone(counters),
        });
        let supervisor = Arc::clone(supervisor);
        tokio::spawn(async move {
            while let Some(event) = waiting.recv().await {
                // After a panic the next event is delivered.
                let delivered = delivery.deliver(&event);
                let _ = supervisor.catch_task(Part::Background, delivered).await;
            }
        });
        Self {
            hook,
            events,
            counters: Arc::clone(counters),
            is_full: AtomicBool::new(false),
        }
    }

    /// Returns whether the queue is that of `hook`.
    pub(super) fn is_of(&self, hook: &Hook) -> bool {
        self.hook == *hook
    }

    /// Adds an event if the hook wants it, or drops it if too many wait.
    pub(super) fn push(&self, event: &Arc<Event>) {
        if !self.hook.wants(event.kind, &event.stream) {
            return;
        }
        let is_full = self.events.try_send(Arc::clone(event)).is_err();
        let was_full = self.is_full.swap(is_full, Ordering::Relaxed);
        if is_full {
            self.counters.of(event.kind, Outcome::Dropped).add(1);
        }
        if is_full && !was_full {
            tracing::warn!(stream = %event.stream, event = event.kind.as_str(), "events of a hook dropped: it is too slow");
        }
    }
}

struct Delivery {
    hook: Hook,
    counters: Arc<HookCounters>,
}

impl Delivery {
    /// Tells the hook of an event, and counts how that ended.
    async fn deliver(&self, event: &Arc<Event>) {
        let done = match (&self.hook.command, &self.hook.url) {
            (Some(command), _) => self.run(command.clone(), event).await,
            (None, Some(url)) => match Webhook::new(&self.hook, url) {
                Ok(webhook) => self.send(&webhook, event).await,
                Err(error) => Err(error.to_string()),
            },
            (None, None) => Ok(()),
        };
        let outcome = match done {
            Ok(()) => Outcome::Done,
            Err(error) => {
                tracing::warn!(stream = %event.stream, event = event.kind.as_str(), "hook failed: {error}");
                Outcome::Failed
            }
        };
        self.counters.of(event.kind, outcome).add(1);
    }

    async fn run(&self, command: Vec<String>, event: &Arc<Event>) -> Result<(), String> {
        let program = command.first().cloned().unwrap_or_default();
        let ran = command::run(command, Arc::clone(event), self.hook.timeout()).await;
        ran.map_err(|error| format!("{program}: {error}"))
    }

    async fn send(&self, webhook: &Webhook, event: &Event) -> Result<(), String> {
        let mut attempt = 0;
        loop {
            // The URL may have a secret in its query, so the log has none of it.
            match webhook.send(event).await {
                Ok(()) => return Ok(()),
                Err(WebhookError::Retry(_)) if attempt < self.hook.retries => {
                    attempt += 1;
                    self.counters.retries.add(1);
                    tokio::time::sleep(webhook::pause(attempt)).await;
                }
                Err(error) => return Err(format!("webhook, after {attempt} repetitions: {error}")),
            }
        }
    }
}
