//! URLs as people write them: user and password are understood before anything of the URL is used
//! or shown.
//!
//! ```text
//! text ─► parse ─┬─► Url, user and password percent-encoded ─► Login::take_from ─► url, login
//!                └─► UrlError ─┐
//! Url ─► shown ────────────────┴─► text for people, without credentials
//! any text ─► hidden ──────────────┘
//! ```
//!
//! RFC 3986 §3.2 ends the host at the first `/`, `?` or `#`. A password that holds one of them
//! unescaped therefore moves the host into the user, and the rest of the password into the path,
//! which is shown, and asked of the DNS. [`parse`] refuses such a URL by name. Of what is left, only
//! one reading is possible: the last `@` in front of the host's end ends the credentials, and the
//! first `:` in them begins the password.

mod secret_fields;
mod text;

use std::fmt;

pub use text::{UrlError, WrittenWrong, hidden, parse};
use url::Url;
use url::form_urlencoded::byte_serialize;

/// User and password of a URL, decoded.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// User's name; it may be empty.
    pub user: String,
    /// Password, if the URL has one.
    pub password: Option<String>,
}

impl Login {
    /// Takes user and password out of `url`, which has none afterwards.
    pub fn take_from(url: &mut Url) -> Option<Self> {
        let password = url.password().map(decoded);
        let user = decoded(url.username());
        // Both fail only for URLs that cannot have a user at all.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        (!user.is_empty() || password.is_some()).then_some(Self { user, password })
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let password = self.password.as_ref().map(|_| HIDDEN);
        f.debug_struct("Login")
            .field("user", &self.user)
            .field("password", &password)
            .finish()
    }
}

/// Stands in place of what is not shown.
const HIDDEN: &str = "…";

/// Returns `url` for people: its password, and values of fields like `password=` and `token=`, are
/// hidden.
pub fn shown(url: &Url) -> String {
    let mut bare = url.clone();
    let login = Login::take_from(&mut bare);
    shown_with(&bare, login.as_ref())
}

/// Returns what [`shown`] returns, for a URL whose `login` was taken out.
pub fn shown_with(bare: &Url, login: Option<&Login>) -> String {
    let text = secret_fields::hide(bare.as_str());
    let (Some(login), Some((scheme, rest))) = (login, text.split_once("://")) else {
        return text;
    };
    let user = encoded(login.user.as_bytes());
    let password = login.password.as_ref();
    let password = password.map_or(String::new(), |_| format!(":{HIDDEN}"));
    format!("{scheme}://{user}{password}@{rest}")
}

/// Percent-encodes everything but letters, digits, `*`, `-`, `.` and `_`.
fn encoded(bytes: &[u8]) -> String {
    byte_serialize(bytes)
        .collect::<String>()
        .replace('+', "%20")
}

/// Decodes percent-encoding (RFC 3986 §2.1); bytes that are not UTF-8 are replaced.
fn decoded(text: &str) -> String {
    String::from_utf8_lossy(&decoded_bytes(text)).into_owned()
}

/// Decodes percent-encoding; a percent sign without two digits behind is one.
fn decoded_bytes(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let byte = match (first, tail) {
            (b'%', [high, low, ..]) => digit(*high).zip(digit(*low)),
            _ => None,
        };
        let byte = byte.and_then(|(high, low)| u8::try_from(high * 16 + low).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &tail[2..] } else { tail };
    }
    bytes
}

#[cfg(test)]
mod tests;
