use super::*;

#[test]
fn a_challenge_is_answered_once_and_then_beforehand() {
    let mut server = ScriptedServer::open("rtsp://us%2Fer:pa%26ss@127.0.0.1:8554/cam");
    let refuse = "401 Unauthorized\r\nWWW-Authenticate: Digest realm=\"r\", nonce=\"n\", qop=\"auth\"\r\n\
        WWW-Authenticate: Basic realm=\"r\"";
    let first = server.exchange(&Method::Options, URL, PUBLIC, "");
    assert_eq!(first.headers.get("Authorization"), None);
    let plain = server.exchange(&Method::Describe, URL, refuse, "");
    assert_eq!(plain.headers.get("Accept"), Some("application/sdp"));
    let again = server.exchange(&Method::Describe, URL, "200 OK", SDP);
    let shown = again.headers.get("Authorization").expect("credentials");
    let Some(crate::auth::Authorization::Digest(digest)) = crate::auth::Authorization::parse(shown)
    else {
        panic!("{shown}");
    };
    let user = User {
        name: "us/er".to_owned(),
        password: "pa&ss".to_owned(),
    };
    let secret = crate::auth::digest::secret(digest.algorithm, &user, "r");
    assert!(digest.verify(&secret, "DESCRIBE", b""));
    assert_eq!((digest.uri.as_str(), digest.count), (URL, Some(1)));
    assert_eq!(again.headers.get("Accept"), Some("application/sdp"));
    assert!(again.headers.cseq() > plain.headers.cseq());

    server.client.set_up(
        server.now,
        &[(TrackIndex(0), RequestedTransport::Interleaved)],
    );
    let stale = "401 Unauthorized\r\nWWW-Authenticate: Digest realm=\"r\", nonce=\"m\", stale=true";
    let setup = format!("{URL}/stream=0");
    let beforehand = server.exchange(&Method::Setup, &setup, stale, "");
    assert!(
        beforehand
            .headers
            .get("Authorization")
            .is_some_and(|text| text.contains("nc=00000002"))
    );
    let fresh = server.exchange(&Method::Setup, &setup, "200 OK\r\nSession: 1", "");
    assert!(
        fresh
            .headers
            .get("Authorization")
            .is_some_and(|text| text.contains("nonce=\"m\""))
    );
    assert_eq!(server.request().method, Method::Play);
}

#[test]
fn wrong_or_missing_credentials_end_it() {
    let refuse = "401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"r\"";
    let mut server = ScriptedServer::open("rtsp://u:wrong@127.0.0.1/x");
    for _ in 0..2 {
        server.exchange(&Method::Options, "rtsp://127.0.0.1/x", refuse, "");
    }
    assert_eq!(
        server.closed(),
        &Closed::CredentialsRefused {
            user: "u".to_owned()
        }
    );
    let mut server = ScriptedServer::open(URL);
    server.exchange(&Method::Options, URL, refuse, "");
    assert_eq!(server.closed(), &Closed::CredentialsMissing);
    let mut server = ScriptedServer::open("rtsp://u:p@127.0.0.1/x");
    let unknown = "401 No\r\nWWW-Authenticate: Negotiate abc";
    server.exchange(&Method::Options, "rtsp://127.0.0.1/x", unknown, "");
    assert!(server.closed().to_string().contains("Negotiate abc"));
    // Every nonce is stale.
    let mut server = ScriptedServer::open("rtsp://u:p@127.0.0.1/x");
    let stale = "401 No\r\nWWW-Authenticate: Digest realm=\"r\", nonce=\"m\", stale=true";
    for _ in 0..3 {
        server.exchange(&Method::Options, "rtsp://127.0.0.1/x", stale, "");
    }
    assert!(matches!(server.closed(), Closed::CredentialsRefused { .. }));
}

