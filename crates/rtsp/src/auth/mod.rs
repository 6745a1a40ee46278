//! Who asks: digest (RFC 7616, and RFC 2617 as cameras have it) and basic
//! (RFC 7617) authentication.
//!
//! ```text
//! server                                     client
//! Challenge ── WWW-Authenticate ──► Challenge::parse_all ► strongest
//! Authorization::parse ◄── Authorization ── Authorizer::answer
//! digest::Credentials::verify(secret, method)
//! ```
//!
//! Both ends compute with [`digest`]; nonces and client nonces come from outside.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use subtle::ConstantTimeEq;

use crate::message::{Headers, Method};

pub mod digest;
mod parameters;

use parameters::Parameters;

/// A name and the password that goes with it.
#[derive(Clone, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: String,
    /// The password, in the clear.
    pub password: String,
}

impl fmt::Debug for User {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "User({:?})", self.name)
    }
}

/// What a server wants to be shown (`WWW-Authenticate`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Challenge {
    /// Name and password as they are: for TLS.
    Basic {
        /// What they are for.
        realm: String,
    },
    /// A hash of them.
    Digest(digest::Challenge),
}

impl Challenge {
    /// All challenges of a 401 that can be answered, in the server's order. A field
    /// may hold several; schemes and algorithms that are not known are left out.
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

    /// The one to answer: digest with SHA-256, with MD5, basic.
    pub(crate) fn strongest(challenges: Vec<Self>) -> Option<Self> {
        let strength = |challenge: &Self| match challenge {
            Self::Basic { .. } => 0,
            Self::Digest(digest) if digest.algorithm.is_md5() => 1,
            Self::Digest(_) => 2,
        };
        // Of equals the server's first.
        challenges.into_iter().rev().max_by_key(strength)
    }
}

/// Of one response.
const CHALLENGES_MAX: usize = 8;

impl fmt::Display for Challenge {
    /// The value of `WWW-Authenticate`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Basic { realm } => write!(f, "Basic realm={}", parameters::Quoted(realm)),
            Self::Digest(challenge) => challenge.fmt(f),
        }
    }
}

/// What a client shows (`Authorization`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authorization {
    /// Name and password as they are.
    Basic(User),
    /// A hash of them.
    Digest(digest::Credentials),
}

impl Authorization {
    /// Reads a header's value; `None` if it cannot be read.
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
    /// The header's value.
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

/// Answers one server's challenge in request after request.
#[derive(Clone, Debug)]
pub struct Authorizer {
    user: User,
    challenge: Challenge,
    client_secret: [u8; 32],
    /// Of the next request with this nonce, from 1.
    count: u32,
}

impl Authorizer {
    /// For `user`, to `challenge`. `client_secret`: random, what client nonces are
    /// made from.
    pub const fn new(user: User, challenge: Challenge, client_secret: [u8; 32]) -> Self {
        Self {
            user,
            challenge,
            client_secret,
            count: 1,
        }
    }

    /// What to show with the next request; its nonce count goes up by one.
    pub fn answer(&mut self, method: &Method, uri: &str, body: &[u8]) -> Authorization {
        let challenge = match &self.challenge {
            Challenge::Basic { .. } => return Authorization::Basic(self.user.clone()),
            Challenge::Digest(challenge) => challenge,
        };
        let asked = digest::Asked {
            method: method.as_str(),
            uri,
            body,
        };
        let nonce = digest::client_nonce(&self.client_secret, &challenge.nonce, self.count);
        let credentials = challenge.answer(&self.user, &asked, &nonce, self.count);
        self.count = self.count.wrapping_add(1);
        Authorization::Digest(credentials)
    }
}

/// Equal, in a time that does not tell where they differ.
pub fn same_secret(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

#[cfg(test)]
mod tests;
