use std::time::Duration;

use glassline_hub::Stream;
use glassline_media::{MediaTime, NtpTime, Ssrc, Stamps, TrackIndex, UnitBuilder};
use glassline_rtp::{HEADER_BYTES, Header, h264};
use glassline_sim::Rng;

use super::*;
use glassline_rtp::rtcp;

const MS: Duration = Duration::from_millis(1);

const SPS: &[u8] = &[0x67, 0x42, 0xc0, 0x1f, 0xda];
const PPS: &[u8] = &[0x68, 0xce, 0x3c, 0x80];

/// An encoder that publishes 25 frames a second, and the recording that receives them.
struct Encoder {
    hub: Arc<Hub>,
    recording: Recording,
    start: Instant,
    sequence: u16,
    ssrc: Ssrc,
    counters: RecordCounters,
}

impl Encoder {
    fn new(attributes: &str) -> Self {
        let hub = Arc::new(Hub::default());
        let text = format!(
            "v=0\r\ns=-\r\nm=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\n{attributes}\r\n"
        );
        let description = Description::parse(text.as_bytes()).expect("a description");
        let start = Instant::now();
        let name = StreamName::parse("cam").expect("a good name");
        let reporter = Reporter {
            ssrc: Ssrc(1),
            cname: "here".to_owned(),
        };
        let recording = Recording::announce(&hub, (name, None), reporter, &description, start);
        let mut recording = recording.expect("the hub is empty");
        recording.start(start);
        Self {
            hub,
            recording,
            start,
            sequence: 65_400,
            ssrc: Ssrc(7),
            counters: RecordCounters::default(),
        }
    }

    /// Returns the packets of frame `number`, each with the time at which it is sent. The first
    /// frame is a keyframe.
    fn frame(&mut self, number: u32) -> Vec<(Duration, Vec<u8>)> {
        self.frame_of(number, number == 0, 6000)
    }

    /// Returns the packets of frame `number`, whose slice has this many bytes.
    fn frame_of(&mut self, number: u32, keyframe: bool, bytes: usize) -> Vec<(Duration, Vec<u8>)> {
        let slice = |header: u8| {
            let body = (0..bytes).map(|place| 1 + (place % 250) as u8);
            [header, 0x88].into_iter().chain(body).collect::<Vec<_>>()
        };
        let mut builder = UnitBuilder::default();
        if keyframe {
            let nals = [SPS, PPS, &slice(0x65)];
            h264::packetize(nals.into_iter(), 1200, &mut builder);
        } else {
            h264::packetize([&slice(0x41)[..]].into_iter(), 1200, &mut builder);
        }
        let stamps = Stamps::arrived(self.start);
        let media_unit = builder.build(TrackIndex(0), MediaTime::ZERO, keyframe, stamps);
        let media_unit = media_unit.expect("packets");
        let mut packets = Vec::new();
        for (place, payload) in media_unit.payloads().enumerate() {
            let header = Header {
                marker: media_unit.marker(place),
                payload_type: 96,
                sequence: self.sequence,
                timestamp: number * 3600,
                ssrc: self.ssrc,
            };
            self.sequence = self.sequence.wrapping_add(1);
            let mut packet = vec![0; HEADER_BYTES];
            glassline_rtp::write_header(&mut packet, &header, &[]);
            packet.extend_from_slice(payload);
            // A frame of many packets takes no longer than the interval of frames.
            let spread = Duration::from_micros(place as u64 % 30 * 1000);
            packets.push((number * 40 * MS + spread, packet));
        }
        packets
    }

    /// Sends frames `numbers` in order.
    fn send(&mut self, numbers: std::ops::Range<u32>) {
        for number in numbers {
            for (at, packet) in self.frame(number) {
                self.arrives(at, &packet);
            }
        }
    }

    fn arrives(&mut self, at: Duration, packet: &[u8]) {
        let now = self.start + at;
        self.recording.take(TrackIndex(0), false, packet, now);
        self.recording
            .published(now)
            .expect("nobody else publishes");
    }

    fn stream(&self) -> Arc<Stream> {
        self.hub.stream("cam").expect("live")
    }

    /// Returns the feedback packets to the publisher at `at`.
    fn told(&mut self, at: Duration) -> Vec<String> {
        let feedback = self
            .recording
            .poll_feedback(self.start + at, 1.0, &self.counters);
        let mut told = Vec::new();
        for (track, compound) in feedback {
            assert_eq!(track, TrackIndex(0));
            let packets: Vec<_> = rtcp::parse(&compound).collect();
            let [Ok(rtcp::Packet::ReceiverReport(_)), ..] = &packets[..] else {
                panic!("a report comes first (RFC 3550 §6.1): {packets:?}");
            };
            told.extend(packets.into_iter().map(|packet| {
                let packet = packet.expect("well made");
                format!("{packet:?}")
            }));
        }
        told
    }

