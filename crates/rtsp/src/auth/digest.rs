//! Digest authentication (RFC 7616), and the parts of RFC 2617 and RFC 2069 that cameras and
//! older servers still use.

use std::fmt::{self, Write};

use md5::{Digest, Md5};
use sha2::Sha256;

use super::parameters::{Parameters, Quoted};
use super::{User, same_secret};

/// Hash algorithm of digest authentication (RFC 7616 §3.3), and whether its key belongs to a
/// session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// `MD5`, which every camera has.
    Md5,
    /// `MD5-sess`: MD5 with a key that also depends on the nonce and the client's nonce.
    Md5Sess,
    /// `SHA-256`, which RFC 7616 added.
    Sha256,
    /// `SHA-256-sess`: SHA-256 with a key that also depends on the nonce and the client's
    /// nonce.
    Sha256Sess,
}

impl Algorithm {
    /// Returns the algorithm's name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Md5 => "MD5",
            Self::Md5Sess => "MD5-sess",
            Self::Sha256 => "SHA-256",
            Self::Sha256Sess => "SHA-256-sess",
        }
    }

    /// Returns whether the hash is MD5, with or without a session key.
    pub const fn is_md5(self) -> bool {
        matches!(self, Self::Md5 | Self::Md5Sess)
    }

    const fn is_session(self) -> bool {
        matches!(self, Self::Md5Sess | Self::Sha256Sess)
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Md5, Self::Md5Sess, Self::Sha256, Self::Sha256Sess]
            .into_iter()
            .find(|algorithm| algorithm.as_str().eq_ignore_ascii_case(text.trim()))
    }

    /// Hashes `parts`, joined by colons. Returns lower-case hexadecimal digits, as all hashes
    /// of digest authentication are written.
    fn hash(self, parts: &[&[u8]]) -> String {
        if self.is_md5() {
            hash::<Md5>(parts)
        } else {
            hash::<Sha256>(parts)
        }
    }
}

fn hash<D: Digest>(parts: &[&[u8]]) -> String {
    let mut digest = D::new();
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            digest.update(b":");
        }
        digest.update(part);
    }
    hex(&digest.finalize())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Quality of protection: which fields the hash covers beside user, method and URI (RFC 7616
/// §3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Qop {
    /// `auth`: the hash covers the nonce count and the client nonce.
    Auth,
    /// `auth-int`: the hash covers the body, too.
    AuthInt,
}

impl Qop {
    /// Returns the name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auth => "auth",
            Self::AuthInt => "auth-int",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Auth, Self::AuthInt]
            .into_iter()
            .find(|qop| qop.as_str().eq_ignore_ascii_case(text.trim()))
    }
}

/// A digest challenge: what a server wants to have hashed (RFC 7616 §3.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// The realm, which says what name and password are for.
    pub realm: String,
    /// The server's nonce, which is valid for a limited time.
    pub nonce: String,
    /// Opaque data of the server, which the client returns unchanged.
    pub opaque: Option<String>,
    /// Whether the credentials were right, and only the nonce was too old.
    pub stale: bool,
    /// Hash algorithm of the challenge.
    pub algorithm: Algorithm,
    /// The quality of protection; `None` is the scheme of RFC 2069, which live555 uses.
    pub qop: Option<Qop>,
}

/// The parts of a request that the hash of digest authentication covers.
#[derive(Clone, Copy, Debug)]
pub struct HashedRequest<'a> {
    /// Method of the request.
    pub method: &'a str,
    /// The request's URI, as on its start line.
    pub uri: &'a str,
    /// Body of the request; it counts with `qop=auth-int` only.
    pub body: &'a [u8],
}

