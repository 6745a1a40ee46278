use super::*;
use crate::auth::digest::Algorithm;
use crate::auth::{Authorizer, Challenge};
use crate::message::Method;

const URI: &str = "rtsp://192.0.2.1:8554/cam";

pub(super) fn guarded() -> Owner {
    Owner {
        users: vec![("ann", "pass word"), ("bob", "b")],
        ..Owner::default()
    }
}

fn ann() -> User {
    User {
        name: "ann".to_owned(),
        password: "pass word".to_owned(),
    }
}

/// Returns the challenges for a request without credentials.
fn challenges(client: &mut ScriptedClient) -> Vec<Challenge> {
    let response = client.ask(&format!("DESCRIBE {URI}"), "");
    assert_eq!(response.status, Status::UNAUTHORIZED);
    Challenge::parse_all(&response.headers)
}

fn digest_challenge(client: &mut ScriptedClient, wanted: Algorithm) -> digest::Challenge {
    let found = challenges(client)
        .into_iter()
        .find_map(|challenge| match challenge {
            Challenge::Digest(digest) if digest.algorithm == wanted => Some(digest),
            _ => None,
        });
    found.expect("a digest")
}

/// Returns the header that answers `challenge`, for the `count`th request.
fn credentials(challenge: &digest::Challenge, uri: &str, user: &User, count: u32) -> String {
    let asked = digest::HashedRequest {
        method: "DESCRIBE",
        uri,
        body: b"",
    };
    let answer = challenge.answer(user, &asked, "client", count);
    format!("Authorization: {answer}")
}

fn describe(client: &mut ScriptedClient, credentials: &str) -> Response {
    client.ask(&format!("DESCRIBE {URI}"), credentials)
}

#[test]
fn every_offered_way_opens() {
    for secure in [false, true] {
        let owner = || Owner {
            secure,
            ..guarded()
        };
        let offered = challenges(&mut ScriptedClient::of(owner()));
        let names: Vec<_> = offered
            .iter()
            .map(|challenge| match challenge {
                Challenge::Basic { .. } => "Basic",
                Challenge::Digest(digest) => digest.algorithm.as_str(),
            })
            .collect();
        let expected = ["SHA-256", "MD5", "Basic"];
        assert_eq!(names, expected[..if secure { 3 } else { 2 }]);
        for (index, name) in names.iter().enumerate() {
            let mut client = ScriptedClient::of(owner());
            let challenge = challenges(&mut client).swap_remove(index);
            let mut authorizer = Authorizer::new(ann(), challenge, [1; 32]);
            let shown = authorizer.answer(&Method::Describe, URI, b"");
            let response = describe(&mut client, &format!("Authorization: {shown}"));
            assert_eq!(response.status.0, 200, "{name}");
            assert_eq!(client.connection.user(), Some("ann"));
        }
    }
}

#[test]
fn a_password_in_the_clear_is_not_read_unless_that_is_wanted() {
    let basic = "Authorization: Basic YW5uOnBhc3Mgd29yZA==";
    let mut client = ScriptedClient::of(guarded());
    assert_eq!(describe(&mut client, basic).status.0, 401);
    let mut owner = guarded();
    owner.config.basic_over_plain = true;
    let mut client = ScriptedClient::of(owner);
    assert_eq!(describe(&mut client, basic).status.0, 200);
}

#[test]
fn where_others_check_passwords_digest_is_not_offered() {
    let mut owner = guarded();
    owner.config.digest = false;
    owner.config.basic_over_plain = true;
    let offered = challenges(&mut ScriptedClient::of(owner));
    assert!(
        matches!(&offered[..], [Challenge::Basic { .. }]),
        "{offered:?}"
    );
}

/// live555 and GStreamer know neither `qop` nor `algorithm` (RFC 2069).
#[test]
fn digest_without_count_opens() {
    let mut client = ScriptedClient::of(guarded());
    let mut challenge = digest_challenge(&mut client, Algorithm::Md5);
    challenge.qop = None;
    let text = credentials(&challenge, URI, &ann(), 1);
    assert!(!text.contains("qop") && !text.contains("nc="), "{text}");
    assert_eq!(describe(&mut client, &text).status.0, 200);
}

#[test]
fn the_hashed_uri_may_be_anothers_of_the_stream_only() {
    for (uri, status) in [
        (URI, 200),
        ("rtsp://192.0.2.1:8554/cam/", 200),
        // live555 hashes the stream's URL for a track, some the path alone.
        ("rtsp://192.0.2.1:8554/cam/trackID=1", 200),
        ("/cam", 200),
        ("rtsp://192.0.2.1:8554/one", 401),
        ("rtsp://192.0.2.1:8554/", 401),
        ("*", 401),
        ("", 401),
    ] {
        let mut client = ScriptedClient::of(guarded());
        let challenge = digest_challenge(&mut client, Algorithm::Sha256);
        let text = credentials(&challenge, uri, &ann(), 1);
        assert_eq!(describe(&mut client, &text).status.0, status, "{uri}");
    }
}

