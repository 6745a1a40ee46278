//! Transports that the client asks for, and what servers answer.

use super::*;

#[test]
fn reports_go_to_the_channel_that_the_server_chose() {
    let mut line = Line::open(URL);
    line.describe();
    line.client.set_up(
        line.now,
        &[1, 9].map(|track| (TrackIndex(track), RequestedTransport::Interleaved)),
    );
    let head = "200 OK\r\nTransport: RTP/AVP/TCP;interleaved=6-7\r\nSession: s";
    line.exchange(&Method::Setup, &format!("{URL}/stream=1"), head, "");
    // Frames may come before the response to PLAY.
    line.feed(&[b'$', 6, 0, 1, 5]);
    line.exchange(&Method::Play, &format!("{URL}/"), "200 OK", "");
    assert_eq!(line.frames, [(1, false, vec![5])]);
    assert!(line.client.send_control(TrackIndex(1), &[1, 2]));
    assert_eq!(line.client.output(), [b'$', 7, 0, 2, 1, 2]);
    assert!(
        !line.client.send_control(TrackIndex(0), &[1, 2]),
        "not set up"
    );
}

#[test]
fn udp_ports_are_agreed_upon() {
    let mut line = Line::open(URL);
    line.describe();
    let udp = RequestedTransport::Udp {
        ports: (5000, 5001),
    };
    line.client.set_up(line.now, &[(TrackIndex(0), udp)]);
    let head = "200 OK\r\nTransport: RTP/AVP;unicast;source=10.0.0.7;client_port=5000-5001;\
        server_port=6970-6971;ssrc=1234ABCD\r\nSession: 1";
    let request = line.exchange(&Method::Setup, &format!("{URL}/stream=0"), head, "");
    assert_eq!(
        request.headers.get("Transport"),
        Some("RTP/AVP;unicast;client_port=5000-5001")
    );
    let Some(Event::SetUp {
        track: TrackIndex(0),
        transport,
    }) = line.events.last()
    else {
        panic!("{:?}", line.events);
    };
    assert_eq!(transport.server_port, Some((6970, 6971)));
    assert_eq!(transport.source.as_deref(), Some("10.0.0.7"));
    assert!(
        !line.client.send_control(TrackIndex(0), &[1]),
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
        let mut line = Line::open(URL);
        line.describe();
        line.client.set_up(
            line.now,
            &[(TrackIndex(0), RequestedTransport::Interleaved)],
        );
        line.exchange(&Method::Setup, &format!("{URL}/stream=0"), head, "");
        let text = line.closed().to_string();
        assert!(text.contains(expected), "{head}: {text}");
    }
}

#[test]
fn without_transport_and_session_headers_it_plays_too() {
    let mut line = Line::open(URL);
    line.describe();
    line.client.set_up(
        line.now,
        &[(TrackIndex(0), RequestedTransport::Interleaved)],
    );
    line.exchange(&Method::Setup, &format!("{URL}/stream=0"), "200 OK", "");
    let play = line.exchange(&Method::Play, &format!("{URL}/"), "200 OK", "");
    assert_eq!(play.headers.get("Session"), None);
    line.feed(&[b'$', 0, 0, 0]);
    assert_eq!(line.frames.len(), 1);
}

#[test]
fn interleaving_means_tcp_where_the_word_is_missing() {
    for transport in [
        "RTP/AVP;unicast;interleaved=4-5",
        "RTP/AVP/UDP;interleaved=4-5",
        "RTP/AVP/TCP;ssrc=0x6f7c;interleaved=4-5",
    ] {
        let mut line = Line::open(URL);
        line.describe();
        let tracks = [(TrackIndex(0), RequestedTransport::Interleaved)];
        line.client.set_up(line.now, &tracks);
        let head = format!("200 OK\r\nTransport: {transport}\r\nSession: 1");
        line.exchange(&Method::Setup, &format!("{URL}/stream=0"), &head, "");
        assert_eq!(line.request().method, Method::Play, "{transport}");
        line.feed(&[b'$', 4, 0, 1, 9]);
        assert_eq!(line.frames, [(0, false, vec![9])], "{transport}");
    }
}

#[test]
fn ports_of_the_client_and_immediate_feedback_are_the_servers_to_write_as_it_likes() {
    for transport in [
        "RTP/AVP;unicast;client_port=0-0;server_port=6970-6971",
        "RTP/AVP/UDP;unicast;client_port=7000-7001",
        "RTP/AVPF;unicast;client_port=5000-5001",
    ] {
        let mut line = Line::open(URL);
        line.describe();
        let udp = RequestedTransport::Udp {
            ports: (5000, 5001),
        };
        line.client.set_up(line.now, &[(TrackIndex(0), udp)]);
        let head = format!("200 OK\r\nTransport: {transport}\r\nSession: 1");
        line.exchange(&Method::Setup, &format!("{URL}/stream=0"), &head, "");
        assert_eq!(line.request().method, Method::Play, "{transport}");
    }
}

#[test]
fn frames_on_channels_that_were_asked_for_belong_to_their_tracks() {
    let mut line = Line::open(URL);
    line.describe();
    let tracks = [0, 1].map(|track| (TrackIndex(track), RequestedTransport::Interleaved));
    line.client.set_up(line.now, &tracks);
    // The camera answers the same channels for both tracks, and sends on those it was asked for.
    let head = "200 OK\r\nTransport: RTP/AVP/TCP;unicast;interleaved=0-1\r\nSession: s";
    for index in 0..2 {
        line.exchange(&Method::Setup, &format!("{URL}/stream={index}"), head, "");
    }
    line.feed(&[b'$', 0, 0, 1, 7, b'$', 2, 0, 1, 8, b'$', 3, 0, 1, 9]);
    assert_eq!(
        line.frames,
        [(0, false, vec![7]), (1, false, vec![8]), (1, true, vec![9])]
    );
    assert_eq!(line.client.stray_frames(), 0);
}

#[test]
fn a_range_that_is_refused_is_left_out() {
    let mut line = Line::open(URL);
    line.describe();
    let tracks = [(TrackIndex(0), RequestedTransport::Interleaved)];
    line.client.set_up(line.now, &tracks);
    line.exchange(&Method::Setup, &format!("{URL}/stream=0"), "200 OK", "");
    let play = line.exchange(&Method::Play, &format!("{URL}/"), "457 Invalid Range", "");
    assert!(play.headers.get("Range").is_some());
    let again = line.exchange(&Method::Play, &format!("{URL}/"), "200 OK", "");
    assert_eq!(again.headers.get("Range"), None);
    assert!(matches!(line.events.last(), Some(Event::Playing { .. })));
}
