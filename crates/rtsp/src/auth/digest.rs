//! Digest authentication (RFC 7616), with what is left of RFC 2617.

use std::fmt::{self, Write};

use md5::{Digest, Md5};
use sha2::Sha256;

use super::parameters::{Parameters, Quoted};
use super::{User, same_secret};

/// The hash, and what it is taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// What every camera has.
    Md5,
    /// With a key of the session's.
    Md5Sess,
    /// RFC 7616's.
    Sha256,
    /// With a key of the session's.
    Sha256Sess,
}

impl Algorithm {
    /// Its name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Md5 => "MD5",
            Self::Md5Sess => "MD5-sess",
            Self::Sha256 => "SHA-256",
            Self::Sha256Sess => "SHA-256-sess",
        }
    }

    /// Not SHA-256.
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

    /// Lower-case hexadecimal, as all of digest is.
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

/// Quality of protection: what else is hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Qop {
    /// Nonce count and client nonce.
    Auth,
    /// The body too.
    AuthInt,
}

impl Qop {
    /// Its name on the wire.
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

/// What a server wants hashed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// What name and password are for.
    pub realm: String,
    /// The server's, for a while.
    pub nonce: String,
    /// Goes back as it came.
    pub opaque: Option<String>,
    /// The credentials were right, only the nonce is too old.
    pub stale: bool,
    /// Which hash.
    pub algorithm: Algorithm,
    /// How; `None` is RFC 2069's, which live555 has.
    pub qop: Option<Qop>,
}

/// What is asked for, as the hash sees it.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The request's method.
    pub method: &'a str,
    /// The request's URI, as on its start line.
    pub uri: &'a str,
    /// The request's body.
    pub body: &'a [u8],
}

impl Challenge {
    /// `None` for an algorithm or protection that is not known.
    pub(super) fn read(parameters: &Parameters) -> Option<Self> {
        let algorithm = match parameters.get("algorithm") {
            Some(name) => Algorithm::parse(&name)?,
            None => Algorithm::Md5,
        };
        let qop = match parameters.get("qop").filter(|list| !list.trim().is_empty()) {
            // The weakest that is offered: no body worth protecting is sent.
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

    /// The credentials that answer it: for the `count`th request with this nonce,
    /// from 1, with a nonce of the client's.
    pub fn answer(
        &self,
        user: &User,
        asked: &Asked<'_>,
        client_nonce: &str,
        count: u32,
    ) -> Credentials {
        let has_client_nonce = self.qop.is_some() || self.algorithm.is_session();
        let mut credentials = Credentials {
            user: user.name.clone(),
            realm: self.realm.clone(),
            nonce: self.nonce.clone(),
            uri: asked.uri.to_owned(),
            algorithm: self.algorithm,
            opaque: self.opaque.clone(),
            qop: self.qop,
            client_nonce: has_client_nonce.then(|| client_nonce.to_owned()),
            count: self.qop.map(|_| count),
            response: String::new(),
        };
        let secret = secret(self.algorithm, user, &self.realm);
        credentials.response = credentials.expected(&secret, asked);
        credentials
    }
}

impl fmt::Display for Challenge {
    /// The value of `WWW-Authenticate`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (realm, nonce) = (Quoted(&self.realm), Quoted(&self.nonce));
        write!(f, "Digest realm={realm}, nonce={nonce}")?;
        // live555's client looks for it right behind the nonce.
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

/// What a client shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The user's name.
    pub user: String,
    /// What name and password are for.
    pub realm: String,
    /// The server's nonce.
    pub nonce: String,
    /// What was hashed as the URI; to be compared with the request's own.
    pub uri: String,
    /// Which hash.
    pub algorithm: Algorithm,
    /// What came with the challenge.
    pub opaque: Option<String>,
    /// How.
    pub qop: Option<Qop>,
    /// The client's nonce.
    pub client_nonce: Option<String>,
    /// How many requests this nonce was used for, this one included. A server
    /// refuses one that it has seen.
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

    /// The response is that of the user whose [`secret`] this is, for a request of
    /// this method and body. Nonce, realm, count and URI are the server's to check.
    pub fn verify(&self, secret: &str, method: &str, body: &[u8]) -> bool {
        let asked = Asked {
            method,
            uri: &self.uri,
            body,
        };
        same_secret(&self.expected(secret, &asked), &self.response)
    }

    /// RFC 7616 §3.4.1; without protection RFC 2069 §2.1.2.
    fn expected(&self, secret: &str, asked: &Asked<'_>) -> String {
        let algorithm = self.algorithm;
        let client_nonce = self.client_nonce.as_deref().unwrap_or_default();
        let nonce = self.nonce.as_bytes();
        let a1 = if algorithm.is_session() {
            algorithm.hash(&[secret.as_bytes(), nonce, client_nonce.as_bytes()])
        } else {
            secret.to_owned()
        };
        let (method, uri) = (asked.method.as_bytes(), asked.uri.as_bytes());
        let a2 = if self.qop == Some(Qop::AuthInt) {
            let body = algorithm.hash(&[asked.body]);
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
    /// The value of `Authorization`.
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
        // Old servers that know only MD5 never asked for a word about it.
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

/// The hash of name, realm and password: what a server may keep in a password's
/// place.
pub fn secret(algorithm: Algorithm, user: &User, realm: &str) -> String {
    let User { name, password } = user;
    algorithm.hash(&[name.as_bytes(), realm.as_bytes(), password.as_bytes()])
}

/// A nonce that nobody else guesses, from what is secret, and new for each count.
pub(super) fn client_nonce(secret: &[u8; 32], nonce: &str, count: u32) -> String {
    keyed(secret, &[nonce.as_bytes(), &count.to_be_bytes()])
}

/// 32 hexadecimal digits that nobody without the secret guesses, new for each
/// `parts`. Half of a hash over a key of fixed length: there is nothing to extend.
pub(crate) fn keyed(secret: &[u8; 32], parts: &[&[u8]]) -> String {
    let parts: Vec<&[u8]> = [secret.as_slice()]
        .into_iter()
        .chain(parts.iter().copied())
        .collect();
    let mut text = hash::<Sha256>(&parts);
    text.truncate(32);
    text
}
