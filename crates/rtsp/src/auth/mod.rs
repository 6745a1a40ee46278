//! Authentication of requests: digest (RFC 7616, and RFC 2617 as cameras use it) and basic (RFC
//! 7617).
//!
//! ```text
//! server                                     client
//! Challenge ── WWW-Authenticate ──► Challenge::parse_all ► strongest
//! Authorization::parse ◄── Authorization ── Authorizer::answer
//! digest::Credentials::verify(secret, method)
//! ```
//!
//! Both ends compute hashes with [`digest`]. Secrets and nonces come from the caller.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use subtle::ConstantTimeEq;

use crate::message::{Headers, Method};

pub mod digest;
mod parameters;

use parameters::Parameters;

/// A user's name and password.
#[derive(Clone, PartialEq, Eq)]
pub struct User {
    /// Name of the user who logs in.
    pub name: String,
    /// The password, in the clear.
    pub password: String,
}

impl fmt::Debug for User {
    /// Writes the name without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "User({:?})", self.name)
    }
}

/// A challenge: the credentials that a server asks for (`WWW-Authenticate`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Challenge {
    /// Basic authentication: name and password pass unprotected, which is acceptable within
    /// TLS.
    Basic {
        /// The realm, which says what name and password are for.
        realm: String,
    },
    /// Digest authentication: the client sends a hash of name and password.
    Digest(digest::Challenge),
}

impl Challenge {
    /// Returns all challenges of a 401 that a client can answer, in the server's order.
    ///
    /// One header field may hold several challenges. Unknown schemes and algorithms are left
    /// out.
    pub fn parse_all(headers: &Headers) -> Vec<Self> {
        let fields = headers.get_all("WWW-Authenticate");
        let challenges = fields.flat_map(parameters::split_challenges);
        let known = challenges.filter_map(|(scheme, parameters)| {
            if scheme.eq_ignore_ascii_case("Basic") {
                let realm = parameters.get("realm").unwrap_or_default();
                Some(Self::Basic { realm })
            } else if scheme.eq_ignore_ascii_case("Digest") {
                digest::Challenge::read(&parameters).map(Self::Digest)
            } else {
                None
            }
        });
        known.take(CHALLENGES_MAX).collect()
    }

    /// Returns whether these credentials were made for another challenge, so that their refusal does
    /// not mean that the password is wrong.
    pub(crate) fn is_new_to(&self, shown: &Authorization) -> bool {
        match (self, shown) {
            (Self::Basic { .. }, Authorization::Basic(_)) => false,
            (Self::Digest(asked), Authorization::Digest(shown)) => {
                let made_for = (&shown.nonce, &shown.realm, shown.algorithm);
                asked.stale || (&asked.nonce, &asked.realm, asked.algorithm) != made_for
            }
            _ => true,
        }
    }

    /// Returns the challenge to answer: digest with SHA-256 before digest with MD5 before
    /// basic.
    pub fn strongest(challenges: Vec<Self>) -> Option<Self> {
        let strength = |challenge: &Self| match challenge {
            Self::Basic { .. } => 0,
            Self::Digest(digest) if digest.algorithm.is_md5() => 1,
            Self::Digest(_) => 2,
        };
        // Among equally strong challenges the server's first one counts.
        challenges.into_iter().rev().max_by_key(strength)
    }
}

/// Most challenges that are read from one response.
const CHALLENGES_MAX: usize = 8;

impl fmt::Display for Challenge {
    /// Writes the value of `WWW-Authenticate`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Basic { realm } => write!(f, "Basic realm={}", parameters::Quoted(realm)),
            Self::Digest(challenge) => challenge.fmt(f),
        }
    }
}

/// Credentials that a client sends (`Authorization`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authorization {
    /// Name and password, unprotected.
    Basic(User),
    /// A hash of name and password.
    Digest(digest::Credentials),
}

impl Authorization {
    /// Parses a header's value; `None` if the scheme is unknown or the value malformed.
    pub fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.trim().split_once(' ')?;
        if scheme.eq_ignore_ascii_case("Basic") {
            let decoded = STANDARD.decode(rest.trim()).ok()?;
            let decoded = String::from_utf8(decoded).ok()?;
            let (name, password) = decoded.split_once(':')?;
            return Some(Self::Basic(User {
                name: name.to_owned(),
                password: password.to_owned(),
            }));
        }
        if scheme.eq_ignore_ascii_case("Digest") {
            return digest::Credentials::read(&Parameters::parse(rest)).map(Self::Digest);
        }
        None
    }
}

impl fmt::Display for Authorization {
    /// Writes the header's value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Basic(user) => {
                let pair = format!("{}:{}", user.name, user.password);
                write!(f, "Basic {}", STANDARD.encode(pair))
            }
            Self::Digest(credentials) => credentials.fmt(f),
        }
    }
}

/// A client's answers to one server's challenge, for one request after another.
#[derive(Clone, Debug)]
pub struct Authorizer {
    user: User,
    challenge: Challenge,
    client_secret: [u8; 32],
    /// The nonce count of the next request, from 1.
    count: u32,
}

impl Authorizer {
    /// Answers `challenge` with the credentials of `user`. `client_secret`: random bytes, from
    /// which client nonces are derived.
    pub const fn new(user: User, challenge: Challenge, client_secret: [u8; 32]) -> Self {
        Self {
            user,
            challenge,
            client_secret,
            count: 1,
        }
    }

    /// Returns the credentials for the next request, and raises the nonce count by one.
    pub fn answer(&mut self, method: &Method, uri: &str, body: &[u8]) -> Authorization {
        let challenge = match &self.challenge {
            Challenge::Basic { .. } => return Authorization::Basic(self.user.clone()),
            Challenge::Digest(challenge) => challenge,
        };
        let request = digest::HashedRequest {
            method: method.as_str(),
            uri,
            body,
        };
        let nonce = digest::client_nonce(&self.client_secret, &challenge.nonce, self.count);
        let credentials = challenge.answer(&self.user, &request, &nonce, self.count);
        self.count = self.count.wrapping_add(1);
        Authorization::Digest(credentials)
    }
}

/// Compares two secrets in a time that does not depend on where they differ.
pub fn same_secret(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

#[cfg(test)]
mod tests;
