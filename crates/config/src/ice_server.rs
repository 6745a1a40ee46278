//! STUN and TURN servers that clients are told of.

use std::time::Duration;

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use glassline_access::auth::Secret;
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// Time for which credentials made from a secret are valid. A TURN server checks them again at each
/// refresh of an allocation, so that the time bounds a session through the server, too.
const VALID: Duration = Duration::from_secs(24 * 3_600);

/// User to whom credentials made from a secret belong; TURN servers show the name in their logs.
const USER: &str = "glassline";

/// A STUN or TURN server for clients. A TURN server has either a `secret`, or a `username` and a
/// `credential`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IceServer {
    /// Address: `stun:HOST[:PORT]` or `turn:HOST[:PORT][?transport=udp|tcp]`, also `stuns` and
    /// `turns`.
    pub url: IceUrl,
    /// User name for a TURN server.
    #[serde(default)]
    pub username: Option<Secret>,
    /// Password for a TURN server.
    #[serde(default)]
    pub credential: Option<Secret>,
    /// Secret shared with the TURN server (coturn: `use-auth-secret` with `static-auth-secret`).
    /// Each client gets credentials for a day.
    #[serde(default)]
    pub secret: Option<Secret>,
}

/// Reads a list of servers, whose fields have to fit together.
pub(super) fn servers<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<IceServer>, D::Error> {
    let servers = Vec::<IceServer>::deserialize(from)?;
    servers
        .into_iter()
        .map(|server| server.checked().map_err(D::Error::custom))
        .collect()
}

/// The credentials of a server do not fit together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum IceServerError {
    /// One of two fields that belong together is absent.
    #[error("{0}: `username` and `credential` belong together; state both, or `secret` alone")]
    Half(String),
    /// Credentials are stated in two ways.
    #[error("{0}: state `secret`, or `username` and `credential`, not both")]
    Both(String),
}

impl IceServer {
    fn checked(self) -> Result<Self, IceServerError> {
        if self.username.is_some() != self.credential.is_some() {
            return Err(IceServerError::Half(self.url.0));
        }
        if self.secret.is_some() && self.username.is_some() {
            return Err(IceServerError::Both(self.url.0));
        }
        Ok(self)
    }

    /// Returns the value of a `Link` header (RFC 9725 §4.6) for a client that asks at `unix`, the
    /// time since 1970-01-01 UTC.
    pub fn link(&self, unix: Duration) -> String {
        let mut link = format!("<{}>; rel=\"ice-server\"", self.url.0);
        let stated = self.username.as_ref().zip(self.credential.as_ref());
        let stated = stated.map(|(user, word)| (user.reveal().into(), word.reveal().into()));
        let made = self.secret.as_ref().map(|secret| credentials(secret, unix));
        if let Some((username, credential)) = made.or(stated) {
            let quoted = |it: String| it.replace('\\', "\\\\").replace('"', "\\\"");
            let (username, credential) = (quoted(username), quoted(credential));
            link += &format!(
                "; username=\"{username}\"; credential=\"{credential}\"; \
                 credential-type=\"password\""
            );
        }
        link
    }
}

/// Returns user name and password that a TURN server with the same `secret` takes: the time of their
/// end, and the HMAC of the user name (draft-uberti-behave-turn-rest-00 §2.2).
fn credentials(secret: &Secret, unix: Duration) -> (String, String) {
    let end = (unix + VALID).as_secs();
    let username = format!("{end}:{USER}");
    let key = hmac::Key::new(
        hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
        secret.reveal().as_bytes(),
    );
    let tag = hmac::sign(&key, username.as_bytes());
    (username, STANDARD.encode(tag))
}

/// The address of a STUN or TURN server (RFC 7064, RFC 7065).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct IceUrl(String);

impl TryFrom<String> for IceUrl {
    type Error = IceUrlError;

    fn try_from(text: String) -> Result<Self, IceUrlError> {
        let schemes = ["stun:", "stuns:", "turn:", "turns:"];
        let host = schemes.iter().find_map(|scheme| text.strip_prefix(scheme));
        // OBS splits `Link` headers at commas and semicolons.
        let plain = |byte: u8| byte.is_ascii_graphic() && !b"<>\",;/@".contains(&byte);
        match host {
            Some(host) if !host.is_empty() && host.bytes().all(plain) => Ok(Self(text)),
            _ => Err(IceUrlError(glassline_url::hidden(&text))),
        }
    }
}

impl From<IceUrl> for String {
    fn from(url: IceUrl) -> Self {
        url.0
    }
}

/// A text is not an [`IceUrl`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not the address of an ICE server; write for example stun:stun.example.org:3478, and \
     a user and a password as `username` and `credential`"
)]
pub struct IceUrlError(String);

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<IceServer, String> {
        let server: IceServer = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
        server.checked().map_err(|error| error.to_string())
    }

    fn link(text: &str) -> String {
        let server = read(text).expect("valid");
        server.link(Duration::from_secs(1_700_000_000))
    }

    #[test]
    fn servers_become_links() {
        assert_eq!(
            link("{url: 'turn:turn.example.org?transport=udp', username: ann, credential: 'a\"b'}"),
            "<turn:turn.example.org?transport=udp>; rel=\"ice-server\"; username=\"ann\"; \
             credential=\"a\\\"b\"; credential-type=\"password\""
        );
        assert_eq!(
            link("{url: 'stun:192.0.2.1:3478'}"),
            "<stun:192.0.2.1:3478>; rel=\"ice-server\""
        );
    }

    /// The HMAC was computed by Python's `hmac`.
    #[test]
    fn a_secret_makes_credentials_that_end_after_a_day() {
        assert_eq!(
            link("{url: 'turn:192.0.2.1', secret: north}"),
            "<turn:192.0.2.1>; rel=\"ice-server\"; username=\"1700086400:glassline\"; \
             credential=\"8d5/1YRLkzsPSwRCvEwSr0Eby7o=\"; credential-type=\"password\""
        );
    }

    #[test]
    fn what_does_not_fit_together_is_refused_with_what_to_write() {
        for wrong in ["stun:", "https://example.org", "turn:a,b", "turn:a b"] {
            let refused = read(&format!("{{url: '{wrong}'}}")).expect_err("no such server");
            assert!(refused.contains("for example stun:"), "{refused}");
        }
        let half = read("{url: 'turn:a', username: ann}").expect_err("no password");
        assert!(half.contains("belong together"), "{half}");
        let both = "{url: 'turn:a', username: ann, credential: b, secret: c}";
        let both = read(both).expect_err("two ways");
        assert!(both.contains("not both"), "{both}");
    }
}
