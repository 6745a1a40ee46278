//! What all shards share, and the way to each of them.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use super::command::Command;
use crate::latency::Board;
use crate::messages::MessageBrokers;
use crate::runtime::CommandSender;
use crate::sessions::counters::Counters;
use crate::sessions::registry::Registry;

/// What all shards share.
#[derive(Debug)]
pub struct Shared {
    /// Who waits to be adopted.
    pub registry: Arc<Registry>,
    /// Where stage accounts are published.
    pub board: Arc<Board>,
    /// Addresses that viewers are told instead of ours, behind a NAT.
    pub advertise: Vec<IpAddr>,
    /// What passes beside media.
    pub(crate) brokers: MessageBrokers,
    pub(super) handles: OnceLock<Vec<Handle>>,
}

impl Shared {
    /// Before the shards are there.
    pub fn new(registry: Arc<Registry>, board: Arc<Board>, advertise: Vec<IpAddr>) -> Self {
        Self {
            registry,
            board,
            advertise,
            brokers: MessageBrokers::default(),
            handles: OnceLock::new(),
        }
    }

    /// The shard with number `index`.
    pub fn shard(&self, index: usize) -> Option<&Handle> {
        self.handles.get()?.get(index)
    }

    /// Every shard.
    pub fn shards(&self) -> &[Handle] {
        self.handles.get().map_or(&[], Vec::as_slice)
    }
}

/// The way to reach a running shard from other threads.
#[derive(Clone, Debug)]
pub struct Handle {
    pub(super) inbox: CommandSender<Command>,
    pub(super) counters: Arc<Counters>,
}

impl Handle {
    /// Hands `command` over; gives it back if the shard is gone or has as many
    /// waiting as it may.
    pub fn send(&self, command: Command) -> Result<(), Command> {
        self.inbox.send(command, &self.counters.inbox_full)
    }

    /// What the shard counted.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}
