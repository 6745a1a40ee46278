use std::time::{Duration, Instant};

use glassline_media::{Codec, TrackIndex, WallClock};
use glassline_rtp::{Header, Packet, rtcp};
use glassline_rtsp::client::Frame;
use glassline_rtsp::sdp::Description;
use glassline_webrtc::{Received, ReceiverIndex};

use super::Track;
use crate::viewers::counts::Counts;
use crate::viewers::{Kinds, Mode};

/// The tracks that a viewer plays, and the delivery of their packets to its counts.
#[derive(Debug)]
pub(super) struct Media {
    mode: Mode,
    wall: WallClock,
    /// Chosen tracks, each with its index in the description.
    tracks: Vec<(TrackIndex, Track)>,
    begun: bool,
}

impl Media {
    pub(super) const fn new(mode: Mode, wall: WallClock) -> Self {
        Self {
            mode,
            wall,
            tracks: Vec::new(),
            begun: false,
        }
    }

    /// Chooses the tracks of these kinds; returns their indices in the description.
    pub(super) fn choose(
        &mut self,
        description: &Description,
        kinds: Kinds,
        counts: &mut Counts,
    ) -> Vec<TrackIndex> {
        for (index, media) in TrackIndex::enumerate(&description.tracks) {
            let Some((kind, format)) = media.kind().zip(media.format()) else {
                continue;
            };
            let wanted = match kind {
                glassline_media::Kind::Video => kinds.video,
                glassline_media::Kind::Audio => kinds.audio,
                glassline_media::Kind::Text => false,
            };
            if !wanted || description.is_back_channel(media) {
                continue;
            }
            let codec = Codec::from_encoding_name(&format.encoding_name);
            counts.expect(kind, codec, format.clock_rate);
            self.tracks.push((index, Track::new(format.clock_rate)));
        }
        self.tracks.iter().map(|(index, _)| *index).collect()
    }

    /// Position of a track of the description among the chosen ones.
    pub(super) fn position(&self, track: TrackIndex) -> Option<usize> {
        self.tracks.iter().position(|(index, _)| *index == track)
    }

    /// The chosen tracks with their indices in the description.
    pub(super) fn tracks(&mut self) -> impl Iterator<Item = (TrackIndex, &mut Track)> {
        self.tracks.iter_mut().map(|(index, track)| (*index, track))
    }

    /// Whether a packet has arrived.
    pub(super) const fn has_begun(&self) -> bool {
        self.begun
    }

    /// Whether every source has sent RTCP BYE.
    pub(super) fn all_ended(&self) -> bool {
        !self.tracks.is_empty() && self.tracks.iter().all(|(_, track)| track.ended)
    }

    pub(super) fn take_frame(&mut self, now: Instant, frame: &Frame<'_>, counts: &mut Counts) {
        if let Some(index) = self.position(frame.track) {
            self.take_datagram(now, index, Some(frame.payload), counts);
        }
    }

    /// Takes a packet of the track at this position; `None` stands for one that was
    /// truncated. RTCP is recognized by its type, because some servers send it on the media's
    /// channel.
    pub(super) fn take_datagram(
        &mut self,
        now: Instant,
        index: usize,
        bytes: Option<&[u8]>,
        counts: &mut Counts,
    ) {
        let Some((_, track)) = self.tracks.get_mut(index) else {
            return;
        };
        let Some(bytes) = bytes else {
            *counts.dropped.entry("truncated").or_default() += 1;
            return;
        };
        if rtcp::is_rtcp(bytes) {
            return track.take_control(now, bytes);
        }
        let packet = match self.mode {
            Mode::Count => Header::parse(bytes).map(|header| (header, None)),
            Mode::Verify => Packet::parse(bytes).map(|packet| (packet.header, Some(packet))),
        };
        let Ok((header, packet)) = packet else {
            *counts.dropped.entry("malformed RTP").or_default() += 1;
            return;
        };
        let Some(sequence) = track.take(now, &header, bytes.len()) else {
            *counts.dropped.entry("duplicate").or_default() += 1;
            return;
        };
        self.begun = true;
        let received = match packet {
            Some(packet) => Received::Rtp {
                receiver: ReceiverIndex(index),
                layer: glassline_webrtc::LayerIndex::default(),
                sequence,
                repaired: false,
                packet,
            },
            None => Received::Counted {
                receiver: ReceiverIndex(index),
                sequence,
                repaired: false,
                header,
            },
        };
        counts.take(now, &received, bytes.len());
        if header.marker {
            match delay(track, header.timestamp, self.wall, now) {
                Delay::Untold => {}
                Delay::Of(delay) => counts.record_delay(delay),
                Delay::OtherCalendar => {
                    let other = counts.dropped.entry("delay on another calendar");
                    *other.or_default() += 1;
                }
            }
        }
    }
}

