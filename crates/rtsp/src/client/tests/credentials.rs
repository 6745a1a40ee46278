use super::*;

#[test]
fn a_challenge_is_answered_once_and_then_beforehand() {
    let mut line = Line::open("rtsp://us%2Fer:pa%26ss@127.0.0.1:8554/cam");
    let refuse = "401 Unauthorized\r\nWWW-Authenticate: Digest realm=\"r\", nonce=\"n\", qop=\"auth\"\r\n\
        WWW-Authenticate: Basic realm=\"r\"";
    let first = line.exchange(&Method::Options, URL, PUBLIC, "");
    assert_eq!(first.headers.get("Authorization"), None);
    let plain = line.exchange(&Method::Describe, URL, refuse, "");
    assert_eq!(plain.headers.get("Accept"), Some("application/sdp"));
    let again = line.exchange(&Method::Describe, URL, "200 OK", SDP);
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

    line.client.set_up(
        line.now,
        &[(TrackIndex(0), RequestedTransport::Interleaved)],
    );
    let stale = "401 Unauthorized\r\nWWW-Authenticate: Digest realm=\"r\", nonce=\"m\", stale=true";
    let setup = format!("{URL}/stream=0");
    let beforehand = line.exchange(&Method::Setup, &setup, stale, "");
    assert!(
        beforehand
            .headers
            .get("Authorization")
            .is_some_and(|text| text.contains("nc=00000002"))
    );
    let fresh = line.exchange(&Method::Setup, &setup, "200 OK\r\nSession: 1", "");
    assert!(
        fresh
            .headers
            .get("Authorization")
            .is_some_and(|text| text.contains("nonce=\"m\""))
    );
    assert_eq!(line.request().method, Method::Play);
}

#[test]
fn wrong_or_missing_credentials_end_it() {
    let refuse = "401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"r\"";
    let mut line = Line::open("rtsp://u:wrong@127.0.0.1/x");
    for _ in 0..2 {
        line.exchange(&Method::Options, "rtsp://127.0.0.1/x", refuse, "");
    }
    assert_eq!(
        line.closed(),
        &Closed::CredentialsRefused {
            user: "u".to_owned()
        }
    );
    let mut line = Line::open(URL);
    line.exchange(&Method::Options, URL, refuse, "");
    assert_eq!(line.closed(), &Closed::CredentialsMissing);
    let mut line = Line::open("rtsp://u:p@127.0.0.1/x");
    let unknown = "401 No\r\nWWW-Authenticate: Negotiate abc";
    line.exchange(&Method::Options, "rtsp://127.0.0.1/x", unknown, "");
    assert!(line.closed().to_string().contains("Negotiate abc"));
    // Every nonce is stale.
    let mut line = Line::open("rtsp://u:p@127.0.0.1/x");
    let stale = "401 No\r\nWWW-Authenticate: Digest realm=\"r\", nonce=\"m\", stale=true";
    for _ in 0..3 {
        line.exchange(&Method::Options, "rtsp://127.0.0.1/x", stale, "");
    }
    assert!(matches!(line.closed(), Closed::CredentialsRefused { .. }));
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
    let mut line = Line::open("rtsp://u:p@127.0.0.1:8554/cam");
    line.exchange(&Method::Options, URL, &challenge(0), "");
    line.exchange(&Method::Options, URL, PUBLIC, "");
    let bodies = [
        (Method::Describe, SDP),
        (Method::Setup, ""),
        (Method::Play, ""),
    ];
    for (nonce, (method, body)) in (1..).zip(bodies) {
        let request = line.request();
        assert_eq!(
            (&request.method, nonce_of(&request)),
            (&method, (nonce - 1).to_string())
        );
        line.answer(&request, &challenge(nonce), "");
        let again = line.request();
        assert_eq!(
            (&again.method, nonce_of(&again)),
            (&method, nonce.to_string())
        );
        line.answer(&again, "200 OK\r\nSession: s", body);
        if method == Method::Describe {
            let tracks = [(TrackIndex(0), RequestedTransport::Interleaved)];
            line.client.set_up(line.now, &tracks);
        }
    }
    // Each keep-alive asks for another nonce, and one refuses every nonce.
    for nonce in 10..20 {
        line.wait();
        let request = line.request();
        line.answer(&request, &challenge(nonce), "");
        let again = line.request();
        assert_eq!(nonce_of(&again), nonce.to_string());
        let head = if nonce == 15 {
            challenge(99)
        } else {
            "200 OK".to_owned()
        };
        line.answer(&again, &head, "");
        if let Some(next) = line.try_request() {
            assert_eq!(
                (nonce, &next.method),
                (15, &Method::Options),
                "the other method"
            );
            line.answer(&next, "200 OK", "");
        }
    }
    line.client.leave(line.now);
    let teardown = line.request();
    line.answer(&teardown, &challenge(30), "");
    let again = line.request();
    assert_eq!(
        (&again.method, nonce_of(&again)),
        (&Method::Teardown, "30".to_owned())
    );
    line.answer(&again, "200 OK", "");
    assert_eq!(line.closed(), &Closed::Left);
}

/// scottlamb/retina#45: a camera that closes each connection behind its 401.
#[test]
fn a_connection_that_ends_after_its_401_is_opened_again() {
    let refuse = "401 No\r\nWWW-Authenticate: Digest realm=\"r\", nonce=\"n\"";
    let mut line = Line::open("rtsp://u:p@127.0.0.1:8554/cam");
    line.exchange(&Method::Options, URL, PUBLIC, "");
    assert!(
        !line.client.may_reopen(),
        "it has not asked for credentials"
    );
    line.exchange(&Method::Describe, URL, refuse, "");
    assert!(line.client.may_reopen());
    line.feed(b"RTSP/1.0 200 half a mess");
    line.client.reopen(line.now);
    assert!(!line.client.may_reopen(), "once");
    let options = line.exchange(&Method::Options, URL, PUBLIC, "");
    assert!(options.headers.get("Authorization").is_some());
    line.exchange(&Method::Describe, URL, "200 OK", SDP);
    assert!(
        matches!(line.events[..], [Event::Described(_)]),
        "{:?}",
        line.events
    );

    // The password is wrong: the camera says so on the second connection, whether or not with a
    // fresh nonce.
    for nonce in ["n", "m"] {
        let mut line = Line::open("rtsp://u:p@127.0.0.1:8554/cam");
        line.exchange(&Method::Options, URL, refuse, "");
        line.client.reopen(line.now);
        line.exchange(
            &Method::Options,
            URL,
            &refuse.replace("\"n\"", &format!("\"{nonce}\"")),
            "",
        );
        line.client.handle_end();
        line.feed(b"");
        let user = "u".to_owned();
        assert_eq!(line.closed(), &Closed::CredentialsRefused { user });
    }
}
