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