    fn asked(&mut self, at: Duration, for_what: &str) -> bool {
        self.told(at).iter().any(|it| it.starts_with(for_what))
    }
}

#[test]
fn packets_that_overtook_each_other_by_udp_are_published_whole() {
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let mut encoder = Encoder::new("");
        encoder.recording.comes_by_datagrams(TrackIndex(0));
        let mut arrivals = Vec::new();
        for number in 0..50 {
            for (place, (sent, packet)) in encoder.frame(number).into_iter().enumerate() {
                // No packet is early before the first.
                let late = (number + place as u32 > 0) as u64;
                let at = sent + Duration::from_micros(rng.next_u64() % 40_000) * late as u32;
                if rng.next_u64().is_multiple_of(10) {
                    arrivals.push((at + 5 * MS, packet.clone()));
                }
                arrivals.push((at, packet));
            }
        }
        arrivals.sort_by_key(|(at, _)| *at);
        for (at, packet) in arrivals {
            encoder.arrives(at, &packet);
        }
        let totals = encoder.stream().totals();
        assert_eq!(totals.units, 50, "seed {seed}");
        assert!(!encoder.recording.live.take_keyframe_wish(), "seed {seed}");
        assert_eq!(encoder.recording.deadline(), None, "seed {seed}");
        assert!(encoder.sequence < 1000, "the numbers wrapped");
    }
}

#[test]
fn a_packet_that_never_comes_costs_its_frame_and_50_ms() {
    let mut encoder = Encoder::new("");
    encoder.recording.comes_by_datagrams(TrackIndex(0));
    encoder.send(0..3);
    let mut packets = encoder.frame(3);
    packets.remove(1);
    for (at, packet) in packets {
        encoder.arrives(at, &packet);
    }
    let deadline = encoder.recording.deadline().expect("it waits");
    assert_eq!(deadline, encoder.start + 122 * MS + 50 * MS);
    encoder.recording.expire(deadline);
    assert_eq!(encoder.recording.deadline(), None);
    encoder.send(4..5);
    assert_eq!(encoder.stream().totals().units, 4);
    assert!(
        encoder.asked(2000 * MS, "PictureLoss"),
        "what follows builds on it"
    );
}

#[test]
fn reports_say_what_arrived_and_when_the_sender_report_came() {
    let mut encoder = Encoder::new("");
    assert_eq!(encoder.told(Duration::ZERO), [""; 0]);
    assert_eq!(encoder.told(2000 * MS), [""; 0], "nothing came");
    encoder.send(0..1);
    let mut report = Vec::new();
    rtcp::SenderReport {
        ssrc: encoder.ssrc,
        ntp: NtpTime(0x1111_2222_3333_4444),
        rtp_timestamp: 0,
        packet_count: 6,
        octet_count: 7200,
        reports: Vec::new(),
    }
    .write(&mut report);
    let now = encoder.start + 10 * MS;
    encoder.recording.take(TrackIndex(0), true, &report, now);
    // Two of seven are lost.
    for (place, (at, packet)) in encoder.frame(1).into_iter().enumerate() {
        if !matches!(place, 1 | 2) {
            encoder.arrives(at, &packet);
        }
    }
    let feedback =
        encoder
            .recording
            .poll_feedback(encoder.start + 4010 * MS, 1.0, &RecordCounters::default());
    let Some(Ok(rtcp::Packet::ReceiverReport(report))) = rtcp::parse(&feedback[0].1).next() else {
        panic!("{feedback:?}");
    };
    let block = report.reports[0];
    // Two of 13, in 256ths.
    let loss = (block.cumulative_lost, block.fraction_lost);
    assert_eq!(block.ssrc, encoder.ssrc);
    assert_eq!((encoder.sequence, loss), (65_413, (2, 39)));
    assert_eq!(block.highest_sequence, 65_412);
    assert_eq!(block.last_sr, 0x2222_3333);
    assert_eq!(block.delay_since_last_sr, 4 << 16);
}

#[test]
fn reports_come_every_two_seconds_on_average() {
    let mut encoder = Encoder::new("");
    encoder.send(0..1);
    let mut times = Vec::new();
    for ms in 0..9000 {
        if encoder.asked(ms * MS, "ReceiverReport") {
            times.push(ms);
        }
    }
    assert_eq!(times, [1000, 3000, 5000, 7000]);
}

#[test]
fn a_viewers_wish_for_a_keyframe_reaches_the_publisher_once_a_second() {
    let mut encoder = Encoder::new("");
    encoder.send(0..2);
    assert!(!encoder.asked(1100 * MS, "PictureLoss"), "nobody wants one");
    encoder.stream().request_keyframe();
    assert!(encoder.asked(1200 * MS, "PictureLoss"));
    encoder.stream().request_keyframe();
    assert!(
        !encoder.asked(2100 * MS, "PictureLoss"),
        "one is being made"
    );
    assert!(encoder.asked(2200 * MS, "PictureLoss"), "but none came");
    encoder.stream().request_keyframe();
    assert!(!encoder.asked(2300 * MS, "PictureLoss"));
    let sequence = encoder.sequence;
    encoder.send(0..1);
    assert_ne!(encoder.sequence, sequence);
    assert!(!encoder.asked(3300 * MS, "PictureLoss"), "it has come");
    assert_eq!(encoder.counters.keyframe_requests.get(), 2);
}

