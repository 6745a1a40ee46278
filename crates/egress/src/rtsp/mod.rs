//! Streams out to RTSP players: framed once a thread, read by a cursor for each player.
//!
//! ```text
//!  hub wake ─► StreamReader: read once ─► Ring: framed once ─► a Cursor for each player
//!     ConnectionWriter: one write a frame ──────────────► TCP     │
//!     DatagramWriter: many players a system call ───────► UDP ◄───┤
//!     MulticastSender: a thread with its own readers ───► groups ◄┘
//! ```
//!
//! All players of a stream see the same SSRC, sequence numbers and timestamps, so the bytes of a
//! unit are made once. A player is a cursor, and the rest of at most one frame. Connections and
//! requests are the matter of `crate::rtsp` and unknown here.

mod connection_writer;
mod counters;
mod cursor;
mod datagram_writer;
mod framing;
mod groups;
mod multicast;
mod numbers;
mod replay_extension;
mod ring;
mod srtp;
mod stream_reader;
mod transport;
mod udp;

#[cfg(test)]
mod tests;

pub use connection_writer::{ConnectionWriter, Playing, WriteOutcome};
pub use counters::{SendCounters, Sent};
pub use cursor::{Budget, Cursor, TRACKS_MAX};
pub use datagram_writer::{DatagramWriter, Recipient};
pub use framing::HeaderTemplate;
pub use groups::{GroupRange, Groups, MulticastMembership};
pub use multicast::{MulticastSender, open as open_multicast};
pub use numbers::NumberKeys;
pub use ring::{Bounds, Ring};
pub use srtp::{Keyring, Opened, TrackSrtp};
pub use stream_reader::{StreamContext, StreamReader, Timing};
pub use transport::{Channels, TrackTransport, TrackTransports, TransportKind, UdpAddresses};
pub use udp::{Arrived, UdpPair};
