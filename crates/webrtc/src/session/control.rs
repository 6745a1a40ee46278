//! RTCP: the peer's reports and requests, and our own.

use std::time::{Duration, Instant};

use glassline_media::Kind;
use glassline_media::Ssrc;
use glassline_rtp::rtcp;

use super::{Dropped, Event, LayerIndex, NACK_LOST_MAX, ReceiverIndex, SenderIndex, Session};

/// Interval of receiver reports.
pub(super) const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// Number of packets that feedback usually describes at most.
const USUAL_PACKETS: usize = 64;

/// Most packets of one compound packet that are handled; peers send a few.
const PACKETS_MAX: usize = 32;

impl Session {
    pub(super) fn handle_rtcp(&mut self, now: Instant, datagram: &mut [u8]) -> Result<(), Dropped> {
        let keys = self.keys.as_mut().ok_or(Dropped::TooEarly)?;
        let bytes = keys.inbound.open_rtcp(datagram)?;
        // A malformed packet inside an authentic compound packet is an error of the peer; the
        // others are handled all the same.
        let mut result = Ok(());
        self.reports.feedbacks.begin_datagram();
        for packet in rtcp::parse(&datagram[..bytes]).take(PACKETS_MAX).flatten() {
            match &packet {
                // Where nothing that was sent waits for feedback, it costs nothing.
                rtcp::Packet::TransportFeedback(_) if self.history.is_empty() => {}
                rtcp::Packet::TransportFeedback(_) if !self.reports.feedbacks.take(now) => {
                    result = Err(Dropped::ExcessFeedback);
                }
                packet => self.on_rtcp(now, packet),
            }
        }
        result
    }

    fn on_rtcp(&mut self, now: Instant, packet: &rtcp::Packet<'_>) {
        match packet {
            rtcp::Packet::SenderReport(report) => {
                for receiver in &mut self.receivers {
                    receiver.on_sender_report(report, now);
                }
                self.on_report_blocks(now, &report.reports);
            }
            rtcp::Packet::ReceiverReport(report) => self.on_report_blocks(now, &report.reports),
            rtcp::Packet::Nack(nack) => self.on_nack(now, nack),
            rtcp::Packet::PictureLossIndication(request) => self.on_keyframe_request(request.media),
            rtcp::Packet::FullIntraRequest(request) => self.on_full_intra_request(request),
            rtcp::Packet::TransportFeedback(feedback) => self.on_transport_feedback(now, feedback),
            _ => {}
        }
    }

    fn on_report_blocks(&mut self, now: Instant, blocks: &[rtcp::ReportBlock]) {
        for block in blocks {
            let Some((index, sender)) = self.sender_of(block.ssrc) else {
                continue;
            };
            let track = sender.track;
            // NACKs tell more.
            let is_sign = sender.codec.kind() == Kind::Video && !sender.nack;
            let jitter = Duration::from_nanos(
                u64::from(block.jitter) * 1_000_000_000 / u64::from(sender.clock_rate),
            );
            self.events.push(Event::ReceiverReport {
                track,
                sender: index,
                fraction_lost: block.fraction_lost,
                cumulative_lost: block.cumulative_lost,
                jitter,
                rtt: block.round_trip(self.reports.wall.ntp(now)),
            });
            if is_sign {
                self.standby_on_report(now, block.fraction_lost);
            }
        }
    }

    fn on_nack(&mut self, now: Instant, nack: &rtcp::Nack) {
        let Some((index, _)) = self.sender_of(nack.media) else {
            return;
        };
        let sender = &mut self.senders[index.0];
        let track = sender.track;
        let mut lost = Vec::new();
        sender.widen(nack.lost(), &mut lost, NACK_LOST_MAX);
        if !lost.is_empty() {
            self.standby_on_nack(now, index, &lost);
            self.events.push(Event::Nack {
                track,
                sender: index,
                lost,
            });
        }
    }

    fn on_full_intra_request(&mut self, request: &rtcp::FullIntraRequest) {
        for &(media, number) in &request.requests {
            let sender = self.senders.iter_mut().find(|sender| sender.ssrc == media);
            if sender.is_some_and(|sender| sender.is_new_full_intra(number)) {
                self.on_keyframe_request(media);
            }
        }
    }

    fn on_keyframe_request(&mut self, media: Ssrc) {
        let Some((index, sender)) = self.sender_of(media) else {
            return;
        };
        let request = Event::KeyframeRequest {
            track: sender.track,
            sender: index,
        };
        // One keyframe answers all requests that wait.
        if !self.events.contains(&request) {
            self.events.push(request);
        }
    }

