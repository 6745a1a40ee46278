//! Packets of a voice, as they arrive and as they leave the jitter buffer.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use thiserror::Error;

use crate::stamps::Operation;

/// A voice packet: its RTP numbers and payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// RTP sequence number of the packet.
    pub sequence: u16,
    /// RTP timestamp of the packet.
    pub timestamp: u32,
    /// Payload for the codec.
    pub payload: Bytes,
}

/// The reason why a packet was not taken. The caller need not react; the buffer counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refused {
    /// The packet arrived before, or is too old to know.
    #[error("the packet arrived before")]
    Duplicate,
    /// The packet's time to be played has passed.
    #[error("the packet came too late to be played")]
    Late,
    /// The codec cannot determine the payload's length.
    #[error("the codec cannot decode this payload")]
    Undecodable,
    /// The packet's numbers are far from the stream's. A second such packet in a row begins a
    /// new stream.
    #[error("the packet's numbers are not this stream's")]
    Stray,
}

/// A packet whose first sample was played, for tables of stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Played {
    /// RTP sequence number; `None` for a redundant copy.
    pub sequence: Option<u16>,
    /// RTP timestamp as a number that does not wrap, counted from the stream's first.
    pub timestamp: i64,
    /// When the packet, or the packet that carried its copy, was inserted.
    pub arrival: Instant,
    /// Time from the insertion until the first sample is played.
    pub wait: Duration,
    /// Length of the pull's audio before the first sample.
    pub offset: Duration,
    /// How the packet came to be played.
    pub operation: Operation,
}

/// A packet that was accepted and is never played, because its time passed or too many
/// packets waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unplayed {
    /// RTP timestamp as a number that does not wrap, counted from the stream's first.
    pub timestamp: i64,
    /// When the packet was inserted.
    pub arrival: Instant,
}

/// A decoded packet whose first sample was not played yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingPacket {
    pub(super) sequence: Option<u16>,
    pub(super) timestamp: i64,
    pub(super) arrival: Instant,
    pub(super) operation: Operation,
}

/// Bound on records that wait to be polled; beyond it the oldest are dropped.
pub(super) const PLAYED_MAX: usize = 256;

/// Decoded packets, and records of played and discarded ones.
#[derive(Debug, Default)]
pub(super) struct PlayoutRecords {
    /// Decoded packets, in the order of their marks in the playout buffer.
    pub(super) pending: VecDeque<PendingPacket>,
    /// Records that wait for [`Buffer::poll_played`](super::Buffer::poll_played).
    pub(super) played: VecDeque<Played>,
    /// Records that wait for [`Buffer::poll_unplayed`](super::Buffer::poll_unplayed).
    pub(super) unplayed: VecDeque<Unplayed>,
}
