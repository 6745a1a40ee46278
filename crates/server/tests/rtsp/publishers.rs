//! Clients that publish over RTSP: their media is played, and they get feedback.

use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use glassline_client::viewers::{Endpoint, Join, RtspTransport};
use glassline_media::{Codec, Ssrc};
use glassline_rtp::rtcp::{self, ReportBlock};

use super::{Hand, SOON, pool};
use crate::running::Running;
use crate::track_changes::read_to_end;

/// A client that publishes µ-law by hand, within its connection.
fn announce(running: &Running, name: &str) -> (Hand, String) {
    announce_as(running, name, 0)
}

/// A client that publishes audio of a static payload type by hand, within its connection.
fn announce_as(running: &Running, name: &str, payload_type: u8) -> (Hand, String) {
    let mut hand = Hand::new(running.rtsp());
    let url = format!("rtsp://{}/{name}", running.rtsp());
    let sdp = format!(
        "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\n\
         m=audio 0 RTP/AVP {payload_type}\r\na=control:streamid=0\r\n"
    );
    let answer = hand.announce(&url, &sdp);
    (hand, answer)
}

/// Publishes one packet of audio of a static payload type, and waits until the stream has it.
fn record(running: &Running, name: &str, payload_type: u8) -> Hand {
    let published = || {
        let stream = running.hub().stream(name);
        stream.map_or(0, |it| it.totals().units)
    };
    let before = published();
    let (mut hand, answer) = announce_as(running, name, payload_type);
    assert!(answer.contains("200 OK"), "{answer}");
    let url = format!("rtsp://{}/{name}", running.rtsp());
    let transport = "Transport: RTP/AVP/TCP;unicast;mode=record;interleaved=0-1\r\n";
    hand.ask("SETUP", &format!("{url}/streamid=0"), transport);
    hand.ask("RECORD", &url, "");
    let mut packet = audio(0);
    packet[1] = payload_type;
    let frame = [&[b'$', 0, 0, 172], &packet[..]].concat();
    hand.stream.write_all(&frame).expect("sent");
    let end = Instant::now() + SOON;
    while published() == before {
        assert!(Instant::now() < end, "nothing published");
        std::thread::sleep(Duration::from_millis(5));
    }
    hand
}

#[test]
fn a_publisher_that_comes_back_with_another_codec_is_taken() {
    let running = Running::start(1);
    let url = format!("rtsp://{}/mic", running.rtsp());
    record(&running, "mic", 0).ask("TEARDOWN", &url, "");
    let mut viewer = Hand::new(running.rtsp());
    let transport = "Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n";
    viewer.ask("SETUP", &format!("{url}/trackID=0"), transport);
    viewer.ask("PLAY", &url, "");
    let _publisher = record(&running, "mic", 8);
    let stream = running.hub().stream("mic").expect("there");
    assert_eq!(stream.tracks()[0].codec, Codec::Pcma);
    assert_eq!(stream.state().as_str(), "live");
    read_to_end(&mut viewer);
}

#[test]
fn what_is_announced_and_recorded_is_played() {
    let running = Running::start(2);
    let (mut hand, answer) = announce(&running, "mic");
    assert!(answer.contains("200 OK"), "{answer}");
    let url = format!("rtsp://{}/mic", running.rtsp());
    assert!(running.hub().stream("mic").is_none(), "nothing was sent");
    let set_up = hand.ask(
        "SETUP",
        &format!("{url}/streamid=0"),
        "Transport: RTP/AVP/TCP;unicast;mode=record;interleaved=0-1\r\n",
    );
    assert!(set_up.contains("200 OK"), "{set_up}");
    let answer = hand.ask("RECORD", &url, "");
    assert!(answer.contains("200 OK"), "{answer}");
    let mut sequence = 0u16;
    let mut send = |hand: &mut Hand| {
        let mut frame = vec![b'$', 0, 0, 172, 0x80, 0];
        frame.extend(sequence.to_be_bytes());
        frame.extend((u32::from(sequence) * 160).to_be_bytes());
        frame.extend([1, 2, 3, 4]);
        frame.resize(4 + 172, 0x55);
        hand.stream.write_all(&frame).expect("sent");
        sequence += 1;
    };
    send(&mut hand);
    let end = Instant::now() + SOON;
    let live = || {
        running
            .hub()
            .stream("mic")
            .is_some_and(|it| it.totals().units > 0)
    };
    while !live() {
        assert!(Instant::now() < end, "nothing published");
        std::thread::sleep(Duration::from_millis(5));
    }
    let (_, answer) = announce(&running, "mic");
    assert!(answer.starts_with("RTSP/1.0 409"), "{answer}");
    let pool = pool();
    pool.join(Join::new(Endpoint::Rtsp {
        url: url.parse().expect("a URL"),
        transport: RtspTransport::Udp,
    }));
    while pool.snapshot()[0].audio.received < 20 {
        assert!(Instant::now() < end, "{:?}", pool.snapshot());
        send(&mut hand);
        std::thread::sleep(Duration::from_millis(20));
    }
    let answer = hand.ask("TEARDOWN", &url, "");
    assert!(answer.contains("200 OK"), "{answer}");
    let state = running.hub().stream("mic").expect("there").state();
    assert_eq!(state.as_str(), "down");
}

