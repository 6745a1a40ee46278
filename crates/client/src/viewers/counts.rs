use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_media::{Codec, Histogram, Kind, Ssrc, Track};
use glassline_rtp::Header;
use glassline_rtp::order::{self, InOrder, Part};
use glassline_rtp::payload::Depacketiser;
use glassline_webrtc::Received;

use super::tally::{Recent, Rhythm, Tally};
use super::{Conduct, Endpoint, Flow, Id, Mode, Progress, State, Viewer};

/// Gaps stay open as long as retransmissions are asked for (`rtp::nack::Config::budget`);
/// held is at most half a second of a 32 Mbit/s stream.
const ORDER: order::Config = order::Config {
    patience: Duration::from_secs(1),
    bytes_max: 2 << 20,
};

/// All that is known of one viewer's success.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) state: State,
    pub(super) failure: Option<String>,
    /// When the POST began.
    pub(super) started: Option<Instant>,
    /// Datagrams that the session dropped, by reason.
    pub(super) dropped: BTreeMap<&'static str, u64>,
    /// Datagrams that the kernel did not take.
    pub(super) unsent: u64,
    /// Packets asked for again.
    pub(super) nacked: u64,
    connected: Option<Instant>,
    first_packet: Option<Instant>,
    first_keyframe: Option<Instant>,
    protection: Option<&'static str>,
    /// As the session numbers its receivers.
    receivers: Vec<Receiver>,
    rhythm: Rhythm,
    frames: Frames,
    /// A decoder would be lost now.
    keyframe_wanted: bool,
    /// Since somebody last asked.
    delays: Recent,
}

/// What became of frames.
#[derive(Clone, Copy, Debug, Default)]
struct Frames {
    whole: u64,
    keyframes: u64,
    damaged: u64,
}

/// One `m=` line.
struct Receiver {
    kind: Kind,
    codec: Option<Codec>,
    clock_rate: u32,
    source: Option<Ssrc>,
    /// Of the sources before this one.
    before: Flow,
    damaged_before: u64,
    tally: Tally,
    order: InOrder,
    /// For pictures that can be put together; others are counted by their markers.
    depacketiser: Option<Depacketiser>,
}

impl Counts {
    /// The handshake is done, or the server said that it plays; with the name of
    /// what protects the media.
    pub(super) fn connect(&mut self, now: Instant, protection: Option<&'static str>) {
        self.state = self.state.max(State::Connected);
        self.connected.get_or_insert(now);
        self.protection = protection;
    }

    /// It is over; the first reason is kept.
    pub(super) fn end(&mut self, reason: String) {
        self.state = State::Ended;
        self.failure.get_or_insert(reason);
    }

    /// A frame arrived so long after it was captured.
    pub(super) fn record_delay(&mut self, delay: Duration) {
        self.delays.push(delay);
    }

    /// Moves what was recorded since the last call.
    pub(super) fn take_delays(&mut self, into: &mut Histogram) {
        self.delays.take(into);
    }

    /// Moves the gaps since the last call.
    pub(super) fn take_gaps(&mut self, into: &mut Histogram) {
        self.rhythm.take_recent(into);
    }

    /// The next receiver, in the session's order. `codec` is `None` for one that
    /// is only counted.
    pub(super) fn expect(&mut self, kind: Kind, codec: Option<Codec>, clock_rate: u32) {
        self.receivers.push(Receiver {
            kind,
            codec,
            clock_rate,
            source: None,
            before: Flow::default(),
            damaged_before: 0,
            tally: Tally::new(clock_rate),
            order: InOrder::new(ORDER),
            depacketiser: depacketiser(codec),
        });
    }

    /// Counts what a datagram of `bytes` bytes brought.
    pub(super) fn take(&mut self, now: Instant, received: &Received<'_>, bytes: usize) {
        let (index, sequence, repaired, header) = match received {
            Received::Rtp {
                receiver,
                sequence,
                repaired,
                packet,
            } => (receiver.0, *sequence, *repaired, &packet.header),
            Received::Counted {
                receiver,
                sequence,
                repaired,
                header,
            } => (receiver.0, *sequence, *repaired, header),
            _ => return,
        };
        let Some(receiver) = self.receivers.get_mut(index) else {
            return;
        };
        self.first_packet.get_or_insert(now);
        if self.state < State::Playing {
            self.state = State::Playing;
        }
        receiver.follow(header.ssrc);
        receiver.tally.count(sequence, repaired, header, bytes);
        match (received, &mut receiver.depacketiser) {
            (Received::Rtp { packet, .. }, Some(depacketiser)) => {
                let part = Part {
                    sequence,
                    timestamp: header.timestamp,
                    marker: header.marker,
                    payload: packet.payload,
                    received: now,
                };
                receiver.order.push(part, |part| part.hand_to(depacketiser));
                self.collect(index, now);
            }
            _ => self.count_frame(index, header, now),
        }
    }

