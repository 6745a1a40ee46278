//! Live frames that browsers would show in the wrong order.

use std::io::Write;
use std::time::Instant;

use glassline_demux::live::Splitter;
use glassline_media::{MediaTime, Stamps, TrackIndex, UnitBuilder, annexb};
use glassline_rtp::h264;
use glassline_webrtc::Event;

use crate::peer::{Peer, SOON};
use crate::rtsp::Hand;
use crate::running::{Running, STREAM};
use crate::source::{VIDEO, tracks};

const B_FRAMES: &[u8] = include_bytes!("../../demux/samples/b-frames.h264");

/// Publishes the frames of an H.264 file over RTSP, within the connection.
fn publish(running: &Running, name: &str, file: &[u8]) -> Hand {
    let mut hand = Hand::new(running.rtsp());
    let url = format!("rtsp://{}/{name}", running.rtsp());
    let sdp = "v=0\r\ns=-\r\nm=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\n\
               a=control:streamid=0\r\n";
    let answer = hand.announce(&url, sdp);
    assert!(answer.contains("200 OK"), "{answer}");
    let transport = "Transport: RTP/AVP/TCP;unicast;mode=record;interleaved=0-1\r\n";
    hand.ask("SETUP", &format!("{url}/streamid=0"), transport);
    hand.ask("RECORD", &url, "");
    let mut splitter = Splitter::new();
    splitter.push(file).expect("a good file");
    splitter.finish().expect("a good file");
    let units = std::iter::from_fn(|| splitter.next_unit());
    let mut sequence = 0u16;
    for (number, unit) in (0u32..).zip(units) {
        let mut builder = UnitBuilder::default();
        h264::packetize(annexb::nals(&unit.data), 1200, &mut builder);
        let stamps = Stamps::arrived(Instant::now());
        let media_unit = builder.build(TrackIndex(0), MediaTime::ZERO, unit.keyframe, stamps);
        let media_unit = media_unit.expect("a frame has packets");
        for (place, payload) in media_unit.payloads().enumerate() {
            let marker = u8::from(media_unit.marker(place)) << 7;
            let length = u16::try_from(payload.len() + 12).expect("a packet");
            let mut frame = vec![b'$', 0];
            frame.extend(length.to_be_bytes());
            frame.extend([0x80, marker | 96]);
            frame.extend(sequence.to_be_bytes());
            frame.extend((number * 3600).to_be_bytes());
            frame.extend([1, 2, 3, 4]);
            frame.extend_from_slice(payload);
            hand.stream.write_all(&frame).expect("sent");
            sequence = sequence.wrapping_add(1);
        }
    }
    hand
}

fn refusal(running: &Running, stream: &str) -> String {
    let refused = Peer::of_stream(running, stream).err().expect("refused");
    let problem = refused.problem(422);
    problem["detail"].as_str().expect("words").to_owned()
}

#[test]
fn b_frames_of_a_publisher_are_refused_by_whep_and_played_over_rtsp() {
    let running = Running::start(1);
    let mut hand = publish(&running, "film", B_FRAMES);
    let end = Instant::now() + SOON;
    let media_units = || {
        let stream = running.hub().stream("film");
        stream.map_or(0, |it| it.totals().units)
    };
    while media_units() < 49 {
        assert!(Instant::now() < end, "{} frames", media_units());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let detail = refusal(&running, "film");
    assert!(detail.contains("B-frames"), "{detail}");
    let url = format!("rtsp://{}/film", running.rtsp());
    let described = Hand::new(running.rtsp()).ask("DESCRIBE", &url, "");
    assert!(described.contains("H264/90000"), "{described}");
    hand.ask("TEARDOWN", &url, "");
}

#[test]
fn viewers_of_frames_that_turn_out_to_have_b_frames_are_sent_away() {
    let running = Running::start(1);
    let stream = running.stream();
    let mut publisher = stream.publish(tracks(), Instant::now()).expect("free");
    let mut peer = Peer::of_stream(&running, STREAM).expect("an answer");
    assert!(peer.run_until(SOON, Peer::is_connected), "it watches");
    let mut known = tracks();
    known[VIDEO].video.reordered = true;
    publisher.describe(&known).expect("the same codecs");
    let mut builder = UnitBuilder::default();
    builder.push(&[0x41, 0x9a]);
    let media_unit = builder.build(
        VIDEO,
        MediaTime::ZERO,
        false,
        Stamps::arrived(Instant::now()),
    );
    let media_unit = media_unit.expect("a packet");
    publisher.push(media_unit, Instant::now()).expect("a track");
    let is_closed = |peer: &Peer<'_>| {
        let mut events = peer.events.iter();
        events.any(|event| matches!(event, Event::Closed(_)))
    };
    assert!(peer.run_until(SOON, is_closed), "it is told");
    let detail = refusal(&running, STREAM);
    assert!(detail.contains("B-frames"), "{detail}");
}
