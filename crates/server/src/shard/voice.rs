//! What a participant of a room says: each packet into the hub as it comes.

use std::time::Instant;

use glassline_hub::Publisher;
use glassline_media::{BurstBuilder, MediaTime, PAYLOAD_BYTES_MAX, Ssrc, Stamps};
use glassline_rtp::{Packet, TimestampExtender};
use glassline_webrtc::SKIP_MAX;

use super::allowance::Allowance;
use crate::rooms::Seat;

/// Opus in RTP.
const CLOCK_RATE: u32 = 48_000;

/// Packets a second, and at once. Opus has 400 at its shortest frames (RFC 6716 §2.1.4);
/// every one of them is sent to everybody else, so one participant must not say how many.
const PACKETS_PER_S: f64 = 500.0;
const PACKETS_AT_ONCE: f64 = 200.0;

/// A participant's voice on its way into the hub.
///
/// Nothing is waited for: neither packets before this one nor a keyframe. What was lost
/// on the way here is lost to those who listen, too, and numbered so (`Burst::gap`);
/// what comes out of order goes on out of order, since listeners sort by time.
#[derive(Debug)]
pub struct Voice {
    publisher: Publisher,
    /// Its place in the room, free again when this is dropped.
    _seat: Seat,
    source: Option<Ssrc>,
    timestamps: TimestampExtender,
    highest: Option<u64>,
    allowance: Allowance,
}

impl Voice {
    /// Of somebody who has taken `seat`, into `publisher`: one track of Opus.
    pub fn new(publisher: Publisher, seat: Seat) -> Self {
        Self {
            publisher,
            _seat: seat,
            source: None,
            timestamps: TimestampExtender::new(),
            highest: None,
            allowance: Allowance::new(PACKETS_PER_S, PACKETS_AT_ONCE),
        }
    }

