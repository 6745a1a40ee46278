//! Counters of messages between servers.

use glassline_runtime::Counter;

/// Messages between this server and others of its cluster since this server started.
#[derive(Debug, Default)]
pub struct ServerCounters {
    /// Messages sent to other servers.
    pub sent: Counter,
    /// Bytes of the messages sent to other servers.
    pub sent_bytes: Counter,
    /// Messages received from other servers.
    pub received: Counter,
    /// Bytes of the messages received from other servers.
    pub received_bytes: Counter,
    /// Messages dropped because another server took them more slowly than they came.
    pub dropped_slow: Counter,
    /// Messages dropped because they had waited longer than configured.
    pub dropped_expired: Counter,
    /// Messages dropped because they are larger than this server takes.
    pub dropped_too_large: Counter,
    /// Messages dropped because another server sent more in a second than one server may.
    pub dropped_too_fast: Counter,
    /// Messages dropped because viewers may not send, or another session is the publisher.
    pub dropped_not_allowed: Counter,
    /// Messages dropped because no publisher takes any.
    pub dropped_no_channel: Counter,
    /// Messages that came by two ways, and were passed on once.
    pub repeated: Counter,
}
