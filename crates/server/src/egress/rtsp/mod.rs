//! Streams out to RTSP players: framed once a thread, read by a cursor for each player.
//!
//! ```text
//!  hub wake ──► StreamReader.read once ──► Ring: framed once ──► each player: Cursor, ConnectionWriter
//!                                      │                    └─ one write a frame ──► TCP
//!                                      ├─ datagrams, many players a system call ──► UDP
//!                                      └─ the multicast thread ──► groups
//! ```
//!
//! All players of a stream see the same SSRC, sequence numbers and timestamps, so that
//! a burst's bytes are made once; a player is a cursor and the part of at most one frame.
//! Connections and requests are not known here: `crate::rtsp` has them.

pub(crate) mod connection_writer;
pub(crate) mod cursor;
pub(crate) mod framing;
pub(crate) mod groups;
pub(crate) mod multicast;
pub(crate) mod numbers;
pub(crate) mod ring;
pub(crate) mod srtp;
pub(crate) mod stream_reader;
pub(crate) mod udp;
