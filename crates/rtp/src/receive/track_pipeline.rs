use std::time::{Duration, Instant};

use super::ReceiveStatistics;
use super::payload_types::PayloadTypes;
use crate::reorder::{self, ReceivedPacket, ReorderBuffer};
use crate::rtcp::{ReportBlock, SenderReport};
use crate::{Header, Packet, SequenceExtender};
use glassline_media::Ssrc;

/// Bounds of reordering for packets by UDP. Networks of several links and radio networks reorder
/// packets by milliseconds, and viewers' jitter buffers hold about as much. Half a MiB is 80 Mbit/s
/// for that time.
const BY_DATAGRAMS: reorder::Config = reorder::Config {
    gap_timeout: Duration::from_millis(50),
    bytes_max: 512 << 10,
};

/// Bounds of reordering for packets by UDP that are requested again when they are lost. Half of the
/// requests are answered after one round trip, nearly all after three; beyond 250 ms a keyframe
/// costs viewers less than the wait. A MiB is 32 Mbit/s for that time.
const BY_DATAGRAMS_REPAIRED: reorder::Config = reorder::Config {
    gap_timeout: TrackPipeline::REPAIR_MAX,
    bytes_max: 1 << 20,
};

/// Bounds of reordering for packets within a connection, which arrive in order: a gap means that
/// the packet was lost before.
const BY_CONNECTION: reorder::Config = reorder::Config {
    gap_timeout: Duration::ZERO,
    bytes_max: 0,
};

/// Distance of sequence numbers from which on a packet is a stray (`MAX_DROPOUT` of RFC 3550 A.1).
const JUMP_MAX: i16 = 3000;

/// Distance back from which on a packet within a connection is a stray. Nothing is overtaken there, but
/// a relay may pass on what was.
const BACK_MAX_IN_CONNECTION: i16 = 16;

/// Number of the first packet, so that those before it have numbers, too.
const FIRST_NUMBER: u64 = 1 << 16;

/// Largest distance of the first two sequence numbers of a new source: packets overtake each other.
const FIRST_TWO_MAX: u16 = 16;

/// Receives one track of a source: puts its packets in order and keeps statistics for reports.
///
/// A packet of another SSRC, or of a far sequence number, is a stray. Two of them in a row mean that
/// the source began anew, and the first one counts (RFC 3550 A.1).
#[derive(Debug)]
pub struct TrackPipeline {
    clock_rate: u32,
    payload_types: PayloadTypes,
    sequences: SequenceExtender,
    /// Summand of the present source's extended sequence numbers, with which they continue the numbers
    /// of the sources before.
    offset: u64,
    /// The number that the first packet of the next source gets.
    next_number: u64,
    /// Distance back from which on a packet is a stray.
    back_max: i16,
    reorder: ReorderBuffer,
    /// Statistics of the present source (SSRC).
    statistics: Option<ReceiveStatistics>,
    /// The latest stray packet, if no other came since.
    stray: Option<Stray>,
    /// Number of late packets that [`Self::take_late`] has returned.
    late_told: u64,
}

/// A packet that is not of the present source.
#[derive(Debug)]
struct Stray {
    header: Header,
    payload: Vec<u8>,
    received: Instant,
}

impl Stray {
    /// Returns whether `next` seems to be of the same source.
    fn is_near(&self, next: &Header) -> bool {
        let ahead = next.sequence.wrapping_sub(self.header.sequence);
        let distance = ahead.min(ahead.wrapping_neg());
        self.header.ssrc == next.ssrc && (1..=FIRST_TWO_MAX).contains(&distance)
    }
}

impl TrackPipeline {
    /// Creates the state of a track with a clock of `clock_rate` Hz whose packets come within the
    /// connection.
    pub fn new(clock_rate: u32) -> Self {
        Self {
            clock_rate,
            payload_types: PayloadTypes::default(),
            sequences: SequenceExtender::new(),
            offset: 0,
            next_number: FIRST_NUMBER,
            back_max: BACK_MAX_IN_CONNECTION,
            reorder: ReorderBuffer::new(BY_CONNECTION),
            statistics: None,
            stray: None,
            late_told: 0,
        }
    }

    /// Notes the payload types that the track's description has.
    pub(super) fn expect_payload_types(&mut self, types: impl IntoIterator<Item = u8>) {
        self.payload_types = PayloadTypes::of(types);
    }

    /// Returns whether the description has this payload type, or none.
    pub(super) const fn describes(&self, payload_type: u8) -> bool {
        self.payload_types.is_described(payload_type)
    }

    /// Notes that the track's packets come by UDP.
    pub fn come_by_datagrams(&mut self) {
        self.back_max = JUMP_MAX;
        self.reorder = ReorderBuffer::new(BY_DATAGRAMS);
    }

    /// Longest time for which a lost packet is waited for that can be requested again.
    pub const REPAIR_MAX: Duration = Duration::from_millis(250);

