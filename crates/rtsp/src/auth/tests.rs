use super::digest::{Algorithm, HashedRequest, Qop};
use super::*;
use proptest::prelude::*;

fn user(name: &str, password: &str) -> User {
    User {
        name: name.to_owned(),
        password: password.to_owned(),
    }
}

fn headers(values: &[&str]) -> Headers {
    let mut headers = Headers::new();
    for value in values {
        headers.push("www-authenticate", value);
    }
    headers
}

fn digests(values: &[&str]) -> Vec<digest::Challenge> {
    let challenges = Challenge::parse_all(&headers(values)).into_iter();
    challenges
        .filter_map(|challenge| match challenge {
            Challenge::Digest(digest) => Some(digest),
            Challenge::Basic { .. } => None,
        })
        .collect()
}

/// RFC 7616 §3.9.1: one user, two hashes.
#[test]
fn vectors_of_rfc_7616() {
    let challenges = digests(&[
        "Digest realm=\"http-auth@example.org\", qop=\"auth, auth-int\", algorithm=SHA-256, \
         nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\", \
         opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\"",
        "Digest realm=\"http-auth@example.org\", qop=\"auth, auth-int\", algorithm=MD5, \
         nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\", \
         opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\"",
    ]);
    let expected = [
        "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1",
        "8ca523f5e9506fed4657c9700eebdbec",
    ];
    let mufasa = user("Mufasa", "Circle of Life");
    let asked = HashedRequest {
        method: "GET",
        uri: "/dir/index.html",
        body: b"",
    };
    for (challenge, expected) in challenges.iter().zip(expected) {
        assert_eq!(challenge.qop, Some(Qop::Auth));
        let nonce = "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ";
        let credentials = challenge.answer(&mufasa, &asked, nonce, 1);
        assert_eq!(credentials.response, expected);
        let secret = digest::secret(challenge.algorithm, &mufasa, &challenge.realm);
        assert!(credentials.verify(&secret, "GET", b""));
        assert!(!credentials.verify(&secret, "PUT", b""));
    }
    assert_eq!(challenges.len(), 2);
}

/// Holds the example of RFC 2617 §3.5 against our Digest.
#[test]
fn vector_of_rfc_2617() {
    let challenges = digests(&[
        "Digest realm=\"testrealm@host.com\", qop=\"auth,auth-int\", \
         nonce=\"dcd98b7102dd2f0e8b11d0f600bfb0c093\", opaque=\"5ccc069c403ebaf9f0171e9517f40e41\"",
    ]);
    let asked = HashedRequest {
        method: "GET",
        uri: "/dir/index.html",
        body: b"",
    };
    let user = user("Mufasa", "Circle Of Life");
    let credentials = challenges[0].answer(&user, &asked, "0a4f113b", 1);
    assert_eq!(credentials.response, "6629fae49393a05397450978507c4ef1");
    assert!(credentials.to_string().contains(", qop=auth, nc=00000001"));
}

/// RFC 2069's form, as live555 asks for it: no protection, no client nonce. The
/// hash was computed with `md5sum`.
#[test]
fn a_challenge_without_protection_is_answered_without() {
    let challenges = digests(&["Digest realm=\"LIVE555\", nonce=\"abc\""]);
    let asked = HashedRequest {
        method: "DESCRIBE",
        uri: "rtsp://h/a.264",
        body: b"",
    };
    let credentials = challenges[0].answer(&user("u", "p"), &asked, "unused", 7);
    assert_eq!(credentials.response, NO_QOP_RESPONSE);
    let text = credentials.to_string();
    let without = ["cnonce", "qop", "nc=", "algorithm"];
    assert!(without.iter().all(|word| !text.contains(word)), "{text}");
}

const NO_QOP_RESPONSE: &str = "9060355106cba90ca568eaaf46ac5726";

#[test]
fn the_strongest_challenge_that_is_known_is_answered() {
    let all = Challenge::parse_all(&headers(&[
        "Basic realm=\"cam\"",
        "Negotiate",
        "Digest realm=\"cam, \\\"1\\\"\", nonce=\"a\", Digest realm=\"cam\",nonce=b,algorithm=SHA-256,stale=TRUE",
        "Digest realm=\"cam\", nonce=\"c\", algorithm=SHA-512-256",
        "Digest realm=\"cam\", nonce=\"c\", qop=\"token\"",
    ]));
    assert_eq!(all.len(), 3, "{all:?}");
    let Some(Challenge::Digest(md5)) = all.get(1) else {
        panic!("{all:?}");
    };
    assert_eq!(
        (md5.realm.as_str(), md5.algorithm),
        ("cam, \"1\"", Algorithm::Md5)
    );
    let Some(Challenge::Digest(best)) = Challenge::strongest(all) else {
        panic!("digest is stronger than basic");
    };
    assert_eq!((best.algorithm, best.stale), (Algorithm::Sha256, true));
}

