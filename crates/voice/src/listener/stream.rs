//! One voice of several: its jitter buffer, and what came of its packets.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use glassline_media::Ssrc;

use super::config::Refused;
use crate::codec::Decoder;
use crate::jitter::{self, Packet};
use crate::meter::Meter;
use crate::mix::Share;
use crate::stamps::{Heard, Received, SignalDelay};

/// Packets of one voice whose arrival is kept until they are played.
const RECEIVED_MAX: usize = 512;

#[derive(Debug)]
pub(super) struct Stream<D> {
    pub(super) ssrc: Ssrc,
    pub(super) buffer: jitter::Buffer<D>,
    /// By when it was inserted.
    pub(super) received: VecDeque<Received>,
    /// When it was loud, or began.
    pub(super) spoke: Instant,
    pub(super) meter: Meter,
    pub(super) share: Share,
    pub(super) is_mixed: bool,
}

/// What all packets of a pull have in common.
#[derive(Clone, Copy)]
pub(super) struct Template {
    pub(super) pulled: Instant,
    pub(super) decode: Duration,
    pub(super) mix: Duration,
    pub(super) resample: Duration,
    pub(super) signal: SignalDelay,
}

impl<D: Decoder> Stream<D> {
    pub(super) fn take(
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

    /// The arrival of what was inserted then.
    pub(super) fn received(&self, inserted: Instant) -> Received {
        let mut received = self.received.iter().rev();
        let found = received.find(|it| it.inserted == inserted);
        found.copied().unwrap_or(Received::at(inserted))
    }

    pub(super) fn heard(&self, played: &jitter::Played, of: Template) -> Heard {
        let received = self.received(played.arrival);
        Heard {
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
