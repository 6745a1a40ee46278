//! The client's end of RECORD without sockets: requests, packets and what limits them, reports.
//!
//! ```text
//! units ─► Outgoing ─ budget ─► RecordingCarrier ─┬► Client::output ─► TCP connection
//!                       ▲                         └► datagrams ─► UDP ports of the server
//!   StreamFlow ◄── bytes that TCP has not acknowledged
//!   ReportedRate ◄── receiver reports ◄── RTCP ──► keyframe wanted
//! ```

use std::time::{Duration, Instant};

use glassline_congestion::{Algorithm, Reception, ReportedRate};
use glassline_media::{Bitrate, MediaTime, PAYLOAD_BYTES_MAX, Track, TrackIndex, WallClock};
use glassline_rtp::rtcp;
use glassline_rtsp::client::{Announcement, Client, Config, Event, RequestedTransport};
use glassline_rtsp::sdp::{Presentation, Section};

use super::RtspError;
use super::stream_flow::StreamFlow;
use super::track::{Datagram, RtpTrack, Start};
use crate::publish::dispatch::Path;
use crate::publish::uplink::outgoing::{Outgoing, OutgoingPacket, PacketCarrier};

/// Time between sender reports. Receivers need one to play audio and video together, and to tell the
/// round trip.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// Bytes that may wait for room in the connection. More would make a late frame later.
const OUTPUT_BYTES_MAX: usize = 16 << 10;

/// Bytes before each packet that is interleaved in the connection (RFC 2326 §10.12).
const FRAMING: u64 = 4;

/// How a stream is recorded.
pub(super) struct Plan<'a> {
    pub(super) client: Config,
    pub(super) presentation: Presentation,
    pub(super) transports: Vec<RequestedTransport>,
    pub(super) tracks: &'a [Track],
    /// The numbers that each track begins with.
    pub(super) starts: Vec<Start>,
    pub(super) algorithm: Algorithm,
    /// Bitrate of the video at the beginning.
    pub(super) start: Bitrate,
    pub(super) wall: WallClock,
    /// When media time zero was.
    pub(super) zero: Instant,
    /// Canonical name of this end (RFC 3550 §6.5.1).
    pub(super) name: String,
}

/// The limit of the packets of a recording.
#[derive(Debug)]
enum Limit {
    /// Packets share the connection.
    Stream(Box<StreamFlow>),
    /// Packets are datagrams.
    Reports(ReportedRate),
}

/// A stream that a server records.
#[derive(Debug)]
pub(super) struct Recording {
    client: Client,
    pub(super) outgoing: Outgoing,
    tracks: Vec<RtpTrack>,
    limit: Limit,
    report_at: Option<Instant>,
    wall: WallClock,
    zero: Instant,
    name: String,
    pub(super) keyframe_wanted: bool,
    /// Round trip and packets lost of the first track, by the latest report.
    round_trip: Option<Duration>,
    lost_packets: u64,
    sent_bytes: u64,
    /// The reason why the session has ended.
    pub(super) ended: Option<RtspError>,
}

impl Recording {
    /// Sends the first request. The connection stands.
    pub(super) fn start(plan: Plan<'_>, now: Instant) -> Self {
        let is_stream = plan.transports.contains(&RequestedTransport::Interleaved);
        let mut client = Client::new(plan.client);
        client.publish(
            now,
            Announcement {
                presentation: plan.presentation,
                transports: plan.transports,
            },
        );
        let tracks = TrackIndex::enumerate(plan.tracks).zip(plan.starts);
        Self {
            client,
            outgoing: Outgoing::default(),
            tracks: tracks
                .map(|((index, track), start)| RtpTrack::new(track, index, start))
                .collect(),
            limit: match is_stream {
                true => Limit::Stream(Box::new(StreamFlow::new(plan.algorithm))),
                false => Limit::Reports(ReportedRate::new(plan.start, PAYLOAD_BYTES_MAX as u64)),
            },
            report_at: None,
            wall: plan.wall,
            zero: plan.zero,
            name: plan.name,
            keyframe_wanted: false,
            round_trip: None,
            lost_packets: 0,
            sent_bytes: 0,
            ended: None,
        }
    }

    /// Returns the description of a stream with these tracks.
    pub(super) fn describe(
        tracks: &[Track],
        address: std::net::IpAddr,
        version: u64,
    ) -> Presentation {
        Presentation {
            name: "glassline".to_owned(),
            information: String::new(),
            version,
            address,
            duration: None,
            recorded: None,
            tracks: tracks.iter().cloned().map(Section::new).collect(),
        }
    }

    /// Returns whether the server takes media.
    pub(super) const fn is_on(&self) -> bool {
        self.report_at.is_some()
    }

    /// Reads bytes of the connection.
    pub(super) fn handle_data(&mut self, now: Instant, bytes: &[u8]) {
        let mut control = Vec::new();
        self.client.handle_data(now, bytes, |frame| {
            if frame.control {
                control.push((frame.track, frame.payload.to_vec()));
            }
        });
        for (track, packet) in control {
            self.handle_control(now, track, &packet);
        }
    }