    /// Takes a packet with this wide sequence number; false if it is not passed on: too
    /// long, or more than a voice has.
    pub(super) fn take(&mut self, sequence: u64, packet: &Packet<'_>, now: Instant) -> bool {
        if packet.payload.len() > PAYLOAD_BYTES_MAX || !self.allowance.take(now) {
            return false;
        }
        if self.source != Some(packet.header.ssrc) {
            self.source = Some(packet.header.ssrc);
            self.timestamps = TimestampExtender::new();
            self.highest = None;
        }
        let missing = self
            .highest
            .map_or(0, |highest| sequence.saturating_sub(highest + 1));
        self.highest = self.highest.max(Some(sequence));
        let ticks = self.timestamps.extend(packet.header.timestamp);
        let mut builder = BurstBuilder::with_capacity(packet.payload.len());
        builder.push(packet.payload);
        let time = MediaTime::from_ticks(ticks, CLOCK_RATE);
        let Some(mut burst) = builder.build(0, time, true, Stamps::arrived(now)) else {
            // Nothing in it, as probes for bandwidth are.
            return true;
        };
        // More is no loss but another beginning.
        let gap = u16::try_from(missing).ok().filter(|it| *it <= SKIP_MAX);
        burst.gap = gap.unwrap_or(0);
        self.publisher.push(burst, now).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::sync::Arc;
    use std::time::Duration;

    use glassline_hub::{Hub, Stream, Subscription, Wake};
    use glassline_media::{Burst, Codec, Track};
    use glassline_rtp::{Extensions, Header};

    use crate::registry::SessionId;
    use crate::rooms::{Bounds, ParticipantId, RoomName, Rooms};

    struct Deaf;

    impl Wake for Deaf {
        fn wake(&self) {}
    }

    struct Room {
        rooms: Arc<Rooms>,
        stream: Arc<Stream>,
        listener: Subscription,
        voice: Voice,
        start: Instant,
    }

    fn room() -> Room {
        let rooms = Arc::new(Rooms::new(Bounds {
            rooms: 1,
            participants: 1,
        }));
        let start = Instant::now();
        let name = RoomName::parse("room").expect("good");
        let id = ParticipantId::new([1; 6]);
        let stream = Hub::default().admit(name.stream(&id)).expect("room");
        let seat = rooms.enter(&name, id, "", SessionId::new("s"));
        let publisher = stream.publish(vec![Track::audio(Codec::Opus, 1)], start);
        let seat = seat.expect("a place");
        Room {
            rooms,
            listener: stream.subscribe(Arc::new(Deaf)),
            stream,
            voice: Voice::new(publisher.expect("free"), seat),
            start,
        }
    }

    impl Room {
        /// Packet `sequence` of 10 ms each, `ms` after the start.
        fn say(&mut self, ssrc: u32, sequence: u64, payload: &[u8], ms: u64) -> bool {
            let packet = Packet {
                header: Header {
                    marker: false,
                    payload_type: 111,
                    sequence: sequence as u16,
                    timestamp: (sequence * 480) as u32,
                    ssrc: Ssrc(ssrc),
                },
                extensions: Extensions::default(),
                payload,
            };
            let now = self.start + Duration::from_millis(ms);
            self.voice.take(sequence, &packet, now)
        }

        fn heard(&mut self) -> Vec<Arc<Burst>> {
            let mut out = Vec::new();
            self.listener.poll(&mut out);
            out
        }
    }

    #[test]
    fn packets_go_on_at_once_with_their_times_and_gaps() {
        let mut room = room();
        for (sequence, ms) in [(70_000, 0), (70_001, 10), (70_004, 41), (70_003, 42)] {
            assert!(room.say(7, sequence, b"voice", ms));
        }
        let heard = room.heard();
        let gaps: Vec<u16> = heard.iter().map(|it| it.gap).collect();
        assert_eq!(gaps, [0, 0, 2, 0], "what comes late is in no gap");
        let times = heard.iter().map(|it| it.time.nanos() / 1_000_000);
        assert_eq!(times.collect::<Vec<_>>(), [0, 10, 40, 30]);
        assert!(heard.iter().all(|it| it.payload(0) == Some(b"voice")));
        let waited = |it: &Arc<Burst>| it.stamps.published - it.stamps.origin;
        assert!(heard.iter().all(|it| waited(it).is_zero()));
    }

    #[test]
    fn another_source_begins_anew_without_a_gap() {
        let mut room = room();
        assert!(room.say(7, 70_000, b"one", 0));
        assert!(room.say(8, 66_000, b"two", 10));
        assert!(room.say(8, 68_000, b"three", 20), "further than any loss");
        assert!(room.heard().iter().all(|it| it.gap == 0));
    }

    #[test]
    fn more_than_a_voice_has_is_not_passed_on() {
        let mut room = room();
        let passed = (0..1_000).filter(|at| room.say(7, 70_000 + at, b"flood", 0));
        assert_eq!(passed.count(), PACKETS_AT_ONCE as usize);
        let passed = (1_000..2_000).filter(|at| room.say(7, 70_000 + at, b"flood", 100));
        assert_eq!(passed.count(), 50);
        assert!(!room.say(7, 80_000, &[0; PAYLOAD_BYTES_MAX + 1], 1_000));
        assert!(room.say(7, 80_001, &[0; PAYLOAD_BYTES_MAX], 1_000));
        assert!(room.say(7, 80_002, b"", 1_000), "nothing to pass on");
        assert_eq!(room.heard().len(), 251);
    }

    #[test]
    fn with_the_voice_its_place_is_gone() {
        let Room {
            rooms,
            stream,
            voice,
            ..
        } = room();
        assert_eq!(rooms.counts(), (1, 1));
        assert_eq!(stream.state().as_str(), "live");
        drop(voice);
        assert_eq!(rooms.counts(), (0, 0));
        assert_eq!(stream.state().as_str(), "down");
    }
}
