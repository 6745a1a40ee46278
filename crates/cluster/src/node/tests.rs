//! One node without others, whose engine is the test.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::Node;
use crate::config::{Config, Moment};
use crate::engine::Request;
use crate::name::{NodeId, Region};
use crate::record::{NodeRecord, NodeState};

/// Incarnation of the node.
pub(super) const START: u64 = 1;

/// Returns the moment so many ms after the start of the tests.
pub(super) fn at(ms: u64) -> Moment {
    static BEGUN: OnceLock<Instant> = OnceLock::new();
    let begun = *BEGUN.get_or_init(|| glassline_sim::Clock::new().now());
    Moment {
        at: begun + Duration::from_millis(ms),
        unix_ms: 1_700_000_000_000 + ms,
    }
}

/// Returns the node `a` of the region `here`, which is not connected yet.
pub(super) fn node(now: Moment) -> Node {
    let region = Region::new("here").expect("a region");
    let record = NodeRecord {
        inc: START,
        quic: "192.0.2.1:4443".to_owned(),
        sha256: "00".repeat(32),
        http: None,
        rtsp: None,
        region: region.clone(),
        state: NodeState::Serving,
        version: "1".to_owned(),
    };
    let name = NodeId::new("a").expect("a name");
    Node::new(Config::new(name, region, record, 7), now)
}

/// Returns what the node asks of its engine.
pub(super) fn requests(node: &mut Node) -> Vec<Request> {
    std::iter::from_fn(|| node.poll_request()).collect()
}