    /// Handles the end of the connection.
    pub(super) fn handle_end(&mut self) {
        self.client.handle_end();
    }

    /// Takes a compound packet of RTCP about the track at `index`.
    pub(super) fn handle_control(&mut self, now: Instant, index: TrackIndex, compound: &[u8]) {
        let Some(ssrc) = self.tracks.get(index.get()).map(|track| track.ssrc) else {
            return;
        };
        for packet in rtcp::parse(compound).flatten() {
            let blocks = match packet {
                rtcp::Packet::ReceiverReport(report) => report.reports,
                rtcp::Packet::SenderReport(report) => report.reports,
                rtcp::Packet::PictureLossIndication(_) | rtcp::Packet::FullIntraRequest(_) => {
                    self.keyframe_wanted = true;
                    continue;
                }
                _ => continue,
            };
            // The first track has most of the packets.
            let block = blocks.into_iter().find(|block| block.ssrc == ssrc);
            if let Some(block) = block.filter(|_| index.get() == 0) {
                self.on_report(now, &block);
            }
        }
    }

    fn on_report(&mut self, now: Instant, block: &rtcp::ReportBlock) {
        let round_trip = block.round_trip(self.wall.ntp(now));
        self.round_trip = round_trip.or(self.round_trip);
        self.lost_packets = u64::try_from(block.cumulative_lost).unwrap_or_default();
        if let Limit::Reports(reported) = &mut self.limit {
            let lost = f64::from(block.fraction_lost) / 256.0;
            reported.on_report(now, Reception { lost, round_trip });
        }
    }

    /// Takes the number of bytes in the kernel that the peer has not acknowledged.
    pub(super) fn on_unacknowledged(&mut self, now: Instant, in_kernel: u64) {
        let waiting = in_kernel + self.client.output().len() as u64;
        if let Limit::Stream(flow) = &mut self.limit {
            flow.on_unacknowledged(now, waiting);
            if flow.is_stalled(now) && self.ended.is_none() {
                self.ended = Some(RtspError::Stalled);
            }
        }
    }

    /// Returns whether [`Self::on_unacknowledged`] may acknowledge something.
    pub(super) fn has_unacknowledged(&self) -> bool {
        match &self.limit {
            Limit::Stream(flow) => flow.flow().in_flight() > 0,
            Limit::Reports(_) => false,
        }
    }

    /// Returns the next event of the session; the end is also kept in `ended`.
    pub(super) fn poll_event(&mut self, now: Instant) -> Option<Event> {
        let event = self.client.poll_event()?;
        match &event {
            Event::Recording => self.report_at = Some(now),
            Event::Closed(reason) if self.ended.is_none() => {
                self.ended = Some(RtspError::Closed(reason.clone()));
            }
            _ => {}
        }
        Some(event)
    }

    /// Sends reports that are due, and packets as far as they may leave. `transmit` gets those that
    /// are datagrams, each with its track and whether it is RTCP.
    pub(super) fn send(&mut self, now: Instant, transmit: &mut dyn FnMut(TrackIndex, bool, &[u8])) {
        self.client.handle_timeout(now);
        if !self.is_on() || self.client.is_closed() {
            return;
        }
        if let Limit::Reports(reported) = &mut self.limit {
            reported.handle_timeout(now);
        }
        self.report(now, transmit);
        let (outgoing, mut carrier) = self.carrier(transmit);
        outgoing.send(&mut carrier, now);
    }

    fn report(&mut self, now: Instant, transmit: &mut dyn FnMut(TrackIndex, bool, &[u8])) {
        if self.report_at.is_none_or(|at| at > now) {
            return;
        }
        let time = MediaTime::ZERO + now.saturating_duration_since(self.zero);
        for (index, track) in TrackIndex::enumerate(&self.tracks) {
            let Some(packet) = track.report(self.wall.ntp(now), time, &self.name) else {
                continue;
            };
            self.report_at = Some(now + REPORT_INTERVAL);
            match self.limit {
                Limit::Stream(_) => {
                    // A report that does not fit is followed by the next one.
                    let _ = self.client.send_control(index, &packet);
                }
                Limit::Reports(_) => transmit(index, true, &packet),
            }
        }
    }

