use std::time::{Duration, Instant};

use glassline_media::{Codec, Kind, NtpTime, Ssrc};
use glassline_rtp as rtp;
use glassline_rtp::nack::{self, Arrival, NackGenerator};
use glassline_rtp::receive::{ReceiveStatistics, Totals};
use glassline_rtp::rtcp;

use super::index::{LayerIndex, PayloadKind};
use super::rebuilding::Rebuilding;
use crate::sdp::{AgreedCodec, AgreedMedia, ExtensionIds};

/// One `m=` line on which the peer sends media to us.
#[derive(Debug)]
pub struct Receiver {
    /// Identification tag of the `m=` line.
    pub mid: String,
    /// Kind of media: video or audio.
    pub kind: Kind,
    codecs: Vec<AgreedCodec>,
    /// One without simulcast; never empty.
    layers: Vec<ReceivedLayer>,
    /// Layer that those methods describe which name none.
    selected: LayerIndex,
    extensions: ExtensionIds,
    transport_cc: Option<u8>,
    /// Time for which lost packets are requested; `None` takes the default.
    repair_budget: Option<Duration>,
    full_intra_number: u8,
    /// Rebuilds lost packets; `None` if FlexFEC is not agreed on.
    pub(super) rebuilding: Option<Box<Rebuilding>>,
}

/// One simulcast layer, or all that is received without simulcast.
#[derive(Debug)]
struct ReceivedLayer {
    /// Empty without simulcast.
    rid: Box<str>,
    /// SSRC of the media, if the peer announced it.
    ssrc: Option<Ssrc>,
    rtx_ssrc: Option<Ssrc>,
    keyframe_requested: Option<Instant>,
    stream: Option<Box<ReceivedStream>>,
}

/// The RTP stream that arrives on a layer.
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

/// Least time between two keyframe requests. The keyframe that was requested last is on its way
/// for about as long.
const KEYFRAME_REQUEST_INTERVAL: Duration = Duration::from_millis(300);

impl Receiver {
    pub(super) fn new(agreed: AgreedMedia) -> Self {
        let wants_feedback = agreed
            .codecs
            .iter()
            .any(|codec| codec.feedback.transport_cc);
        let mut layers: Vec<ReceivedLayer> = agreed.rids.iter().map(|rid| layer(rid)).collect();
        if layers.is_empty() {
            layers.push(layer(""));
        }
        // Publishers that announce SSRCs next to RIDs announce that of their first layer.
        layers[0].ssrc = agreed.ssrc;
        layers[0].rtx_ssrc = agreed.rtx_ssrc;
        Self {
            mid: agreed.mid,
            kind: agreed.kind,
            codecs: agreed.codecs,
            layers,
            selected: LayerIndex(0),
            transport_cc: agreed.extensions.transport_cc.filter(|_| wants_feedback),
            extensions: agreed.extensions,
            repair_budget: None,
            full_intra_number: 0,
            rebuilding: agreed.fec.map(Rebuilding::new),
        }
    }

    /// Returns the RIDs of the simulcast layers, in the order of [`LayerIndex`]; one empty name
    /// without simulcast.
    pub fn rids(&self) -> impl ExactSizeIterator<Item = &str> {
        self.layers.iter().map(|layer| &*layer.rid)
    }

    /// Returns the layer that the methods describe which name none.
    pub fn selected(&self) -> LayerIndex {
        self.selected
    }

    /// Returns the codec of a payload type, and the peer's format parameters for it.
    pub fn format(&self, payload_type: u8) -> Option<(Codec, &str)> {
        let mut codecs = self.codecs.iter();
        let found = codecs.find(|it| it.payload_type == payload_type)?;
        Some((found.codec, &found.parameters))
    }

    /// Returns the payload type that the peer most likely sends.
    pub fn likely_payload_type(&self) -> u8 {
        self.codecs[0].payload_type
    }

    /// Returns whether lost packets are requested again.
    pub fn is_repaired(&self) -> bool {
        self.codecs.iter().any(|codec| codec.feedback.nack)
    }

    /// Returns the time at which the content of a packet was captured, by the peer's clock, if
    /// the packet says so.
    pub fn capture_time(&self, packet: &rtp::Packet<'_>) -> Option<NtpTime> {
        let data = packet.extensions.get(self.extensions.capture_time?)?;
        let ntp = data.first_chunk()?;
        Some(NtpTime(u64::from_be_bytes(*ntp)))
    }

