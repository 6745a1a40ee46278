//! What a publisher sends in one set of codecs: from packets to access units.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use glassline_latency::CaptureLog;
use glassline_media::{Codec, Kind, Layer, LayerIndex as HubLayer, NtpTime, Track, TrackIndex};
use glassline_rtp::Packet;
use glassline_rtp::payload::UnsupportedFormat;
use glassline_rtp::receive::SourceReceiver;
use glassline_rtp::units::{TimedUnit, UnitAssembler};
use glassline_webrtc::{LayerIndex, Receiver, ReceiverIndex, Session};

use super::layer_orders::LayerOrder;
use crate::Units;
use crate::layer_pauses::LayerPauses;
use crate::simulcast::{Ranking, Simulcast};

/// Most frames whose capture time waits for the frame to be complete.
const CAPTURED_MAX: usize = 32;

/// The media that arrive in one set of codecs, up to access units.
#[derive(Debug)]
pub(super) struct Reception {
    /// One feed for each simulcast layer, and one for each other `m=` line. The indices are those
    /// of the tracks in `packets`, `assembler` and `units`.
    pub(super) feeds: Vec<IncomingStream>,
    pub(super) packets: SourceReceiver,
    pub(super) assembler: UnitAssembler,
    pub(super) simulcast: Simulcast,
    pub(super) pauses: LayerPauses,
    pub(super) units: Units,
    /// Access units on their way; kept for the capacity.
    pub(super) timed: Vec<TimedUnit>,
}

/// One RTP stream of the publisher.
#[derive(Debug)]
pub(super) struct IncomingStream {
    pub(super) receiver: ReceiverIndex,
    pub(super) layer: LayerIndex,
    /// RID of the layer; empty without simulcast.
    rid: String,
    pub(super) payload_type: u8,
    /// Track of the stream to which the feed belongs.
    pub(super) track: TrackIndex,
    pub(super) is_video: bool,
    /// Arrival of the latest sender report that was passed on.
    pub(super) reported: Option<Instant>,
    /// RTP timestamp of the latest frame.
    timestamp: Option<u32>,
    /// Arrival of the first packet and capture time of the latest frames, as far as they are known.
    captured: VecDeque<(Instant, NtpTime)>,
}

impl IncomingStream {
    /// Notes when the frame that begins with `packet` was captured: as the packet says, otherwise by
    /// the latest sender report, whose relation of times a publisher takes from its captures if it
    /// tells us its clock.
    fn note_capture(
        &mut self,
        receiver: &Receiver,
        packet: &Packet<'_>,
        captures: &CaptureLog,
        now: Instant,
    ) {
        let timestamp = packet.header.timestamp;
        if self.timestamp.replace(timestamp) == Some(timestamp) {
            return;
        }
        let by_report = || {
            let report = receiver.sender_time_of(self.layer)?;
            captures.is_told().then(|| {
                let ticks = i64::from(timestamp.wrapping_sub(report.rtp_timestamp).cast_signed());
                let nanos = 1_000_000_000 * ticks / i64::from(receiver.clock_rate());
                moved(report.ntp, nanos)
            })
        };
        let Some(captured) = receiver.capture_time(packet).or_else(by_report) else {
            return;
        };
        if self.captured.len() == CAPTURED_MAX {
            self.captured.pop_front();
        }
        self.captured.push_back((now, captured));
    }

    /// Returns the layer of a track with several that the feed is, if it has `described` as its frames.
    fn describe(&self, described: &Track) -> Layer {
        let (width, height) = (described.video.width, described.video.height);
        let size = u16::try_from(width).ok().zip(u16::try_from(height).ok());
        Layer {
            rid: self.rid.clone(),
            size: size.filter(|size| *size != (0, 0)),
            ..Layer::default()
        }
    }

    /// Returns when the frame whose first packet arrived at `origin` was captured, and forgets the
    /// frames before.
    pub(super) fn take_captured(&mut self, origin: Instant) -> Option<NtpTime> {
        let place = self.captured.iter().position(|(at, _)| *at == origin)?;
        self.captured.drain(..=place).next_back().map(|(_, at)| at)
    }
}