#[test]
fn who_announces_only_full_intra_requests_gets_those() {
    let mut encoder = Encoder::new("a=rtcp-fb:96 ccm fir\r\n");
    encoder.send(0..1);
    for (at, number) in [(1000 * MS, 0), (2000 * MS, 1)] {
        encoder.stream().request_keyframe();
        let told = encoder.told(at);
        let asked = format!("requests: [(Ssrc(7), {number})]");
        assert!(told.iter().any(|it| it.contains(&asked)), "{told:?}");
    }
    let mut encoder = Encoder::new("a=rtcp-fb:* nack pli\r\na=rtcp-fb:* ccm fir\r\n");
    encoder.send(0..1);
    encoder.stream().request_keyframe();
    assert!(encoder.asked(1000 * MS, "PictureLoss"));
}

#[test]
fn a_publisher_that_begins_without_a_keyframe_is_asked_for_one() {
    let mut encoder = Encoder::new("");
    encoder.send(1..3);
    assert!(
        !encoder.asked(999 * MS, "PictureLoss"),
        "it may be on its way"
    );
    assert!(encoder.asked(1000 * MS, "PictureLoss"));
}

#[test]
fn a_source_that_begins_anew_goes_on() {
    for (ssrc, back) in [
        (Ssrc(7), 20_000),
        (Ssrc(8), 0),
        (Ssrc(8), 100),
        (Ssrc(8), 60_000),
    ] {
        let mut encoder = Encoder::new("");
        encoder.recording.comes_by_datagrams(TrackIndex(0));
        encoder.send(0..5);
        encoder.ssrc = ssrc;
        encoder.sequence = encoder.sequence.wrapping_sub(back);
        encoder.send(5..10);
        let media_units = encoder.stream().totals().units;
        assert_eq!(media_units, 10, "{ssrc:?}, {back} back");
    }
}

#[test]
fn a_publisher_that_falls_silent_or_sends_no_keyframe_is_disconnected() {
    let mut encoder = Encoder::new("");
    let check = |encoder: &Encoder, at: Duration| encoder.recording.check(encoder.start + at);
    assert!(check(&encoder, SILENCE).is_ok());
    let ended = check(&encoder, SILENCE + MS);
    assert!(matches!(ended, Err(Ended::Silent { time: SILENCE })));
    // One frame a second, and none that a decoder can start with.
    for second in 1..=20 {
        encoder.send(25 * second..25 * second + 1);
    }
    assert!(check(&encoder, KEYFRAME).is_ok());
    let ended = check(&encoder, KEYFRAME + MS);
    assert!(matches!(ended, Err(Ended::NoKeyframe { .. })));
    encoder.send(525..526);
    for (at, packet) in encoder.frame(0) {
        encoder.arrives(KEYFRAME + at, &packet);
    }
    encoder.send(551..552);
    assert!(check(&encoder, KEYFRAME + 2000 * MS).is_ok());
}

/// An encoder at full quality sent keyframes of 9 MB; nobody got a picture, and nothing said why.
#[test]
fn keyframes_above_the_limit_are_named_and_the_stream_goes_on_at_the_next_one() {
    let mut encoder = Encoder::new("");
    let send = |encoder: &mut Encoder, number, keyframe, bytes| {
        for (at, packet) in encoder.frame_of(number, keyframe, bytes) {
            encoder.arrives(at, &packet);
        }
    };
    send(&mut encoder, 0, true, 9 << 20);
    send(&mut encoder, 1, false, 3000);
    assert!(!encoder.recording.is_live());
    let ended = encoder
        .recording
        .check(encoder.start + Duration::from_secs(21));
    let ended = ended.expect_err("it has silence and no keyframe");
    assert!(matches!(ended, Ended::Silent { .. }), "{ended}");
    encoder.recording.last_received = encoder.start + Duration::from_secs(20);
    let ended = encoder
        .recording
        .check(encoder.start + Duration::from_secs(21));
    let ended = ended.expect_err("no keyframe").to_string();
    assert!(
        ended.contains("8 MiB") && ended.contains("1 larger"),
        "{ended}"
    );
    send(&mut encoder, 2, true, 7 << 20);
    let stream = encoder.stream();
    let counts = |stream: &Stream| (stream.totals().units, stream.source_oversized());
    assert_eq!(
        counts(&stream),
        (1, 1),
        "the one before it was live counts, too"
    );
    send(&mut encoder, 3, true, 9 << 20);
    send(&mut encoder, 4, true, 100_000);
    assert_eq!(counts(&stream), (2, 2));
}
