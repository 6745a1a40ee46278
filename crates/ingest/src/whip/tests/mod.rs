//! Any packets, and what must come of good ones.

mod layers;
mod padding;
mod recovery;
mod temporal;

use std::time::UNIX_EPOCH;

use glassline_media::{Codec, Kind, NtpTime};
use glassline_rtp::receive::TrackPipeline;
use glassline_rtp::{Header, write_header};
use glassline_runtime::{SessionId, calendar};

use super::fuzzing::{session, whip};
use super::publication::uplink;
use super::*;

/// A keyframe of VP8 in one packet: descriptor, header, 64 by 64.
const KEYFRAME: [u8; 11] = [0x10, 0, 2, 0, 0x9d, 1, 0x2a, 64, 0, 64, 0];

/// One operation of the driver: a packet of VP8 on the video's receiver and a layer.
fn packet(layer: u8, sequence: u16, timestamp: u32, wait_ms: u8, payload: &[u8]) -> Vec<u8> {
    let header = Header {
        marker: true,
        payload_type: 96,
        sequence,
        timestamp,
        ssrc: glassline_media::Ssrc(7 + u32::from(layer)),
    };
    let mut bytes = vec![0; 12];
    write_header(&mut bytes, &header, &[]);
    bytes.extend_from_slice(payload);
    let count = u8::try_from(bytes.len()).expect("short");
    [&[1 | layer << 1 | 0x40, wait_ms, count][..], &bytes].concat()
}

#[test]
fn floods_gaps_and_nonsense_are_bounded() {
    let mut good = vec![2 | 8 | 16];
    for number in 0..120u16 {
        let frame = if number % 30 == 0 {
            &KEYFRAME[..]
        } else {
            &[0x10, 1, 1, 1]
        };
        for layer in 0..3 {
            // One packet of eleven is lost, and one arrives long before its time.
            let ahead = if number % 17 == 0 { 2000 } else { 0 };
            if number % 11 != 5 {
                let timestamp = u32::from(number) * 3000;
                good.extend(packet(layer, number + ahead, timestamp, 33, frame));
            }
        }
    }
    whip(&good);
    let mut state = 1u64;
    let mut random = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as u8
    };
    for _ in 0..200 {
        let count = usize::from(random()) * 8;
        let bytes: Vec<u8> = (0..count).map(|_| random()).collect();
        whip(&bytes);
        // Good packets, of which a byte each is damaged.
        let mut damaged = good[..good.len().min(count + 40)].to_vec();
        for _ in 0..8 {
            let at = usize::from(random()) * damaged.len() / 256;
            damaged[at] = random();
        }
        whip(&damaged);
    }
}

/// Some publishers offer every codec that they know and send one, whichever was answered first.
#[test]
fn the_codec_of_the_first_packet_is_that_of_the_stream() {
    let start = Instant::now();
    let hub = Arc::new(Hub::default());
    let reservations = Arc::new(Reservations::new(start));
    let name = StreamName::parse("studio").expect("good");
    let reservation = reservations.reserve(name, SessionId::new("session"), false, start);
    // H.264 is offered before VP8.
    let mut session = session(0, start);
    let reservation = reservation.expect("free");
    let contribution = Contribution::new(&session, Arc::clone(&hub), reservation, false, start);
    let (mut contribution, counters) = (contribution.expect("known"), WhipCounters::default());
    let video = session
        .receivers()
        .iter()
        .position(|it| it.kind == Kind::Video);
    let place = (ReceiverIndex(video.expect("offered")), LayerIndex(0));
    let formats = 96..=127;
    let h264 = formats.into_iter().find(|payload_type| {
        let format = session.receivers()[place.0.0].format(*payload_type);
        format.is_some_and(|(codec, _)| codec == Codec::H264)
    });
    let h264 = h264.expect("offered");
    let mut send = |number: u16, payload_type: u8, payload: &[u8]| {
        let header = Header {
            marker: true,
            payload_type,
            sequence: number,
            timestamp: u32::from(number) * 3000,
            ssrc: glassline_media::Ssrc(7),
        };
        let mut bytes = vec![0; 12];
        write_header(&mut bytes, &header, &[]);
        bytes.extend_from_slice(payload);
        let packet = Packet::parse(&bytes).expect("written here");
        let now = start + Duration::from_millis(u64::from(number) * 33);
        contribution.take(&session, place, &packet, now, &counters);
        let served = contribution.serve(&mut session, now, &counters);
        served.expect("published");
    };
    send(1, 98, &[]);
    send(2, 98, &KEYFRAME);
    send(3, 98, &[0x10, 1, 1, 1]);
    // An empty packet of another codec is a probe for bandwidth.
    send(4, h264, &[]);
    send(5, 98, &[0x10, 1, 1, 1]);
    let stream = hub.stream("studio").expect("live");
    assert_eq!(stream.state().as_str(), "live");
    let codecs: Vec<_> = stream.tracks().iter().map(|track| track.codec).collect();
    assert_eq!(codecs, [Codec::Vp8, Codec::Opus]);
    assert_eq!(stream.totals().units, 3);
}