    /// Returns the dependency descriptor of a packet, if it has one.
    pub fn dependency_descriptor<'a>(&self, packet: &rtp::Packet<'a>) -> Option<&'a [u8]> {
        let id = self.extensions.dependency_descriptor?;
        packet.extensions.get(id)
    }

    /// Returns the codec that is received; before the first packet, the most likely one.
    pub fn codec(&self) -> Codec {
        match self.stream() {
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
        self.layer(self.selected)?.ssrc()
    }

    /// Returns any SSRC under which the peer sends here, of media or of retransmissions.
    pub(super) fn any_ssrc(&self) -> Option<Ssrc> {
        let media = self.layers.iter().find_map(ReceivedLayer::ssrc);
        media.or_else(|| self.layers.iter().find_map(|layer| layer.rtx_ssrc))
    }

    /// Returns the packet counts; they start again from zero when the SSRC changes.
    pub fn totals(&self) -> Totals {
        self.stream()
            .map_or_else(Totals::default, |stream| stream.statistics.totals())
    }

    /// Interarrival jitter (RFC 3550 §6.4.1).
    pub fn jitter(&self) -> Duration {
        self.stream()
            .map_or(Duration::ZERO, |stream| stream.statistics.jitter())
    }

    /// Returns the data of the last sender report, for lip sync and one-way delay.
    pub fn sender_time(&self) -> Option<SenderTime> {
        self.stream()?.report
    }

    /// Returns the data of the last sender report of a layer.
    pub fn sender_time_of(&self, layer: LayerIndex) -> Option<SenderTime> {
        self.layer(layer)?.stream.as_ref()?.report
    }

    /// Number of packets that are missing now of all layers, whether requested or about to be.
    pub fn missing(&self) -> usize {
        self.generators().map(NackGenerator::missing).sum()
    }

    /// Returns the number of packets of all layers that were given up since the last call. If it is not
    /// zero, request a keyframe.
    pub fn take_given_up(&mut self) -> u64 {
        self.generators_mut()
            .map(NackGenerator::take_given_up)
            .sum()
    }

    /// Returns the layer of a packet and what the packet carries, if its SSRC and payload type
    /// belong to this receiver.
    pub(super) fn find_by_ssrc(&self, header: &rtp::Header) -> Option<(LayerIndex, PayloadKind)> {
        let fec = self.rebuilding.as_ref().map(|it| it.agreed);
        if fec.is_some_and(|it| (it.ssrc, it.payload_type) == (header.ssrc, header.payload_type)) {
            return Some((LayerIndex(0), PayloadKind::Fec));
        }
        let mut layers = self.layers.iter().enumerate();
        layers.find_map(|(index, layer)| {
            let kind = if layer.ssrc() == Some(header.ssrc) {
                self.media_kind(header.payload_type)?
            } else if layer.rtx_ssrc == Some(header.ssrc) {
                self.rtx_kind(header.payload_type)?
            } else {
                return None;
            };
            Some((LayerIndex(index), kind))
        })
    }

    /// Finds the layer of an authentic packet of an SSRC that is not known yet, by MID and RID
    /// (RFC 9143 §9.2), otherwise by payload type. The SSRC belongs to the layer from now on.
    pub(super) fn bind(&mut self, packet: &rtp::Packet<'_>) -> Option<(LayerIndex, PayloadKind)> {
        let element = |id: Option<u8>| id.and_then(|id| packet.extensions.get(id));
        let mid = element(self.extensions.mid);
        if mid.is_some_and(|mid| mid != self.mid.as_bytes()) {
            return None;
        }
        let kind = self.kind_by_payload_type(&packet.header)?;
        let rid = match kind {
            PayloadKind::Media(_) | PayloadKind::Fec => element(self.extensions.rid),
            PayloadKind::Rtx(_) => {
                element(self.extensions.repaired_rid).or(element(self.extensions.rid))
            }
        };
        let index = match rid {
            Some(rid) => {
                let mut layers = self.layers.iter();
                layers.position(|layer| layer.rid.is_empty() || layer.rid.as_bytes() == rid)?
            }
            None if self.layers.len() == 1 => 0,
            None => return None,
        };
        if let PayloadKind::Rtx(_) = kind {
            self.layers[index].rtx_ssrc = Some(packet.header.ssrc);
        }
        Some((LayerIndex(index), kind))
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

    /// Sets for how long lost packets are requested.
    pub(super) fn set_repair_budget(&mut self, budget: Duration) {
        self.repair_budget = Some(budget);
    }

    /// Selects the layer that those methods describe which name none. A layer that does not exist is
    /// ignored.
    pub(super) fn select(&mut self, layer: LayerIndex) {
        if layer.0 < self.layers.len() {
            self.selected = layer;
        }
    }

    /// Records an original packet. Returns its extended sequence number and its relation to
    /// gaps.
    pub(super) fn on_media(
        &mut self,
        layer: LayerIndex,
        codec: usize,
        header: &rtp::Header,
        payload_bytes: usize,
        now: Instant,
    ) -> (u64, Arrival) {
        let of_layer = &mut self.layers[layer.0].stream;
        let known = of_layer
            .as_ref()
            .is_some_and(|stream| stream.statistics.ssrc() == header.ssrc);
        if !known {
            let agreed = &self.codecs[codec];
            let stream = ReceivedStream::new(header.ssrc, agreed, self.repair_budget);
            *of_layer = Some(Box::new(stream));
        }
        let stream = of_layer.as_mut().expect("just made");
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
        layer: LayerIndex,
        codec: usize,
        original: u16,
        payload_bytes: usize,
        now: Instant,
    ) -> Option<(Ssrc, u8, u64)> {
        let payload_type = self.codecs.get(codec)?.payload_type;
        let stream = self.layers.get_mut(layer.0)?.stream.as_mut()?;
        let sequence = stream.extender.extend(original);
        let arrival = stream
            .nack
            .as_mut()
            .map_or(Arrival::Old, |nack| nack.on_packet(sequence, now));
        stream.statistics.on_recovered(sequence, payload_bytes);
        (arrival != Arrival::Old).then(|| (stream.statistics.ssrc(), payload_type, sequence))
    }

    pub(super) fn on_sender_report(&mut self, report: &rtcp::SenderReport, now: Instant) {
        let mut streams = self.layers.iter_mut().filter_map(|it| it.stream.as_mut());
        let Some(stream) = streams.find(|it| it.statistics.ssrc() == report.ssrc) else {
            return;
        };
        stream.statistics.on_sender_report(report.ntp, now);
        stream.report = Some(SenderTime {
            ntp: report.ntp,
            rtp_timestamp: report.rtp_timestamp,
            received: now,
        });
    }

    /// Returns a report block for each layer that arrives.
    pub(super) fn report_blocks(
        &mut self,
        now: Instant,
    ) -> impl Iterator<Item = rtcp::ReportBlock> {
        let streams = self.layers.iter_mut().filter_map(|it| it.stream.as_mut());
        streams.filter_map(move |stream| stream.statistics.report_block(now))
    }

    pub(super) fn set_rtt(&mut self, rtt: Duration) {
        self.generators_mut().for_each(|nack| nack.set_rtt(rtt));
    }

    pub(super) fn nack_at(&self) -> Option<Instant> {
        self.generators()
            .filter_map(NackGenerator::poll_timeout)
            .min()
    }

    /// Returns the SSRC and the sequence numbers to request now, of one layer after the other.
    pub(super) fn poll_nack(&mut self, now: Instant) -> Option<(Ssrc, Vec<u16>)> {
        let mut streams = self.layers.iter_mut().filter_map(|it| it.stream.as_mut());
        streams.find_map(|stream| {
            let lost = stream.nack.as_mut()?.poll(now);
            (!lost.is_empty()).then(|| (stream.statistics.ssrc(), lost))
        })
    }

    /// Appends the request for a keyframe of `layer` that the peer agreed to. Returns false if it
    /// agreed to none, if one was sent shortly before, or if nothing was received yet.
    pub(super) fn write_keyframe_request(
        &mut self,
        layer: LayerIndex,
        from: Ssrc,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> bool {
        let Some(of_layer) = self.layers.get_mut(layer.0) else {
            return false;
        };
        let recent = of_layer
            .keyframe_requested
            .is_some_and(|at| now.saturating_duration_since(at) < KEYFRAME_REQUEST_INTERVAL);
        let Some(media) = of_layer.ssrc().filter(|_| !recent) else {
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
        self.layers[layer.0].keyframe_requested = Some(now);
        true
    }

    fn layer(&self, layer: LayerIndex) -> Option<&ReceivedLayer> {
        self.layers.get(layer.0)
    }

    /// Returns what arrives on the selected layer.
    fn stream(&self) -> Option<&ReceivedStream> {
        self.layer(self.selected)?.stream.as_deref()
    }

    fn generators(&self) -> impl Iterator<Item = &NackGenerator> {
        let streams = self.layers.iter().filter_map(|it| it.stream.as_ref());
        streams.filter_map(|stream| stream.nack.as_ref())
    }

    fn generators_mut(&mut self) -> impl Iterator<Item = &mut NackGenerator> {
        let streams = self.layers.iter_mut().filter_map(|it| it.stream.as_mut());
        streams.filter_map(|stream| stream.nack.as_mut())
    }
}

fn layer(rid: &str) -> ReceivedLayer {
    ReceivedLayer {
        rid: rid.into(),
        ssrc: None,
        rtx_ssrc: None,
        keyframe_requested: None,
        stream: None,
    }
}

impl ReceivedLayer {
    /// Returns the SSRC of the media, once it arrives or if the peer announced it.
    fn ssrc(&self) -> Option<Ssrc> {
        let live = self.stream.as_ref().map(|stream| stream.statistics.ssrc());
        live.or(self.ssrc)
    }
}

impl ReceivedStream {
    fn new(ssrc: Ssrc, codec: &AgreedCodec, repair_budget: Option<Duration>) -> Self {
        let mut config = nack::Config::default();
        config.budget = repair_budget.unwrap_or(config.budget);
        config.repeats = repair_budget.is_some();
        Self {
            codec: codec.codec,
            nack: codec.feedback.nack.then(|| NackGenerator::new(config)),
            extender: rtp::SequenceExtender::new(),
            statistics: ReceiveStatistics::new(ssrc, codec.codec.clock_rate()),
            report: None,
        }
    }
}
