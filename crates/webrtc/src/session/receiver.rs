use std::time::{Duration, Instant};

use glassline_media::{Codec, Kind, NtpTime, Ssrc};
use glassline_rtp as rtp;
use glassline_rtp::nack::{Arrival, NackGenerator};
use glassline_rtp::receive::{ReceiveStatistics, Totals};
use glassline_rtp::rtcp;

use crate::sdp::{AgreedCodec, AgreedMedia};

/// One `m=` line on which the peer sends to us.
#[derive(Debug)]
pub struct Receiver {
    /// The `m=` line's tag.
    pub mid: String,
    /// Video or audio.
    pub kind: Kind,
    codecs: Vec<AgreedCodec>,
    ssrc: Option<Ssrc>,
    rtx_ssrc: Option<Ssrc>,
    transport_cc: Option<u8>,
    source: Option<Box<Source>>,
    keyframe_requested: Option<Instant>,
    full_intra_number: u8,
}

/// The stream that comes on a receiver, once it does.
#[derive(Debug)]
struct Source {
    codec: Codec,
    nack: Option<NackGenerator>,
    extender: rtp::SequenceExtender,
    statistics: ReceiveStatistics,
    report: Option<SenderTime>,
}

/// What a sender report says of a stream's clock (RFC 3550 §6.4.1): this RTP
/// timestamp is this wall-clock time of the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderTime {
    /// The sender's wall clock.
    pub ntp: NtpTime,
    /// The RTP timestamp of the same instant.
    pub rtp_timestamp: u32,
    /// When the report came.
    pub received: Instant,
}

/// Which of a receiver's payload types a packet has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Media, coded by `codecs[0]` or another of the list.
    Media(usize),
    /// Retransmission of `codecs[…]`.
    Rtx(usize),
}

/// A decoder that is lost says so at most this often: the keyframe asked for
/// last is on its way for about as long.
const KEYFRAME_REQUEST_INTERVAL: Duration = Duration::from_millis(300);

impl Receiver {
    pub(super) fn new(agreed: AgreedMedia) -> Self {
        let wants_feedback = agreed
            .codecs
            .iter()
            .any(|codec| codec.feedback.transport_cc);
        Self {
            mid: agreed.mid,
            kind: agreed.kind,
            codecs: agreed.codecs,
            ssrc: agreed.ssrc,
            rtx_ssrc: agreed.rtx_ssrc,
            transport_cc: agreed.extensions.transport_cc.filter(|_| wants_feedback),
            source: None,
            keyframe_requested: None,
            full_intra_number: 0,
        }
    }

    /// The coding that comes; before the first packet the one most likely.
    pub fn codec(&self) -> Codec {
        match &self.source {
            Some(source) => source.codec,
            None => self.codecs[0].codec,
        }
    }

    /// Whether packets of this payload type hold others, each with its own
    /// (RFC 2198).
    pub fn is_redundant(&self, payload_type: u8) -> bool {
        let mut codecs = self.codecs.iter();
        codecs.any(|codec| codec.red_payload_type == Some(payload_type))
    }

    /// RTP ticks per second.
    pub fn clock_rate(&self) -> u32 {
        self.codec().clock_rate()
    }

    /// The source, once it sends or if it was announced.
    pub fn ssrc(&self) -> Option<Ssrc> {
        let live = self.source.as_ref().map(|source| source.statistics.ssrc());
        live.or(self.ssrc)
    }

    /// Packets so far; a new source starts from zero.
    pub fn totals(&self) -> Totals {
        self.source
            .as_ref()
            .map_or_else(Totals::default, |source| source.statistics.totals())
    }

    /// Interarrival jitter (RFC 3550 §6.4.1).
    pub fn jitter(&self) -> Duration {
        self.source
            .as_ref()
            .map_or(Duration::ZERO, |source| source.statistics.jitter())
    }

    /// The last sender report, for lip sync and one-way delay.
    pub fn sender_time(&self) -> Option<SenderTime> {
        self.source.as_ref()?.report
    }

    /// Packets missing now that were or will be asked for.
    pub fn missing(&self) -> usize {
        self.generator().map_or(0, NackGenerator::missing)
    }

    /// Packets given up since the last call: time to ask for a keyframe.
    pub fn take_given_up(&mut self) -> u64 {
        self.generator_mut().map_or(0, NackGenerator::take_given_up)
    }

    /// What part of this receiver has the packet's SSRC and payload type.
    pub(super) fn part_by_ssrc(&self, header: &rtp::Header) -> Option<Part> {
        if self.ssrc() == Some(header.ssrc) {
            self.media_part(header.payload_type)
        } else if self.rtx_ssrc == Some(header.ssrc) {
            self.rtx_part(header.payload_type)
        } else {
            None
        }
    }

    /// What part of this receiver has the packet's payload type.
    pub(super) fn part_by_payload_type(&self, header: &rtp::Header) -> Option<Part> {
        self.media_part(header.payload_type)
            .or_else(|| self.rtx_part(header.payload_type))
    }

    fn media_part(&self, payload_type: u8) -> Option<Part> {
        let mut codecs = self.codecs.iter();
        let position = codecs.position(|codec| {
            codec.payload_type == payload_type || codec.red_payload_type == Some(payload_type)
        })?;
        Some(Part::Media(position))
    }

