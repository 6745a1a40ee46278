//! The server's rules for data channels next to streams.

use super::Bounds;

/// The server's rules for data channels next to media streams. Sessions have no such channels where
/// data channels are turned off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataPolicy {
    /// Limits of one session: queued bytes, channels, message rates.
    pub bounds: Bounds,
    /// Whether viewers may send messages to the publisher, too.
    pub viewers_send: bool,
}
