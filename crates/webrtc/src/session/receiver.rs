use std::time::{Duration, Instant};

use glassline_media::{Codec, Kind, NtpTime, Ssrc};
use glassline_rtp as rtp;
use glassline_rtp::nack::{Arrival, NackGenerator};
use glassline_rtp::receive::{ReceiveStatistics, Totals};
use glassline_rtp::rtcp;

use crate::sdp::{AgreedCodec, AgreedMedia};

/// One `m=` line on which the peer sends media to us.
#[derive(Debug)]
pub struct Receiver {
    /// Identification tag of the `m=` line.
    pub mid: String,
    /// Kind of media: video or audio.
    pub kind: Kind,
    codecs: Vec<AgreedCodec>,
    ssrc: Option<Ssrc>,
    rtx_ssrc: Option<Ssrc>,
    transport_cc: Option<u8>,
    stream: Option<Box<ReceivedStream>>,
    keyframe_requested: Option<Instant>,
    full_intra_number: u8,
}

/// The RTP stream that arrives on a receiver.
#[derive(Debug)]
struct ReceivedStream {
    codec: Codec,
    nack: Option<NackGenerator>,
    extender: rtp::SequenceExtender,
    statistics: ReceiveStatistics,
    report: Option<SenderTime>,
}

/// The relation of a stream's RTP timestamps to the sender's wall clock, by its last sender
/// report (RFC 3550 §6.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderTime {
    /// Wall-clock time of the sender.
    pub ntp: NtpTime,
    /// RTP timestamp of the instant `ntp`.
    pub rtp_timestamp: u32,
    /// Instant at which the report arrived.
    pub received: Instant,
}

/// What a packet carries, by its payload type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PayloadKind {
    /// Media of the codec with this index in the receiver's list.
    Media(usize),
    /// A retransmission of media of the codec with this index.
    Rtx(usize),
}

