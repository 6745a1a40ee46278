//! What data channels count, read by metrics meanwhile.

use crate::runtime::Counter;

/// Messages and channels of the sessions of one shard since the server started.
#[derive(Debug, Default)]
pub struct DataCounters {
    /// Messages handed to peers' data channels.
    pub messages_sent: Counter,
    /// Their bytes.
    pub message_bytes_sent: Counter,
    /// Messages that came by data channels.
    pub messages_received: Counter,
    /// Their bytes.
    pub message_bytes_received: Counter,
    /// Messages dropped because a peer took less than came for it.
    pub messages_dropped_slow: Counter,
    /// Messages dropped because they had waited longer than they may.
    pub messages_dropped_expired: Counter,
    /// Messages larger than the peer takes.
    pub messages_dropped_too_large: Counter,
    /// Messages that no channel of the peer's was there for.
    pub messages_dropped_no_channel: Counter,
    /// Messages of viewers that may only read, or of a publisher that was replaced.
    pub messages_dropped_not_allowed: Counter,
    /// Messages of viewers that sent more a second than they may.
    pub messages_dropped_too_fast: Counter,
    /// Reliable channels closed because their peer took less than came for it.
    pub channels_closed_slow: Counter,
    /// Things that peers did on data channels that have no place.
    pub channel_faults: Counter,
}
