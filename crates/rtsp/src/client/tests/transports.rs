//! Transports that the client asks for, and what servers answer.

use super::*;

#[test]
fn reports_go_to_the_channel_that_the_server_chose() {
    let mut server = ScriptedServer::open(URL);
    server.describe();
    server.client.set_up(
        server.now,
        &[1, 9].map(|track| (TrackIndex(track), RequestedTransport::Interleaved)),
    );
    let head = "200 OK\r\nTransport: RTP/AVP/TCP;interleaved=6-7\r\nSession: s";
    server.exchange(&Method::Setup, &format!("{URL}/stream=1"), head, "");
    // Frames may come before the response to PLAY.
    server.feed(&[b'$', 6, 0, 1, 5]);
    server.exchange(&Method::Play, &format!("{URL}/"), "200 OK", "");
    assert_eq!(server.frames, [(1, false, vec![5])]);
    assert!(server.client.send_control(TrackIndex(1), &[1, 2]));
    assert_eq!(server.client.output(), [b'$', 7, 0, 2, 1, 2]);
    assert!(
        !server.client.send_control(TrackIndex(0), &[1, 2]),
        "not set up"
    );
}

#[test]
fn udp_ports_are_agreed_upon() {
    let mut server = ScriptedServer::open(URL);
    server.describe();
    let udp = RequestedTransport::Udp {
        ports: (5000, 5001),
    };
    server.client.set_up(server.now, &[(TrackIndex(0), udp)]);
    let head = "200 OK\r\nTransport: RTP/AVP;unicast;source=10.0.0.7;client_port=5000-5001;\
        server_port=6970-6971;ssrc=1234ABCD\r\nSession: 1";
    let request = server.exchange(&Method::Setup, &format!("{URL}/stream=0"), head, "");
    assert_eq!(
        request.headers.get("Transport"),
        Some("RTP/AVP;unicast;client_port=5000-5001")
    );
    let Some(Event::SetUp {
        track: TrackIndex(0),
        transport,
    }) = server.events.last()
    else {
        panic!("{:?}", server.events);
    };
    assert_eq!(transport.server_port, Some((6970, 6971)));
    assert_eq!(transport.source.as_deref(), Some("10.0.0.7"));
    assert!(
        !server.client.send_control(TrackIndex(0), &[1]),
        "that goes to the UDP port"
    );
}

#[test]
fn a_transport_that_was_not_asked_for_is_refused() {
    let cases = [
        ("461 Unsupported transport", "use the other"),
        // Cameras that support only UDP answer so.
        (
            "200 OK\r\nTransport: RTP/AVP;unicast;client_port=0-1",
            "asked for `RTP/AVP/TCP",
        ),
        (
            "200 OK\r\nTransport: RTP/AVP/TCP;multicast",
            "the server set up",
        ),
        ("200 OK\r\nTransport: nonsense", "nonsense"),
        // Interleaving is no answer to a client that asked for it elsewhere.
        ("200 OK\r\nTransport: RAW/RAW/UDP;interleaved=0-1", "RAW"),
        ("453 Not Enough Bandwidth", "refused SETUP: 453"),
    ];
    for (head, expected) in cases {
        let mut server = ScriptedServer::open(URL);
        server.describe();
        server.client.set_up(
            server.now,
            &[(TrackIndex(0), RequestedTransport::Interleaved)],
        );
        server.exchange(&Method::Setup, &format!("{URL}/stream=0"), head, "");
        let text = server.closed().to_string();
        assert!(text.contains(expected), "{head}: {text}");
    }
}

#[test]
fn without_transport_and_session_headers_it_plays_too() {
    let mut server = ScriptedServer::open(URL);
    server.describe();
    server.client.set_up(
        server.now,
        &[(TrackIndex(0), RequestedTransport::Interleaved)],
    );
    server.exchange(&Method::Setup, &format!("{URL}/stream=0"), "200 OK", "");
    let play = server.exchange(&Method::Play, &format!("{URL}/"), "200 OK", "");
    assert_eq!(play.headers.get("Session"), None);
    server.feed(&[b'$', 0, 0, 0]);
    assert_eq!(server.frames.len(), 1);
}

#[test]
fn interleaving_means_tcp_where_the_word_is_missing() {
    for transport in [
        "RTP/AVP;unicast;interleaved=4-5",
        "RTP/AVP/UDP;interleaved=4-5",
        "RTP/AVP/TCP;ssrc=0x6f7c;interleaved=4-5",
    ] {
        let mut server = ScriptedServer::open(URL);
        server.describe();
        let tracks = [(TrackIndex(0), RequestedTransport::Interleaved)];
        server.client.set_up(server.now, &tracks);
        let head = format!("200 OK\r\nTransport: {transport}\r\nSession: 1");
        server.exchange(&Method::Setup, &format!("{URL}/stream=0"), &head, "");
        assert_eq!(server.request().method, Method::Play, "{transport}");
        server.feed(&[b'$', 4, 0, 1, 9]);
        assert_eq!(server.frames, [(0, false, vec![9])], "{transport}");
    }
}

#[test]
fn ports_of_the_client_and_immediate_feedback_are_the_servers_to_write_as_it_likes() {
    for transport in [
        "RTP/AVP;unicast;client_port=0-0;server_port=6970-6971",
        "RTP/AVP/UDP;unicast;client_port=7000-7001",
        "RTP/AVPF;unicast;client_port=5000-5001",
    ] {
        let mut server = ScriptedServer::open(URL);
        server.describe();
        let udp = RequestedTransport::Udp {
            ports: (5000, 5001),
        };
        server.client.set_up(server.now, &[(TrackIndex(0), udp)]);
        let head = format!("200 OK\r\nTransport: {transport}\r\nSession: 1");
        server.exchange(&Method::Setup, &format!("{URL}/stream=0"), &head, "");
        assert_eq!(server.request().method, Method::Play, "{transport}");
    }
}

#[test]
fn frames_on_channels_that_were_asked_for_belong_to_their_tracks() {
    let mut server = ScriptedServer::open(URL);
    server.describe();
    let tracks = [0, 1].map(|track| (TrackIndex(track), RequestedTransport::Interleaved));
    server.client.set_up(server.now, &tracks);
    // The camera answers the same channels for both tracks, and sends on those it was asked for.
    let head = "200 OK\r\nTransport: RTP/AVP/TCP;unicast;interleaved=0-1\r\nSession: s";
    for index in 0..2 {
        server.exchange(&Method::Setup, &format!("{URL}/stream={index}"), head, "");
    }
    server.feed(&[b'$', 0, 0, 1, 7, b'$', 2, 0, 1, 8, b'$', 3, 0, 1, 9]);
    assert_eq!(
        server.frames,
        [(0, false, vec![7]), (1, false, vec![8]), (1, true, vec![9])]
    );
    assert_eq!(server.client.stray_frames(), 0);
}

#[test]
fn a_range_that_is_refused_is_left_out() {
    let mut server = ScriptedServer::open(URL);
    server.describe();
    let tracks = [(TrackIndex(0), RequestedTransport::Interleaved)];
    server.client.set_up(server.now, &tracks);
    server.exchange(&Method::Setup, &format!("{URL}/stream=0"), "200 OK", "");
    let play = server.exchange(&Method::Play, &format!("{URL}/"), "457 Invalid Range", "");
    assert!(play.headers.get("Range").is_some());
    let again = server.exchange(&Method::Play, &format!("{URL}/"), "200 OK", "");
    assert_eq!(again.headers.get("Range"), None);
    assert!(matches!(server.events.last(), Some(Event::Playing { .. })));
}