/// Least time between two keyframe requests. The keyframe that was requested last is on its way
/// for about as long.
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
            stream: None,
            keyframe_requested: None,
            full_intra_number: 0,
        }
    }

    /// Returns the codec that is received; before the first packet, the most likely one.
    pub fn codec(&self) -> Codec {
        match &self.stream {
            Some(stream) => stream.codec,
            None => self.codecs[0].codec,
        }
    }

    /// Returns whether packets of this payload type contain redundancy: several payloads, each
    /// with its own payload type (RFC 2198).
    pub fn is_redundant(&self, payload_type: u8) -> bool {
        let mut codecs = self.codecs.iter();
        codecs.any(|codec| codec.red_payload_type == Some(payload_type))
    }

    /// Returns the RTP clock rate in Hz.
    pub fn clock_rate(&self) -> u32 {
        self.codec().clock_rate()
    }

    /// Returns the SSRC of the media, once it arrives or if the peer announced it.
    pub fn ssrc(&self) -> Option<Ssrc> {
        let live = self.stream.as_ref().map(|stream| stream.statistics.ssrc());
        live.or(self.ssrc)
    }

    /// Returns the packet counts; they start again from zero when the SSRC changes.
    pub fn totals(&self) -> Totals {
        self.stream
            .as_ref()
            .map_or_else(Totals::default, |stream| stream.statistics.totals())
    }

    /// Interarrival jitter (RFC 3550 §6.4.1).
    pub fn jitter(&self) -> Duration {
        self.stream
            .as_ref()
            .map_or(Duration::ZERO, |stream| stream.statistics.jitter())
    }

    /// Returns the data of the last sender report, for lip sync and one-way delay.
    pub fn sender_time(&self) -> Option<SenderTime> {
        self.stream.as_ref()?.report
    }

    /// Number of packets that are missing now, whether requested or about to be.
    pub fn missing(&self) -> usize {
        self.generator().map_or(0, NackGenerator::missing)
    }

    /// Returns the number of packets that were given up since the last call. If it is not zero,
    /// request a keyframe.
    pub fn take_given_up(&mut self) -> u64 {
        self.generator_mut().map_or(0, NackGenerator::take_given_up)
    }

    /// Returns what a packet carries if its SSRC and payload type belong to this receiver.
    pub(super) fn kind_by_ssrc(&self, header: &rtp::Header) -> Option<PayloadKind> {
        if self.ssrc() == Some(header.ssrc) {
            self.media_kind(header.payload_type)
        } else if self.rtx_ssrc == Some(header.ssrc) {
            self.rtx_kind(header.payload_type)
        } else {
            None
        }
    }

    /// Returns what a packet carries if its payload type belongs to this receiver.
    pub(super) fn kind_by_payload_type(&self, header: &rtp::Header) -> Option<PayloadKind> {
        self.media_kind(header.payload_type)
            .or_else(|| self.rtx_kind(header.payload_type))
    }

    fn media_kind(&self, payload_type: u8) -> Option<PayloadKind> {
        let mut codecs = self.codecs.iter();
        let position = codecs.position(|codec| {
            codec.payload_type == payload_type || codec.red_payload_type == Some(payload_type)
        })?;
        Some(PayloadKind::Media(position))
    }

    fn rtx_kind(&self, payload_type: u8) -> Option<PayloadKind> {
        let mut codecs = self.codecs.iter();
        let position = codecs.position(|codec| codec.rtx_payload_type == Some(payload_type))?;
        Some(PayloadKind::Rtx(position))
    }

    /// Returns the id of the header extension with the transport-wide sequence number.
    pub(super) fn transport_extension(&self) -> Option<u8> {
        self.transport_cc
    }

    /// Records an original packet. Returns its extended sequence number and its relation to
    /// gaps.
    pub(super) fn on_media(
        &mut self,
        codec: usize,
        header: &rtp::Header,
        payload_bytes: usize,
        now: Instant,
    ) -> (u64, Arrival) {
        let known = self
            .stream
            .as_ref()
            .is_some_and(|stream| stream.statistics.ssrc() == header.ssrc);
        if !known {
            self.stream = Some(Box::new(ReceivedStream::new(
                header.ssrc,
                &self.codecs[codec],
            )));
        }
        let stream = self.stream.as_mut().expect("just made");
        stream.codec = self.codecs[codec].codec;
        let sequence = stream.extender.extend(header.sequence);
        stream
            .statistics
            .on_packet(sequence, header.timestamp, payload_bytes, now);
        let arrival = stream
            .nack
            .as_mut()
            .map_or(Arrival::Next, |nack| nack.on_packet(sequence, now));
        (sequence, arrival)
    }

    /// Records a retransmission of packet `original`. Returns SSRC, payload type and extended
    /// sequence number of the original packet; `None` if it was not missing.
    pub(super) fn on_rtx(
        &mut self,
        codec: usize,
        original: u16,
        payload_bytes: usize,
        now: Instant,
    ) -> Option<(Ssrc, u8, u64)> {
        let payload_type = self.codecs.get(codec)?.payload_type;
        let stream = self.stream.as_mut()?;
        let sequence = stream.extender.extend(original);
        let arrival = stream
            .nack
            .as_mut()
            .map_or(Arrival::Old, |nack| nack.on_packet(sequence, now));
        stream.statistics.on_recovered(sequence, payload_bytes);
        (arrival != Arrival::Old).then(|| (stream.statistics.ssrc(), payload_type, sequence))
    }

    pub(super) fn on_sender_report(&mut self, report: &rtcp::SenderReport, now: Instant) {
        let Some(stream) = &mut self.stream else {
            return;
        };
        if stream.statistics.ssrc() != report.ssrc {
            return;
        }
        stream.statistics.on_sender_report(report.ntp, now);
        stream.report = Some(SenderTime {
            ntp: report.ntp,
            rtp_timestamp: report.rtp_timestamp,
            received: now,
        });
    }

    pub(super) fn report_block(&mut self, now: Instant) -> Option<rtcp::ReportBlock> {
        self.stream.as_mut()?.statistics.report_block(now)
    }

    pub(super) fn set_rtt(&mut self, rtt: Duration) {
        if let Some(nack) = self.generator_mut() {
            nack.set_rtt(rtt);
        }
    }

    pub(super) fn nack_at(&self) -> Option<Instant> {
        self.generator()?.poll_timeout()
    }

    /// Returns the SSRC and the sequence numbers to request now.
    pub(super) fn poll_nack(&mut self, now: Instant) -> Option<(Ssrc, Vec<u16>)> {
        let stream = self.stream.as_mut()?;
        let lost = stream.nack.as_mut()?.poll(now);
        (!lost.is_empty()).then(|| (stream.statistics.ssrc(), lost))
    }

    /// Appends the keyframe request that the peer agreed to. Returns false if it agreed to
    /// none, if one was sent shortly before, or if nothing was received yet.
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
        self.stream.as_ref()?.nack.as_ref()
    }

    fn generator_mut(&mut self) -> Option<&mut NackGenerator> {
        self.stream.as_mut()?.nack.as_mut()
    }
}

impl ReceivedStream {
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