#[test]
fn a_publisher_that_falls_silent_or_sends_no_keyframe_is_disconnected() {
    let start = Instant::now();
    let at = |ms: u64| start + Duration::from_millis(ms);
    let counters = WhipCounters::default();
    let contribution = || {
        let session = session(2, start);
        let reservations = Arc::new(Reservations::new(start));
        let name = StreamName::parse("studio").expect("good");
        let reserved = reservations.reserve(name, SessionId::new("session"), false, start);
        let hub = Arc::new(Hub::default());
        let made = Contribution::new(&session, hub, reserved.expect("free"), false, start);
        (made.expect("known"), session)
    };
    let (mut silent, mut session) = contribution();
    silent.start(start);
    let place = |session: &Session| {
        let mut kinds = session.receivers().iter().map(|it| it.kind);
        let video = kinds.position(|it| it == Kind::Video).expect("offered");
        (ReceiverIndex(video), LayerIndex(0))
    };
    let video = place(&session);
    let payload_type = session.receivers()[video.0.0].likely_payload_type();
    let take =
        |contribution: &mut Contribution, session: &Session, number: u16, payload: &[u8], now| {
            let header = Header {
                marker: true,
                payload_type,
                sequence: number,
                timestamp: u32::from(number) * 90_000,
                ssrc: glassline_media::Ssrc(7),
            };
            let mut bytes = vec![0; 12];
            write_header(&mut bytes, &header, &[]);
            bytes.extend_from_slice(payload);
            let packet = Packet::parse(&bytes).expect("written here");
            contribution.take(session, place(session), &packet, now, &counters);
        };
    for second in 0..20 {
        let now = at(u64::from(second) * 1000);
        take(&mut silent, &session, second, &[0x10, 1, 1, 1], now);
        assert!(silent.serve(&mut session, now, &counters).is_ok());
    }
    assert!(silent.serve(&mut session, at(20_000), &counters).is_ok());
    let ended = silent.serve(&mut session, at(21_100), &counters);
    assert!(matches!(ended, Err(Ended::NoKeyframe { .. })), "{ended:?}");
    let (mut live, mut session) = contribution();
    live.start(start);
    take(&mut live, &session, 1, &KEYFRAME, start);
    assert!(live.serve(&mut session, start, &counters).is_ok());
    assert!(live.serve(&mut session, at(40_000), &counters).is_ok());
    let ended = live.serve(&mut session, at(41_100), &counters);
    assert!(
        matches!(ended, Err(Ended::Silent { time: SILENCE })),
        "{ended:?}"
    );
}

#[test]
fn what_arrives_is_told_of_every_line_with_its_layers() {
    let start = Instant::now();
    let lines = |options| {
        let session = session(options, start);
        let lines = session.receivers().iter().map(ArrivedLine::of);
        let mut lines: Vec<_> = lines.map(|it| (it.kind, it.rid, it.other_rids)).collect();
        lines.sort();
        lines
    };
    let audio = ("audio", None, Vec::new());
    assert_eq!(lines(2), [audio.clone(), ("video", None, Vec::new())]);
    let others = ["b", "c"].map(str::to_owned).to_vec();
    let layers = ("video", Some("a".to_owned()), others);
    assert_eq!(lines(2 | 8), [audio, layers]);
}

#[test]
fn the_delay_of_the_uplink_is_told_where_the_clocks_agree() {
    let seconds = |captured_ago: u64, ago: u64| {
        let now = calendar::now()
            .duration_since(UNIX_EPOCH)
            .expect("after 1970");
        let captured = NtpTime::from_unix(now - Duration::from_secs(captured_ago));
        uplink(captured, Duration::from_secs(ago)).map(|it| it.as_secs())
    };
    // The test itself takes some of the time.
    assert!(seconds(20, 10).is_some_and(|it| (10..40).contains(&it)));
    assert!(seconds(30, 25).is_some_and(|it| (5..35).contains(&it)));
    assert_eq!(seconds(90, 10), None, "more than a minute");
    assert_eq!(seconds(10, 90), None, "captured after the arrival");
}
