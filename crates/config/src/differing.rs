//! Which keys of two configurations differ, and which of them only a restart heeds.

use glassline_access::auth::with_fingerprints;
use glassline_access::tls::Tls;
use serde_json::Value;

use super::Config;

impl Config {
    /// Returns the keys whose values differ from those of `other`, as `limits.viewers` or
    /// `sources.gate`, in the order of the alphabet. Values of secrets are compared, too.
    pub fn keys_that_differ(&self, other: &Self) -> Vec<String> {
        let value =
            |config: &Self| serde_json::to_value(config).expect("a configuration is plain data");
        let (one, another) = with_fingerprints(|| (value(self), value(other)));
        let mut keys = Vec::new();
        collect(&one, &another, "", &mut keys);
        // What has a password of its own in it is shown without.
        let differs =
            |(name, input): &(&_, &_)| other.sources.get(*name).is_some_and(|it| it != *input);
        let sources = self.sources.iter().filter(differs);
        keys.extend(sources.map(|(name, _)| format!("sources.{name}")));
        if self.auth.users != other.auth.users {
            keys.push("auth.users".to_owned());
        }
        keys.sort();
        keys.dedup();
        keys
    }

    /// Returns this configuration as a server can have it that runs with `running`: keys that only
    /// a restart heeds have the values of `running`.
    #[must_use]
    pub fn heeded_by(&self, running: &Self) -> Self {
        let mut heeded = self.clone();
        heeded.http.address = running.http.address;
        heeded.https = running.https.clone();
        heeded.media.address = running.media.address;
        heeded.media.tcp = running.media.tcp;
        heeded.admin.address = running.admin.address;
        heeded.admin.https = running.admin.https;
        heeded
            .admin
            .state_file
            .clone_from(&running.admin.state_file);
        heeded.state_folder.clone_from(&running.state_folder);
        heeded.cluster.clone_from(&running.cluster);
        heeded.shards = running.shards;
        heeded.telemetry = running.telemetry.clone();
        // Other files of a certificate are read; another way to have one is a restart.
        if !matches!(
            (&self.tls, &running.tls),
            (Some(Tls::Files(_)), Some(Tls::Files(_)))
        ) {
            heeded.tls.clone_from(&running.tls);
        }
        heeded.rtsp = running.rtsp.clone();
        heeded.rtsp.clients = self.rtsp.clients;
        heeded.rtsp.clients_per_address = self.rtsp.clients_per_address;
        heeded.rtsp.lag_ms = self.rtsp.lag_ms;
        heeded.rtsp.stall_s = self.rtsp.stall_s;
        heeded.rtsp.media_clients = self.rtsp.media_clients;
        if heeded.rtsp.media_folder.is_some() && self.rtsp.media_folder.is_some() {
            let folder = &self.rtsp.media_folder;
            heeded.rtsp.media_folder.clone_from(folder);
        }
        let (tls, new) = (&mut heeded.rtsp.tls, &self.rtsp.tls);
        if tls.certificate.is_some() && new.certificate.is_some() {
            tls.certificate.clone_from(&new.certificate);
            tls.key.clone_from(&new.key);
        }
        heeded.quic = running.quic.clone();
        heeded.quic.clients = self.quic.clients;
        heeded.quic.clients_per_address = self.quic.clients_per_address;
        heeded.quic.congestion = self.quic.congestion;
        let (quic, new) = (&mut heeded.quic, &self.quic);
        if quic.certificate.is_some() && new.certificate.is_some() {
            quic.certificate.clone_from(&new.certificate);
            quic.key.clone_from(&new.key);
        }
        heeded
    }

    /// Returns the keys of this configuration that a server which runs with `running` heeds after a
    /// restart only.
    pub fn keys_that_need_restart(&self, running: &Self) -> Vec<String> {
        self.keys_that_differ(&self.heeded_by(running))
    }
}

/// Returns why a key is heeded after a restart only, in words that follow the key and a colon.
pub fn reason_for_restart(key: &str) -> &'static str {
    let (section, name) = key.split_once('.').unwrap_or((key, ""));
    let of_section = SECTIONS.iter().find(|(it, _)| *it == section);
    if let Some(reason) = of_section.and_then(|(_, reason)| reason(name)) {
        return reason;
    }
    match (section, name) {
        ("media", "tcp") => PORT,
        (_, name) if is_of_certificate(section, name) => {
            "listeners learn when they are opened where their certificate comes from; other files in \
             place of files need no restart"
        }
        ("https", _) | ("admin", "https") => PORT,
        (_, name) if name.ends_with("address") => PORT,
        ("admin", "state_file") | ("state_folder", _) => {
            "the server reads what it keeps there once, at its start"
        }
        ("cluster", _) => "the other servers of the cluster know this one by it",
        ("shards", _) => "each thread owns its viewers, so the number of threads is fixed",
        ("telemetry", _) => "the exporter begins with the server",
        _ => "it is read once, at the start",
    }
}