#[test]
fn the_stream_of_a_publisher_who_left_goes_when_nobody_watches() {
    let running = Running::with(1, |config| config.limits.departed_s = 0);
    drop(running.stream());
    let (mut hand, _) = announce(&running, "mic");
    let url = format!("rtsp://{}/mic", running.rtsp());
    let transport = "Transport: RTP/AVP/TCP;unicast;mode=record;interleaved=0-1\r\n";
    hand.ask("SETUP", &format!("{url}/streamid=0"), transport);
    hand.ask("RECORD", &url, "");
    let packet = audio(0);
    let frame = [&[b'$', 0, 0, 172], &packet[..]].concat();
    hand.stream.write_all(&frame).expect("sent");
    let has_series = || {
        let metrics = running.admin("/metrics").body;
        metrics.contains("stream=\"mic\"")
    };
    let await_series = |wanted: bool| {
        let end = Instant::now() + SOON;
        while has_series() != wanted {
            assert!(Instant::now() < end, "still {wanted} is wanted");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    await_series(true);
    let mut viewer = Hand::new(running.rtsp());
    let transport = "Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n";
    let answer = viewer.ask("SETUP", &format!("{url}/trackID=0"), transport);
    assert!(answer.contains("200 OK"), "{answer}");
    viewer.ask("PLAY", &url, "");
    hand.ask("TEARDOWN", &url, "");
    // Two sweeps later it waits for the next publisher.
    std::thread::sleep(Duration::from_millis(2500));
    assert!(has_series(), "somebody watches");
    drop(viewer);
    await_series(false);
    let names = running.hub().streams();
    assert_eq!(names.len(), 1, "the one that was configured stays");
}

/// Returns a datagram of audio whose timestamp follows from its number.
fn audio(sequence: u16) -> Vec<u8> {
    let mut packet = vec![0x80, 0];
    packet.extend(sequence.to_be_bytes());
    packet.extend((u32::from(sequence) * 160).to_be_bytes());
    packet.extend([1, 2, 3, 4]);
    packet.resize(172, 0x55);
    packet
}

/// Returns the report on the audio above in a compound packet, if there is one.
fn reported(compound: &[u8]) -> Option<ReportBlock> {
    let mut packets = rtcp::parse(compound).flatten();
    let report = packets.find_map(|packet| match packet {
        rtcp::Packet::ReceiverReport(report) => report.reports.first().copied(),
        _ => None,
    })?;
    assert_eq!(report.ssrc, Ssrc(0x0102_0304));
    Some(report)
}

#[test]
fn publishers_are_told_how_their_packets_arrive_within_the_connection() {
    let running = Running::start(1);
    let (mut hand, _) = announce(&running, "mic");
    let url = format!("rtsp://{}/mic", running.rtsp());
    hand.ask(
        "SETUP",
        &format!("{url}/streamid=0"),
        "Transport: RTP/AVP/TCP;unicast;mode=record;interleaved=4-5\r\n",
    );
    hand.ask("RECORD", &url, "");
    for sequence in [0, 1, 2, 4] {
        let packet = audio(sequence);
        let length = u8::try_from(packet.len()).expect("172");
        let frame = [&[b'$', 4, 0, length], &packet[..]].concat();
        hand.stream.write_all(&frame).expect("sent");
    }
    assert_eq!(hand.byte(), b'$');
    let (channel, compound) = hand.frame();
    assert_eq!(channel, 5);
    let block = reported(&compound).expect("a report");
    assert_eq!((block.highest_sequence, block.cumulative_lost), (4, 1));
}

#[test]
fn publishers_by_udp_may_mix_packets_up_and_are_told_of_losses() {
    let running = Running::start(1);
    let (mut hand, _) = announce(&running, "mic");
    let url = format!("rtsp://{}/mic", running.rtsp());
    let open = || UdpSocket::bind("127.0.0.1:0").expect("a port");
    let (media, control) = (open(), open());
    let port = |socket: &UdpSocket| socket.local_addr().expect("bound").port();
    let ports = format!("{}-{}", port(&media), port(&control));
    let transport = format!("Transport: RTP/AVP;unicast;mode=record;client_port={ports}\r\n");
    let answer = hand.ask("SETUP", &format!("{url}/streamid=0"), &transport);
    let server_port = answer.split("server_port=").nth(1).expect("ports");
    let digits = server_port.split(|it: char| !it.is_ascii_digit());
    let server_port: u16 = digits.clone().next().expect("a port").parse().expect("one");
    hand.ask("RECORD", &url, "");
    let server = SocketAddr::new(running.rtsp().ip(), server_port);
    for sequence in [0, 2, 1, 1, 4, 3, 6, 7] {
        media.send_to(&audio(sequence), server).expect("sent");
    }
    let end = Instant::now() + SOON;
    let units = || {
        let stream = running.hub().stream("mic");
        stream.map_or(0, |it| it.totals().units)
    };
    while units() < 7 {
        assert!(Instant::now() < end, "{} of 7", units());
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(units(), 7, "the double counts once");
    control.set_read_timeout(Some(SOON)).expect("a timeout");
    let mut compound = [0; 200];
    let length = control.recv(&mut compound).expect("a report");
    let block = reported(&compound[..length]).expect("a report");
    assert_eq!((block.highest_sequence, block.cumulative_lost), (7, 1));
}
