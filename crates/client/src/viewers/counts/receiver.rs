//! One media stream of a viewer: its packets are counted, reordered and depacketized.

use std::time::{Duration, Instant};

use glassline_media::{Codec, Kind, Ssrc, Track};
use glassline_rtp::Header;
use glassline_rtp::payload::{Depacketizer, Unit};
use glassline_rtp::reorder::{self, ReceivedPacket, ReorderBuffer};

use crate::viewers::Flow;
use crate::viewers::flow::PacketCounter;

/// Limits of reordering. Gaps stay open as long as retransmissions are requested
/// (`rtp::nack::Config::budget`); at most half a second of a 32 Mbit/s stream is held.
const REORDER: reorder::Config = reorder::Config {
    gap_timeout: Duration::from_secs(1),
    bytes_max: 2 << 20,
};

/// Receiver of one `m=` section.
pub(super) struct Receiver {
    kind: Kind,
    codec: Option<Codec>,
    clock_rate: u32,
    source: Option<Ssrc>,
    /// Counts of the RTP sources before the current one.
    before: Flow,
    damaged_before: u64,
    counter: PacketCounter,
    reorder: ReorderBuffer,
    /// Depacketizer of video whose frames can be assembled; other frames are counted by
    /// marker bits.
    depacketizer: Option<Depacketizer>,
}

impl Receiver {
    /// A receiver without packets. `codec` is `None` for one whose packets are only counted;
    /// `clock_rate` is that of its RTP timestamps, in Hz.
    pub(super) fn new(kind: Kind, codec: Option<Codec>, clock_rate: u32) -> Self {
        Self {
            kind,
            codec,
            clock_rate,
            source: None,
            before: Flow::default(),
            damaged_before: 0,
            counter: PacketCounter::new(clock_rate),
            reorder: ReorderBuffer::new(REORDER),
            depacketizer: depacketizer(codec),
        }
    }

    pub(super) const fn kind(&self) -> Kind {
        self.kind
    }

    /// Counts a packet. A source that restarts under another SSRC begins new sequence
    /// numbers.
    pub(super) fn count(&mut self, sequence: u64, repaired: bool, header: &Header, bytes: usize) {
        self.follow(header.ssrc);
        self.counter.count(sequence, repaired, header, bytes);
    }

    /// Depacketizes a packet in its order; returns `false` where packets are only counted.
    pub(super) fn push(&mut self, packet: ReceivedPacket<'_>) -> bool {
        let Some(depacketizer) = &mut self.depacketizer else {
            return false;
        };
        self.reorder
            .push(packet, |packet| packet.push_to(depacketizer));
        true
    }

    /// Gives up gaps that will not be filled; returns `false` where packets are only counted.
    pub(super) fn expire(&mut self, now: Instant) -> bool {
        let Some(depacketizer) = &mut self.depacketizer else {
            return false;
        };
        self.reorder
            .expire(now, |packet| packet.push_to(depacketizer));
        true
    }

    /// When [`Self::expire`] next has something to do.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.reorder.deadline()
    }

    /// Returns the next whole frame.
    pub(super) fn poll(&mut self) -> Option<Unit> {
        self.depacketizer.as_mut()?.poll()
    }

    pub(super) fn flow(&self) -> Flow {
        self.before.then(self.counter.flow())
    }

    /// Number of frames that arrived incomplete or unreadable.
    pub(super) fn damaged(&self) -> u64 {
        let counters = self.depacketizer.as_ref().map(Depacketizer::counters);
        let counters = counters.unwrap_or_default();
        self.damaged_before + counters.damaged + counters.malformed + counters.oversized
    }

    fn follow(&mut self, source: Ssrc) {
        if self.source.replace(source).is_some_and(|old| old != source) {
            self.before = self.flow();
            self.damaged_before = self.damaged();
            self.counter = PacketCounter::new(self.clock_rate);
            self.reorder = ReorderBuffer::new(REORDER);
            self.depacketizer = depacketizer(self.codec);
        }
    }
}

/// Makes a depacketizer for a video codec that marks the ends of frames; a transport stream,
/// whose packets stand alone, has no frames to be counted.
fn depacketizer(codec: Option<Codec>) -> Option<Depacketizer> {
    let codec = codec.filter(|codec| codec.kind() == Kind::Video && codec.marks_frames())?;
    Depacketizer::new(&Track::new(codec)).ok()
}