impl Challenge {
    /// Reads a challenge; `None` for an unknown algorithm or quality of protection.
    pub(super) fn read(parameters: &Parameters) -> Option<Self> {
        let algorithm = match parameters.get("algorithm") {
            Some(name) => Algorithm::parse(&name)?,
            None => Algorithm::Md5,
        };
        let qop = match parameters.get("qop").filter(|list| !list.trim().is_empty()) {
            // The weakest quality that the server offers: RTSP sends no body worth protecting.
            Some(list) => {
                let offered: Vec<_> = list.split(',').filter_map(Qop::parse).collect();
                let auth = offered.contains(&Qop::Auth).then_some(Qop::Auth);
                Some(auth.or(offered.first().copied())?)
            }
            None => None,
        };
        let stale = parameters.get("stale");
        Some(Self {
            realm: parameters.get("realm").unwrap_or_default(),
            nonce: parameters.get("nonce")?,
            opaque: parameters.get("opaque"),
            stale: stale.is_some_and(|stale| stale.eq_ignore_ascii_case("true")),
            algorithm,
            qop,
        })
    }

    /// Returns the credentials that answer this challenge.
    ///
    /// `count`: number of requests with this nonce, this one included. `client_nonce`: a nonce
    /// that the client chose.
    pub fn answer(
        &self,
        user: &User,
        request: &HashedRequest<'_>,
        client_nonce: &str,
        count: u32,
    ) -> Credentials {
        let has_client_nonce = self.qop.is_some() || self.algorithm.is_session();
        let mut credentials = Credentials {
            user: user.name.clone(),
            realm: self.realm.clone(),
            nonce: self.nonce.clone(),
            uri: request.uri.to_owned(),
            algorithm: self.algorithm,
            opaque: self.opaque.clone(),
            qop: self.qop,
            client_nonce: has_client_nonce.then(|| client_nonce.to_owned()),
            count: self.qop.map(|_| count),
            response: String::new(),
        };
        let secret = secret(self.algorithm, user, &self.realm);
        credentials.response = credentials.expected(&secret, request);
        credentials
    }
}

impl fmt::Display for Challenge {
    /// Writes the value of `WWW-Authenticate`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (realm, nonce) = (Quoted(&self.realm), Quoted(&self.nonce));
        write!(f, "Digest realm={realm}, nonce={nonce}")?;
        // `stale` stands right behind the nonce, because live555's client looks for it there.
        if self.stale {
            f.write_str(", stale=true")?;
        }
        if let Some(opaque) = &self.opaque {
            write!(f, ", opaque={}", Quoted(opaque))?;
        }
        write!(f, ", algorithm={}", self.algorithm.as_str())?;
        self.qop
            .map_or(Ok(()), |qop| write!(f, ", qop=\"{}\"", qop.as_str()))
    }
}

/// Digest credentials that a client sends in `Authorization` (RFC 7616 §3.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Name of the user who logs in.
    pub user: String,
    /// The realm, which says what name and password are for.
    pub realm: String,
    /// The nonce of the server's challenge.
    pub nonce: String,
    /// The URI that was hashed, to be compared with the request's own.
    pub uri: String,
    /// Hash algorithm of the response.
    pub algorithm: Algorithm,
    /// The challenge's opaque data.
    pub opaque: Option<String>,
    /// The quality of protection; `None` is the scheme of RFC 2069.
    pub qop: Option<Qop>,
    /// The client's own nonce (`cnonce`).
    pub client_nonce: Option<String>,
    /// The number of requests that used this nonce, this one included. A server refuses a count
    /// that it has seen before.
    pub count: Option<u32>,
    /// The hash, in lower-case hexadecimal.
    pub response: String,
}

impl Credentials {
    pub(super) fn read(parameters: &Parameters) -> Option<Self> {
        let algorithm = match parameters.get("algorithm") {
            Some(name) => Algorithm::parse(&name)?,
            None => Algorithm::Md5,
        };
        let qop = match parameters.get("qop") {
            Some(name) => Some(Qop::parse(&name)?),
            None => None,
        };
        let count = match parameters.get("nc") {
            Some(digits) => Some(u32::from_str_radix(&digits, 16).ok()?),
            None => None,
        };
        Some(Self {
            user: parameters.get("username")?,
            realm: parameters.get("realm").unwrap_or_default(),
            nonce: parameters.get("nonce")?,
            uri: parameters.get("uri")?,
            algorithm,
            opaque: parameters.get("opaque"),
            qop,
            client_nonce: parameters.get("cnonce"),
            count,
            response: parameters.get("response")?.to_ascii_lowercase(),
        })
    }

