//! Authentication of one connection: nonces that need no table, and what the owner has granted.

use std::time::{Duration, Instant};

use super::target::Target;
use super::{Access, ClientCredentials, Config, Digest, Endpoints};
use crate::auth::digest::{self, Algorithm, Qop};
use crate::auth::{Authorization, Challenge, same_secret};
use crate::message::{Method, Request};

/// Authentication state of one connection.
#[derive(Debug)]
pub(super) struct Authenticator {
    secret: [u8; 32],
    started: Instant,
    granted: Option<Box<Granted>>,
    failures: u32,
    /// The youngest nonce that came back: its window, and its highest nonce count.
    last_nonce: (u32, u32),
    /// Whether a proxy has forwarded a request of this connection.
    is_forwarded: bool,
}

/// An access that the owner has granted.
#[derive(Debug)]
struct Granted {
    access: Access,
    path: String,
    /// Name of the user that the client presented.
    presented: Option<String>,
}

/// Length of a nonce's window. A nonce is valid until the end of the window after its own: 2½
/// to 5 minutes.
const WINDOW: Duration = Duration::from_secs(150);

/// Most wrong credentials on one connection before it is closed. A person mistypes a few times;
/// a program that guesses must connect anew for every eight guesses.
pub(super) const FAILURES_MAX: u32 = 8;

/// Result of reading a request's credentials.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CredentialCheck {
    /// The request has no credentials.
    Nothing,
    /// Credentials that the owner must verify.
    Usable(Box<ClientCredentials>),
    /// Credentials with an old nonce, which may be right: the client gets a fresh one.
    Stale,
    /// Credentials that this server does not accept.
    Unusable,
}

impl Authenticator {
    pub(super) const fn new(secret: [u8; 32], now: Instant) -> Self {
        Self {
            secret,
            started: now,
            granted: None,
            failures: 0,
            last_nonce: (0, 0),
            is_forwarded: false,
        }
    }

    /// Returns whether the owner has granted this access before, and the request names no other
    /// user.
    pub(super) fn is_granted(&self, access: Access, path: &str, shown: &Request) -> bool {
        let Some(granted) = &self.granted else {
            return false;
        };
        let user = shown.headers.get("Authorization").map(name_in);
        granted.access == access
            && granted.path == path
            && user.is_none_or(|user| user.is_some() && user == granted.presented)
    }

    pub(super) fn grant(&mut self, access: Access, path: &str, presented: Option<String>) {
        self.failures = 0;
        self.granted = Some(Box::new(Granted {
            access,
            path: path.to_owned(),
            presented,
        }));
    }

    /// Withdraws what was granted. A grant ends with its session: the client must authenticate
    /// again for the next one.
    pub(super) fn forget(&mut self) {
        self.granted = None;
    }

    /// Notes whether a proxy has forwarded this request (RFC 7239, RFC 9110 §7.6.3, RFC 7826
    /// §18.57).
    pub(super) fn note_forwarded(&mut self, request: &Request) {
        let names = ["Forwarded", "Via", "X-Forwarded-For", "X-Real-IP"];
        let is_forwarded = names.iter().any(|name| request.headers.get(name).is_some());
        self.is_forwarded |= is_forwarded;
    }

    /// Returns whether a proxy has forwarded a request, so that the peer's address is the proxy's.
    pub(super) const fn is_forwarded(&self) -> bool {
        self.is_forwarded
    }

    /// Counts wrong credentials. Returns their number so far.
    pub(super) const fn note_failure(&mut self) -> u32 {
        self.failures += 1;
        self.failures
    }

    /// Reads the credentials of a request for `target`, and checks everything that needs no
    /// user store.
    pub(super) fn read(
        &mut self,
        now: Instant,
        request: &Request,
        target: &Target,
        config: &Config,
        endpoints: &Endpoints,
    ) -> CredentialCheck {
        let Some(text) = request.headers.get("Authorization") else {
            return CredentialCheck::Nothing;
        };
        match Authorization::parse(text) {
            Some(Authorization::Basic(user)) if allows_basic(config, endpoints) => {
                CredentialCheck::Usable(Box::new(ClientCredentials::Basic(user)))
            }
            Some(Authorization::Digest(credentials)) => {
                self.read_digest(now, credentials, &request.method, target, config, endpoints)
            }
            _ => CredentialCheck::Unusable,
        }
    }