#[test]
fn counts_go_up_and_client_nonces_differ() {
    let challenge = digests(&["Digest realm=\"r\", nonce=\"n\", qop=\"auth\""]).remove(0);
    let mut authorizer = Authorizer::new(user("u", "p"), Challenge::Digest(challenge), [7; 32]);
    let mut answer = || match authorizer.answer(&Method::Describe, "rtsp://h/", b"") {
        Authorization::Digest(credentials) => credentials,
        Authorization::Basic(_) => panic!("digest was asked for"),
    };
    let (first, second) = (answer(), answer());
    assert_eq!((first.count, second.count), (Some(1), Some(2)));
    assert_ne!(first.client_nonce, second.client_nonce);
    assert_ne!(first.response, second.response);
}

#[test]
fn basic_is_read_and_written() {
    let text = "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==";
    let aladdin = Authorization::Basic(user("Aladdin", "open sesame"));
    assert_eq!(Authorization::parse(text), Some(aladdin.clone()));
    assert_eq!(aladdin.to_string(), text);
    assert_eq!(Authorization::parse("Basic !!"), None);
    assert_eq!(Authorization::parse("Bearer abc"), None);
    assert!(!format!("{aladdin:?}").contains("sesame"));
}

#[test]
fn a_stray_quote_in_credentials_survives_writing() {
    let read = Authorization::parse("Digest username=u, nonce=n, uri=\"x, response=0a\"");
    assert_eq!(read, None, "the quote hides the response");
    let read = Authorization::parse("Digest username=u, nonce=n, uri=x\"\", response=u0a\"");
    let written = read.as_ref().map(ToString::to_string);
    assert_eq!(written.as_deref().and_then(Authorization::parse), read);
    assert!(read.is_some());
}

proptest! {
    #[test]
    fn challenges_and_credentials_survive_the_wire(
        realm in "[ -~]{0,20}", nonce in "[ -~]{1,20}", opaque in prop::option::of("[ -~]{0,9}"),
        stale: bool, md5: bool, session: bool, qop in prop::sample::select(vec![None, Some(Qop::Auth), Some(Qop::AuthInt)]),
        name in "[ -~]{1,9}", password in "\\PC{0,9}", count: u32, body in prop::collection::vec(any::<u8>(), 0..9),
    ) {
        let algorithm = match (md5, session) {
            (true, false) => Algorithm::Md5,
            (true, true) => Algorithm::Md5Sess,
            (false, false) => Algorithm::Sha256,
            (false, true) => Algorithm::Sha256Sess,
        };
        let challenge = digest::Challenge { realm, nonce, opaque, stale, algorithm, qop };
        let read = Challenge::parse_all(&headers(&[&challenge.to_string()]));
        // A header's value has no spaces around it; quoted strings keep theirs.
        prop_assert_eq!(read, [Challenge::Digest(challenge.clone())]);
        let asked = HashedRequest { method: "SETUP", uri: "rtsp://h/a,b\"c", body: &body };
        let user = user(&name, &password);
        let credentials = challenge.answer(&user, &asked, "cn", count);
        let text = Authorization::Digest(credentials.clone()).to_string();
        prop_assert_eq!(Authorization::parse(&text), Some(Authorization::Digest(credentials.clone())));
        let secret = digest::secret(algorithm, &user, &challenge.realm);
        prop_assert!(credentials.verify(&secret, "SETUP", &body));
        let other = digest::secret(algorithm, &user, "another realm of more than twenty");
        prop_assert!(!credentials.verify(&other, "SETUP", &body));
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,80}", keys in "(Digest|nonce=|realm=|\"|,| |\\\\|é){0,30}") {
        for text in [text, keys] {
            Challenge::parse_all(&headers(&[&text]));
            Authorization::parse(&text);
            Authorization::parse(&format!("Digest {text}"));
        }
    }
}