    /// Returns whether the response is that of the user with this [`secret`], for a request of
    /// this method and body.
    ///
    /// The caller checks nonce, realm, count and URI.
    pub fn verify(&self, secret: &str, method: &str, body: &[u8]) -> bool {
        let request = HashedRequest {
            method,
            uri: &self.uri,
            body,
        };
        same_secret(&self.expected(secret, &request), &self.response)
    }

    /// Returns the response that these credentials must have (RFC 7616 §3.4.1; without a
    /// quality of protection RFC 2069 §2.1.2).
    fn expected(&self, secret: &str, request: &HashedRequest<'_>) -> String {
        let algorithm = self.algorithm;
        let client_nonce = self.client_nonce.as_deref().unwrap_or_default();
        let nonce = self.nonce.as_bytes();
        let a1 = if algorithm.is_session() {
            algorithm.hash(&[secret.as_bytes(), nonce, client_nonce.as_bytes()])
        } else {
            secret.to_owned()
        };
        let (method, uri) = (request.method.as_bytes(), request.uri.as_bytes());
        let a2 = if self.qop == Some(Qop::AuthInt) {
            let body = algorithm.hash(&[request.body]);
            algorithm.hash(&[method, uri, body.as_bytes()])
        } else {
            algorithm.hash(&[method, uri])
        };
        let Some(qop) = self.qop else {
            return algorithm.hash(&[a1.as_bytes(), nonce, a2.as_bytes()]);
        };
        let count = format!("{:08x}", self.count.unwrap_or(0));
        algorithm.hash(&[
            a1.as_bytes(),
            nonce,
            count.as_bytes(),
            client_nonce.as_bytes(),
            qop.as_str().as_bytes(),
            a2.as_bytes(),
        ])
    }
}

impl fmt::Display for Credentials {
    /// Writes the value of `Authorization`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Digest username={}, realm={}, nonce={}, uri={}, response={}",
            Quoted(&self.user),
            Quoted(&self.realm),
            Quoted(&self.nonce),
            Quoted(&self.uri),
            Quoted(&self.response),
        )?;
        // Old servers know only MD5 and may not read an algorithm that they did not name.
        if self.qop.is_some() || self.algorithm != Algorithm::Md5 {
            write!(f, ", algorithm={}", self.algorithm.as_str())?;
        }
        if let Some(opaque) = &self.opaque {
            write!(f, ", opaque={}", Quoted(opaque))?;
        }
        if let Some(client_nonce) = &self.client_nonce {
            write!(f, ", cnonce={}", Quoted(client_nonce))?;
        }
        if let Some(qop) = self.qop {
            write!(f, ", qop={}", qop.as_str())?;
        }
        self.count
            .map_or(Ok(()), |count| write!(f, ", nc={count:08x}"))
    }
}

/// Returns the hash of name, realm and password, which a server may store in place of the
/// password.
pub fn secret(algorithm: Algorithm, user: &User, realm: &str) -> String {
    let User { name, password } = user;
    algorithm.hash(&[name.as_bytes(), realm.as_bytes(), password.as_bytes()])
}

/// Returns a client nonce that is unguessable without `secret`, and that is new for each
/// `count`.
pub(super) fn client_nonce(secret: &[u8; 32], nonce: &str, count: u32) -> String {
    keyed(secret, &[nonce.as_bytes(), &count.to_be_bytes()])
}

/// Returns 32 hexadecimal digits that are unguessable without `secret`, and that are new for
/// each `parts`.
///
/// They are half of a hash over a key of fixed length, so an attacker cannot extend them.
pub(crate) fn keyed(secret: &[u8; 32], parts: &[&[u8]]) -> String {
    let parts: Vec<&[u8]> = [secret.as_slice()]
        .into_iter()
        .chain(parts.iter().copied())
        .collect();
    let mut text = hash::<Sha256>(&parts);
    text.truncate(32);
    text
}