/// SharpRTSP#126: an Axis gives a fresh nonce in a 401 to a keep-alive, without `stale`.
#[test]
fn a_fresh_nonce_is_used_once_for_any_request() {
    let challenge =
        |nonce: usize| format!("401 No\r\nWWW-Authenticate: Digest realm=\"r\", nonce=\"{nonce}\"");
    let nonce_of = |request: &Request| {
        let shown = request.headers.get("Authorization").expect("credentials");
        let at = shown.find("nonce=\"").expect("a nonce") + 7;
        shown[at..].split('"').next().expect("a nonce").to_owned()
    };
    let mut server = ScriptedServer::open("rtsp://u:p@127.0.0.1:8554/cam");
    server.exchange(&Method::Options, URL, &challenge(0), "");
    server.exchange(&Method::Options, URL, PUBLIC, "");
    let bodies = [
        (Method::Describe, SDP),
        (Method::Setup, ""),
        (Method::Play, ""),
    ];
    for (nonce, (method, body)) in (1..).zip(bodies) {
        let request = server.request();
        assert_eq!(
            (&request.method, nonce_of(&request)),
            (&method, (nonce - 1).to_string())
        );
        server.answer(&request, &challenge(nonce), "");
        let again = server.request();
        assert_eq!(
            (&again.method, nonce_of(&again)),
            (&method, nonce.to_string())
        );
        server.answer(&again, "200 OK\r\nSession: s", body);
        if method == Method::Describe {
            let tracks = [(TrackIndex(0), RequestedTransport::Interleaved)];
            server.client.set_up(server.now, &tracks);
        }
    }
    // Each keep-alive asks for another nonce, and one refuses every nonce.
    for nonce in 10..20 {
        server.wait();
        let request = server.request();
        server.answer(&request, &challenge(nonce), "");
        let again = server.request();
        assert_eq!(nonce_of(&again), nonce.to_string());
        let head = if nonce == 15 {
            challenge(99)
        } else {
            "200 OK".to_owned()
        };
        server.answer(&again, &head, "");
        if let Some(next) = server.try_request() {
            assert_eq!(
                (nonce, &next.method),
                (15, &Method::Options),
                "the other method"
            );
            server.answer(&next, "200 OK", "");
        }
    }
    server.client.leave(server.now);
    let teardown = server.request();
    server.answer(&teardown, &challenge(30), "");
    let again = server.request();
    assert_eq!(
        (&again.method, nonce_of(&again)),
        (&Method::Teardown, "30".to_owned())
    );
    server.answer(&again, "200 OK", "");
    assert_eq!(server.closed(), &Closed::Left);
}

/// scottlamb/retina#45: a camera that closes each connection behind its 401.
#[test]
fn a_connection_that_ends_after_its_401_is_opened_again() {
    let refuse = "401 No\r\nWWW-Authenticate: Digest realm=\"r\", nonce=\"n\"";
    let mut server = ScriptedServer::open("rtsp://u:p@127.0.0.1:8554/cam");
    server.exchange(&Method::Options, URL, PUBLIC, "");
    assert!(
        !server.client.may_reopen(),
        "it has not asked for credentials"
    );
    server.exchange(&Method::Describe, URL, refuse, "");
    assert!(server.client.may_reopen());
    server.feed(b"RTSP/1.0 200 half a mess");
    server.client.reopen(server.now);
    assert!(!server.client.may_reopen(), "once");
    let options = server.exchange(&Method::Options, URL, PUBLIC, "");
    assert!(options.headers.get("Authorization").is_some());
    server.exchange(&Method::Describe, URL, "200 OK", SDP);
    assert!(
        matches!(server.events[..], [Event::Described(_)]),
        "{:?}",
        server.events
    );

    // The password is wrong: the camera says so on the second connection, whether or not with a
    // fresh nonce.
    for nonce in ["n", "m"] {
        let mut server = ScriptedServer::open("rtsp://u:p@127.0.0.1:8554/cam");
        server.exchange(&Method::Options, URL, refuse, "");
        server.client.reopen(server.now);
        server.exchange(
            &Method::Options,
            URL,
            &refuse.replace("\"n\"", &format!("\"{nonce}\"")),
            "",
        );
        server.client.handle_end();
        server.feed(b"");
        let user = "u".to_owned();
        assert_eq!(server.closed(), &Closed::CredentialsRefused { user });
    }
}