    /// Gives up the gaps that will not be filled.
    pub(super) fn expire(&mut self, now: Instant) {
        for index in 0..self.receivers.len() {
            let receiver = &mut self.receivers[index];
            if let Some(depacketiser) = &mut receiver.depacketiser {
                receiver
                    .order
                    .expire(now, |part| part.hand_to(depacketiser));
                self.collect(index, now);
            }
        }
    }

    /// When [`Self::expire`] will have something to do.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let receivers = self.receivers.iter();
        receivers
            .filter_map(|receiver| receiver.order.deadline())
            .min()
    }

    /// The receiver whose decoder is lost, once each time it gets lost.
    pub(super) fn take_keyframe_wanted(&mut self) -> Option<usize> {
        if !std::mem::take(&mut self.keyframe_wanted) {
            return None;
        }
        let mut receivers = self.receivers.iter();
        receivers.position(|receiver| receiver.kind == Kind::Video)
    }

    /// A packet that is not taken apart: of sound, or in its clear header only.
    fn count_frame(&mut self, index: usize, header: &Header, now: Instant) {
        let pictures = self.has_pictures();
        match self.receivers[index].kind {
            Kind::Video if header.marker => {
                self.frames.whole += 1;
                self.rhythm.beat(now);
            }
            Kind::Audio if !pictures => self.rhythm.beat(now),
            _ => {}
        }
    }

    /// Counts the frames that the depacketiser has finished.
    fn collect(&mut self, index: usize, now: Instant) {
        let receiver = &mut self.receivers[index];
        let units = receiver.depacketiser.as_mut();
        for unit in units
            .into_iter()
            .flat_map(|it| std::iter::from_fn(|| it.poll()))
        {
            self.frames.whole += 1;
            self.rhythm.beat(now);
            if unit.keyframe {
                self.frames.keyframes += 1;
                self.first_keyframe.get_or_insert(now);
            } else if unit.after_loss {
                self.keyframe_wanted = true;
            }
        }
        let damaged = self.receivers.iter().map(Receiver::damaged).sum();
        self.keyframe_wanted |= damaged > self.frames.damaged;
        self.frames.damaged = damaged;
    }

    fn has_pictures(&self) -> bool {
        let mut receivers = self.receivers.iter();
        receivers.any(|receiver| receiver.kind == Kind::Video)
    }

    fn flow(&self, kind: Kind) -> Flow {
        let receivers = self.receivers.iter();
        receivers
            .filter(|receiver| receiver.kind == kind)
            .fold(Flow::default(), |sum, receiver| sum.and(receiver.flow()))
    }

    fn after_start(&self, at: Option<Instant>) -> Option<Duration> {
        let (at, started) = (at?, self.started?);
        Some(at.saturating_duration_since(started))
    }

    pub(super) fn progress(&self, id: Id, mode: Mode, conduct: Conduct) -> Progress {
        Progress {
            id,
            mode,
            conduct,
            state: self.state,
            failure: self.failure.as_deref().map(Arc::from),
            connect_time: self.after_start(self.connected),
            join_time: self.after_start(self.first_packet),
            video: self.flow(Kind::Video),
            audio: self.flow(Kind::Audio),
            frames: self.frames.whole,
            damaged: self.frames.damaged,
            nacked: self.nacked,
        }
    }

    pub(super) fn snapshot(&self, id: Id, endpoint: Endpoint) -> Viewer {
        Viewer {
            id,
            endpoint,
            state: self.state,
            failure: self.failure.clone(),
            connect_time: self.after_start(self.connected),
            join_time: self.after_start(self.first_packet),
            picture_time: self.after_start(self.first_keyframe),
            protection: self.protection,
            video: self.flow(Kind::Video),
            audio: self.flow(Kind::Audio),
            frames: self.frames.whole,
            keyframes: self.frames.keyframes,
            damaged: self.frames.damaged,
            gaps: self.rhythm.gaps().clone(),
            dropped: self
                .dropped
                .iter()
                .map(|(why, count)| (*why, *count))
                .collect(),
            unsent: self.unsent,
            nacked: self.nacked,
        }
    }
}

