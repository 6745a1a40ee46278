//! A machine of a cluster in virtual time.

use std::collections::BTreeMap;
use std::time::Instant;

use super::media::Hub;
use crate::memory::Delivery;
use glassline_cluster::name::{NodeId, StreamName};
use glassline_cluster::{Config, Node};

/// A machine with at most one running process.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) id: NodeId,
    pub(super) config: Config,
    pub(super) node: Option<Node>,
    pub(super) hubs: BTreeMap<StreamName, Hub>,
    /// Sources that this process is connected to, and since when.
    pub(super) dialled: BTreeMap<StreamName, Instant>,
    pub(super) sources: Vec<(StreamName, Vec<NodeId>)>,
    /// Participants of rooms who are here.
    pub(super) rooms: BTreeMap<StreamName, u32>,
    pub(super) paused_until: Option<Instant>,
    pub(super) waiting: Vec<Delivery>,
    pub(super) wake: Option<Instant>,
    /// Difference of its wall clock in ms.
    pub(super) clock_ms: i64,
    /// Steps until the process crashes: requests that leave and deliveries that arrive.
    pub(super) crash_in: Option<u64>,
    pub(super) counts: Counts,
    pub(super) viewers: u32,
    /// Viewers of each stream.
    pub(super) audience: BTreeMap<StreamName, u32>,
}

/// Messages of one node at its engine, and its pulls.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Messages that left, a request or reply each.
    pub sent: u64,
    /// Messages that arrived: answers, notices, beats, questions.
    pub received: u64,
    /// Number of beats among the messages.
    pub beats: u64,
    /// Number of pulls that the node began.
    pub pulls: u64,
}

impl Process {
    pub(super) const fn new(id: NodeId, config: Config) -> Self {
        Self {
            id,
            config,
            node: None,
            hubs: BTreeMap::new(),
            dialled: BTreeMap::new(),
            sources: Vec::new(),
            rooms: BTreeMap::new(),
            paused_until: None,
            waiting: Vec::new(),
            wake: None,
            clock_ms: 0,
            crash_in: None,
            counts: Counts {
                sent: 0,
                received: 0,
                beats: 0,
                pulls: 0,
            },
            viewers: 0,
            audience: BTreeMap::new(),
        }
    }
}