/// Delay of a frame from capture to arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Delay {
    /// The server has not reported when its timestamps were captured.
    Untold,
    /// The server's calendar cannot be ours.
    OtherCalendar,
    /// The delay is known.
    Of(Duration),
}

/// Delay from the capture of a timestamp, by the server's calendar, to `now` by ours.
fn delay(track: &Track, timestamp: u32, wall: WallClock, now: Instant) -> Delay {
    let Some(clock) = track.clock() else {
        return Delay::Untold;
    };
    let since = clock.since(timestamp, wall, now);
    since.map_or(Delay::OtherCalendar, Delay::Of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_media::Ssrc;

    #[test]
    fn delays_are_by_the_senders_calendar() {
        let start = Instant::now();
        let wall = WallClock::new(start, Duration::from_secs(1_800_000_000));
        let mut track = Track::new(90_000);
        let header = Header {
            marker: true,
            payload_type: 96,
            sequence: 1,
            timestamp: u32::MAX - 10,
            ssrc: Ssrc(7),
        };
        assert_eq!(track.take(start, &header, 100).map(|n| n & 0xffff), Some(1));
        assert_eq!(track.take(start, &header, 100), None, "a duplicate");
        assert_eq!(delay(&track, header.timestamp, wall, start), Delay::Untold);
        let report = rtcp::SenderReport {
            ssrc: Ssrc(7),
            ntp: wall.ntp(start),
            rtp_timestamp: header.timestamp,
            packet_count: 0,
            octet_count: 0,
            reports: Vec::new(),
        };
        let mut bytes = Vec::new();
        report.write(&mut bytes);
        track.take_control(start, &bytes);
        // Captured 100 ms after the report, arrived 130 ms after it.
        let timestamp = header.timestamp.wrapping_add(9000);
        let arrived = start + Duration::from_millis(130);
        let Delay::Of(measured) = delay(&track, timestamp, wall, arrived) else {
            panic!("a delay");
        };
        let off = measured.abs_diff(Duration::from_millis(30));
        assert!(off < Duration::from_micros(1), "{measured:?}");
        // Another calendar.
        let later = start + Duration::from_secs(61);
        assert_eq!(
            delay(&track, header.timestamp, wall, later),
            Delay::OtherCalendar
        );
        let future = header.timestamp.wrapping_add(90_000);
        assert_eq!(delay(&track, future, wall, start), Delay::OtherCalendar);
    }

    #[test]
    fn a_goodbye_is_undone_by_media() {
        let now = Instant::now();
        let mut track = Track::new(90_000);
        let mut header = Header {
            marker: false,
            payload_type: 96,
            sequence: 9,
            timestamp: 0,
            ssrc: Ssrc(3),
        };
        track.take(now, &header, 10);
        let bye = |ssrc| {
            let sources = vec![Ssrc(ssrc)];
            let mut bytes = Vec::new();
            rtcp::Bye {
                sources,
                reason: b"",
            }
            .write(&mut bytes);
            bytes
        };
        track.take_control(now, &bye(4));
        assert!(!track.ended, "somebody else's");
        track.take_control(now, &bye(3));
        assert!(track.ended);
        header.ssrc = Ssrc(5);
        track.take(now, &header, 10);
        assert!(!track.ended);
    }
}