    fn on_transport_feedback(&mut self, now: Instant, feedback: &rtcp::TransportFeedback<'_>) {
        let mut acknowledgements = Vec::with_capacity(USUAL_PACKETS);
        let summary = self
            .history
            .on_feedback(feedback, now, &mut acknowledgements);
        if let Some(congestion) = self.congestion.control_mut() {
            congestion.on_feedback(&mut acknowledgements, now);
        }
        let count = |count| u32::try_from(count).unwrap_or(u32::MAX);
        self.events.push(Event::TransportFeedback {
            acked: count(summary.acked),
            acked_bytes: summary.acked_bytes as u64,
            lost: count(summary.lost),
        });
    }

    fn sender_of(&self, ssrc: Ssrc) -> Option<(SenderIndex, &super::Sender)> {
        let mut senders = self.senders.iter().enumerate();
        let (place, sender) = senders.find(|(_, sender)| sender.ssrc == ssrc)?;
        Some((SenderIndex(place), sender))
    }

    /// Requests a keyframe of a receiver's selected layer from the peer (PLI, otherwise FIR). Returns
    /// false if the peer agreed to neither, nothing was received yet, or the last request is less than
    /// 300 ms ago.
    pub fn request_keyframe(&mut self, receiver: ReceiverIndex, now: Instant) -> bool {
        let selected = self
            .receivers
            .get(receiver.0)
            .map(super::Receiver::selected);
        selected.is_some_and(|layer| self.request_layer_keyframe(receiver, layer, now))
    }

    /// Requests a keyframe of one simulcast layer, as [`request_keyframe`](Self::request_keyframe) does.
    pub fn request_layer_keyframe(
        &mut self,
        receiver: ReceiverIndex,
        layer: LayerIndex,
        now: Instant,
    ) -> bool {
        self.timeout = None;
        let from = self.rtcp_ssrc;
        let mut packet = self.begin_feedback();
        let receiver = self.receivers.get_mut(receiver.0);
        let wanted =
            receiver.is_some_and(|it| it.write_keyframe_request(layer, from, now, &mut packet));
        if wanted {
            self.send_rtcp(packet);
        }
        wanted
    }

    /// Selects the simulcast layer of a receiver that its statistics describe.
    pub fn select_layer(&mut self, receiver: ReceiverIndex, layer: LayerIndex) {
        self.timeout = None;
        if let Some(receiver) = self.receivers.get_mut(receiver.0) {
            receiver.select(layer);
        }
    }

    /// Returns the instant at which the next report or request is due.
    pub(super) fn reports_at(&self) -> Option<Instant> {
        let senders = self.senders.iter().filter_map(super::Sender::report_at);
        let nacks = self.receivers.iter().filter_map(super::Receiver::nack_at);
        // Feedback that names no source of the peer is useless, and harms some publishers.
        let recorder = self
            .recorder
            .as_ref()
            .filter(|_| self.feedback_source().is_some());
        let feedback = recorder.and_then(|it| it.poll_timeout());
        senders
            .chain(nacks)
            .chain(feedback)
            .chain(self.reports.at)
            .min()
    }

    /// Sends every report and request that is due.
    pub(super) fn send_reports(&mut self, now: Instant) {
        self.send_sender_reports(now, now);
        self.send_nacks(now);
        self.send_transport_feedback(now);
        if self.reports.at.is_some_and(|at| at <= now) {
            self.reports.at = Some(now + REPORT_INTERVAL);
            self.send_receiver_report(now);
        }
    }

    /// Queues the sender reports that are due within `early`, and returns whether there are any. A
    /// report that leaves together with media costs no system call of its own.
    #[inline]
    pub fn report_early(&mut self, now: Instant, early: Duration) -> bool {
        let until = now + early;
        let mut due = self.senders.iter().filter_map(super::Sender::report_at);
        due.any(|at| at <= until) && self.send_sender_reports(now, until)
    }

    /// Sends the sender reports that are due at `until`, as of `now`.
    fn send_sender_reports(&mut self, now: Instant, until: Instant) -> bool {
        self.timeout = None;
        let mut is_any = false;
        for index in 0..self.senders.len() {
            let report = self.senders[index].poll_report(now, until, &self.reports.wall);
            if let Some(report) = report {
                let mut packet = Vec::with_capacity(RTCP_BYTES);
                report.write(&mut packet);
                self.write_cname(report.ssrc, &mut packet);
                self.send_rtcp(packet);
                is_any = true;
            }
        }
        is_any
    }

