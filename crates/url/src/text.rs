//! Reads a URL from text, and hides the credentials of any text.

use std::net::{Ipv4Addr, Ipv6Addr};

use url::Url;

use crate::{HIDDEN, decoded_bytes, encoded, secret_fields};

/// A text is not a URL, or can be read in two ways. Neither `Display` nor `Debug` has any of the
/// credentials.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{shown}' is not a URL: {wrong}")]
pub struct UrlError {
    /// The text, with all that may be a credential hidden.
    pub shown: String,
    /// The rule that the text breaks.
    pub wrong: WrittenWrong,
}

/// The rule that a text breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WrittenWrong {
    /// The text does not begin with a scheme and `://`.
    #[error("it begins with no scheme, like rtsp://")]
    Scheme,
    /// The host's name is missing.
    #[error("no host")]
    Host,
    /// The text behind the host's colon is no port.
    #[error(
        "the port is no number from 0 to 65535 (if what follows the ':' is a password, an '@' and \
         the host are missing behind it; an IPv6 address is written in brackets)"
    )]
    Port,
    /// An `@` follows the end of the host, so that a password may reach beyond that end.
    #[error(
        "the '{sign}' in front of the last '@' ends the host: in a user or password write '{sign}' as \
         {code} (also '@' as %40, '#' as %23, '/' as %2F, '?' as %3F, ':' as %3A and '%' as %25); an '@' \
         behind the host is written %40, too",
        code = code_of(*sign)
    )]
    Ambiguous {
        /// The first character that ends the host.
        sign: char,
    },
    /// The rest breaks a rule of the standard.
    #[error("{0}")]
    Standard(url::ParseError),
}

/// Reads a URL. User and password are percent-encoded in what is returned, however they were
/// written.
///
/// # Errors
/// Returns [`UrlError`] for what is no URL, and for one that can be read in two ways.
pub fn parse(text: &str) -> Result<Url, UrlError> {
    let text = text.trim();
    understood(text).map_err(|wrong| UrlError {
        shown: hidden(text),
        wrong,
    })
}

fn understood(text: &str) -> Result<Url, WrittenWrong> {
    let parts = Parts::of(text).ok_or(WrittenWrong::Scheme)?;
    if let Some(sign) = parts.ambiguous_sign() {
        return Err(WrittenWrong::Ambiguous { sign });
    }
    let Parts {
        scheme,
        place,
        rest,
        ..
    } = parts;
    if !parts.has_port_or_none() {
        return Err(WrittenWrong::Port);
    }
    if place.is_empty() || place.starts_with(':') {
        return Err(WrittenWrong::Host);
    }
    let mut url =
        Url::parse(&format!("{scheme}://{place}{rest}")).map_err(WrittenWrong::Standard)?;
    if url.host_str().is_none_or(str::is_empty) {
        return Err(WrittenWrong::Host);
    }
    if let Some(login) = parts.login {
        let (user, password) = match login.split_once(':') {
            Some((user, password)) => (user, Some(encoded(&decoded_bytes(password)))),
            None => (login, None),
        };
        // They fail only for URLs without a host.
        let _ = url.set_username(&encoded(&decoded_bytes(user)));
        let _ = url.set_password(password.as_deref());
    }
    Ok(url)
}

/// Returns the percent-encoding of a character of ASCII (RFC 3986 §2.1).
fn code_of(sign: char) -> String {
    format!("%{:02X}", u32::from(sign))
}