    /// Checks digest credentials.
    ///
    /// The hashed URI may differ from the request's as long as it names the same stream:
    /// live555 (and so VLC) hashes the stream's URL in requests for a track, others hash the
    /// path alone. Without `qop`, which live555 and GStreamer leave out (RFC 2069), there is no
    /// nonce count; the nonce still belongs to this connection.
    fn read_digest(
        &mut self,
        now: Instant,
        credentials: digest::Credentials,
        method: &Method,
        target: &Target,
        config: &Config,
        endpoints: &Endpoints,
    ) -> CredentialCheck {
        let hashed = Target::parse(&credentials.uri, endpoints.local);
        let of_stream = hashed.is_some_and(|hashed| hashed.path == target.path);
        let known = matches!(credentials.algorithm, Algorithm::Md5 | Algorithm::Sha256)
            && matches!(credentials.qop, None | Some(Qop::Auth))
            && credentials.qop.is_some() == credentials.count.is_some();
        if !of_stream || !known || credentials.realm != config.realm {
            return CredentialCheck::Unusable;
        }
        let Some(window) = self.window_of(now, &credentials.nonce, endpoints) else {
            return CredentialCheck::Stale;
        };
        if let Some(count) = credentials.count {
            // A nonce older than the last one, or a count that is not above the last one, was
            // used before.
            if (window, count) <= self.last_nonce {
                return CredentialCheck::Stale;
            }
            self.last_nonce = (window, count);
        }
        let method = method.clone();
        CredentialCheck::Usable(Box::new(ClientCredentials::Digest(Digest {
            credentials,
            method,
        })))
    }

    /// Returns the challenges that the client may answer, as values of `WWW-Authenticate`.
    ///
    /// Digest with MD5 follows SHA-256: ffmpeg, GStreamer and live555 know only MD5, and answer
    /// the last digest.
    pub(super) fn challenge(
        &self,
        now: Instant,
        stale: bool,
        config: &Config,
        endpoints: &Endpoints,
    ) -> Vec<String> {
        let nonce = self.nonce(self.window(now), endpoints);
        let digests = [Algorithm::Sha256, Algorithm::Md5].map(|algorithm| {
            Challenge::Digest(digest::Challenge {
                realm: config.realm.clone(),
                nonce: nonce.clone(),
                opaque: Some(digest::keyed(&self.secret, &[b"opaque"])),
                stale,
                algorithm,
                qop: Some(Qop::Auth),
            })
        });
        let basic = allows_basic(config, endpoints).then(|| Challenge::Basic {
            realm: config.realm.clone(),
        });
        let digests = digests.into_iter().filter(|_| config.digest);
        let challenges = digests.chain(basic);
        challenges.map(|challenge| challenge.to_string()).collect()
    }

    /// Returns the index of the window that contains `now`, counted from 1 at the connection's
    /// start.
    fn window(&self, now: Instant) -> u32 {
        let passed = now.saturating_duration_since(self.started);
        u32::try_from(passed.as_secs() / WINDOW.as_secs() + 1).unwrap_or(u32::MAX)
    }

    /// Returns the nonce of a window: the window's index, and a keyed hash that proves its
    /// origin.
    fn nonce(&self, window: u32, endpoints: &Endpoints) -> String {
        let peer = endpoints.peer.to_string();
        let made = window.to_be_bytes();
        let hash = digest::keyed(&self.secret, &[b"nonce", &made, peer.as_bytes()]);
        format!("{window:08x}{hash}")
    }

    /// Returns the window of a nonce; `None` if this connection did not make it, or if it is
    /// too old.
    fn window_of(&self, now: Instant, nonce: &str, endpoints: &Endpoints) -> Option<u32> {
        let window = u32::from_str_radix(nonce.get(..8)?, 16).ok()?;
        let current = self.window(now);
        let fresh = window <= current && current - window <= 1;
        (fresh && same_secret(nonce, &self.nonce(window, endpoints))).then_some(window)
    }
}

const fn allows_basic(config: &Config, endpoints: &Endpoints) -> bool {
    endpoints.secure || config.basic_over_plain
}

/// Returns the user's name in the value of `Authorization`.
fn name_in(text: &str) -> Option<String> {
    Authorization::parse(text).map(|authorization| match authorization {
        Authorization::Basic(user) => user.name,
        Authorization::Digest(credentials) => credentials.user,
    })
}
