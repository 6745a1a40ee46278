//! What a shard counts, read by metrics while it runs.

use std::sync::Arc;

use crate::egress::webrtc::SendCounters;
use crate::ingest::VoiceCounters;
use crate::messages::DataCounters;
use crate::runtime::Counter;

/// One shard's counts since the server started.
#[derive(Debug, Default)]
pub struct Counters {
    /// Keyframes that viewers asked for.
    pub keyframe_requests: Counter,
    /// Datagrams received.
    pub received: Counter,
    /// Datagrams of no session and of no known purpose.
    pub stray: Counter,
    /// Datagrams that a session refused: malformed, replayed, not authentic.
    pub refused: Counter,
    /// Viewers whose media began.
    pub joined: Counter,
    /// Viewers handed over to another shard.
    pub moves: Counter,
    /// Sessions that ended before their handshake was done.
    pub handshakes_failed: Counter,
    /// Commands lost because the shard's inbox was full.
    pub inbox_full: Counter,
    /// What was sent to viewers; the outbox holds it, too.
    pub send: Arc<SendCounters>,
    /// What participants of rooms said.
    pub voice: VoiceCounters,
    /// What passed by data channels.
    pub data: DataCounters,
}
