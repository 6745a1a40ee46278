use std::net::SocketAddr;

use super::Config;

/// The listeners that strangers reach, and what they may do there without credentials.
///
/// [`Display`](std::fmt::Display) writes a sentence for the log that names what to set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exposure {
    /// What is open, each with its listeners as `NAME ADDRESS`.
    open: Vec<(&'static str, Vec<String>)>,
}

const READING: &str = "listing and watching all streams but the voices of rooms";
const OPERATING: &str = "metrics, addresses of clients and the names of rooms";

impl Config {
    /// Returns what `listeners`, as [`Server::listeners`](crate::Server::listeners) returns them,
    /// let everybody do who reaches them by the network; `None` if that is nothing.
    pub fn exposure(&self, listeners: &[(&'static str, SocketAddr)]) -> Option<Exposure> {
        let on_network = |names: &[&str]| {
            let reached = listeners.iter().filter(|(name, address)| {
                names.contains(name) && !address.ip().to_canonical().is_loopback()
            });
            let reached = reached.map(|(name, address)| format!("{name} {address}"));
            reached.collect::<Vec<_>>()
        };
        let is_readable =
            self.auth.users.is_empty() && self.auth.read_token.is_none() && self.auth.jwt.is_none();
        let mut open = Vec::new();
        if is_readable {
            let read = on_network(&["http", "https", "rtsp", "rtsps", "quic"]);
            open.push((READING, read));
        }
        let admin = on_network(&["admin", "admin-https"]);
        open.push((OPERATING, admin));
        open.retain(|(_, listeners)| !listeners.is_empty());
        (!open.is_empty()).then_some(Exposure { open })
    }
}

impl std::fmt::Display for Exposure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("open to everybody who reaches this machine, without credentials: ")?;
        for (index, (what, listeners)) in self.open.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{what} ({})", listeners.join(", "))?;
        }
        f.write_str(". To close it, ")?;
        if self.open.iter().any(|(what, _)| *what == READING) {
            f.write_str("set auth.read_token or auth.users, or ")?;
        }
        f.write_str("listen on 127.0.0.1")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Secret;

    fn text(config: &Config, listeners: &[(&'static str, &str)]) -> Option<String> {
        let listeners = listeners.iter().map(|(name, address)| {
            let address = address.parse().expect("an address");
            (*name, address)
        });
        let listeners: Vec<_> = listeners.collect();
        config.exposure(&listeners).map(|it| it.to_string())
    }

    #[test]
    fn what_strangers_reach_without_credentials_is_named() {
        let mut config = Config::default();
        let loopback = [
            ("http", "127.0.0.1:8889"),
            ("media", "0.0.0.0:8189"),
            ("rtsp", "[::1]:8554"),
            ("admin", "127.0.0.1:9997"),
        ];
        assert_eq!(
            text(&config, &loopback),
            None,
            "media goes to sessions only"
        );
        let network = [
            ("http", "0.0.0.0:8889"),
            ("rtsp", "192.0.2.1:8554"),
            ("quic", "127.0.0.1:4443"),
            ("admin", "127.0.0.1:9997"),
        ];
        let said = text(&config, &network).expect("it is open");
        assert_eq!(
            said,
            "open to everybody who reaches this machine, without credentials: listing and watching \
             all streams but the voices of rooms (http 0.0.0.0:8889, rtsp 192.0.2.1:8554). To close \
             it, set auth.read_token or auth.users, or listen on 127.0.0.1"
        );
        config.auth.read_token = Secret::new("look-1234567").ok();
        assert_eq!(text(&config, &network), None);
        let admin = text(&config, &[("admin", "0.0.0.0:9997")]).expect("it asks nobody");
        assert!(
            admin.ends_with("(admin 0.0.0.0:9997). To close it, listen on 127.0.0.1"),
            "{admin}"
        );
        config.auth.read_token = None;
        config.auth.publish_token = Secret::new("show-1234567").ok();
        assert!(
            text(&config, &network).is_some(),
            "publishing alone is guarded"
        );
    }
}