    fn send_receiver_report(&mut self, now: Instant) {
        if let Some(rtt) = self.ice.round_trip() {
            for receiver in &mut self.receivers {
                receiver.set_rtt(rtt);
            }
        }
        let reports: Vec<_> = self
            .receivers
            .iter_mut()
            .flat_map(|receiver| receiver.report_blocks(now))
            .collect();
        if reports.is_empty() {
            return;
        }
        let mut packet = Vec::with_capacity(RTCP_BYTES);
        let report = rtcp::ReceiverReport {
            ssrc: self.rtcp_ssrc,
            reports,
        };
        report.write(&mut packet);
        self.write_cname(self.rtcp_ssrc, &mut packet);
        self.send_rtcp(packet);
    }

    fn send_nacks(&mut self, now: Instant) {
        for index in 0..self.receivers.len() {
            while let Some((media, lost)) = self.receivers[index].poll_nack(now) {
                self.reports.nacked += lost.len() as u64;
                let mut packet = self.begin_feedback();
                rtcp::Nack::new(self.rtcp_ssrc, media, lost).write(&mut packet);
                self.send_rtcp(packet);
            }
        }
    }

    fn send_transport_feedback(&mut self, now: Instant) {
        let from = self.rtcp_ssrc;
        let Some(media) = self.feedback_source() else {
            return;
        };
        loop {
            let mut packet = self.begin_feedback();
            let Some(recorder) = &mut self.recorder else {
                return;
            };
            if !recorder.poll(now, from, media, &mut packet) {
                return;
            }
            self.send_rtcp(packet);
        }
    }

    /// Returns the source of the peer that transport feedback names.
    fn feedback_source(&self) -> Option<Ssrc> {
        let mut receivers = self.receivers.iter();
        let media = receivers.find_map(super::Receiver::ssrc);
        media.or_else(|| self.receivers.iter().find_map(super::Receiver::any_ssrc))
    }

    pub(super) fn send_bye(&mut self, now: Instant) {
        let sources: Vec<Ssrc> = if self.senders.is_empty() {
            vec![self.rtcp_ssrc]
        } else {
            self.senders.iter().map(|sender| sender.ssrc).collect()
        };
        let first = sources[0];
        let mut packet = Vec::with_capacity(RTCP_BYTES);
        let report = rtcp::ReceiverReport {
            ssrc: first,
            reports: self
                .receivers
                .iter_mut()
                .flat_map(|receiver| receiver.report_blocks(now))
                .collect(),
        };
        report.write(&mut packet);
        self.write_cname(first, &mut packet);
        let bye = rtcp::Bye {
            sources,
            reason: b"",
        };
        bye.write(&mut packet);
        self.send_rtcp(packet);
    }

    /// Returns the begin of a feedback packet: nothing, or a report where the peer may need one.
    fn begin_feedback(&self) -> Vec<u8> {
        if self.reports.are_lone {
            Vec::with_capacity(RTCP_BYTES)
        } else {
            self.empty_report()
        }
    }

    /// Returns an empty receiver report, which precedes feedback (RFC 3550 §6.1). It costs
    /// eight bytes, and every peer accepts it, whether or not it agreed to reduced-size RTCP
    /// (RFC 5506).
    pub(super) fn empty_report(&self) -> Vec<u8> {
        let mut packet = Vec::with_capacity(RTCP_BYTES);
        let report = rtcp::ReceiverReport {
            ssrc: self.rtcp_ssrc,
            reports: Vec::new(),
        };
        report.write(&mut packet);
        packet
    }

    fn write_cname(&self, ssrc: Ssrc, packet: &mut Vec<u8>) {
        rtcp::SourceDescription::cname(ssrc, self.reports.cname.as_bytes()).write(packet);
    }

    /// Seals a compound packet and queues it.
    pub(super) fn send_rtcp(&mut self, mut packet: Vec<u8>) {
        let Some(keys) = &mut self.keys else {
            return;
        };
        if !keys.outbound.seal_rtcp(&mut packet) {
            return;
        }
        self.reports.push(packet);
    }
}

/// Usual length of a compound packet in bytes: report, canonical name, tag and index.
const RTCP_BYTES: usize = 128;
