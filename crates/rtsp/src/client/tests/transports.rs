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
