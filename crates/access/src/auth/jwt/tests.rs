use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING,
    ECDSA_P521_SHA512_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256,
    RSA_PSS_SHA512, RsaKeyPair,
};
use aws_lc_rs::{hmac, rsa};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::keys::KeySet;
use super::*;

const SECRET: &str = "a shared secret of more than 64 characters, as HS512 demands it: 0123456789";

fn base64(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn calendar() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000)
}

/// Returns a token of this header and these claims, signed by `sign`.
fn token(header: &Value, claims: &Value, sign: impl FnOnce(&[u8]) -> Vec<u8>) -> String {
    let (header, claims) = (header.to_string(), claims.to_string());
    let signed = format!("{}.{}", base64(header), base64(claims));
    let signature = sign(signed.as_bytes());
    format!("{signed}.{}", base64(signature))
}

fn by_secret(header: &Value, claims: &Value) -> String {
    token(header, claims, |signed| {
        let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
        hmac::sign(&key, signed).as_ref().to_vec()
    })
}

fn jwt(algorithms: &[Algorithm]) -> Jwt {
    Jwt {
        algorithms: algorithms.to_vec(),
        secret: super::super::Secret::new(&SECRET.replace(' ', "_")).ok(),
        issuer: Some("https://id.example".to_owned()),
        audience: Some("glassline".to_owned()),
        ..Jwt::default()
    }
}

fn rules() -> Rules {
    Rules::of(&jwt(&[Algorithm::HS256]))
}

fn claims(change: impl FnOnce(&mut Value)) -> Value {
    let mut claims = json!({
        "exp": 1_000_060, "iss": "https://id.example", "aud": ["other", "glassline"],
        "glassline": {"read": ["cam*"], "publish": "hall", "call": ["team", "sales*"]},
    });
    change(&mut claims);
    claims
}

fn granted(change: impl FnOnce(&mut Value)) -> Result<Grant, TokenError> {
    let claims = claims(change).to_string();
    Grant::of(claims.as_bytes(), &rules(), calendar())
}

#[test]
fn rights_are_patterns_and_end_with_the_token() {
    let grant = granted(|_| {}).expect("a good token");
    let texts = |list: &[super::super::Pattern]| {
        let texts = list.iter().map(ToString::to_string);
        texts.collect::<Vec<_>>()
    };
    assert_eq!(
        texts(&grant.rights.read),
        ["cam*", "call~team~*", "call~sales*"]
    );
    assert_eq!(
        texts(&grant.rights.publish),
        ["hall", "call~team~*", "call~sales*"]
    );
    assert_eq!(grant.until, calendar() + Duration::from_secs(60 + 30));
    let past = granted(|it| it["glassline"] = json!({"playback": "cam*", "record": ["hall"]}));
    let past = past.expect("a good token").rights;
    assert_eq!(texts(&past.playback), ["cam*"]);
    assert_eq!(texts(&past.record), ["hall"]);
    assert!(past.read.is_empty() && past.export.is_empty());
    let none = granted(|it| drop(it.as_object_mut().map(|it| it.remove("glassline"))));
    let none = none.expect("a token without rights is one");
    assert!(none.rights.read.is_empty() && none.rights.publish.is_empty());
}

#[test]
fn claims_that_are_missing_or_wrong_are_named() {
    for (change, error) in [
        (("exp", Value::Null), TokenError::NoExpiry),
        (("exp", json!(999_970)), TokenError::Expired),
        (("exp", json!("1000060")), TokenError::Malformed),
        (("exp", json!(-1)), TokenError::Malformed),
        (("exp", json!(1e300)), TokenError::Malformed),
        (("nbf", json!(1_000_031)), TokenError::TooEarly),
        (("iss", json!("https://id.example/")), TokenError::Issuer),
        (("iss", Value::Null), TokenError::Issuer),
        (("aud", json!("glass")), TokenError::Audience),
        (("aud", json!([])), TokenError::Audience),
        (("glassline", json!({"read": ["a*b"]})), TokenError::Rights),
        (("glassline", json!({"call": [""]})), TokenError::Rights),
        (("glassline", json!({"read": 5})), TokenError::Rights),
        (("glassline", json!(["read"])), TokenError::Rights),
        (("glassline", Value::Null), TokenError::Rights),
        (
            ("glassline", json!({"read": vec!["a"; 65]})),
            TokenError::Rights,
        ),
    ] {
        let (key, value) = change.clone();
        assert_eq!(granted(|it| it[key] = value), Err(error), "{change:?}");
    }
    for (key, value) in [
        ("exp", json!(1_000_060.5)),
        ("exp", json!(999_971)),
        ("nbf", json!(1_000_030)),
        ("aud", json!("glassline")),
    ] {
        assert!(
            granted(|it| it[key] = value.clone()).is_ok(),
            "{key} {value}"
        );
    }
}

