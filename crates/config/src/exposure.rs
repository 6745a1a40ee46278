use std::net::SocketAddr;

use super::Config;

/// The listeners that strangers reach, and what they may do there without credentials.
///
/// [`Display`](std::fmt::Display) writes a sentence for the log that names what to set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exposure {
    /// The open services, each with its listeners as `NAME ADDRESS`.
    open: Vec<(&'static str, Vec<String>)>,
}

const READING: &str = "listing and watching all streams but the voices of rooms";
const METRICS: &str = "metrics";

impl Config {
    /// Returns what `listeners`, the name and address of each, as a running server returns them,
    /// let everybody do who reaches them by the network; `None` if that is nothing.
    pub fn exposure(&self, listeners: &[(&'static str, SocketAddr)]) -> Option<Exposure> {
        let on_network = |names: &[&str]| {
            let reached = listeners.iter().filter(|(name, address)| {
                names.contains(name) && !address.ip().to_canonical().is_loopback()
            });
            let reached = reached.map(|(name, address)| format!("{name} {address}"));
            reached.collect::<Vec<_>>()
        };
        let mut open = Vec::new();
        if !self.auth.closes_reading() {
            let read = on_network(&["http", "https", "rtsp", "rtsps", "quic"]);
            open.push((READING, read));
        }
        if self.admin.open_metrics {
            open.push((METRICS, on_network(&["admin", "admin-https"])));
        }
        open.retain(|(_, listeners)| !listeners.is_empty());
        (!open.is_empty()).then_some(Exposure { open })
    }

    /// Returns why the admin port is of no use to other machines although it listens to them; `None`
    /// if it listens to this machine alone, or if somebody has a role.
    pub fn useless_admin(&self) -> Option<String> {
        let configured = [Some(self.admin.address), self.admin.https];
        let mut reached = configured.into_iter().flatten();
        let reached = reached.find(|it| !it.ip().to_canonical().is_loopback())?;
        (!self.auth.closes_admin()).then(|| {
            format!(
                "the admin port at {reached} refuses all but /healthz and /readyz to other machines, since nobody has a role: set `auth.tokens`, or `role` of a user in `auth.users`"
            )
        })
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
        if self.open.iter().any(|(what, _)| *what == METRICS) {
            f.write_str("unset admin.open_metrics, or ")?;
        }
        f.write_str("listen on 127.0.0.1")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Secret;

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
        let admin = [("admin", "0.0.0.0:9997")];
        assert_eq!(text(&config, &admin), None, "other machines need a role");
        config.admin.open_metrics = true;
        let said = text(&config, &admin).expect("metrics are open");
        assert!(
            said.ends_with("(admin 0.0.0.0:9997). To close it, unset admin.open_metrics, or listen on 127.0.0.1"),
            "{said}"
        );
        config.admin.open_metrics = false;
        config.auth.read_token = None;
        config.auth.publish_token = Secret::new("show-1234567").ok();
        assert!(
            text(&config, &network).is_some(),
            "publishing alone is guarded"
        );
    }

    #[test]
    fn an_admin_port_that_nobody_can_use_is_named() {
        let useless = |yaml: &str| {
            let config = Config::from_yaml(yaml, "t.yml").expect("a good file");
            config.useless_admin()
        };
        assert_eq!(useless("{}"), None, "this machine needs no role");
        let said = useless("{admin: {address: '0.0.0.0:1'}}").expect("nobody has a role");
        assert!(
            said.contains("0.0.0.0:1") && said.contains("auth.tokens"),
            "{said}"
        );
        assert!(useless("{admin: {https: '[::]:2'}}").is_some());
        let token = "auth: {tokens: [{name: ann, role: viewer, token: 0123456789abcdef}]}";
        assert_eq!(
            useless(&format!("{{admin: {{address: '0.0.0.0:1'}}, {token}}}")),
            None
        );
    }
}