    fn carrier<'a>(
        &'a mut self,
        transmit: &'a mut dyn FnMut(TrackIndex, bool, &[u8]),
    ) -> (&'a mut Outgoing, RecordingCarrier<'a>) {
        let carrier = RecordingCarrier {
            client: &mut self.client,
            tracks: &mut self.tracks,
            limit: &mut self.limit,
            sent_bytes: &mut self.sent_bytes,
            transmit,
        };
        (&mut self.outgoing, carrier)
    }

    /// Returns when [`Self::send`] is due.
    pub(super) fn poll_timeout(&mut self, now: Instant) -> Option<Instant> {
        // Before the first packet there is nothing to report.
        let has_sent = self.sent_bytes > 0;
        let report_at = self.report_at.filter(|_| has_sent);
        let silent_at = match &self.limit {
            Limit::Reports(reported) => reported.poll_timeout(),
            Limit::Stream(_) => None,
        };
        let client = self.client.poll_timeout();
        let transmit = &mut |_: TrackIndex, _: bool, _: &[u8]| {};
        let (outgoing, mut carrier) = self.carrier(transmit);
        let due = outgoing.due(&mut carrier, now);
        [client, report_at, silent_at, due]
            .into_iter()
            .flatten()
            .min()
    }

    /// Returns bytes for the connection; call [`Self::advance`] with the number that was written.
    pub(super) fn output(&self) -> &[u8] {
        self.client.output()
    }

    /// Removes the first `count` bytes of the output.
    pub(super) fn advance(&mut self, count: usize) {
        self.client.advance(count);
    }

    /// Ends the session by TEARDOWN.
    pub(super) fn leave(&mut self, now: Instant) {
        self.client.leave(now);
    }

    /// Returns whether nothing waits to be sent or acknowledged.
    pub(super) fn is_idle(&self) -> bool {
        self.outgoing.waiting_bytes() == 0 && !self.has_unacknowledged()
    }

    /// Returns the measurements of the path.
    pub(super) fn path(&self) -> Path {
        let written = self.tracks.iter().map(|track| track.payload_bytes).sum();
        let waiting = self.outgoing.waiting_bytes();
        match &self.limit {
            Limit::Stream(stream) => Path {
                backlog_bytes: waiting + stream.flow().in_flight(),
                written_bytes_total: written,
                deliverable: stream.flow().deliverable_rate(),
                app_limited: stream.flow().is_app_limited(),
                policed: stream.flow().controller().path_model().policed,
            },
            Limit::Reports(reported) => Path {
                backlog_bytes: waiting,
                written_bytes_total: written,
                deliverable: reported.deliverable(),
                // What was not tested is not believed to be carried.
                app_limited: false,
                policed: false,
            },
        }
    }

    /// Returns the bytes of packets sent, those of them that were lost, those that are not
    /// acknowledged, and the round trip.
    pub(super) fn totals(&self) -> Totals {
        match &self.limit {
            Limit::Stream(stream) => Totals {
                sent: self.sent_bytes,
                lost: 0,
                in_flight: stream.flow().in_flight(),
                round_trip: stream.flow().round_trips().smoothed(),
            },
            Limit::Reports(_) => Totals {
                sent: self.sent_bytes,
                lost: self.lost_packets * PAYLOAD_BYTES_MAX as u64,
                in_flight: 0,
                round_trip: self.round_trip,
            },
        }
    }
}

/// Counts of a recording.
#[derive(Clone, Copy, Debug)]
pub(super) struct Totals {
    pub(super) sent: u64,
    /// Bytes lost, if each lost packet of the first track was a full one.
    pub(super) lost: u64,
    pub(super) in_flight: u64,
    pub(super) round_trip: Option<Duration>,
}

/// Sends the packets of a recording.
struct RecordingCarrier<'a> {
    client: &'a mut Client,
    tracks: &'a mut [RtpTrack],
    limit: &'a mut Limit,
    sent_bytes: &'a mut u64,
    transmit: &'a mut dyn FnMut(TrackIndex, bool, &[u8]),
}

impl PacketCarrier for RecordingCarrier<'_> {
    fn budget(&mut self, now: Instant) -> Option<u64> {
        match self.limit {
            Limit::Stream(_) if self.client.output().len() > OUTPUT_BYTES_MAX => Some(0),
            Limit::Stream(flow) => Some(flow.budget(now)),
            Limit::Reports(reported) => reported.budget(now),
        }
    }

    fn budget_at(&mut self, bytes: u64, now: Instant) -> Option<Instant> {
        match self.limit {
            // The connection says when it has room.
            Limit::Stream(_) if self.client.output().len() > OUTPUT_BYTES_MAX => None,
            Limit::Stream(flow) => flow.budget_at(now, bytes),
            Limit::Reports(reported) => reported.budget_at(now, bytes),
        }
    }

    fn send(&mut self, packet: &OutgoingPacket<'_>, now: Instant) -> Option<u64> {
        let track = self.tracks.get_mut(packet.sender)?;
        let mut out: Datagram = [0; _];
        let length = track.write(packet, &mut out);
        let index = TrackIndex(packet.sender);
        let bytes = length as u64;
        match self.limit {
            Limit::Stream(flow) => {
                if !self.client.send_media(index, &out[..length]) {
                    return None;
                }
                flow.on_written(now, bytes + FRAMING);
            }
            Limit::Reports(reported) => {
                (self.transmit)(index, false, &out[..length]);
                reported.on_sent(now, bytes);
            }
        }
        *self.sent_bytes += bytes;
        Some(track.on_sent(packet.payload.len()))
    }

    fn send_again(&mut self, _: u64, _: &OutgoingPacket<'_>, _: Instant) {
        // Plain RTP has no requests for lost packets.
    }

    fn on_app_limited(&mut self) {
        if let Limit::Stream(flow) = self.limit {
            flow.on_app_limited();
        }
    }
}
