//! Publishes the voice of a room's participant: each packet goes into the hub as it arrives.

use std::collections::VecDeque;
use std::time::Instant;

use glassline_hub::Publisher;
use glassline_media::{
    Forwarded, MediaTime, PAYLOAD_BYTES_MAX, Ssrc, Stamps, TrackIndex, UnitBuilder,
};
use glassline_rooms::RoomMembership;
use glassline_rtp::{Packet, TimestampExtender, red};
use glassline_runtime::{Counter, TokenBucket};
use glassline_webrtc::SKIP_MAX;

/// RTP clock rate of Opus, in Hz (RFC 7587).
const CLOCK_RATE: u32 = 48_000;

/// Most packets a second, and most at once. Opus has 400 a second with its shortest frames (RFC
/// 6716 §2.1.4). Each packet is sent to every other participant, so one participant must not choose
/// how many there are.
const PACKETS_PER_S: f64 = 500.0;
const PACKETS_AT_ONCE: f64 = 200.0;

/// Number of recovered packets that are remembered, because the original may still arrive; with
/// packets of 10 ms this is more than RED's 14-bit offset covers.
const RECOVERED_MAX: usize = 64;

/// Publishes a participant's voice into the hub.
///
/// Nothing is waited for: neither packets before this one nor a keyframe. A packet lost on the way
/// to the server is lost to the listeners, too, and numbered so ([`Forwarded::gap`]). A packet that
/// arrives out of order is sent on out of order, since listeners sort by time.
///
/// A copy in a RED packet (RFC 2198) is published as a packet of its own if the original was lost,
/// and dropped otherwise. Listeners have redundancy of their own (`egress::webrtc::Redundancy`), or
/// none.
#[derive(Debug)]
pub struct Voice {
    publisher: Publisher,
    /// The participant's right to be in the room, given back when this is dropped.
    _membership: RoomMembership,
    source: Option<SsrcState>,
    allowance: TokenBucket,
}

/// Counts of the voice packets from the participants of one shard since the server started.
#[derive(Debug, Default)]
pub struct VoiceCounters {
    /// Packets that participants of rooms sent.
    pub packets: Counter,
    /// Lost packets that were recovered from a copy in a later one (RFC 2198).
    pub recovered: Counter,
    /// Packets not published: too long, malformed, or too many for a voice.
    pub refused: Counter,
}

/// The state of one SSRC.
#[derive(Debug)]
struct SsrcState {
    ssrc: Ssrc,
    timestamps: TimestampExtender,
    /// The highest sequence number, and the highest timestamp that was published.
    highest: Option<(u64, i64)>,
    /// Timestamps of packets that were recovered from copies, the latest last.
    recovered: VecDeque<i64>,
}

/// The content of a packet.
struct VoicePayload<'a> {
    primary: &'a [u8],
    /// Copies of earlier packets, oldest first: ticks before this packet, and payload.
    copies: Vec<(i64, &'a [u8])>,
}

impl<'a> VoicePayload<'a> {
    /// Parses a payload; `None` if it claims to be RED and is not.
    fn of(payload: &'a [u8], is_red: bool) -> Option<Self> {
        let mut content = Self {
            primary: payload,
            copies: Vec::new(),
        };
        // Bandwidth probes are empty, whatever their payload type.
        if is_red && !payload.is_empty() {
            let mut blocks = red::blocks(payload).ok()?;
            content.primary = blocks.pop()?.payload;
            let copies = blocks.iter().filter(|it| !it.payload.is_empty());
            let copies = copies.map(|it| (i64::from(it.offset), it.payload));
            content.copies = copies.collect();
        }
        Some(content)
    }
}

impl Voice {
    /// Creates the voice of the participant that holds `membership`. `publisher` has one Opus track.
    pub fn new(publisher: Publisher, membership: RoomMembership) -> Self {
        Self {
            publisher,
            _membership: membership,
            source: None,
            allowance: TokenBucket::new(PACKETS_PER_S, PACKETS_AT_ONCE),
        }
    }

    /// Takes a packet with this extended sequence number, with or without RED. Returns how many
    /// lost packets it recovered; `None` if it is not published: too long, malformed RED, or too
    /// many packets.
    pub fn take(
        &mut self,
        sequence: u64,
        packet: &Packet<'_>,
        is_red: bool,
        now: Instant,
    ) -> Option<u64> {
        if packet.payload.len() > PAYLOAD_BYTES_MAX || !self.allowance.take(now) {
            return None;
        }
        let VoicePayload { primary, copies } = VoicePayload::of(packet.payload, is_red)?;
        let ssrc = packet.header.ssrc;
        let source = self.source.take().filter(|it| it.ssrc == ssrc);
        let source = self
            .source
            .insert(source.unwrap_or_else(|| SsrcState::new(ssrc)));
        let ticks = source.timestamps.extend(packet.header.timestamp);
        if source.was_recovered(ticks) {
            return Some(0);
        }
        let (gap, lost) = source.lost_before(sequence, ticks, &copies);
        let mut gap = Some(gap);
        let mut recovered = 0;
        for (at, payload) in lost {
            if !self.allowance.take(now) {
                break;
            }
            self.pass_on(at, payload, gap.take().unwrap_or(0), now)?;
            recovered += 1;
        }
        self.pass_on(ticks, primary, gap.unwrap_or(0), now)?;
        Some(recovered)
    }

