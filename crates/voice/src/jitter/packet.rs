//! Packets of a voice: as they come, and what became of them.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use thiserror::Error;

use crate::stamps::Operation;

/// A voice packet: its RTP numbers and what is inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// RTP sequence number.
    pub sequence: u16,
    /// RTP timestamp.
    pub timestamp: u32,
    /// What the codec takes.
    pub payload: Bytes,
}

/// Why a packet was not taken. None of these needs an answer; they are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refused {
    /// It was here before, or is too old to tell.
    #[error("the packet was here before")]
    Duplicate,
    /// Its time to be played has passed.
    #[error("the packet came too late to be played")]
    Late,
    /// The codec cannot say how long it is.
    #[error("the codec makes no audio of this payload")]
    Undecodable,
    /// Its numbers are far from the stream's. A second one in a row begins anew.
    #[error("the packet's numbers are not this stream's")]
    Stray,
}

/// What became of a packet, for tables of stages: its first sample has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Played {
    /// RTP sequence number; a redundant copy has none.
    pub sequence: Option<u16>,
    /// RTP timestamp, made wide as the stream's first was.
    pub timestamp: i64,
    /// When it was inserted, or what brought its copy.
    pub arrival: Instant,
    /// From then until its first sample leaves.
    pub wait: Duration,
    /// What the pull gave before that sample.
    pub offset: Duration,
    /// How it came to be played.
    pub operation: Operation,
}

/// A packet that was taken and will not be played: its time passed, or too much waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unplayed {
    /// RTP timestamp, made wide as the stream's first was.
    pub timestamp: i64,
    /// When it was inserted.
    pub arrival: Instant,
}

/// A packet on the tape, whose first sample has not left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaving {
    pub(super) sequence: Option<u16>,
    pub(super) timestamp: i64,
    pub(super) arrival: Instant,
    pub(super) operation: Operation,
}

/// Packets whose end was not asked for yet; older ones are forgotten.
pub(super) const PLAYED_MAX: usize = 256;

/// Packets on their way out of the buffer, played or not.
#[derive(Debug, Default)]
pub(super) struct Departures {
    /// By their marks on the tape.
    pub(super) leaving: VecDeque<Leaving>,
    pub(super) played: VecDeque<Played>,
    pub(super) unplayed: VecDeque<Unplayed>,
}
