//! What a publisher sends in one set of codecs: from packets to access units.

use std::time::Instant;

use glassline_media::{Codec, Kind, NtpTime, Track, TrackIndex};
use glassline_rtp::Packet;
use glassline_rtp::payload::UnsupportedFormat;
use glassline_rtp::receive::SourceReceiver;
use glassline_rtp::units::{TimedUnit, UnitAssembler};
use glassline_webrtc::{LayerIndex, Receiver, ReceiverIndex, Session};

use super::simulcast::Simulcast;
use crate::ingest::Units;

/// What arrives in one set of codecs, up to access units.
#[derive(Debug)]
pub(super) struct Reception {
    /// One feed for each simulcast layer, and one for each other `m=` line. The indices are those
    /// of the tracks in `packets` and `assembler`.
    pub(super) feeds: Vec<IncomingStream>,
    pub(super) packets: SourceReceiver,
    pub(super) assembler: UnitAssembler,
    pub(super) simulcast: Simulcast,
    pub(super) units: Units,
    /// Access units on their way; kept for the capacity.
    pub(super) timed: Vec<TimedUnit>,
}

/// One RTP stream of the publisher.
#[derive(Debug)]
pub(super) struct IncomingStream {
    pub(super) receiver: ReceiverIndex,
    pub(super) layer: LayerIndex,
    pub(super) payload_type: u8,
    /// Track of the stream that the feed may become.
    pub(super) track: TrackIndex,
    pub(super) is_video: bool,
    /// Arrival of the latest sender report that was passed on.
    pub(super) reported: Option<Instant>,
    /// Capture time that the latest packet with one states.
    pub(super) captured: Option<NtpTime>,
}

impl Reception {
    /// Creates the state for the media of `session`, which each receiver sends under the payload
    /// type that `payload_type` returns.
    pub(super) fn new(
        session: &Session,
        payload_type: impl Fn(&Receiver) -> u8,
        now: Instant,
    ) -> Result<Self, UnsupportedFormat> {
        // As with every source, video comes first.
        let mut lines: Vec<(usize, &Receiver)> = session.receivers().iter().enumerate().collect();
        lines.sort_by_key(|(_, receiver)| receiver.kind != Kind::Video);
        let (mut feeds, mut described, mut tracks) = (Vec::new(), Vec::new(), Vec::new());
        for (track, (index, receiver)) in TrackIndex::enumerate(lines) {
            let payload_type = payload_type(receiver);
            for layer in 0..receiver.rids().len() {
                feeds.push(IncomingStream {
                    receiver: ReceiverIndex(index),
                    layer: LayerIndex(layer),
                    payload_type,
                    track,
                    is_video: receiver.kind == Kind::Video,
                    reported: None,
                    captured: None,
                });
                described.push(describe(receiver, payload_type));
            }
            tracks.push(describe(receiver, payload_type));
        }
        let mut packets = SourceReceiver::new(&described);
        for (place, feed) in TrackIndex::enumerate(&feeds) {
            let receiver = &session.receivers()[feed.receiver.0];
            if let Some(pipeline) = packets.pipeline_mut(place) {
                if receiver.is_repaired() {
                    pipeline.come_by_repaired_datagrams();
                } else {
                    pipeline.come_by_datagrams();
                }
            }
        }
        let layers = feeds.iter().filter(|feed| feed.is_video).count();
        Ok(Self {
            packets,
            assembler: UnitAssembler::new(&described)?,
            simulcast: Simulcast::new(layers, now),
            units: Units::new(tracks),
            timed: Vec::new(),
            feeds,
        })
    }

    /// Returns whether a packet of a receiver has another codec than those before. An empty packet
    /// is a probe for bandwidth, and says nothing.
    pub(super) fn is_in_another_codec(
        &self,
        session: &Session,
        receiver: ReceiverIndex,
        packet: &Packet<'_>,
    ) -> bool {
        let payload_type = packet.header.payload_type;
        let mut feeds = self.feeds.iter();
        let present = feeds.find(|feed| feed.receiver == receiver);
        present.is_some_and(|feed| {
            let format = |payload_type| session.receivers()[receiver.0].format(payload_type);
            feed.payload_type != payload_type
                && !packet.payload.is_empty()
                && format(payload_type).is_some()
                && format(payload_type) != format(feed.payload_type)
        })
    }

    /// Returns the payload type under which a receiver's media is taken.
    pub(super) fn payload_type_of(&self, session: &Session, receiver: &Receiver) -> u8 {
        let mut feeds = self.feeds.iter();
        let feed = feeds.find(|feed| session.receivers()[feed.receiver.0].mid == receiver.mid);
        feed.map_or(receiver.likely_payload_type(), |feed| feed.payload_type)
    }

    /// Takes a packet, and sender reports that came since the last one.
    pub(super) fn take(
        &mut self,
        session: &Session,
        place: (ReceiverIndex, LayerIndex),
        packet: &Packet<'_>,
        now: Instant,
    ) {
        let mut feeds = self.feeds.iter_mut().enumerate();
        let Some((index, feed)) = feeds.find(|(_, it)| (it.receiver, it.layer) == place) else {
            return;
        };
        let receiver = &session.receivers()[place.0.0];
        feed.captured = receiver.capture_time(packet).or(feed.captured);
        let report = receiver.sender_time_of(place.1);
        if let Some(report) = report.filter(|it| feed.reported != Some(it.received)) {
            feed.reported = Some(report.received);
            let (ntp, timestamp) = (report.ntp.0, report.rtp_timestamp);
            self.assembler
                .sender_report(TrackIndex(index), ntp, timestamp);
        }
        if feed.is_video {
            self.simulcast.count(index, packet.payload.len());
        }
        let (assembler, timed) = (&mut self.assembler, &mut self.timed);
        let track = TrackIndex(index);
        if let Some(pipeline) = self.packets.pipeline_mut(track) {
            pipeline.take(packet, now, |packet| {
                assembler.push(track, packet, |unit| timed.push(unit));
            });
        }
    }

    /// Gives up missing packets that are overdue.
    pub(super) fn expire(&mut self, now: Instant) {
        if self.packets.deadline().is_none_or(|at| at > now) {
            return;
        }
        let (assembler, timed) = (&mut self.assembler, &mut self.timed);
        for index in 0..self.feeds.len() {
            let track = TrackIndex(index);
            if let Some(pipeline) = self.packets.pipeline_mut(track) {
                pipeline.expire(now, |packet| {
                    assembler.push(track, packet, |unit| timed.push(unit));
                });
            }
        }
    }
}

/// Returns the track that a receiver's media under a payload type becomes.
fn describe(receiver: &Receiver, payload_type: u8) -> Track {
    let format = receiver.format(payload_type);
    let (codec, parameters) = format.unwrap_or((receiver.codec(), ""));
    match codec {
        // In SDP, Opus has two channels whatever is sent (RFC 7587 §7).
        Codec::Opus => Track::audio(codec, 2),
        Codec::Vp9 | Codec::Av1 | Codec::H265 => {
            Track::new(codec).with_format_parameters(parameters)
        }
        _ => Track::new(codec),
    }
}
