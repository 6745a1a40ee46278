//! Streams by multicast: sent once, however many clients play them.

use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

use glassline_config::Multicast;
use glassline_rtp::Packet;

use crate::panics::{await_that, fail};
use crate::rtsp::Hand;
use crate::running::{Running, STREAM};
use crate::source::{Film, Source};

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 255, 77, 8);

/// Time limit for events that take no time on an idle machine.
const SOON: Duration = Duration::from_secs(20);

/// A time that is longer than the interval of frames or reports, on a busy machine.
const SILENCE: Duration = Duration::from_millis(2500);

/// Receivers of the first group's RTP and RTCP on loopback, on an even port and the
/// next; `None` where the machine has no multicast there.
fn receivers() -> Option<(UdpSocket, UdpSocket)> {
    loop {
        let any = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a free port");
        let port = any.local_addr().expect("bound").port();
        if !port.is_multiple_of(2) {
            continue;
        }
        let Ok(control) = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port + 1)) else {
            continue;
        };
        for socket in [&any, &control] {
            socket.set_read_timeout(Some(SILENCE)).expect("a timeout");
            if let Err(error) = socket.join_multicast_v4(&GROUP, &Ipv4Addr::LOCALHOST) {
                eprintln!("skipped: no multicast on loopback: {error}");
                return None;
            }
        }
        return Some((any, control));
    }
}

fn server(port: u16) -> Running {
    let group = serde_json::from_str("\"239.255.77.8/30\"").expect("groups");
    Running::with(2, |config| {
        config.rtsp.multicast = Some(Multicast {
            group,
            port,
            ttl: 1,
            interface: Some(Ipv4Addr::LOCALHOST),
        });
    })
}

/// Sets up the video by multicast and plays it; returns the answer to SETUP.
fn play(hand: &mut Hand, running: &Running) -> String {
    let url = format!("rtsp://{}/{STREAM}", running.rtsp());
    let transport = "Transport: RTP/AVP/UDP;multicast\r\n";
    let set_up = hand.ask("SETUP", &format!("{url}/trackID=0"), transport);
    assert!(set_up.contains("200 OK"), "{set_up}");
    let played = hand.ask("PLAY", &url, "");
    assert!(played.contains("200 OK"), "{played}");
    set_up
}

/// Returns the sequence number and the payload's first byte of the next packet, if one comes.
fn next(socket: &UdpSocket) -> Option<(u16, u8)> {
    let mut buffer = [0; 2048];
    let size = socket.recv(&mut buffer).ok()?;
    let packet = Packet::parse(&buffer[..size]).expect("RTP");
    Some((packet.header.sequence, packet.payload[0]))
}

#[test]
fn clients_on_all_threads_share_what_is_sent_once() {
    let Some((media, control)) = receivers() else {
        return;
    };
    let port = media.local_addr().expect("bound").port();
    let running = server(port);
    let _source = Source::start(&running.stream(), Film::default());
    let mut hands: Vec<_> = (0..8).map(|_| Hand::new(running.rtsp())).collect();
    for hand in &mut hands {
        let answer = play(hand, &running);
        let to = format!("destination=239.255.77.8;port={port}-{};ttl=1", port + 1);
        assert!(
            answer.contains("multicast") && answer.contains(&to),
            "{answer}"
        );
    }
    let (first, begins) = next(&media).expect("media");
    assert_eq!(begins & 0x1f, 24, "it begins with a keyframe");
    for place in 1..200u16 {
        let (sequence, _) = next(&media).expect("media");
        assert_eq!(sequence, first.wrapping_add(place), "each packet once");
    }
    let mut report = [0; 256];
    control.recv(&mut report).expect("a report");
    assert_eq!(report[1], 200, "a sender report");
    assert_eq!(running.hub().stream(STREAM).expect("there").viewers(), 8);

    // The group continues for the last of them, and ends with that one.
    hands.truncate(1);
    for _ in 0..50 {
        next(&media).expect("one client still plays");
    }
    drop(hands);
    let end = Instant::now() + SOON;
    while next(&media).is_some() {
        assert!(Instant::now() < end, "nobody plays any more");
    }
    assert_eq!(running.hub().stream(STREAM).expect("there").viewers(), 0);
}

#[test]
fn a_session_goes_one_way() {
    let running = server(5000);
    let _source = Source::start(&running.stream(), Film::default());
    let url = |track: u8| format!("rtsp://{}/{STREAM}/trackID={track}", running.rtsp());
    let mut hand = Hand::new(running.rtsp());
    let set_up = hand.ask("SETUP", &url(0), "Transport: RTP/AVP;multicast\r\n");
    assert!(set_up.contains("port=5000-5001"), "{set_up}");
    let mixed = "Transport: RTP/AVP/TCP;unicast;interleaved=2-3\r\n";
    let refused = hand.ask("SETUP", &url(1), mixed);
    assert!(refused.contains("461"), "one way for a session: {refused}");
    let set_up = hand.ask("SETUP", &url(1), "Transport: RTP/AVP;multicast\r\n");
    assert!(set_up.contains("port=5002-5003"), "{set_up}");
}

#[test]
fn without_groups_multicast_is_refused() {
    let running = Running::start(1);
    let _source = Source::start(&running.stream(), Film::default());
    let url = format!("rtsp://{}/{STREAM}/trackID=0", running.rtsp());
    let mut hand = Hand::new(running.rtsp());
    let refused = hand.ask("SETUP", &url, "Transport: RTP/AVP;multicast\r\n");
    assert!(refused.contains("461"), "{refused}");
    let set_up = hand.ask("SETUP", &url, "Transport: RTP/AVP/TCP;unicast\r\n");
    assert!(set_up.contains("200 OK"), "it stands after that: {set_up}");
}

#[test]
fn groups_go_on_after_the_thread_that_sends_to_them_has_panicked() {
    let Some((media, _control)) = receivers() else {
        return;
    };
    let running = server(media.local_addr().expect("bound").port());
    let _source = Source::start(&running.stream(), Film::default());
    let mut hand = Hand::new(running.rtsp());
    play(&mut hand, &running);
    for restarts in 1..=2 {
        let (mut last, _) = next(&media).expect("media");
        fail(&running, "rtsp-multicast", "panic");
        await_that(&running, "the thread starts anew", |running| {
            running.of_part("part_restarts_total", "multicast") == restarts
        });
        // The group begins again with a keyframe; until then, packets of before wait in the socket.
        let end = Instant::now() + SOON;
        loop {
            let (sequence, first) = next(&media).expect("the group goes on");
            if sequence != last.wrapping_add(1) && first & 0x1f == 24 {
                break;
            }
            last = sequence;
            assert!(Instant::now() < end, "no keyframe comes");
        }
        for _ in 0..50 {
            next(&media).expect("the group goes on");
        }
    }
    let url = format!("rtsp://{}/{STREAM}", running.rtsp());
    assert!(
        hand.ask("GET_PARAMETER", &url, "").contains("200"),
        "its client stays"
    );
}
