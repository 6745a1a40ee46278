//! One of several streams: its jitter buffer, and the arrival times of its packets.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use glassline_media::Ssrc;

use super::config::Refused;
use crate::codec::Decoder;
use crate::jitter::{self, Packet};
use crate::meter::Meter;
use crate::mix::Share;
use crate::stamps::{PlayoutStamps, Received, SignalDelay};

/// Bound on packets of a stream whose arrival stamps are kept until they are played.
const RECEIVED_MAX: usize = 512;

/// A stream of one SSRC.
#[derive(Debug)]
pub(super) struct Stream<D> {
    pub(super) ssrc: Ssrc,
    pub(super) buffer: jitter::Buffer<D>,
    /// Arrival stamps, in the order of insertion.
    pub(super) received: VecDeque<Received>,
    /// When the stream was last loud, or began.
    pub(super) active_at: Instant,
    pub(super) meter: Meter,
    pub(super) share: Share,
    pub(super) is_mixed: bool,
}

/// Stamps that all packets of a pull have in common.
#[derive(Clone, Copy)]
pub(super) struct PullStamps {
    pub(super) pulled: Instant,
    pub(super) decode: Duration,
    pub(super) mix: Duration,
    pub(super) resample: Duration,
    pub(super) signal: SignalDelay,
}

impl<D: Decoder> Stream<D> {
    /// Inserts a packet, and `earlier` ones that it repeats, into the jitter buffer.
    pub(super) fn insert(
        &mut self,
        packet: Packet,
        earlier: &[(u32, bytes::Bytes)],
        received: Received,
    ) -> Result<(), Refused> {
        if self.received.len() == RECEIVED_MAX {
            self.received.pop_front();
        }
        self.received.push_back(received);
        self.buffer
            .insert_with(packet, earlier, received.inserted)?;
        Ok(())
    }

    /// Arrival stamps of the packet that was inserted at `inserted`.
    pub(super) fn received(&self, inserted: Instant) -> Received {
        let mut received = self.received.iter().rev();
        let found = received.find(|it| it.inserted == inserted);
        found.copied().unwrap_or(Received::at(inserted))
    }

    /// Stamps of the packet `played`, which left the jitter buffer in the pull `of`.
    pub(super) fn playout_stamps(&self, played: &jitter::Played, of: PullStamps) -> PlayoutStamps {
        let received = self.received(played.arrival);
        PlayoutStamps {
            ssrc: self.ssrc,
            timestamp: u64::try_from(played.timestamp).unwrap_or_default(),
            sequence: played.sequence,
            arrived: received.arrived,
            opened: received.opened,
            inserted: received.inserted,
            pulled: of.pulled,
            decode: of.decode,
            mix: of.mix,
            resample: of.resample,
            called: of.pulled,
            played: of.pulled,
            operation: played.operation,
            signal: of.signal,
        }
    }
}