impl Receiver {
    /// A source that restarts under another SSRC counts its packets anew.
    fn follow(&mut self, source: Ssrc) {
        if self.source.replace(source).is_some_and(|old| old != source) {
            self.before = self.flow();
            self.damaged_before = self.damaged();
            self.tally = Tally::new(self.clock_rate);
            self.order = InOrder::new(ORDER);
            self.depacketiser = depacketiser(self.codec);
        }
    }

    fn flow(&self) -> Flow {
        self.before.then(self.tally.flow())
    }

    fn damaged(&self) -> u64 {
        let counters = self.depacketiser.as_ref().map(Depacketiser::counters);
        let counters = counters.unwrap_or_default();
        self.damaged_before + counters.damaged + counters.malformed + counters.oversized
    }
}

/// For pictures whose format marks where they end: a transport stream, of which
/// every packet stands for itself, has no frames to be counted.
fn depacketiser(codec: Option<Codec>) -> Option<Depacketiser> {
    let codec = codec.filter(|codec| codec.kind() == Kind::Video && codec.marks_frames())?;
    Depacketiser::new(&Track::new(codec)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_rtp::{Extensions, Packet};
    use glassline_webrtc::ReceiverIndex;

    const MS: Duration = Duration::from_millis(1);

    /// A keyframe of one slice: SPS, PPS and IDR in one STAP-A.
    const KEYFRAME: &[u8] = &[
        24, 0, 4, 0x67, 0x42, 0xc0, 0x1f, 0, 2, 0x68, 0xce, 0, 3, 0x65, 0x88, 0x84,
    ];
    /// A picture of one slice that refers to others.
    const PICTURE: &[u8] = &[0x41, 0x9a, 0x01];

    #[test]
    fn pictures_of_other_codecs_are_counted_with_their_keyframes() {
        let start = Instant::now();
        let mut counts = Counts::default();
        counts.expect(Kind::Video, Some(Codec::Vp8), 90_000);
        // A keyframe and a picture that refers to it, in one packet each.
        for (sequence, tag) in [(1, 0x10), (2, 0x11)] {
            let payload = [0x90, 0x80, 0x80, sequence as u8, tag, 2, 0];
            let packet = Packet {
                header: Header {
                    marker: true,
                    payload_type: 96,
                    sequence,
                    timestamp: u32::from(sequence) * 3000,
                    ssrc: Ssrc(1),
                },
                extensions: Extensions::default(),
                payload: &payload,
            };
            let received = Received::Rtp {
                receiver: ReceiverIndex(0),
                sequence: u64::from(sequence),
                repaired: false,
                packet,
            };
            counts.take(start, &received, 60);
        }
        assert_eq!((counts.frames.whole, counts.frames.keyframes), (2, 1));
        assert_eq!(counts.frames.damaged, 0);
    }

    struct Bench {
        counts: Counts,
        start: Instant,
    }

    impl Bench {
        fn new() -> Self {
            let start = Instant::now();
            let mut counts = Counts {
                started: Some(start),
                ..Counts::default()
            };
            counts.connect(start + MS * 5, Some("GCM"));
            counts.expect(Kind::Video, Some(Codec::H264), 90_000);
            counts.expect(Kind::Audio, Some(Codec::Opus), 48_000);
            Self { counts, start }
        }

        fn packet(&mut self, millis: u32, receiver: usize, sequence: u64, payload: &[u8]) {
            self.packet_of(Ssrc(receiver as u32), millis, receiver, sequence, payload);
        }

        fn packet_of(
            &mut self,
            ssrc: Ssrc,
            millis: u32,
            receiver: usize,
            sequence: u64,
            payload: &[u8],
        ) {
            let header = header(ssrc, sequence);
            let received = Received::Rtp {
                receiver: ReceiverIndex(receiver),
                sequence,
                repaired: false,
                packet: Packet {
                    header,
                    extensions: Extensions::default(),
                    payload,
                },
            };
            self.counts.take(self.start + MS * millis, &received, 100);
        }

        fn viewer(&self) -> Viewer {
            let endpoint = Endpoint::parse("http://localhost/x/whep").expect("a URL");
            self.counts.snapshot(Id(1), endpoint)
        }
    }

    fn header(ssrc: Ssrc, sequence: u64) -> Header {
        Header {
            marker: true,
            payload_type: 96,
            sequence: sequence as u16,
            timestamp: sequence as u32 * 3000,
            ssrc,
        }
    }

    #[test]
    fn frames_keyframes_and_the_way_to_them_are_counted() {
        let mut bench = Bench::new();
        assert_eq!(bench.viewer().state, State::Connected);
        bench.packet(20, 1, 1, b"opus");
        bench.packet(30, 0, 1, KEYFRAME);
        bench.packet(63, 0, 2, PICTURE);
        bench.packet(64, 1, 2, b"opus");
        let viewer = bench.viewer();
        assert_eq!(viewer.state, State::Playing);
        assert_eq!(viewer.connect_time, Some(MS * 5));
        assert_eq!(viewer.join_time, Some(MS * 20));
        assert_eq!(viewer.picture_time, Some(MS * 30));
        assert_eq!((viewer.frames, viewer.keyframes, viewer.damaged), (2, 1, 0));
        assert_eq!((viewer.video.received, viewer.audio.received), (2, 2));
        let gaps = viewer.gaps.summary();
        assert_eq!(gaps.count, 1, "sound is no beat beside pictures");
        assert!(gaps.max >= MS * 33 && gaps.max < MS * 34);
    }

    #[test]
    fn a_lost_picture_asks_for_a_keyframe_once_it_is_given_up() {
        let mut bench = Bench::new();
        bench.packet(0, 0, 1, KEYFRAME);
        bench.packet(66, 0, 3, PICTURE);
        assert_eq!(
            (bench.viewer().frames, bench.counts.take_keyframe_wanted()),
            (1, None)
        );
        let deadline = bench.counts.deadline().expect("a gap is open");
        bench.counts.expire(deadline);
        assert_eq!(bench.viewer().frames, 2);
        assert_eq!(bench.counts.take_keyframe_wanted(), Some(0));
        assert_eq!(bench.counts.take_keyframe_wanted(), None);
        assert_eq!(bench.viewer().video.lost(), 1);
        assert_eq!(bench.counts.deadline(), None);
    }

    #[test]
    fn counting_takes_a_marker_for_a_frame() {
        let mut bench = Bench::new();
        for (sequence, marker) in [(1, false), (2, true), (4, true)] {
            let received = Received::Counted {
                receiver: ReceiverIndex(0),
                sequence,
                repaired: sequence == 2,
                header: Header {
                    marker,
                    ..header(Ssrc(0), sequence)
                },
            };
            bench.counts.take(bench.start, &received, 1000);
        }
        let viewer = bench.viewer();
        assert_eq!((viewer.frames, viewer.keyframes), (2, 0));
        assert_eq!((viewer.video.recovered, viewer.video.lost()), (1, 1));
        assert_eq!(viewer.total().bytes, 3000);
    }

    #[test]
    fn a_new_source_goes_on_where_the_old_one_ended() {
        let mut bench = Bench::new();
        bench.packet_of(Ssrc(7), 0, 0, 1000, KEYFRAME);
        bench.packet_of(Ssrc(7), 33, 0, 1001, PICTURE);
        bench.packet_of(Ssrc(8), 66, 0, 5, KEYFRAME);
        bench.packet_of(Ssrc(8), 99, 0, 6, PICTURE);
        let viewer = bench.viewer();
        assert_eq!((viewer.frames, viewer.damaged), (4, 0));
        assert_eq!((viewer.video.expected, viewer.video.lost()), (4, 0));
        let step = Duration::from_secs(1) / 30;
        let error = viewer.video.media_time.abs_diff(step * 2);
        assert!(error < MS, "{:?}", viewer.video.media_time);
    }

    #[test]
    fn a_receiver_nobody_expects_is_ignored() {
        let mut bench = Bench::new();
        bench.packet(0, 7, 1, KEYFRAME);
        assert_eq!(bench.viewer().total(), Flow::default());
    }
}