    fn pass_on(&mut self, ticks: i64, payload: &[u8], gap: u16, now: Instant) -> Option<()> {
        let time = MediaTime::from_ticks(ticks, CLOCK_RATE);
        // The low 32 bits are what it came under.
        let timestamp = ticks as u32;
        let forwarded = Forwarded { gap, timestamp };
        let stamps = Stamps::arrived(now);
        let Some(unit) = UnitBuilder::forward(payload, forwarded, TrackIndex(0), time, stamps)
        else {
            // The packet is empty, as bandwidth probes are.
            return Some(());
        };
        self.publisher.push(unit, now).ok().map(drop)
    }
}

impl SsrcState {
    fn new(ssrc: Ssrc) -> Self {
        Self {
            ssrc,
            timestamps: TimestampExtender::new(),
            highest: None,
            recovered: VecDeque::new(),
        }
    }

    /// Returns whether this packet was recovered from a later one before, and forgets that.
    fn was_recovered(&mut self, ticks: i64) -> bool {
        let at = self.recovered.iter().position(|it| *it == ticks);
        at.and_then(|at| self.recovered.remove(at)).is_some()
    }

    /// Returns what is missing before this packet: the number of packets without a copy, and then
    /// the copies that replace lost packets, with their ticks.
    fn lost_before<'a>(
        &mut self,
        sequence: u64,
        ticks: i64,
        copies: &[(i64, &'a [u8])],
    ) -> (u16, Vec<(i64, &'a [u8])>) {
        let before = self.highest;
        let (highest, newest) = before.unwrap_or((sequence, ticks));
        self.highest = Some((sequence.max(highest), ticks.max(newest)));
        let missing = match before {
            Some(_) => sequence.saturating_sub(highest + 1),
            None => 0,
        };
        // A larger distance is not a loss: the source began anew.
        let Some(missing) = u16::try_from(missing).ok().filter(|it| *it <= SKIP_MAX) else {
            return (0, Vec::new());
        };
        // RED does not number its copies: the latest copies replace the latest lost packets.
        let lost = copies.iter().map(|(ago, payload)| (ticks - ago, *payload));
        let lost: Vec<_> = lost.filter(|it| newest < it.0 && it.0 < ticks).collect();
        let known = lost.len().min(missing.into());
        let lost = lost[lost.len() - known..].to_vec();
        self.recovered.extend(lost.iter().map(|it| it.0));
        while self.recovered.len() > RECOVERED_MAX {
            self.recovered.pop_front();
        }
        let known = known as u16;
        (missing - known, lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::sync::Arc;
    use std::time::Duration;

    use glassline_hub::{Hub, Stream, Subscription, Wake};
    use glassline_media::{Codec, MediaUnit, Track};
    use glassline_rtp::red::Repeat;
    use glassline_rtp::{Extensions, Header};

    use glassline_rooms::{Bounds, Newcomer, ParticipantId, RoomName, Rooms};
    use glassline_runtime::SessionId;

    struct NoWake;

    impl Wake for NoWake {
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
        let newcomer = Newcomer {
            id,
            name: "",
            user: None,
            share: None,
        };
        let membership = rooms.enter(&name, newcomer, SessionId::new("s"));
        let publisher = stream.publish(vec![Track::audio(Codec::Opus, 1)], start);
        let membership = membership.expect("a place");
        Room {
            rooms,
            listener: stream.subscribe(Arc::new(NoWake)),
            stream,
            voice: Voice::new(publisher.expect("free"), membership),
            start,
        }
    }

    fn gap(unit: &MediaUnit) -> u16 {
        unit.forwarded().map_or(0, |it| it.gap)
    }

    /// Builds a packet of 10 ms in Opus's clock.
    fn packet(ssrc: u32, payload_type: u8, sequence: u64, payload: &[u8]) -> Packet<'_> {
        Packet {
            header: Header {
                marker: false,
                payload_type,
                sequence: sequence as u16,
                timestamp: (sequence * 480) as u32,
                ssrc: Ssrc(ssrc),
            },
            extensions: Extensions::default(),
            payload,
        }
    }

    impl Room {
        /// Packet `sequence` of 10 ms each, `ms` after the start.
        fn say(&mut self, ssrc: u32, sequence: u64, payload: &[u8], ms: u64) -> bool {
            let packet = packet(ssrc, 111, sequence, payload);
            let now = self.start + Duration::from_millis(ms);
            self.voice.take(sequence, &packet, false, now).is_some()
        }

        /// Sends packet `sequence` in RED, with the packets `ago` before it, oldest first.
        fn say_again(&mut self, sequence: u64, ago: &[u64]) -> Option<u64> {
            let payload = |sequence: u64| sequence.to_be_bytes();
            let held: Vec<_> = ago.iter().map(|ago| payload(sequence - ago)).collect();
            let copies = ago.iter().zip(&held).map(|(ago, payload)| Repeat {
                offset: (ago * 480) as u32,
                payload,
            });
            let copies: Vec<_> = copies.collect();
            let mut out = Vec::new();
            red::write(111, &copies, &payload(sequence), &mut out);
            self.say_red(sequence, &out)
        }

        fn say_red(&mut self, sequence: u64, payload: &[u8]) -> Option<u64> {
            let packet = packet(7, 63, sequence, payload);
            let now = self.start + Duration::from_millis(sequence % 1_000 * 10);
            self.voice.take(sequence, &packet, true, now)
        }

        /// Returns the published packets, each with the number of packets left out before it.
        fn passed(&mut self) -> Vec<(u64, u16)> {
            let heard = self.heard();
            let of = |it: &Arc<MediaUnit>| {
                let payload = it.payload(0)?.try_into().ok()?;
                let sequence = u64::from_be_bytes(payload);
                let forwarded = it.forwarded().expect("as it came");
                assert_eq!(forwarded.timestamp, (sequence * 480) as u32);
                Some((sequence, forwarded.gap))
            };
            heard.iter().map(|it| of(it).expect("a number")).collect()
        }

        fn heard(&mut self) -> Vec<Arc<MediaUnit>> {
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
        let gaps: Vec<u16> = heard.iter().map(|it| gap(it)).collect();
        assert_eq!(gaps, [0, 0, 2, 0], "what comes late is in no gap");
        let times = heard.iter().map(|it| it.time.nanos() / 1_000_000);
        assert_eq!(times.collect::<Vec<_>>(), [0, 10, 40, 30]);
        assert!(heard.iter().all(|it| it.payload(0) == Some(b"voice")));
        let waited = |it: &Arc<MediaUnit>| it.stamps.published - it.stamps.origin;
        assert!(heard.iter().all(|it| waited(it).is_zero()));
    }

    #[test]
    fn another_source_begins_anew_without_a_gap() {
        let mut room = room();
        assert!(room.say(7, 70_000, b"one", 0));
        assert!(room.say(8, 66_000, b"two", 10));
        assert!(room.say(8, 68_000, b"three", 20), "further than any loss");
        assert!(room.heard().iter().all(|it| gap(it) == 0));
    }

    #[test]
    fn copies_stand_in_for_what_was_lost_and_for_nothing_else() {
        let mut room = room();
        let told = [
            // Nothing came before: its copy is of no loss.
            room.say_again(70_001, &[1]),
            room.say_again(70_002, &[1]),
            // 70,003 is lost.
            room.say_again(70_004, &[1]),
            // 70,005 to 70,008 are, and there are copies of two.
            room.say_again(70_009, &[2, 1]),
            // 70,010 only comes late: it is here already.
            room.say_again(70_011, &[1]),
            room.say_again(70_010, &[1]),
            // A copy older than what is missing.
            room.say_again(70_013, &[2]),
        ];
        assert_eq!(told.map(|it| it.expect("passed on")), [0, 0, 1, 2, 1, 0, 0]);
        let plain = |sequence| (sequence, 0);
        let wanted = [
            plain(70_001),
            plain(70_002),
            plain(70_003),
            plain(70_004),
            (70_007, 2),
            plain(70_008),
            plain(70_009),
            plain(70_010),
            plain(70_011),
            (70_013, 1),
        ];
        assert_eq!(room.passed(), wanted);
    }

    #[test]
    fn what_is_no_redundancy_is_refused_and_another_beginning_repairs_nothing() {
        let mut room = room();
        assert_eq!(room.say_again(70_000, &[]), Some(0));
        assert_eq!(room.say_red(70_001, &[0x80 | 111, 0, 0]), None);
        assert_eq!(room.say_red(70_001, &[]), Some(0), "a probe");
        let far = 70_002 + u64::from(SKIP_MAX);
        assert_eq!(room.say_again(far + 1, &[1]), Some(0));
        assert_eq!(room.passed(), [(70_000, 0), (far + 1, 0)]);
    }

    #[test]
    fn copies_are_bounded_like_packets() {
        let mut room = room();
        let ago: Vec<u64> = (1..=15).rev().collect();
        // All at one time.
        let told = (0..100).filter_map(|at| room.say_again(70_000 + at * 1_000, &ago));
        let passed: u64 = told.map(|recovered| 1 + recovered).sum();
        assert_eq!(passed, PACKETS_AT_ONCE as u64);
        assert_eq!(room.heard().len(), PACKETS_AT_ONCE as usize);
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