/// Returns `text` with all that may be a credential hidden, whether it is a URL or not.
pub fn hidden(text: &str) -> String {
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) => (Some(scheme), rest),
        None => (None, text),
    };
    let colon = rest.find(':');
    // No password reaches behind the last '@'.
    let bare = match (colon, rest.rfind('@')) {
        (Some(colon), Some(at)) if colon < at => {
            format!(
                "{}:{HIDDEN}{}",
                &rest[..colon],
                secret_fields::hide(&rest[at..])
            )
        }
        (Some(colon), None) if Parts::of(text).is_some_and(|parts| !parts.has_port_or_none()) => {
            format!("{}:{HIDDEN}", &rest[..colon])
        }
        _ => secret_fields::hide(rest),
    };
    match scheme {
        Some(scheme) if scheme.contains(':') && bare.len() < text.len() => {
            // Whatever this is, its beginning may be a user with a password.
            hidden_start(scheme, &bare)
        }
        Some(scheme) => format!("{scheme}://{bare}"),
        None => bare,
    }
}

fn hidden_start(scheme: &str, bare: &str) -> String {
    let (start, _) = scheme.split_once(':').unwrap_or((scheme, ""));
    format!("{start}:{HIDDEN}://{bare}")
}

/// The parts of a URL as RFC 3986 §3 has them.
struct Parts<'a> {
    scheme: &'a str,
    /// All that follows the scheme.
    all: &'a str,
    /// The text in front of the `@` before the host.
    login: Option<&'a str>,
    /// Host and port.
    place: &'a str,
    /// The text behind the host: path, query and fragment.
    rest: &'a str,
}

impl<'a> Parts<'a> {
    /// Divides `text`; `None` if it has no scheme.
    fn of(text: &'a str) -> Option<Self> {
        let (scheme, all) = text.split_once("://")?;
        let is_sign = |it: char| it.is_ascii_alphanumeric() || matches!(it, '+' | '-' | '.');
        if !scheme.starts_with(|it: char| it.is_ascii_alphabetic()) || !scheme.chars().all(is_sign)
        {
            return None;
        }
        // Browsers take a backslash for a slash in URLs of the web, and in no others.
        let is_web = ["http", "https", "ws", "wss"]
            .iter()
            .any(|web| web.eq_ignore_ascii_case(scheme));
        let is_end = |it: char| matches!(it, '/' | '?' | '#') || (it == '\\' && is_web);
        let (authority, rest) = all.split_at(all.find(is_end).unwrap_or(all.len()));
        let (login, place) = match authority.rsplit_once('@') {
            Some((login, place)) => (Some(login), place),
            None => (None, authority),
        };
        Some(Self {
            scheme,
            all,
            login,
            place,
            rest,
        })
    }

    /// Returns the character that ends the host, if a password may reach beyond that end: an `@`
    /// follows, and a `:` is in front of that `@`. The address of a machine in the place of the host
    /// settles it.
    fn ambiguous_sign(&self) -> Option<char> {
        let at = self.all.rfind('@')?;
        let end = self.all.len() - self.rest.len();
        let has_colon = self.all.find(':').is_some_and(|colon| colon < at);
        let is_ambiguous = at >= end && has_colon && !self.is_address();
        self.rest.chars().next().filter(|_| is_ambiguous)
    }

    fn host_and_port(&self) -> (&'a str, Option<&'a str>) {
        let behind_host = self.place.rfind(']').map_or(0, |end| end + 1);
        match self.place[behind_host..].find(':') {
            Some(colon) => {
                let (host, port) = self.place.split_at(behind_host + colon);
                (host, Some(&port[1..]))
            }
            None => (self.place, None),
        }
    }

    fn has_port_or_none(&self) -> bool {
        let (_, port) = self.host_and_port();
        let is_port =
            |port: &str| port.bytes().all(|it| it.is_ascii_digit()) && port.parse::<u16>().is_ok();
        port.is_none_or(|port| port.is_empty() || is_port(port))
    }

    /// Returns whether the host is an IP address.
    fn is_address(&self) -> bool {
        let (host, _) = self.host_and_port();
        let v6 = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
        v6.map_or_else(
            || host.parse::<Ipv4Addr>().is_ok(),
            |v6| v6.parse::<Ipv6Addr>().is_ok(),
        )
    }
}