#[test]
fn a_token_decides_neither_its_algorithm_nor_its_key() {
    let secret = jwt(&[Algorithm::HS512]).secret.expect("a secret");
    let set = KeySet::of_secret(secret.reveal(), &[Algorithm::HS256]);
    let verify = |header: Value| {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.reveal().as_bytes());
        let sign = |signed: &[u8]| hmac::sign(&key, signed).as_ref().to_vec();
        let text = token(&header, &claims(|_| {}), sign);
        Compact::parse(&text).and_then(|it| set.verify(&it))
    };
    assert_eq!(verify(json!({"alg": "HS256"})), Ok(()));
    assert_eq!(
        verify(json!({"alg": "HS256", "typ": "at+jwt", "kid": "any"})),
        Ok(())
    );
    for alg in ["none", "None", "hs256", "HS257", ""] {
        assert_eq!(
            verify(json!({"alg": alg})),
            Err(TokenError::Algorithm),
            "{alg}"
        );
    }
    assert_eq!(verify(json!({"alg": "HS512"})), Err(TokenError::UnknownKey));
    let critical = json!({"alg": "HS256", "crit": ["exp"]});
    assert_eq!(verify(critical), Err(TokenError::Malformed));
    assert_eq!(verify(json!({})), Err(TokenError::Malformed));
    // A public key is no secret, though everybody may know it.
    let (set, pem) = rsa();
    let forged = token(&json!({"alg": "HS256"}), &claims(|_| {}), |signed| {
        let key = hmac::Key::new(hmac::HMAC_SHA256, pem.as_bytes());
        hmac::sign(&key, signed).as_ref().to_vec()
    });
    let forged = Compact::parse(&forged).expect("a token");
    assert_eq!(set.0.verify(&forged), Err(TokenError::UnknownKey));
}

#[test]
fn tokens_without_the_form_or_too_long_are_malformed() {
    let good = by_secret(&json!({"alg": "HS256"}), &claims(|_| {}));
    assert!(has_form(&good));
    for bad in [
        "",
        "a",
        "e.e",
        "e.e.e.e.e",
        "e..e",
        "e.e.",
        "look-1234567",
        "é.é.é",
        "x.y.z",
    ] {
        assert!(!has_form(bad), "{bad}");
        assert!(Compact::parse(bad).is_err(), "{bad}");
    }
    let long = format!("{good}{}", "A".repeat(TOKEN_BYTES_MAX));
    assert_eq!(Compact::parse(&long).err(), Some(TokenError::Malformed));
    let padded = format!("{good}==");
    assert_eq!(Compact::parse(&padded).err(), Some(TokenError::Malformed));
}

type Signer = Box<dyn Fn(&[u8]) -> Vec<u8>>;

/// Returns the PEM text of a public key.
fn pem(der: &[u8]) -> String {
    format!(
        "-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n",
        STANDARD.encode(der)
    )
}

/// Returns an RSA key as a set for all its algorithms, with its signer for PS512, and as PEM text.
fn rsa() -> ((KeySet, RsaKeyPair), String) {
    let pair = RsaKeyPair::generate(rsa::KeySize::Rsa2048).expect("a key");
    let der: aws_lc_rs::encoding::PublicKeyX509Der<'_> =
        pair.public_key().as_der().expect("a public key");
    let text = pem(der.as_ref());
    let algorithms = [Algorithm::RS256, Algorithm::PS512, Algorithm::ES256];
    let set = KeySet::of_pem(text.as_bytes(), &algorithms).expect("keys");
    ((set, pair), text)
}

fn curves() -> Vec<(Algorithm, Value, String, Signer)> {
    let mut all: Vec<(Algorithm, Value, String, Signer)> = Vec::new();
    for (algorithm, name, signing) in [
        (Algorithm::ES256, "P-256", &ECDSA_P256_SHA256_FIXED_SIGNING),
        (Algorithm::ES384, "P-384", &ECDSA_P384_SHA384_FIXED_SIGNING),
        (Algorithm::ES512, "P-521", &ECDSA_P521_SHA512_FIXED_SIGNING),
    ] {
        let pair = EcdsaKeyPair::generate(signing).expect("a key");
        let point = pair.public_key().as_ref()[1..].to_vec();
        let (x, y) = point.split_at(point.len() / 2);
        let jwk = json!({"kty": "EC", "crv": name, "x": base64(x), "y": base64(y)});
        let der: aws_lc_rs::encoding::PublicKeyX509Der<'_> =
            pair.public_key().as_der().expect("a public key");
        let pem = pem(der.as_ref());
        let sign = move |signed: &[u8]| {
            let signature = pair.sign(&SystemRandom::new(), signed);
            signature.expect("a signature").as_ref().to_vec()
        };
        all.push((algorithm, jwk, pem, Box::new(sign)));
    }
    let pair = Ed25519KeyPair::generate().expect("a key");
    let jwk = json!({"kty": "OKP", "crv": "Ed25519", "x": base64(pair.public_key().as_ref())});
    let der: aws_lc_rs::encoding::PublicKeyX509Der<'_> =
        pair.public_key().as_der().expect("a public key");
    let pem = pem(der.as_ref());
    let sign = move |signed: &[u8]| pair.sign(signed).as_ref().to_vec();
    all.push((Algorithm::EdDSA, jwk, pem, Box::new(sign)));
    all
}

