//! State that all shards share, and handles to reach each shard.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use glassline_events::failures::Failures;
use glassline_latency::LatencyRegistry;
use glassline_messages::MessageLinks;
use glassline_runtime::{CommandSender, Part, Supervisor};

use super::command::Command;
use crate::addresses::MediaAddresses;
use crate::sessions::counters::{Counters, TcpCounters};
use crate::sessions::diagnosis::Surroundings;
use crate::sessions::peer::Peer;
use crate::sessions::record::SessionRecord;
use crate::sessions::registry::Registry;

/// State that all shards share.
#[derive(Debug)]
pub struct Shared {
    /// The registry of all sessions, including peers that wait to be adopted.
    pub registry: Arc<Registry>,
    /// Registry in which the shards publish their stage delays.
    pub latencies: Arc<LatencyRegistry>,
    /// Addresses that clients are told.
    pub(crate) addresses: Arc<MediaAddresses>,
    /// Counts of connections for media over TCP.
    pub(crate) tcp: TcpCounters,
    /// Brokers of messages on data channels, here and between servers.
    pub(crate) messages: Arc<MessageLinks>,
    /// The connections that failed.
    pub(crate) failures: Arc<Failures>,
    surroundings: Surroundings,
    /// Watches the shards' threads.
    pub(crate) supervisor: Arc<Supervisor>,
    pub(super) handles: OnceLock<Vec<Handle>>,
    /// Where the steps of joins are told; unset if joins are not traced.
    pub(crate) joins: OnceLock<glassline_telemetry::JoinSender>,
}

impl Shared {
    /// Creates the shared state, before the shards exist.
    pub(crate) fn new(
        registry: Arc<Registry>,
        latencies: Arc<LatencyRegistry>,
        addresses: Arc<MediaAddresses>,
        failures: Arc<Failures>,
        supervisor: Arc<Supervisor>,
        messages: Arc<MessageLinks>,
    ) -> Self {
        Self {
            surroundings: Surroundings::of_process(addresses.is_configured()),
            failures,
            registry,
            latencies,
            addresses,
            tcp: TcpCounters::default(),
            messages,
            supervisor,
            handles: OnceLock::new(),
            joins: OnceLock::new(),
        }
    }

    /// Returns the shard with this index.
    pub fn shard(&self, index: usize) -> Option<&Handle> {
        self.handles.get()?.get(index)
    }

    /// Returns why no media would reach a new peer; `None` if every shard makes progress.
    ///
    /// The kernel chooses the shard that gets a peer's datagrams, and nobody knows beforehand which
    /// one that is. An offer can therefore be answered only if all of them would adopt the peer.
    pub(crate) fn outage(&self) -> Option<String> {
        if self.supervisor.failure().is_some() {
            return Some("the server is about to end".to_owned());
        }
        let stuck = self.supervisor.stuck(Some(Part::Shard))?;
        let seconds = stuck.quiet.as_secs();
        Some(format!(
            "media would not flow: {} has made no progress for {seconds} s",
            stuck.thread
        ))
    }

    /// Removes the sessions that got no datagram within the handshake time, and notes why. Returns
    /// their number.
    pub(crate) fn sweep(&self, now: Instant) -> usize {
        let swept = self.registry.sweep(now);
        for (record, peer) in &swept {
            self.note_failure(record, peer, now);
        }
        swept.len()
    }

    /// Notes why the connection of `peer` failed, if it did, or why the server ended it.
    pub(in crate::sessions) fn note_failure(
        &self,
        record: &SessionRecord,
        peer: &Peer,
        now: Instant,
    ) {
        let view = record.state().client_view.take();
        let name = record.resource_name();
        let failure = peer.failure(name, view.as_deref(), self.surroundings, now);
        peer.end_join(failure.as_ref(), now);
        if record.is_of_check() {
            return;
        }
        if let Some(failure) = failure {
            return self.failures.note(failure, now);
        }
        let ending = peer.ending();
        let ending = ending.or_else(|| self.registry.ending(Some(name), &record.id));
        if let Some(ended) = ending.and_then(|why| peer.ended(name, why)) {
            self.failures.note_end(ended, now);
        }
    }

    /// Notes that the data channels of `peer` have not opened in time. The session goes on.
    #[cold]
    pub(super) fn note_unopened_channels(&self, peer: &mut Peer, now: Instant) {
        let record = self.registry.by_id(peer.id());
        let name = record.as_ref().map(|record| record.resource_name());
        let failure = peer.take_unopened_channels(name.unwrap_or_default(), now);
        // A session that is not in the registry any more ends at this moment.
        if let (Some(failure), Some(_)) = (failure, name) {
            self.failures.note(failure, now);
        }
    }

    /// Follows the join of `peer`, if joins are traced.
    pub(in crate::sessions) fn follow(&self, peer: &mut Peer) {
        if let Some(joins) = self.joins.get() {
            peer.follow(joins.clone());
        }
    }

    /// Returns the handles of all shards.
    pub fn shards(&self) -> &[Handle] {
        self.handles.get().map_or(&[], Vec::as_slice)
    }
}

/// A handle to a running shard, for use from other threads.
#[derive(Clone, Debug)]
pub struct Handle {
    pub(super) inbox: CommandSender<Command>,
    pub(super) counters: Arc<Counters>,
}

impl Handle {
    /// Sends `command` to the shard.
    ///
    /// # Errors
    /// Returns the command if the shard has ended or its inbox is full.
    pub fn send(&self, command: Command) -> Result<(), Command> {
        self.inbox.send(command, &self.counters.inbox_full)
    }

    /// Returns the shard's counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}
