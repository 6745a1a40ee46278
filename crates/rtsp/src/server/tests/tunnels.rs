use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::*;

/// The requests with which ffmpeg 5.1 opens both connections of a tunnel.
const GET: &str = "GET /cam HTTP/1.1\r\nUser-Agent: Lavf/59.27.100\r\nConnection: close\r\n\
    x-sessioncookie: 5bc57fab15b4f8d4\r\nAccept: application/x-rtsp-tunnelled\r\n\r\n";
const POST: &str = "POST /cam HTTP/1.1\r\nUser-Agent: Lavf/59.27.100\r\n\
    x-sessioncookie: 5bc57fab15b4f8d4\r\nContent-Type: application/x-rtsp-tunnelled\r\n\
    Content-Length: 32767\r\n\r\n";

fn tunnel() -> ScriptedClient {
    let mut client = ScriptedClient::open();
    client.feed(GET.as_bytes());
    let response = client.response();
    assert_eq!((response.status.0, response.version.http), (200, true));
    assert_eq!(
        response.headers.get("Content-Type"),
        Some("application/x-rtsp-tunnelled")
    );
    let [Event::TunnelGet { cookie }] = &client.events[..] else {
        panic!("{:?}", client.events);
    };
    assert_eq!(cookie, "5bc57fab15b4f8d4");
    client
}

/// Passes on bytes of the POST connection.
fn post(client: &mut ScriptedClient, base64: &[u8]) {
    let ScriptedClient {
        connection,
        frames,
        now,
        ..
    } = client;
    connection.handle_tunnel_data(*now, base64, |frame| {
        frames.push((frame.track.get(), frame.control, frame.payload.to_vec()));
    });
    client.settle();
}

#[test]
fn a_session_runs_through_a_tunnel_however_it_is_cut() {
    let setup = "Transport: RTP/AVP/TCP;unicast;interleaved=0-1";
    let requests = [
        written(1, &format!("DESCRIBE {CAM}"), "", ""),
        written(2, &format!("SETUP {CAM}/trackID=0"), setup, ""),
    ];
    // Each message is encoded on its own: there is padding in the middle.
    let stream: String = requests.iter().map(|text| STANDARD.encode(text)).collect();
    assert!(stream.trim_end_matches('=').contains('='));
    for cut in 1..stream.len() {
        let mut client = tunnel();
        for piece in stream.as_bytes().chunks(cut) {
            post(&mut client, piece);
        }
        for cseq in 1..=2 {
            let response = client.response();
            assert_eq!(
                (response.status.0, response.headers.cseq()),
                (200, Some(cseq))
            );
        }
        let frame = STANDARD.encode([b'$', 1, 0, 3, 7, 8, 9]);
        post(&mut client, frame.as_bytes());
        assert_eq!(client.frames, [(0, true, vec![7, 8, 9])]);
    }
}

#[test]
fn the_posting_half_is_given_away_with_what_came_behind_it() {
    for cut in [1, 50, 1000] {
        let mut client = ScriptedClient::open();
        let text = format!("{POST}T1BU");
        for piece in text.as_bytes().chunks(cut) {
            client.feed(piece);
        }
        let Some(Event::TunnelPost { cookie, rest }) = client.events.first() else {
            panic!("{:?}", client.events);
        };
        assert_eq!(cookie, "5bc57fab15b4f8d4");
        // The owner forwards the bytes that come later.
        assert!(b"T1BU".starts_with(rest), "{rest:?}");
        assert_eq!(client.events.len(), 1);
        assert_eq!(client.try_response(), None, "a POST is not answered");
    }
}

#[test]
fn a_posting_half_without_its_other_is_refused() {
    let mut client = ScriptedClient::open();
    client.feed(POST.as_bytes());
    client.connection.refuse_tunnel();
    client.settle();
    let response = client.response();
    assert_eq!((response.status.0, response.version.http), (400, true));
    assert!(matches!(client.closed(), Closed::Http(_)));
}

/// GET and POST on one connection made another server wait for itself.
#[test]
fn both_halves_on_one_connection_are_refused() {
    for text in [format!("{GET}{POST}"), format!("{GET}x")] {
        for cut in [1, text.len()] {
            let mut client = ScriptedClient::open();
            for piece in text.as_bytes().chunks(cut) {
                client.feed(piece);
            }
            let why = "GET and POST of a tunnel use the same connection";
            assert_eq!(client.closed(), &Closed::Http(why));
            post(&mut client, b"T1BU");
            assert_eq!(client.events.len(), 2, "nothing after that");
        }
    }
    // In the other order, the GET is within the POST's body, which is base64.
    let mut client = tunnel();
    post(&mut client, GET.as_bytes());
    assert!(
        matches!(client.closed(), Closed::Stream(_) | Closed::Tunnel(_)),
        "{:?}",
        client.closed()
    );
}

#[test]
fn what_a_browser_sends_gets_words_that_a_person_understands() {
    for text in [
        "GET / HTTP/1.1\r\nHost: h:8554\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
        "GET / HTTP/1.0\r\nx-sessioncookie:\r\n\r\n",
        "HEAD / HTTP/1.1\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\n\r\n",
        "CONNECT h:443 HTTP/1.1\r\n\r\n",
    ] {
        let mut client = ScriptedClient::open();
        client.feed(text.as_bytes());
        let response = client.response();
        assert_eq!(
            (response.status.0, response.version.http),
            (400, true),
            "{text}"
        );
        let body = String::from_utf8(response.body).expect("text");
        assert!(body.contains("RTSP server"), "{body}");
        assert!(matches!(client.closed(), Closed::Http(_)), "{text}");
    }
    let mut client = ScriptedClient::open();
    let long = "c".repeat(257);
    client.feed(format!("GET / HTTP/1.0\r\nx-sessioncookie: {long}\r\n\r\n").as_bytes());
    assert_eq!(client.response().status.0, 400);
    // HTTP is refused in mid-stream, too; an RTSP request with method GET is only unknown.
    let mut client = ScriptedClient::open();
    assert_eq!(client.status("GET rtsp://h/cam", ""), 501);
    assert_eq!(client.status("OPTIONS *", ""), 200);
    client.feed(GET.as_bytes());
    assert_eq!(client.response().status.0, 400);
    assert!(client.connection.is_closed());
}

#[test]
fn what_is_no_base64_ends_the_tunnel_and_elsewhere_there_is_none() {
    let mut client = tunnel();
    post(
        &mut client,
        STANDARD.encode(written(1, "OPTIONS *", "", "")).as_bytes(),
    );
    assert_eq!(client.response().status.0, 200);
    post(&mut client, b"T1\0");
    assert!(matches!(client.closed(), Closed::Tunnel(_)));
    let mut client = ScriptedClient::open();
    assert_eq!(client.status("OPTIONS *", ""), 200);
    post(
        &mut client,
        STANDARD.encode(written(1, "OPTIONS *", "", "")).as_bytes(),
    );
    assert_eq!(client.try_response(), None);
}