    /// Notes that the track's packets come by UDP, and that lost ones are requested again.
    pub fn come_by_repaired_datagrams(&mut self) {
        self.back_max = JUMP_MAX;
        self.reorder = ReorderBuffer::new(BY_DATAGRAMS_REPAIRED);
    }

    /// Takes a packet, and hands `sink` the packets that are in order now. Returns whether the packet
    /// is media of the track.
    ///
    /// A packet of the source with a foreign payload type becomes an empty one, since its sequence
    /// number is among those of the media.
    pub fn take(
        &mut self,
        packet: &Packet<'_>,
        now: Instant,
        mut sink: impl FnMut(ReceivedPacket<'_>),
    ) -> bool {
        let header = &packet.header;
        let is_media = self.payload_types.accept(header.payload_type);
        let payload = if is_media { packet.payload } else { &[] };
        let is_of_source = match &self.statistics {
            None => is_media,
            Some(source) => {
                let ahead = self.sequences.ahead(header.sequence);
                let is_near = (-self.back_max..=JUMP_MAX).contains(&ahead);
                let is_of_source = is_near && source.ssrc() == header.ssrc;
                // A packet behind a later one is no sign that its source goes on.
                if is_of_source && ahead >= 0 && self.stray.is_some() {
                    self.stray = None;
                }
                is_of_source
            }
        };
        if is_of_source {
            self.accept(header, payload, now, &mut sink);
        } else if is_media {
            self.take_stray(header, payload, now, sink);
        }
        is_media
    }

    /// Keeps a stray packet, or begins anew with it and the one before.
    #[cold]
    fn take_stray(
        &mut self,
        header: &Header,
        payload: &[u8],
        received: Instant,
        mut sink: impl FnMut(ReceivedPacket<'_>),
    ) {
        let stray = Stray {
            header: *header,
            payload: payload.to_vec(),
            received,
        };
        let Some(first) = self.stray.take().filter(|first| first.is_near(header)) else {
            self.stray = Some(stray);
            return;
        };
        let is_in_order = header.sequence.wrapping_sub(first.header.sequence) <= FIRST_TWO_MAX;
        self.begin_anew(&mut sink);
        let both = match is_in_order {
            true => [first, stray],
            false => [stray, first],
        };
        for packet in both {
            self.accept(&packet.header, &packet.payload, packet.received, &mut sink);
        }
    }

    fn accept(
        &mut self,
        header: &Header,
        payload: &[u8],
        received: Instant,
        sink: &mut impl FnMut(ReceivedPacket<'_>),
    ) {
        let sequence = self.sequences.extend(header.sequence);
        let statistics = match &mut self.statistics {
            Some(statistics) => statistics,
            None => {
                self.offset = self.next_number.wrapping_sub(sequence);
                self.statistics
                    .insert(ReceiveStatistics::new(header.ssrc, self.clock_rate))
            }
        };
        statistics.on_packet(sequence, header.timestamp, payload.len(), received);
        let packet = ReceivedPacket {
            sequence: sequence.wrapping_add(self.offset),
            timestamp: header.timestamp,
            marker: header.marker,
            payload,
            received,
        };
        self.reorder.push(packet, sink);
    }

    /// Gives up missing packets that are overdue.
    pub fn expire(&mut self, now: Instant, sink: impl FnMut(ReceivedPacket<'_>)) {
        self.reorder.expire(now, sink);
    }

    /// Returns when [`Self::expire`] must be called.
    pub fn deadline(&self) -> Option<Instant> {
        self.reorder.deadline()
    }

    /// Notes a sender report that arrived at `now`, for the next report block.
    pub fn on_sender_report(&mut self, report: &SenderReport, now: Instant) {
        let statistics = self.statistics.as_mut();
        if let Some(statistics) = statistics.filter(|it| it.ssrc() == report.ssrc) {
            statistics.on_sender_report(report.ntp, now);
        }
    }

    /// Returns the number of packets since the last call that were duplicates, or too late to be
    /// put in order.
    pub fn take_late(&mut self) -> u64 {
        let late = self.reorder.late();
        late - std::mem::replace(&mut self.late_told, late)
    }

    /// Returns the SSRC of the packets; `None` before the first.
    pub fn source(&self) -> Option<Ssrc> {
        self.statistics.as_ref().map(ReceiveStatistics::ssrc)
    }

    /// Returns the report block for the source; its loss fraction counts since the last call.
    pub fn report_block(&mut self, now: Instant) -> Option<ReportBlock> {
        self.statistics.as_mut()?.report_block(now)
    }

    /// Makes the next packet the first of a new source. Its number leaves out one, since nobody knows
    /// what was lost between the sources.
    fn begin_anew(&mut self, sink: &mut impl FnMut(ReceivedPacket<'_>)) {
        self.reorder.restart(sink);
        if let Some(highest) = self.sequences.highest() {
            self.next_number = highest.wrapping_add(self.offset) + 2;
        }
        self.sequences = SequenceExtender::new();
        self.statistics = None;
    }
}