#[test]
fn every_public_algorithm_is_verified_from_pem_and_from_a_jwk() {
    let all: Vec<Algorithm> = curves().iter().map(|(algorithm, ..)| *algorithm).collect();
    for (algorithm, jwk, pem, sign) in curves() {
        let text = token(&json!({"alg": algorithm.as_str()}), &claims(|_| {}), &sign);
        let good = Compact::parse(&text).expect("a token");
        let jwks = json!({"keys": [{"kty": "what"}, 7, jwk]}).to_string();
        for set in [
            KeySet::of_jwks(jwks.as_bytes(), &all),
            KeySet::of_pem(pem.as_bytes(), &all),
        ] {
            let set = set.expect("a key");
            assert_eq!(set.len(), 1, "{algorithm}: the key is of one algorithm");
            assert_eq!(set.verify(&good), Ok(()), "{algorithm}");
            let other = text.replacen('.', ".e", 1);
            let other = Compact::parse(&other).expect("a token");
            assert_eq!(
                set.verify(&other),
                Err(TokenError::Signature),
                "{algorithm}"
            );
        }
    }
    let ((set, pair), _) = rsa();
    for (name, encoding) in [
        (
            "RS256",
            &RSA_PKCS1_SHA256 as &dyn aws_lc_rs::signature::RsaEncoding,
        ),
        ("PS512", &RSA_PSS_SHA512),
    ] {
        let sign = |signed: &[u8]| {
            let mut signature = vec![0; pair.public_modulus_len()];
            let made = pair.sign(encoding, &SystemRandom::new(), signed, &mut signature);
            made.expect("a signature");
            signature
        };
        let text = token(&json!({"alg": name}), &claims(|_| {}), sign);
        let good = Compact::parse(&text).expect("a token");
        assert_eq!(set.verify(&good), Ok(()), "{name}");
    }
}

#[test]
fn keys_are_used_as_their_owner_says() {
    let (_, jwk, ..) = curves().swap_remove(0);
    let with = |key: &str, value: Value| {
        let mut jwk = jwk.clone();
        jwk[key] = value;
        let text = json!({ "keys": [jwk] }).to_string();
        KeySet::of_jwks(text.as_bytes(), &[Algorithm::ES256, Algorithm::RS256]).err()
    };
    assert_eq!(with("kid", json!("one")), None);
    assert_eq!(with("use", json!("sig")), None);
    assert_eq!(with("key_ops", json!(["verify"])), None);
    for (key, value) in [
        ("use", json!("enc")),
        ("key_ops", json!(["encrypt"])),
        ("alg", json!("ES384")),
        ("crv", json!("P-384")),
        ("x", json!("AAAA")),
        ("y", jwk["x"].clone()),
        ("kty", json!("oct")),
    ] {
        assert_eq!(
            with(key, value.clone()),
            Some(KeysError::Unusable),
            "{key} {value}"
        );
    }
    for text in ["", "{}", "[]", "{\"keys\": {}}"] {
        let set = KeySet::of_jwks(text.as_bytes(), &[Algorithm::ES256]);
        assert_eq!(set.err(), Some(KeysError::NoSet), "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_text_is_a_token_by_chance(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        fuzz_token(&bytes);
    }

    #[test]
    fn a_changed_token_is_never_right(at in any::<prop::sample::Index>(), to in "[A-Za-z0-9_.-]") {
        let good = by_secret(&json!({"alg": "HS256"}), &claims(|_| {}));
        let set = KeySet::of_secret(SECRET, &[Algorithm::HS256]);
        let whole = Compact::parse(&good).expect("a token");
        prop_assert_eq!(set.verify(&whole), Ok(()));
        let at = at.index(good.len());
        let mut changed = good.clone();
        changed.replace_range(at..=at, &to);
        // The last character of 43 has two bits that no byte takes, and that must be zero.
        if changed != good {
            let is_right = Compact::parse(&changed).and_then(|it| set.verify(&it)).is_ok();
            prop_assert!(!is_right, "{}", changed);
        }
    }
}

/// Tokens of every algorithm and their keys, as PyJWT 2.15.1 made them.
#[test]
fn tokens_of_another_implementation_are_right() {
    let golden: Value = serde_json::from_str(include_str!("testdata/pyjwt.json")).expect("JSON");
    let tokens = golden["tokens"].as_object().expect("tokens");
    assert_eq!(tokens.len(), 13, "each algorithm");
    let jwks = golden["jwks"].to_string();
    let secret = golden["secret"].as_str().expect("a secret");
    for (name, text) in tokens {
        let algorithm = [Algorithm::from_name(name).expect("an algorithm")];
        let set = match algorithm[0].secret_bytes_min() {
            Some(_) => KeySet::of_secret(secret, &algorithm),
            None => KeySet::of_jwks(jwks.as_bytes(), &algorithm).expect("keys"),
        };
        let token = Compact::parse(text.as_str().expect("a text")).expect("a token");
        assert_eq!(set.verify(&token), Ok(()), "{name}");
        let claims = token.claims().expect("base64");
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let grant = Grant::of(&claims, &rules(), now).expect("good claims");
        assert_eq!(grant.rights.read[0].to_string(), "cam/*", "{name}");
    }
}
