use std::time::Instant;

use glassline_media::{Codec, Ssrc, Track, TrackIndex};

use super::*;
use crate::{HEADER_BYTES, Header, write_header};

/// A source of one track with payload type 96 whose packets are received.
struct Source {
    receiver: SourceReceiver,
    now: Instant,
    /// Number, timestamp and payload of each packet.
    packets: Vec<(u64, u32, Vec<u8>)>,
    reports: usize,
}

impl Source {
    fn new() -> Self {
        let mut receiver = SourceReceiver::new(&[Track::new(Codec::H264)]);
        receiver.expect_payload_types(TrackIndex(0), [96]);
        Self {
            receiver,
            now: Instant::now(),
            packets: Vec::new(),
            reports: 0,
        }
    }

    fn by_datagrams() -> Self {
        let mut source = Self::new();
        source.receiver.come_by_datagrams(TrackIndex(0));
        source
    }

    fn send(&mut self, ssrc: u32, sequence: u16, payload_type: u8, payload: u8) -> bool {
        let header = Header {
            marker: false,
            payload_type,
            sequence,
            timestamp: 7,
            ssrc: Ssrc(ssrc),
        };
        let mut bytes = vec![0; HEADER_BYTES];
        write_header(&mut bytes, &header, &[]);
        bytes.push(payload);
        self.take(&bytes)
    }

    fn take(&mut self, bytes: &[u8]) -> bool {
        self.take_on(false, bytes)
    }

    /// Takes bytes where RTCP belongs.
    fn take_control(&mut self, bytes: &[u8]) -> bool {
        self.take_on(true, bytes)
    }

    fn take_on(&mut self, control: bool, bytes: &[u8]) -> bool {
        let (packets, reports) = (&mut self.packets, &mut self.reports);
        self.receiver.take(
            TrackIndex(0),
            control,
            bytes,
            self.now,
            |_, item| match item {
                Received::Packet(it) => {
                    packets.push((it.sequence, it.timestamp, it.payload.to_vec()));
                }
                Received::Report { .. } => *reports += 1,
            },
        )
    }

    /// Returns the payloads so far, with `-` for each number that was left out.
    fn received(&self) -> String {
        let mut text = String::new();
        let mut next = None;
        for (number, _, payload) in &self.packets {
            let skipped = next.map_or(0, |next| number - next);
            text.extend((0..skipped).map(|_| '-'));
            text.extend(payload.iter().map(|byte| char::from(*byte)));
            if payload.is_empty() {
                text.push('.');
            }
            next = Some(number + 1);
        }
        text
    }

    fn lost(&mut self) -> i32 {
        let pipeline = self.receiver.pipeline_mut(TrackIndex(0));
        let block = pipeline.and_then(|it| it.report_block(self.now));
        block.expect("packets came").cumulative_lost
    }
}

#[test]
fn a_stray_packet_of_another_source_costs_nothing() {
    // bluenviron/gortsplib#480.
    let mut source = Source::new();
    for (at, payload) in (0..20).zip(b'a'..) {
        source.send(1, 65_530_u16.wrapping_add(at), 96, payload);
        if at % 5 == 2 {
            source.send(0, 7, 96, b'!');
        }
        if at == 13 {
            // The same source, but from far away.
            source.send(1, 30_000, 96, b'!');
        }
    }
    assert_eq!(source.received(), "abcdefghijklmnopqrst");
    assert_eq!(source.lost(), 0);
}

#[test]
fn the_first_packet_of_a_new_source_is_not_lost() {
    // bluenviron/gortsplib#687: a source for each group of pictures.
    let mut source = Source::new();
    for (ssrc, first) in [(1, 100), (2, 60_000), (3, 40), (3, 30_000)] {
        for (at, payload) in (0..4).zip(b'a'..) {
            source.send(ssrc, first + at, 96, payload);
        }
        assert_eq!(source.lost(), 0, "source {ssrc}");
    }
    // One number is left out, since packets may have been lost between.
    assert_eq!(source.received(), "abcd-abcd-abcd-abcd");
}

#[test]
fn a_new_source_by_udp_may_overtake_itself_and_the_last_packets_of_the_old() {
    let mut source = Source::by_datagrams();
    source.send(1, 10, 96, b'a');
    source.send(1, 12, 96, b'c');
    source.send(2, 501, 96, b'B');
    // The packet of the old source is late, and does not mean that the old source goes on.
    source.send(1, 11, 96, b'b');
    source.send(2, 500, 96, b'A');
    source.send(2, 502, 96, b'C');
    assert_eq!(source.received(), "abc-ABC");
    // Two packets with one number are no sign of a source.
    source.send(9, 7, 96, b'!');
    source.send(9, 7, 96, b'!');
    source.send(2, 503, 96, b'D');
    assert_eq!(source.received(), "abc-ABCD");
}

#[test]
fn numbers_that_begin_again_within_a_connection_are_those_of_a_new_source() {
    // bluenviron/gortsplib#750: the numbers begin again, and the SSRC stays.
    let mut source = Source::new();
    for _ in 0..3 {
        for (at, payload) in (0..26).zip(b'a'..) {
            source.send(1, at, 96, payload);
        }
    }
    let alphabet = "abcdefghijklmnopqrstuvwxyz";
    assert_eq!(source.received(), [alphabet; 3].join("-"));
    // What a relay passes on late is none, nor is a packet that comes twice.
    let mut source = Source::new();
    for number in [10, 11, 13, 12, 14, 14, 15] {
        source.send(1, number, 96, b'x');
    }
    assert_eq!(source.received(), "xx-xxx");
}

#[test]
fn media_where_reports_belong_is_media() {
    let mut source = Source::new();
    let header = |sequence, payload_type| Header {
        marker: true,
        payload_type,
        sequence,
        timestamp: 7,
        ssrc: Ssrc(1),
    };
    for (sequence, payload_type) in [(1, 96), (2, 97), (2, 96)] {
        let mut bytes = vec![0; HEADER_BYTES];
        write_header(&mut bytes, &header(sequence, payload_type), &[]);
        bytes.push(b'a');
        let is_media = source.take_control(&bytes);
        assert_eq!(is_media, payload_type == 96, "{sequence}");
    }
    assert_eq!(source.received(), "aa");
    let report = [0x80, 201, 0, 1, 0, 0, 0, 7];
    assert!(!source.take_control(&report) && !source.take_control(&[]));
}

#[test]
fn packets_of_a_foreign_payload_type_cost_nothing() {
    // scottlamb/retina#79: with the numbers of the video between the video's.
    let mut source = Source::new();
    assert!(!source.send(5, 1, 127, b'!'), "the first packet of all");
    assert!(source.send(1, 10, 96, b'a'));
    assert!(!source.send(1, 11, 127, b'!'), "no media");
    assert!(source.send(1, 12, 96, b'b'));
    // A source of its own, however many packets it sends.
    for sequence in 900..1000 {
        source.send(3, sequence, 127, b'!');
    }
    assert!(source.send(1, 13, 96, b'c'));
    assert_eq!(source.received(), "a.bc");
    assert_eq!(source.lost(), 0);
}

#[test]
fn reports_between_the_packets_are_read() {
    let mut source = Source::new();
    source.send(1, 10, 96, b'a');
    let mut report = vec![0x80, 200, 0, 6];
    report.extend([0, 0, 0, 1]);
    report.extend([0; 20]);
    assert!(!source.take(&report), "no media");
    source.send(1, 11, 96, b'b');
    assert_eq!((source.received().as_str(), source.reports), ("ab", 1));
}
