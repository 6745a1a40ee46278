//! Which streams are offered now, each by a task of its own.

use std::collections::HashMap;
use std::sync::Arc;

use glassline_hub::{Hub, StreamEvent, StreamName, Wake};
use glassline_runtime::TaskWaker;
use tokio::task::JoinSet;

use super::{Offer, Offering, Services, Serving, is_offered};

/// The streams that are offered to the same readers.
pub(super) struct Offers {
    hub: Arc<Hub>,
    offer: Offer,
    services: Services,
    /// Wakes the task of each stream that is offered.
    offered: HashMap<StreamName, Arc<TaskWaker>>,
    /// The tasks, each of which returns the name of its stream.
    tasks: JoinSet<StreamName>,
}

impl Offers {
    pub(super) fn new(hub: Arc<Hub>, offer: Offer, services: Services) -> Self {
        Self {
            hub,
            offer,
            services,
            offered: HashMap::new(),
            tasks: JoinSet::new(),
        }
    }

    /// Begins to offer the stream of an event, or wakes the task that offers it.
    pub(super) fn observe(&mut self, event: &StreamEvent) {
        match event {
            StreamEvent::Changed { stream, .. } => self.consider(&stream.name),
            StreamEvent::Present(streams) => {
                streams.iter().for_each(|it| self.consider(&it.name));
                // Streams that are no more are not among them.
                self.offered.values().for_each(|it| it.wake());
                self.consider_remote();
            }
        }
    }

    /// Begins to offer the streams of other servers that are not offered yet.
    pub(super) fn consider_remote(&mut self) {
        let remote = self.services.remote.iter();
        let names: Vec<_> = remote.flat_map(|it| it.not_in(&self.hub)).collect();
        for name in names {
            if !self.offered.contains_key(&name) {
                self.consider(&name);
            }
        }
    }

    /// Waits until a stream is not offered any more, and offers it again if there is something to offer;
    /// for ever while none is offered.
    pub(super) async fn ended(&mut self) {
        match self.tasks.join_next().await {
            Some(Ok(name)) => {
                self.offered.remove(&name);
                self.consider(&name);
            }
            // A task catches its panics, and nobody cancels one.
            Some(Err(error)) => tracing::error!(%error, "a stream is not offered any more"),
            None => std::future::pending().await,
        }
    }

    fn consider(&mut self, name: &StreamName) {
        if let Some(changed) = self.offered.get(name) {
            return changed.wake();
        }
        if !(self.offer.has)(name.as_str()) {
            return;
        }
        let what = match self.hub.stream(name.as_str()) {
            Some(stream) if is_offered(&stream) => Offering::Here(stream),
            Some(_) => return,
            None => {
                let remote = self.services.remote.as_ref();
                if !remote.is_some_and(|it| it.has(name)) {
                    return;
                }
                Offering::Elsewhere(name.clone())
            }
        };
        let changed = Arc::new(TaskWaker::default());
        let serving = Serving {
            what,
            hub: Arc::clone(&self.hub),
            origin: self.offer.origin.clone(),
            services: self.services.clone(),
            changed: Arc::clone(&changed),
        };
        self.offered.insert(name.clone(), changed);
        let name = name.clone();
        self.tasks.spawn(async move {
            serving.run_caught().await;
            name
        });
    }
}
