//! What an engine is told: servers, who the node is, and how it logs in.

use std::path::PathBuf;
use std::str::FromStr;

use glassline_cluster::{NodeId, Region};
use glassline_url::WrittenWrong;
use thiserror::Error;
use url::Url;

/// Port of NATS where an address names none.
const PORT: u16 = 4222;

/// Everything that an engine is told.
#[derive(Clone, Debug)]
pub struct Options {
    /// Servers of one NATS cluster, tried in random order. More are learned from the first answer.
    pub servers: Vec<ServerUrl>,
    /// Name of this node.
    pub node: NodeId,
    /// Region of this node.
    pub region: Region,
    /// How the node logs in.
    pub login: Login,
    /// Files for TLS; `None` uses TLS only where a server asks for it or an address begins with
    /// `tls://`, with the authorities of the system.
    pub tls: Option<TlsFiles>,
    /// Copies of each record, 1, 3 or 5; `None` for three in a NATS cluster and one otherwise.
    pub replicas: Option<u8>,
    /// Base of a server's monitoring, `http://HOST:8222`, where `sync_interval` is read.
    pub monitoring: Option<Url>,
}

/// How a node logs in to NATS. [`fmt::Debug`] hides the secrets.
#[derive(Clone, Default, PartialEq, Eq, derive_more::Debug)]
pub enum Login {
    /// The node logs in without credentials.
    #[default]
    #[debug("Anonymous")]
    Anonymous,
    /// By a token.
    #[debug("Token(…)")]
    Token(String),
    /// By name and password.
    #[debug("User {{ name: {name:?}, password: … }}")]
    User {
        /// Name of the user.
        name: String,
        /// Password of the user.
        password: String,
    },
    /// By the seed of an NKey, which begins with `SU`.
    #[debug("Nkey(…)")]
    Nkey(String),
    /// By a credentials file of `nsc`, which is read again for each connection.
    #[debug("Credentials({_0:?})")]
    Credentials(PathBuf),
}

/// Files for TLS to NATS, in PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificates of the authorities that are believed; `None` for those of the system.
    pub ca: Option<PathBuf>,
    /// Certificate chain and key of this node, where the servers ask for one.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// Address of a NATS server: `nats://HOST:PORT`, or `tls://HOST:PORT` where TLS is a must.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display)]
#[display("{text}")]
pub struct ServerUrl {
    text: String,
    is_tls: bool,
}

/// Reasons why a text is no address of a NATS server.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ServerUrlError {
    /// The text is no URL with a host.
    #[error("'{0}' is no address of a NATS server: write one like nats://192.0.2.1:4222")]
    NoAddress(String),
    /// The text can be read in two ways.
    #[error(transparent)]
    Ambiguous(glassline_url::UrlError),
    /// The scheme is not one of NATS.
    #[error("'{0}' begins with another scheme than nats:// or tls://")]
    Scheme(String),
    /// User and password stand in the URL, where logs would show them.
    #[error("the address of a NATS server has a user in it: write `user` and `password` as keys")]
    Login,
    /// A path, a query or a fragment, which NATS has not.
    #[error("'{0}' has more than a host and a port")]
    More(String),
}

impl ServerUrl {
    /// Returns the address with scheme and port.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the address asks for TLS.
    pub fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// Makes the address of a server that another server named as `HOST:PORT`; `None` if it is
    /// none.
    pub(crate) fn discovered(host_port: &str, is_tls: bool) -> Option<Self> {
        let scheme = if is_tls { "tls" } else { "nats" };
        format!("{scheme}://{host_port}").parse().ok()
    }
}

impl FromStr for ServerUrl {
    type Err = ServerUrlError;

    fn from_str(text: &str) -> Result<Self, ServerUrlError> {
        let text = text.trim();
        let no_address = || ServerUrlError::NoAddress(glassline_url::hidden(text));
        let full = match text.contains("://") {
            true => text.to_owned(),
            false => format!("nats://{text}"),
        };
        let url = glassline_url::parse(&full).map_err(|error| match error.wrong {
            WrittenWrong::Ambiguous { .. } => ServerUrlError::Ambiguous(error),
            _ => no_address(),
        })?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(ServerUrlError::Login);
        }
        let is_tls = match url.scheme() {
            "nats" => false,
            "tls" => true,
            _ => return Err(ServerUrlError::Scheme(glassline_url::hidden(text))),
        };
        let host = url.host_str().filter(|host| !host.is_empty());
        let host = host.ok_or_else(no_address)?;
        let is_bare = matches!(url.path(), "" | "/");
        if !is_bare || url.query().is_some() || url.fragment().is_some() {
            return Err(ServerUrlError::More(glassline_url::hidden(text)));
        }
        let port = url.port().unwrap_or(PORT);
        let text = format!("{}://{host}:{port}", url.scheme());
        Ok(Self { text, is_tls })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_get_the_scheme_and_port_that_they_leave_out() {
        for (text, full) in [
            ("nats://a", "nats://a:4222"),
            ("a.example:4333", "nats://a.example:4333"),
            ("tls://[2001:db8::1]:5222", "tls://[2001:db8::1]:5222"),
            (" 192.0.2.1 ", "nats://192.0.2.1:4222"),
        ] {
            let parsed: ServerUrl = text.parse().expect(text);
            assert_eq!(parsed.as_str(), full);
            assert_eq!(parsed.is_tls(), full.starts_with("tls"));
        }
    }

    #[test]
    fn what_is_no_address_says_what_to_write() {
        for (text, part) in [
            ("", "like nats://"),
            ("nats://", "like nats://"),
            ("http://a", "nats:// or tls://"),
            ("ws://a:80", "nats:// or tls://"),
            ("nats://ann:secret@a", "as keys"),
            ("nats://a/b", "more than a host"),
            ("nats://a:99999", "like nats://"),
        ] {
            let error = text.parse::<ServerUrl>().expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn secrets_are_not_in_the_debug_text() {
        let logins = [
            Login::Token("t0k3n".to_owned()),
            Login::Nkey("SUt0k3n".to_owned()),
            Login::User {
                name: "ann".to_owned(),
                password: "t0k3n".to_owned(),
            },
        ];
        for login in logins {
            assert!(!format!("{login:?}").contains("t0k3n"), "{login:?}");
        }
    }
}
