//! A client that publishes, with the responses of MediaMTX and of ffmpeg as a server.

use glassline_media::{Codec, Track};

use super::*;
use crate::sdp::{Presentation, Section};

const NEW: &str = "rtsp://192.0.2.1:8554/live/cam?token=a";

fn announcement(transports: &[RequestedTransport]) -> Announcement {
    let tracks = [Track::new(Codec::Vp8), Track::audio(Codec::Opus, 2)];
    Announcement {
        presentation: Presentation {
            name: "test".to_owned(),
            information: String::new(),
            version: 7,
            address: [192, 0, 2, 2].into(),
            duration: None,
            recorded: None,
            tracks: tracks.map(Section::new).into(),
        },
        transports: transports.to_vec(),
    }
}

fn publish(transports: &[RequestedTransport]) -> ScriptedServer {
    let mut server = ScriptedServer::new(NEW);
    server.client.publish(server.now, announcement(transports));
    server.exchange(&Method::Options, NEW, PUBLIC, "");
    server
}

#[test]
fn tracks_are_announced_set_up_and_recorded() {
    let mut server = publish(&[RequestedTransport::Interleaved; 2]);
    let request = server.exchange(&Method::Announce, NEW, "200 OK", "");
    let kind = request.headers.get("Content-Type");
    assert_eq!(kind, Some("application/sdp"));
    let described = Description::parse(&request.body).expect("our own description");
    let controls: Vec<_> = described
        .tracks
        .iter()
        .map(|it| it.control.clone())
        .collect();
    for (index, channels) in ["0-1", "2-3"].iter().enumerate() {
        let control = format!("{NEW}/trackID={index}");
        assert_eq!(controls[index].as_ref(), Some(&control));
        let head = format!(
            "200 OK\r\nTransport: RTP/AVP/TCP;unicast;interleaved={channels}\r\nSession: abc"
        );
        let request = server.exchange(&Method::Setup, &control, &head, "");
        let asked = format!("RTP/AVP/TCP;unicast;interleaved={channels};mode=record");
        assert_eq!(request.headers.get("Transport"), Some(asked.as_str()));
    }
    let request = server.exchange(&Method::Record, NEW, "200 OK\r\nSession: abc", "");
    assert_eq!(request.headers.get("Session"), Some("abc"));
    assert_eq!(server.events.last(), Some(&Event::Recording));
    assert!(server.client.send_media(TrackIndex(1), b"packet"));
    assert_eq!(server.client.output(), b"$\x02\0\x06packet");
    server.client.advance(10);
    // The server's reports come on the odd channels.
    server.feed(&[b'$', 3, 0, 2, 0x80, 0xc9]);
    assert_eq!(server.frames, [(1, true, vec![0x80, 0xc9])]);
    server.client.leave(server.now);
    server.exchange(&Method::Teardown, NEW, "200 OK", "");
    assert_eq!(server.closed(), &Closed::Left);
}

#[test]
fn a_server_that_wants_credentials_is_answered_at_the_announcement() {
    let mut server = ScriptedServer::new(&NEW.replace("//", "//ann:secret@"));
    let transports = [RequestedTransport::Interleaved; 2];
    server.client.publish(server.now, announcement(&transports));
    server.exchange(&Method::Options, NEW, PUBLIC, "");
    let challenge = "401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"x\"";
    let first = server.exchange(&Method::Announce, NEW, challenge, "");
    let second = server.exchange(&Method::Announce, NEW, "200 OK", "");
    assert_eq!(first.body, second.body);
    assert!(second.headers.get("Authorization").is_some());
    assert_eq!(server.request().method, Method::Setup);
}

#[test]
fn a_refused_announcement_says_which_request_and_why() {
    for (head, text) in [
        ("409 Conflict", "the server refused ANNOUNCE: 409 Conflict"),
        ("501 Not Implemented", "the server refused ANNOUNCE: 501"),
    ] {
        let mut server = publish(&[RequestedTransport::Interleaved; 2]);
        server.exchange(&Method::Announce, NEW, head, "");
        let reason = server.closed().to_string();
        assert!(reason.starts_with(text), "{reason}");
    }
    let udp = RequestedTransport::Udp {
        ports: (5000, 5001),
    };
    let mut server = publish(&[udp]);
    server.exchange(&Method::Announce, NEW, "200 OK", "");
    let control = format!("{NEW}/trackID=0");
    server.exchange(&Method::Setup, &control, "461 Unsupported Transport", "");
    let refused = Closed::TransportRefused {
        track: TrackIndex(0),
    };
    assert_eq!(server.closed(), &refused);
}

#[test]
fn a_stream_without_tracks_is_not_recorded() {
    let mut server = publish(&[]);
    server.exchange(&Method::Announce, NEW, "200 OK", "");
    assert_eq!(server.closed(), &Closed::NothingToPlay);
}

/// A server that takes media sends none, so that its answers alone show whether it lives.
#[test]
fn a_publisher_gives_up_a_server_that_grants_no_keep_alive() {
    for (head, expected) in [
        (None, "the server did not answer OPTIONS within 10s"),
        (
            Some("454 No"),
            "the server no longer knows the session (454)",
        ),
        (Some("501 No"), ""),
    ] {
        let mut server = publish(&[RequestedTransport::Interleaved; 2]);
        for head in ["", "\r\nSession: s", "", ""] {
            let request = server.request();
            server.answer(&request, &format!("200 OK{head}"), "");
        }
        assert_eq!(server.events.last(), Some(&Event::Recording));
        server.wait();
        for _ in 0..2 {
            let request = server.request();
            match head {
                Some(head) => server.answer(&request, head, ""),
                None => server.wait(),
            }
        }
        match expected {
            "" => assert!(!server.client.is_closed(), "it answered"),
            text => assert_eq!(server.closed().to_string(), text),
        }
    }
}
