//! Players that are granted PLAY and get nothing, beside some that do.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use glassline_hub::StreamName;
use serde_json::Value;

use super::Hand;
use crate::failures::failures;
use crate::peer::SOON;
use crate::running::{Running, STREAM};
use crate::source::{Film, Source, tracks};

/// A player by UDP, with its ports and the server's port for reports.
struct UdpPlayer {
    hand: Hand,
    url: String,
    _media: UdpSocket,
    control: UdpSocket,
    server: SocketAddr,
}

impl UdpPlayer {
    fn play(running: &Running) -> Self {
        let url = format!("rtsp://{}/{STREAM}", running.rtsp());
        let mut hand = Hand::new(running.rtsp());
        let open = || UdpSocket::bind("127.0.0.1:0").expect("a port");
        let (media, control) = (open(), open());
        let port = |socket: &UdpSocket| socket.local_addr().expect("bound").port();
        let ports = format!("{}-{}", port(&media), port(&control));
        let transport = format!("Transport: RTP/AVP;unicast;client_port={ports}\r\n");
        let answer = hand.ask("SETUP", &format!("{url}/trackID=0"), &transport);
        let after = answer.split("server_port=").nth(1).expect("ports");
        let mut numbers = after.split(|it: char| !it.is_ascii_digit());
        let server_port: u16 = numbers.nth(1).and_then(|it| it.parse().ok()).expect("two");
        let played = hand.ask("PLAY", &url, "");
        assert!(played.contains("200 OK"), "{played}");
        Self {
            hand,
            url,
            _media: media,
            control,
            server: SocketAddr::new(running.rtsp().ip(), server_port),
        }
    }

    fn tear_down(mut self) {
        let answer = self.hand.ask("TEARDOWN", &self.url, "");
        assert!(answer.contains("200 OK"), "{answer}");
    }
}

/// A receiver report about one source (RFC 3550 §6.4.2).
fn report() -> [u8; 32] {
    let mut packet = [0; 32];
    packet[..4].copy_from_slice(&[0x81, 201, 0, 7]);
    packet
}

/// Waits until the failures' reasons have all of `parts`, one each.
fn await_reasons(running: &Running, parts: &[&str]) -> Vec<Value> {
    let end = Instant::now() + SOON;
    loop {
        let all = failures(running);
        let has = |part: &&str| {
            let mut reasons = all.iter().filter_map(|it| it["reason"].as_str());
            reasons.any(|reason| reason.contains(part))
        };
        if parts.iter().all(has) {
            assert_eq!(all.len(), parts.len(), "{all:#?}");
            return all;
        }
        assert!(Instant::now() < end, "{all:#?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn players_that_get_nothing_are_among_the_failures_and_others_are_not() {
    let running = Running::start(1);
    let source = Source::start(&running.stream(), Film::default());
    source.await_published(|units| units.len() > 10);
    let name = StreamName::parse("mute").expect("a name");
    let mute = running.hub().create(name).expect("room");
    let _mute = mute.publish(tracks(), Instant::now()).expect("free");

    UdpPlayer::play(&running).tear_down();
    let firewalled = UdpPlayer::play(&running);
    let reporting = UdpPlayer::play(&running);
    reporting
        .control
        .send_to(&report(), reporting.server)
        .expect("sent");
    // Its ports are closed, and its connection goes on.
    let UdpPlayer { hand: closed, .. } = UdpPlayer::play(&running);
    let mut waiting = Hand::new(running.rtsp());
    let url = format!("rtsp://{}/mute", running.rtsp());
    let transport = "Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n";
    waiting.ask("SETUP", &format!("{url}/trackID=0"), transport);
    assert!(waiting.ask("PLAY", &url, "").contains("200 OK"));

    // Both are told while the player is there.
    let (no_port, nothing) = ("ICMP port unreachable", "nothing to send within");
    let all = await_reasons(&running, &[no_port, nothing]);
    let of_mute = all.iter().find(|it| it["stream"] == "mute");
    assert_eq!(of_mute.expect("an entry")["stage"], "media");
    drop((closed, waiting));
    reporting.tear_down();
    firewalled.tear_down();
    let all = await_reasons(&running, &[no_port, nothing, "no receiver report came"]);
    let [failure, ..] = &all[..] else {
        panic!("{all:?}")
    };
    let text = |name: &str| failure[name].as_str().expect(name);
    let begins = "PLAY by UDP to 127.0.0.1:";
    assert!(text("reason").starts_with(begins), "{failure}");
    assert!(text("remedy").contains("-rtsp_transport tcp"), "{failure}");
    let kind = ["stream", "protocol", "role", "stage"].map(text);
    assert_eq!(kind, [STREAM, "rtsp", "viewer", "media"]);
}
