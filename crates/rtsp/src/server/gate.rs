//! Who may pass: nonces without a table, and whom the owner has let in.

use std::time::{Duration, Instant};

use super::target::Target;
use super::{Access, Config, Digest, Ends, Presented};
use crate::auth::digest::{self, Algorithm, Qop};
use crate::auth::{Authorization, Challenge, same_secret};
use crate::message::{Method, Request};

/// The authentication of one connection.
#[derive(Debug)]
pub(super) struct Gate {
    secret: [u8; 32],
    started: Instant,
    granted: Option<Box<Granted>>,
    failures: u32,
    /// The youngest nonce that came back: when it was made, and how often it was
    /// used.
    last_nonce: (u32, u32),
}

/// What the owner has granted.
#[derive(Debug)]
struct Granted {
    access: Access,
    path: String,
    /// Whom the client said that it is.
    presented: Option<String>,
}

/// A nonce lives until the end of the window after its own: 2½ to 5 minutes.
const WINDOW: Duration = Duration::from_secs(150);

/// Wrong credentials of one connection before it is closed: a person mistypes a
/// few times, a guesser must connect again for every few words.
pub(super) const FAILURES_MAX: u32 = 8;

/// What a request shows.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// No credentials.
    Nothing,
    /// Some that may be right.
    Usable(Box<Presented>),
    /// Right once, maybe: a fresh nonce will tell.
    Stale,
    /// None that this server would take.
    Unusable,
}

impl Gate {
    pub(super) const fn new(secret: [u8; 32], now: Instant) -> Self {
        Self {
            secret,
            started: now,
            granted: None,
            failures: 0,
            last_nonce: (0, 0),
        }
    }

    /// The owner was asked before, and the client is still the same.
    pub(super) fn is_open(&self, access: Access, path: &str, shown: &Request) -> bool {
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

    /// What was granted ends with the session: whoever begins another shows again who it
    /// is.
    pub(super) fn forget(&mut self) {
        self.granted = None;
    }

    /// Credentials were wrong; how often by now.
    pub(super) const fn note_failure(&mut self) -> u32 {
        self.failures += 1;
        self.failures
    }

    /// Reads the credentials of a request for `target`. All that can be checked
    /// without the user store is.
    pub(super) fn read(
        &mut self,
        now: Instant,
        request: &Request,
        target: &Target,
        config: &Config,
        ends: &Ends,
    ) -> Shown {
        let Some(text) = request.headers.get("Authorization") else {
            return Shown::Nothing;
        };
        match Authorization::parse(text) {
            Some(Authorization::Basic(user)) if allows_basic(config, ends) => {
                Shown::Usable(Box::new(Presented::Basic(user)))
            }
            Some(Authorization::Digest(credentials)) => {
                self.read_digest(now, credentials, &request.method, target, config, ends)
            }
            _ => Shown::Unusable,
        }
    }

    /// The URI that was hashed may be another than the request's, as long as it is
    /// of the same stream: live555 (and so VLC) hashes the stream's URL in requests
    /// for a track, others the path alone. Without `qop`, which live555 and
    /// GStreamer leave out (RFC 2069), there is no count; the nonce is of this
    /// connection all the same.
    fn read_digest(
        &mut self,
        now: Instant,
        credentials: digest::Credentials,
        method: &Method,
        target: &Target,
        config: &Config,
        ends: &Ends,
    ) -> Shown {
        let hashed = Target::parse(&credentials.uri, ends.local);
        let of_stream = hashed.is_some_and(|hashed| hashed.path == target.path);
        let known = matches!(credentials.algorithm, Algorithm::Md5 | Algorithm::Sha256)
            && matches!(credentials.qop, None | Some(Qop::Auth))
            && credentials.qop.is_some() == credentials.count.is_some();
        if !of_stream || !known || credentials.realm != config.realm {
            return Shown::Unusable;
        }
        let Some(window) = self.window_of(now, &credentials.nonce, ends) else {
            return Shown::Stale;
        };
        if let Some(count) = credentials.count {
            // A nonce older than the last, or a count not over its last, was used.
            if (window, count) <= self.last_nonce {
                return Shown::Stale;
            }
            self.last_nonce = (window, count);
        }
        let method = method.clone();
        Shown::Usable(Box::new(Presented::Digest(Digest {
            credentials,
            method,
        })))
    }

    /// What the client may answer with, as values of `WWW-Authenticate`. Digest with
    /// MD5 stands behind SHA-256: ffmpeg, GStreamer and live555 know only MD5, and
    /// take the last digest.
    pub(super) fn challenge(
        &self,
        now: Instant,
        stale: bool,
        config: &Config,
        ends: &Ends,
    ) -> Vec<String> {
        let nonce = self.nonce(self.window(now), ends);
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
        let basic = allows_basic(config, ends).then(|| Challenge::Basic {
            realm: config.realm.clone(),
        });
        let challenges = digests.into_iter().chain(basic);
        challenges.map(|challenge| challenge.to_string()).collect()
    }

    /// Which of the windows since the start `now` is in, from 1.
    fn window(&self, now: Instant) -> u32 {
        let passed = now.saturating_duration_since(self.started);
        u32::try_from(passed.as_secs() / WINDOW.as_secs() + 1).unwrap_or(u32::MAX)
    }

    /// Says when it was made, and that it was made here.
    fn nonce(&self, window: u32, ends: &Ends) -> String {
        let peer = ends.peer.to_string();
        let made = window.to_be_bytes();
        let seal = digest::keyed(&self.secret, &[b"nonce", &made, peer.as_bytes()]);
        format!("{window:08x}{seal}")
    }

    /// When a nonce was made; `None` if it was not made here, or is too old.
    fn window_of(&self, now: Instant, nonce: &str, ends: &Ends) -> Option<u32> {
        let window = u32::from_str_radix(nonce.get(..8)?, 16).ok()?;
        let current = self.window(now);
        let fresh = window <= current && current - window <= 1;
        (fresh && same_secret(nonce, &self.nonce(window, ends))).then_some(window)
    }
}

const fn allows_basic(config: &Config, ends: &Ends) -> bool {
    ends.secure || config.basic_over_plain
}

/// The user that credentials name.
fn name_in(text: &str) -> Option<String> {
    Authorization::parse(text).map(|authorization| match authorization {
        Authorization::Basic(user) => user.name,
        Authorization::Digest(credentials) => credentials.user,
    })
}
