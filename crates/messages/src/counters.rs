//! Counters of data channels, read by metrics while shards run.

use glassline_runtime::Counter;

/// Messages and channels of the sessions of one shard since the server started.
#[derive(Debug, Default)]
pub struct DataCounters {
    /// Messages handed to peers' data channels.
    pub messages_sent: Counter,
    /// Bytes of the messages handed to peers' data channels.
    pub message_bytes_sent: Counter,
    /// Messages received on data channels.
    pub messages_received: Counter,
    /// Bytes of the messages received on data channels.
    pub message_bytes_received: Counter,
    /// Messages dropped because a peer received more slowly than messages came for it.
    pub messages_dropped_slow: Counter,
    /// Messages dropped because they had waited longer than configured.
    pub messages_dropped_expired: Counter,
    /// Messages dropped because they are larger than the peer accepts.
    pub messages_dropped_too_large: Counter,
    /// Messages dropped because the peer has no channel for them.
    pub messages_dropped_no_channel: Counter,
    /// Messages dropped because they came from a viewer that may only read, or from a publisher
    /// that was replaced.
    pub messages_dropped_not_allowed: Counter,
    /// Messages dropped because a viewer sent more a second than configured.
    pub messages_dropped_too_fast: Counter,
    /// Reliable channels closed because their peer received more slowly than messages came for it.
    pub channels_closed_slow: Counter,
    /// Protocol violations of peers on data channels.
    pub channel_faults: Counter,
}
