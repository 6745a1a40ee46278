//! State that all shards share, and handles to reach each shard.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use super::command::Command;
use crate::latency::LatencyRegistry;
use crate::messages::MessageBrokers;
use crate::runtime::CommandSender;
use crate::sessions::counters::Counters;
use crate::sessions::registry::Registry;

/// State that all shards share.
#[derive(Debug)]
pub struct Shared {
    /// The registry of all sessions, including peers that wait to be adopted.
    pub registry: Arc<Registry>,
    /// Registry in which the shards publish their stage delays.
    pub latencies: Arc<LatencyRegistry>,
    /// Addresses that viewers are told instead of the socket's own, for a server behind a NAT.
    pub advertise: Vec<IpAddr>,
    /// Brokers of messages on data channels.
    pub(crate) brokers: MessageBrokers,
    pub(super) handles: OnceLock<Vec<Handle>>,
}

impl Shared {
    /// Creates the shared state, before the shards exist.
    pub fn new(
        registry: Arc<Registry>,
        latencies: Arc<LatencyRegistry>,
        advertise: Vec<IpAddr>,
    ) -> Self {
        Self {
            registry,
            latencies,
            advertise,
            brokers: MessageBrokers::default(),
            handles: OnceLock::new(),
        }
    }

    /// Returns the shard with this index.
    pub fn shard(&self, index: usize) -> Option<&Handle> {
        self.handles.get()?.get(index)
    }

    /// Returns every shard.
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