/// Returns the NTP time that is `nanos` later.
fn moved(time: NtpTime, nanos: i64) -> NtpTime {
    let by = Duration::from_nanos(nanos.unsigned_abs());
    let fraction = (u64::from(by.subsec_nanos()) << 32) / 1_000_000_000;
    let units = (by.as_secs() << 32) + fraction;
    NtpTime(match nanos < 0 {
        true => time.0.wrapping_sub(units),
        false => time.0.wrapping_add(units),
    })
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
        let (mut feeds, mut described) = (Vec::new(), Vec::new());
        for (track, (index, receiver)) in TrackIndex::enumerate(lines) {
            let payload_type = payload_type(receiver);
            for (layer, rid) in receiver.rids().enumerate() {
                feeds.push(IncomingStream {
                    rid: rid.to_owned(),
                    receiver: ReceiverIndex(index),
                    layer: LayerIndex(layer),
                    payload_type,
                    track,
                    is_video: receiver.kind == Kind::Video,
                    reported: None,
                    timestamp: None,
                    captured: VecDeque::new(),
                });
                described.push(describe(receiver, payload_type));
            }
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
        let of_first = |feed: &&IncomingStream| feed.is_video && feed.track == TrackIndex(0);
        let assembler = UnitAssembler::new(&described)?;
        let layers = feeds.iter().filter(of_first).count();
        let codec = described.first().map_or(Codec::Opus, |it| it.codec);
        Ok(Self {
            packets,
            assembler,
            simulcast: Simulcast::new(layers, codec, Ranking::Bytes, now),
            pauses: LayerPauses::new(layers),
            units: Units::new(described),
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
        captures: &CaptureLog,
        now: Instant,
    ) {
        let mut feeds = self.feeds.iter_mut().enumerate();
        let Some((index, feed)) = feeds.find(|(_, it)| (it.receiver, it.layer) == place) else {
            return;
        };
        let receiver = &session.receivers()[place.0.0];
        feed.note_capture(receiver, packet, captures, now);
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
        if let Some(descriptor) = receiver.dependency_descriptor(packet) {
            assembler.describe(track, packet.header.timestamp, descriptor);
        }
        if let Some(pipeline) = self.packets.pipeline_mut(track) {
            pipeline.take(packet, now, |packet| {
                assembler.push(track, packet, |unit| timed.push(unit));
            });
        }
    }

    /// Returns the tracks of the stream. That of the layers is described as the layer is which the base
    /// layer follows.
    pub(super) fn tracks(&self) -> Vec<Track> {
        let described = self.units.tracks();
        let mut tracks: Vec<Track> = Vec::new();
        for (index, feed) in self.feeds.iter().enumerate() {
            if feed.track.get() < tracks.len() {
                continue;
            }
            let layers = self.feeds.iter().zip(described).enumerate();
            let layers =
                layers.filter(|(layer, _)| self.simulcast.has(index) && self.simulcast.has(*layer));
            let layers = layers.map(|(layer, (feed, track))| {
                let (absence, bitrate) = self.pauses.absence(layer).unzip();
                Layer {
                    absence,
                    bitrate,
                    ..feed.describe(track)
                }
            });
            let layers: Vec<_> = layers.collect();
            let followed = self.simulcast.followed().filter(|_| !layers.is_empty());
            let described = described[followed.unwrap_or(index)].clone();
            tracks.push(described.with_layers(layers));
        }
        tracks
    }

    /// Returns which layers the publisher should send.
    pub(super) fn orders(&self) -> Vec<LayerOrder> {
        let feeds = self.feeds.iter().enumerate();
        let layers = feeds.filter(|(place, _)| self.simulcast.has(*place));
        let orders = layers.map(|(place, feed)| LayerOrder {
            rid: feed.rid.clone(),
            active: !self.pauses.is_paused(place),
        });
        orders.collect()
    }

    /// Returns the best layer that comes, or would come if somebody needed it.
    pub(super) fn best(&self) -> Option<HubLayer> {
        let paused = self.pauses.best().map(HubLayer::of_encoding);
        paused.or_else(|| self.simulcast.best())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_captured_frame_is_taken_once_and_those_before_are_forgotten() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let captured = [0, 40, 80].map(|ms| (at(ms), NtpTime(ms)));
        let mut feed = IncomingStream {
            receiver: ReceiverIndex(0),
            layer: LayerIndex(0),
            rid: String::new(),
            payload_type: 96,
            track: TrackIndex(0),
            is_video: true,
            reported: None,
            timestamp: None,
            captured: captured.into(),
        };
        assert_eq!(feed.take_captured(at(20)), None);
        assert_eq!(feed.take_captured(at(40)), Some(NtpTime(40)));
        assert_eq!(feed.take_captured(at(40)), None);
        assert_eq!(feed.take_captured(at(0)), None);
        assert_eq!(feed.take_captured(at(80)), Some(NtpTime(80)));
    }

    #[test]
    fn ntp_times_move_both_ways() {
        let time = NtpTime::from_unix(Duration::from_millis(1_763_000_000_500));
        for ms in [0_i64, 1, 499, 501, 2750] {
            let nanos = ms * 1_000_000;
            let later = moved(time, nanos);
            let units = (later.0 - time.0) * 1000;
            let expected = ms.unsigned_abs() << 32;
            assert!(units.abs_diff(expected) < 5000, "{ms}");
            assert_eq!(moved(later, -nanos), time);
        }
    }
}