const PORT: &str = "the port is opened when the server starts";

/// Returns why a key of a section is heeded after a restart only.
type Reason = fn(&str) -> Option<&'static str>;

/// Sections that know why some of their keys are heeded after a restart only.
const SECTIONS: &[(&str, Reason)] = &[("rtsp", super::rtsp::reason_for_restart)];

/// Keys of sections that name the files of a certificate.
const CERTIFICATES: &[(&str, [&str; 2])] = &[
    ("rtsp", ["tls.certificate", "tls.key"]),
    ("quic", ["certificate", "key"]),
];

fn is_of_certificate(section: &str, name: &str) -> bool {
    let of = |(it, keys): &(&str, [&str; 2])| *it == section && keys.contains(&name);
    section == "tls" || CERTIFICATES.iter().any(of)
}

/// Adds the paths below `path` at which the values differ. Lists are compared as a whole.
fn collect(one: &Value, other: &Value, path: &str, keys: &mut Vec<String>) {
    let (Value::Object(ones), Value::Object(others)) = (one, other) else {
        if one != other {
            keys.push(path.to_owned());
        }
        return;
    };
    let mut names: Vec<&String> = ones.keys().chain(others.keys()).collect();
    names.sort();
    names.dedup();
    for name in names {
        let path = match path {
            "" => name.clone(),
            _ => format!("{path}.{name}"),
        };
        let absent = &Value::Null;
        let (one, other) = (ones.get(name), others.get(name));
        collect(one.unwrap_or(absent), other.unwrap_or(absent), &path, keys);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(yaml: &str) -> Config {
        Config::from_yaml(yaml, "test.yml").expect("a configuration")
    }

    #[test]
    fn keys_are_named_with_their_sections_and_secrets_too() {
        let one = config("limits: {viewers: 10}\nauth: {read_token: first-token-of-it}\n");
        assert!(one.keys_that_differ(&one).is_empty());
        let other = config(
            "limits: {viewers: 11}\nauth: {read_token: first-token-of-it}\nsources: {gate: demo}\n",
        );
        assert_eq!(
            one.keys_that_differ(&other),
            ["limits.viewers", "sources.gate"]
        );
        let secret = config("limits: {viewers: 10}\nauth: {read_token: other-token-of-it}\n");
        assert_eq!(one.keys_that_differ(&secret), ["auth.read_token"]);
        let camera =
            |password: &str| config(&format!("sources: {{yard: 'rtsp://u:{password}@h/'}}"));
        assert_eq!(camera("a").keys_that_differ(&camera("b")), ["sources.yard"]);
        let shown = other.to_json();
        assert!(!shown.contains("first-token"), "{shown}");
    }

    #[test]
    fn listeners_and_threads_need_a_restart_and_nothing_else_does() {
        let running = config("http: {address: '127.0.0.1:1'}\nlimits: {viewers: 5}\n");
        let now = config(
            "http: {address: '127.0.0.1:2', connections: 7}\nlimits: {viewers: 6}\nshards: 3\n\
             rtsp: {clients: 9, lag_ms: 700, udp: false, media_folder: films}\n\
             quic: {congestion: cubic}\n",
        );
        let needed = now.keys_that_need_restart(&running);
        let expected = ["http.address", "rtsp.media_folder", "rtsp.udp", "shards"];
        assert_eq!(needed, expected, "no folder needs no threads");
        assert!(needed.iter().all(|key| reason_for_restart(key).len() > 20));
        let heeded = now.heeded_by(&running);
        assert_eq!(heeded.http.address, running.http.address);
        assert_eq!((heeded.http.connections, heeded.limits.viewers), (7, 6));
        assert_eq!((heeded.rtsp.clients, heeded.rtsp.lag_ms), (9, 700));
        assert_eq!(heeded.quic.congestion, now.quic.congestion);
        let folder = |name: &str| config(&format!("rtsp: {{media_folder: {name}}}\n"));
        let other = folder("series").heeded_by(&folder("films"));
        assert_eq!(other, folder("series"));
        assert!(now.keys_that_need_restart(&now).is_empty());
        let collector = |key: &str| {
            let otlp = serde_json::json!({"endpoint": "http://c", "headers": {"key": key}});
            let telemetry = serde_json::json!({"otlp": otlp});
            let telemetry = serde_json::from_value(telemetry).expect("a collector");
            Config {
                telemetry,
                ..Config::default()
            }
        };
        let needed = collector("a").keys_that_need_restart(&collector("b"));
        assert_eq!(needed, ["telemetry.otlp.headers.key"]);
    }
}