#[test]
fn wrong_credentials_do_not_open() {
    let stranger = User {
        name: "eve".to_owned(),
        ..ann()
    };
    let wrong = User {
        password: "b".to_owned(),
        ..ann()
    };
    for user in [stranger, wrong] {
        let mut client = ScriptedClient::of(guarded());
        let challenge = digest_challenge(&mut client, Algorithm::Md5);
        let text = credentials(&challenge, URI, &user, 1);
        assert_eq!(describe(&mut client, &text).status.0, 401, "{user:?}");
    }
    let mut client = ScriptedClient::of(guarded());
    let challenge = digest_challenge(&mut client, Algorithm::Md5);
    let right = credentials(&challenge, URI, &ann(), 1);
    for (what, text) in [
        ("realm", right.replace("realm=\"glassline\"", "realm=\"x\"")),
        (
            "algorithm",
            right.replace("algorithm=MD5", "algorithm=MD5-sess"),
        ),
        ("response", right.replace("response=\"", "response=\"0")),
        ("scheme", "Authorization: Bearer x".to_owned()),
        ("nothing", "Authorization: Digest".to_owned()),
        (
            "garbage",
            "Authorization: Digest username=\"ann\", nonce=\"é\", uri=\"/cam\", response=\"\""
                .to_owned(),
        ),
    ] {
        assert_ne!(text, right, "{what}");
        assert_eq!(describe(&mut client, &text).status.0, 401, "{what}");
    }
}

#[test]
fn a_request_that_was_overheard_opens_nothing_again() {
    let mut client = ScriptedClient::of(guarded());
    let challenge = digest_challenge(&mut client, Algorithm::Sha256);
    let second = credentials(&challenge, URI, &ann(), 2);
    assert_eq!(describe(&mut client, &second).status.0, 200);
    // For another user the owner is asked again, and the count of that nonce must rise.
    let bob = User {
        name: "bob".to_owned(),
        password: "b".to_owned(),
    };
    for count in [1, 2] {
        let text = credentials(&challenge, URI, &bob, count);
        let response = describe(&mut client, &text);
        assert_eq!(response.status.0, 401, "{count}");
        assert!(stale(&response), "with a fresh nonce it may be right");
    }
    let text = credentials(&challenge, URI, &bob, 3);
    assert_eq!(describe(&mut client, &text).status.0, 200);
    assert_eq!(client.connection.user(), Some("bob"));

    // On another connection, with another peer, the nonce is invalid.
    let mut other = ScriptedClient::from(guarded(), "192.0.2.7:4001");
    let text = credentials(&challenge, URI, &ann(), 9);
    let response = describe(&mut other, &text);
    assert_eq!(response.status.0, 401);
    assert!(stale(&response));
}

fn stale(response: &Response) -> bool {
    let challenges = Challenge::parse_all(&response.headers);
    challenges
        .iter()
        .all(|challenge| matches!(challenge, Challenge::Digest(digest) if digest.stale))
}

#[test]
fn nonces_live_for_minutes() {
    for (age, status) in [(149, 200), (290, 200), (300, 401), (100_000, 401)] {
        let mut owner = guarded();
        owner.config.idle_timeout = S * 1_000_000;
        let mut client = ScriptedClient::of(owner);
        client.now += S;
        // The first nonce is made at the start of a window.
        let challenge = digest_challenge(&mut client, Algorithm::Sha256);
        client.now = client.started + S * age;
        let text = credentials(&challenge, URI, &ann(), 1);
        let response = describe(&mut client, &text);
        assert_eq!(response.status.0, status, "after {age} s");
        if status == 401 {
            assert!(stale(&response));
            let fresh = digest_challenge(&mut client, Algorithm::Sha256);
            assert_ne!(fresh.nonce, challenge.nonce);
            let text = credentials(&fresh, URI, &ann(), 1);
            assert_eq!(describe(&mut client, &text).status.0, 200);
        }
    }
}

#[test]
fn the_owner_is_asked_once_for_each_stream_and_access() {
    let mut client = ScriptedClient::of(guarded());
    let challenge = digest_challenge(&mut client, Algorithm::Sha256);
    describe(&mut client, &credentials(&challenge, URI, &ann(), 1));
    let asked = |client: &ScriptedClient| {
        let events = client.events.iter();
        events
            .filter(|event| matches!(event, Event::Authorize { .. }))
            .count()
    };
    let before = asked(&client);
    assert_eq!(describe(&mut client, "").status.0, 200);
    client.play();
    client.ask_session(&format!("TEARDOWN {URI}"), "");
    assert_eq!(asked(&client), before);
    // Another stream needs another grant.
    let one = "DESCRIBE rtsp://192.0.2.1:8554/one";
    assert_eq!(client.status(one, ""), 401);
    let sdp = "Content-Type: application/sdp";
    let response = client.ask_with(
        &format!("ANNOUNCE {URI}"),
        sdp,
        "v=0\r\nm=audio 0 RTP/AVP 0\r\n",
    );
    assert_eq!(response.status.0, 401);
    assert_eq!(asked(&client), before + 2);
    for method in ["SETUP", "GET_PARAMETER", "SET_PARAMETER"] {
        let status = client.status(&format!("{method} rtsp://192.0.2.1:8554/one"), "");
        assert_eq!(status, 401, "{method}");
    }
    assert_eq!(client.status("OPTIONS rtsp://192.0.2.1:8554/one", ""), 200);
}

#[test]
fn who_guesses_is_shown_the_door() {
    let mut client = ScriptedClient::of(guarded());
    for count in 1..=8 {
        assert!(!client.connection.is_closed(), "{count}");
        let challenge = digest_challenge(&mut client, Algorithm::Md5);
        let guess = User {
            password: format!("guess {count}"),
            ..ann()
        };
        let response = describe(&mut client, &credentials(&challenge, URI, &guess, count));
        assert_eq!(response.status.0, 401);
    }
    assert_eq!(client.closed(), &Closed::WrongCredentials { failures: 8 });
}
