use std::net::IpAddr;

use axum::http::Uri;
use glassline_url::WrittenWrong;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most bytes of a URL in the configuration.
const BYTES_MAX: usize = 2048;

/// The URL of a service that the server calls: `http://` or `https://`, without user and password,
/// which would stand in logs. It is shown, and written in a configuration, without the values of
/// fields like `token=`.
#[derive(
    Clone,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    JsonSchema,
    derive_more::Debug,
    derive_more::Display,
)]
#[display("{}", glassline_url::hidden(&self.0))]
#[debug("WebUrl({self})")]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct WebUrl(String);

impl WebUrl {
    /// Checks `text`.
    ///
    /// # Errors
    /// Returns [`WebUrlError`] with the rule that `text` breaks.
    pub fn parse(text: &str) -> Result<Self, WebUrlError> {
        if text.len() > BYTES_MAX {
            return Err(WebUrlError::Length { bytes: text.len() });
        }
        let understood = glassline_url::parse(text);
        if understood.is_err_and(|it| matches!(it.wrong, WrittenWrong::Ambiguous { .. })) {
            return Err(WebUrlError::User);
        }
        let uri = text.parse::<Uri>().map_err(|_| WebUrlError::NoUrl)?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) || text.contains('#') {
            return Err(WebUrlError::NoUrl);
        }
        let authority = uri.authority().ok_or(WebUrlError::NoUrl)?;
        if authority.as_str().contains('@') {
            return Err(WebUrlError::User);
        }
        Ok(Self(text.to_owned()))
    }

    /// Returns the URL as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether nobody on the network can change what is fetched: the URL is `https://`, or
    /// leads to this machine.
    pub fn is_protected(&self) -> bool {
        if self.0.starts_with("https:") {
            return true;
        }
        let uri = self.0.parse::<Uri>().unwrap_or_default();
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let address = host.parse::<IpAddr>();
        host == "localhost" || address.is_ok_and(|it| it.to_canonical().is_loopback())
    }
}

impl TryFrom<String> for WebUrl {
    type Error = WebUrlError;

    fn try_from(text: String) -> Result<Self, WebUrlError> {
        Self::parse(&text)
    }
}

impl From<WebUrl> for String {
    fn from(url: WebUrl) -> Self {
        url.to_string()
    }
}

/// The reason why a text is not a [`WebUrl`]. None repeats the text, which may have a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WebUrlError {
    /// The text is longer than a URL should be.
    #[error("the URL has {bytes} bytes, at most {BYTES_MAX} are allowed")]
    Length {
        /// Length found, in bytes.
        bytes: usize,
    },
    /// The text is no URL of the web.
    #[error(
        "write a URL with http:// or https://, a host, and no '#', like https://id.example/keys"
    )]
    NoUrl,
    /// The URL has a user's name or a password.
    #[error(
        "the URL has a user in front of its host, which logs would show: remove it (an '@' in a path \
         is written %40)"
    )]
    User,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_a_host_and_hold_no_password() {
        for good in [
            "https://id.example/keys?a=b",
            "http://127.0.0.1:9000",
            "http://[::1]/x",
        ] {
            assert!(WebUrl::parse(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "id.example",
            "ftp://a/",
            "https://",
            "https://a/#x",
            "/keys",
        ] {
            assert_eq!(WebUrl::parse(bad), Err(WebUrlError::NoUrl), "{bad}");
        }
        for user in [
            "https://ann:pw@a/",
            "https://ann:12/34@a/",
            "https://ann:12?x#@a/",
        ] {
            assert_eq!(WebUrl::parse(user), Err(WebUrlError::User), "{user}");
        }
        let long = format!("https://a/{}", "x".repeat(BYTES_MAX));
        assert!(WebUrl::parse(&long).is_err());
    }

    #[test]
    fn a_token_of_a_query_is_sent_and_never_shown() {
        let url = WebUrl::parse("https://a/x?token=hunter2&y=1").expect("a URL");
        assert_eq!(url.as_str(), "https://a/x?token=hunter2&y=1");
        let written = serde_json::to_string(&url).expect("plain data");
        for shown in [url.to_string(), format!("{url:?}"), written] {
            assert!(shown.contains("https://a/x?token=…&y=1"), "{shown}");
        }
    }

    #[test]
    fn only_tls_and_this_machine_are_protected() {
        let is_protected = |text| WebUrl::parse(text).expect("a URL").is_protected();
        for url in [
            "https://a/",
            "http://127.0.0.1:8/",
            "http://localhost/",
            "http://[::1]:8/",
        ] {
            assert!(is_protected(url), "{url}");
        }
        for url in ["http://a/", "http://192.0.2.1/", "http://localhost.evil/"] {
            assert!(!is_protected(url), "{url}");
        }
    }
}