    fn rtx_part(&self, payload_type: u8) -> Option<Part> {
        let mut codecs = self.codecs.iter();
        let position = codecs.position(|codec| codec.rtx_payload_type == Some(payload_type))?;
        Some(Part::Rtx(position))
    }

    /// Number of the header extension with the transport-wide number.
    pub(super) fn transport_extension(&self) -> Option<u8> {
        self.transport_cc
    }

    /// Notes an original packet; its extended number and what it means for gaps.
    pub(super) fn on_media(
        &mut self,
        codec: usize,
        header: &rtp::Header,
        payload_bytes: usize,
        now: Instant,
    ) -> (u64, Arrival) {
        let known = self
            .source
            .as_ref()
            .is_some_and(|source| source.statistics.ssrc() == header.ssrc);
        if !known {
            self.source = Some(Box::new(Source::new(header.ssrc, &self.codecs[codec])));
        }
        let source = self.source.as_mut().expect("just made");
        source.codec = self.codecs[codec].codec;
        let sequence = source.extender.extend(header.sequence);
        source
            .statistics
            .on_packet(sequence, header.timestamp, payload_bytes, now);
        let arrival = source
            .nack
            .as_mut()
            .map_or(Arrival::Next, |nack| nack.on_packet(sequence, now));
        (sequence, arrival)
    }

    /// Notes a retransmission of `original`: the original header's SSRC, payload
    /// type and extended number; `None` if it repairs nothing.
    pub(super) fn on_rtx(
        &mut self,
        codec: usize,
        original: u16,
        payload_bytes: usize,
        now: Instant,
    ) -> Option<(Ssrc, u8, u64)> {
        let payload_type = self.codecs.get(codec)?.payload_type;
        let source = self.source.as_mut()?;
        let sequence = source.extender.extend(original);
        let arrival = source
            .nack
            .as_mut()
            .map_or(Arrival::Old, |nack| nack.on_packet(sequence, now));
        source.statistics.on_recovered(sequence, payload_bytes);
        (arrival != Arrival::Old).then(|| (source.statistics.ssrc(), payload_type, sequence))
    }

    pub(super) fn on_sender_report(&mut self, report: &rtcp::SenderReport, now: Instant) {
        let Some(source) = &mut self.source else {
            return;
        };
        if source.statistics.ssrc() != report.ssrc {
            return;
        }
        source.statistics.on_sender_report(report.ntp, now);
        source.report = Some(SenderTime {
            ntp: report.ntp,
            rtp_timestamp: report.rtp_timestamp,
            received: now,
        });
    }

    pub(super) fn report_block(&mut self, now: Instant) -> Option<rtcp::ReportBlock> {
        self.source.as_mut()?.statistics.report_block(now)
    }

    pub(super) fn set_rtt(&mut self, rtt: Duration) {
        if let Some(nack) = self.generator_mut() {
            nack.set_rtt(rtt);
        }
    }

    pub(super) fn nack_at(&self) -> Option<Instant> {
        self.generator()?.poll_timeout()
    }

    /// Source and numbers to ask for now.
    pub(super) fn poll_nack(&mut self, now: Instant) -> Option<(Ssrc, Vec<u16>)> {
        let source = self.source.as_mut()?;
        let lost = source.nack.as_mut()?.poll(now);
        (!lost.is_empty()).then(|| (source.statistics.ssrc(), lost))
    }

    /// Appends the keyframe request that was agreed; false if none was, if one
    /// went out just now, or if nothing has come yet.
    pub(super) fn write_keyframe_request(
        &mut self,
        from: Ssrc,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> bool {
        let recent = self
            .keyframe_requested
            .is_some_and(|at| now.saturating_duration_since(at) < KEYFRAME_REQUEST_INTERVAL);
        let Some(media) = self.ssrc().filter(|_| !recent) else {
            return false;
        };
        let agreed = |has: fn(&AgreedCodec) -> bool| self.codecs.iter().any(has);
        if agreed(|codec| codec.feedback.pli) {
            let request = rtcp::PictureLossIndication {
                sender: from,
                media,
            };
            request.write(out);
        } else if agreed(|codec| codec.feedback.fir) {
            self.full_intra_number = self.full_intra_number.wrapping_add(1);
            let request = rtcp::FullIntraRequest {
                sender: from,
                requests: vec![(media, self.full_intra_number)],
            };
            request.write(out);
        } else {
            return false;
        }
        self.keyframe_requested = Some(now);
        true
    }

    fn generator(&self) -> Option<&NackGenerator> {
        self.source.as_ref()?.nack.as_ref()
    }

    fn generator_mut(&mut self) -> Option<&mut NackGenerator> {
        self.source.as_mut()?.nack.as_mut()
    }
}

impl Source {
    fn new(ssrc: Ssrc, codec: &AgreedCodec) -> Self {
        Self {
            codec: codec.codec,
            nack: codec.feedback.nack.then(NackGenerator::default),
            extender: rtp::SequenceExtender::new(),
            statistics: ReceiveStatistics::new(ssrc, codec.codec.clock_rate()),
            report: None,
        }
    }
}
