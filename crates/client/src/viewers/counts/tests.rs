use glassline_media::Ssrc;
use glassline_rtp::{Extensions, Packet};
use glassline_webrtc::{LayerIndex, ReceiverIndex};

use super::*;

const MS: Duration = Duration::from_millis(1);

/// A keyframe of one slice: SPS, PPS and IDR in one STAP-A.
const KEYFRAME: &[u8] = &[
    24, 0, 4, 0x67, 0x42, 0xc0, 0x1f, 0, 2, 0x68, 0xce, 0, 3, 0x65, 0x88, 0x84,
];
/// A frame of one slice that refers to others.
const FRAME: &[u8] = &[0x41, 0x9a, 0x01];

#[test]
fn frames_of_other_codecs_are_counted_with_their_keyframes() {
    let start = Instant::now();
    let mut counts = Counts::default();
    counts.expect(Kind::Video, Some(Codec::Vp8), 90_000);
    // A keyframe and a frame that refers to it, in one packet each.
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
            layer: LayerIndex(0),
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
            layer: LayerIndex(0),
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
    bench.packet(63, 0, 2, FRAME);
    bench.packet(64, 1, 2, b"opus");
    let viewer = bench.viewer();
    assert_eq!(viewer.state, State::Playing);
    assert_eq!(viewer.connect_time, Some(MS * 5));
    assert_eq!(viewer.join_time, Some(MS * 20));
    assert_eq!(viewer.frame_time, Some(MS * 30));
    assert_eq!((viewer.frames, viewer.keyframes, viewer.damaged), (2, 1, 0));
    assert_eq!((viewer.video.received, viewer.audio.received), (2, 2));
    let gaps = viewer.gaps.summary();
    assert_eq!(
        gaps.count, 1,
        "audio packets make no gaps where there is video"
    );
    assert!(gaps.max >= MS * 33 && gaps.max < MS * 34);
}

#[test]
fn a_lost_frame_asks_for_a_keyframe_once_it_is_given_up() {
    let mut bench = Bench::new();
    bench.packet(0, 0, 1, KEYFRAME);
    bench.packet(66, 0, 3, FRAME);
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
    bench.packet_of(Ssrc(7), 33, 0, 1001, FRAME);
    bench.packet_of(Ssrc(8), 66, 0, 5, KEYFRAME);
    bench.packet_of(Ssrc(8), 99, 0, 6, FRAME);
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
