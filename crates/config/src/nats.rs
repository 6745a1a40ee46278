//! NATS, through which the servers of a cluster agree which of them has a stream: `cluster.nats`.

use std::path::PathBuf;

use glassline_access::auth::Secret;
use glassline_cluster_nats::{Login, Options, ServerUrl, TlsFiles};
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use url::Url;

/// Copies of each record that a NATS cluster can keep.
const REPLICAS: [u8; 3] = [1, 3, 5];

/// Most addresses of servers.
const SERVERS_MAX: usize = 16;

/// NATS, through which the servers of a cluster agree which of them has a stream: an address, a list
/// of them, or a map with the keys below.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Nats {
    /// Servers of one NATS cluster, `nats://HOST:PORT`, or `tls://HOST:PORT` to demand TLS. One
    /// suffices.
    #[serde(serialize_with = "to_texts")]
    #[schemars(with = "Vec<String>")]
    pub servers: Vec<ServerUrl>,
    /// Name of the user; `password` belongs to it.
    pub user: Option<String>,
    /// Password of the user.
    pub password: Option<Secret>,
    /// Token to log in with, in place of a user.
    pub token: Option<Secret>,
    /// Seed of an NKey to log in with, which begins with `SU`.
    pub nkey: Option<Secret>,
    /// Credentials file of `nsc`, read again for each connection.
    pub credentials: Option<PathBuf>,
    /// Files for TLS; this map, even an empty one, demands TLS.
    pub tls: Option<NatsTls>,
    /// Copies of each record: 1, 3 or 5. Null takes three in a NATS cluster, else one.
    #[schemars(range(min = 1, max = 5))]
    pub replicas: Option<u8>,
    /// Monitoring of a NATS server, `http://HOST:8222`, to check that `sync_interval` is `always`.
    /// Null does not check.
    #[serde(serialize_with = "to_text_or_null")]
    #[schemars(with = "Option<String>")]
    pub monitoring: Option<Url>,
}

/// Files for TLS to NATS, in PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NatsTls {
    /// Certificates of trusted authorities; null for those of the system.
    pub ca: Option<PathBuf>,
    /// Certificate chain of this server, where NATS asks for one.
    pub certificate: Option<PathBuf>,
    /// Private key of the certificate.
    pub key: Option<PathBuf>,
}

/// Keys of the section do not fit together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum NatsError {
    #[error("`servers` is empty: write an address like nats://192.0.2.1:4222")]
    NoServer,
    #[error("`servers` has {0} addresses, at most {SERVERS_MAX} are allowed: one suffices")]
    ManyServers(usize),
    #[error("`user` and `password` belong together: state both")]
    HalfUser,
    #[error("`{0}` and `{1}` are two ways to log in: remove one of them")]
    TwoLogins(&'static str, &'static str),
    #[error("`nkey` is no seed of a user: it has 58 letters and digits and begins with SU")]
    Nkey,
    #[error("`certificate` and `key` belong together: state both")]
    HalfIdentity,
    #[error("`replicas` is {0}: NATS keeps 1, 3 or 5 copies")]
    Replicas(u8),
    #[error("`monitoring` is no address like http://192.0.2.1:8222")]
    Monitoring,
}

impl Nats {
    /// Returns what the engine is told, for a node with the login and the files of this section.
    ///
    /// `node` and `region` are names of the cluster.
    pub fn options(
        &self,
        node: glassline_cluster::NodeId,
        region: glassline_cluster::Region,
    ) -> Options {
        let reveal = |secret: &Secret| secret.reveal().to_owned();
        let user = self.user.clone().zip(self.password.as_ref().map(reveal));
        let ways = [
            user.map(|(name, password)| Login::User { name, password }),
            self.token.as_ref().map(|it| Login::Token(reveal(it))),
            self.nkey.as_ref().map(|it| Login::Nkey(reveal(it))),
            self.credentials.clone().map(Login::Credentials),
        ];
        let tls = self.tls.as_ref().map(|tls| TlsFiles {
            ca: tls.ca.clone(),
            identity: tls.certificate.clone().zip(tls.key.clone()),
        });
        Options {
            servers: self.servers.clone(),
            node,
            region,
            login: ways.into_iter().flatten().next().unwrap_or_default(),
            tls,
            replicas: self.replicas,
            monitoring: self.monitoring.clone(),
        }
    }

    /// Returns the paths of all files that the section names.
    pub(super) fn paths_mut(&mut self) -> Vec<&mut PathBuf> {
        let tls = self.tls.iter_mut();
        let tls = tls.flat_map(|tls| [&mut tls.ca, &mut tls.certificate, &mut tls.key]);
        let paths = tls.chain([&mut self.credentials]);
        paths.flatten().collect()
    }

    fn checked(self) -> Result<Self, NatsError> {
        match self.servers.len() {
            0 => return Err(NatsError::NoServer),
            many if many > SERVERS_MAX => return Err(NatsError::ManyServers(many)),
            _ => {}
        }
        if self.user.is_some() != self.password.is_some() {
            return Err(NatsError::HalfUser);
        }
        let ways = [
            ("user", self.user.is_some()),
            ("token", self.token.is_some()),
            ("nkey", self.nkey.is_some()),
            ("credentials", self.credentials.is_some()),
        ];
        let mut ways = ways.iter().filter(|(_, is_stated)| *is_stated);
        if let (Some((one, _)), Some((other, _))) = (ways.next(), ways.next()) {
            return Err(NatsError::TwoLogins(one, other));
        }
        // A seed is the prefix of a seed of a user, 32 bytes and a checksum, in base 32.
        let is_seed = |text: &str| {
            let is_sign = |it: u8| it.is_ascii_uppercase() || (b'2'..=b'7').contains(&it);
            text.len() == 58 && text.starts_with("SU") && text.bytes().all(is_sign)
        };
        if self.nkey.as_ref().is_some_and(|it| !is_seed(it.reveal())) {
            return Err(NatsError::Nkey);
        }
        if let Some(tls) = &self.tls
            && tls.certificate.is_some() != tls.key.is_some()
        {
            return Err(NatsError::HalfIdentity);
        }
        match self.replicas {
            Some(replicas) if !REPLICAS.contains(&replicas) => {
                return Err(NatsError::Replicas(replicas));
            }
            _ => {}
        }
        let is_base = |url: &Url| url.scheme() == "http" && url.host_str().is_some();
        match &self.monitoring {
            Some(url) if !is_base(url) => Err(NatsError::Monitoring),
            _ => Ok(self),
        }
    }
}

fn to_texts<S: Serializer>(servers: &[ServerUrl], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(servers.iter().map(ServerUrl::as_str))
}

fn to_text_or_null<S: Serializer>(url: &Option<Url>, to: S) -> Result<S::Ok, S::Error> {
    url.as_ref().map(glassline_url::shown).serialize(to)
}

/// The map of the section as it is written.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Map {
    #[serde(deserialize_with = "one_or_many")]
    servers: Vec<ServerUrl>,
    user: Option<String>,
    password: Option<Secret>,
    token: Option<Secret>,
    nkey: Option<Secret>,
    credentials: Option<PathBuf>,
    tls: Option<NatsTls>,
    replicas: Option<u8>,
    #[serde(deserialize_with = "url_or_null")]
    monitoring: Option<Url>,
}

impl<'de> Deserialize<'de> for Nats {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(NatsVisitor)
    }
}

struct NatsVisitor;

impl<'de> serde::de::Visitor<'de> for NatsVisitor {
    type Value = Nats;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(
            "an address like nats://192.0.2.1:4222, a list of them, or a map with `servers`",
        )
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Nats, E> {
        let servers = vec![text.parse().map_err(E::custom)?];
        of_map(Map {
            servers,
            ..Map::default()
        })
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut list: A) -> Result<Nats, A::Error> {
        let mut servers = Vec::new();
        while let Some(text) = list.next_element::<String>()? {
            servers.push(text.parse().map_err(A::Error::custom)?);
        }
        of_map(Map {
            servers,
            ..Map::default()
        })
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<Nats, A::Error> {
        of_map(Map::deserialize(
            serde::de::value::MapAccessDeserializer::new(map),
        )?)
    }
}

fn of_map<E: serde::de::Error>(map: Map) -> Result<Nats, E> {
    let nats = Nats {
        servers: map.servers,
        user: map.user,
        password: map.password,
        token: map.token,
        nkey: map.nkey,
        credentials: map.credentials,
        tls: map.tls,
        replicas: map.replicas,
        monitoring: map.monitoring,
    };
    nats.checked().map_err(E::custom)
}

/// Reads an address or a list of them.
fn one_or_many<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<ServerUrl>, D::Error> {
    #[derive(Deserialize)]
    #[serde(
        untagged,
        expecting = "an address of NATS is a URL like nats://192.0.2.4:4222, or a list of them"
    )]
    enum Addresses {
        One(String),
        Many(Vec<String>),
    }
    let texts = match Addresses::deserialize(from)? {
        Addresses::One(text) => vec![text],
        Addresses::Many(texts) => texts,
    };
    let servers = texts
        .iter()
        .map(|text| text.parse().map_err(D::Error::custom));
    servers.collect()
}

fn url_or_null<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Url>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    let url = text.map(|text| glassline_url::parse(&text));
    url.transpose()
        .map_err(|_| D::Error::custom(NatsError::Monitoring))
}

#[cfg(test)]
mod tests {
    use glassline_cluster::{NodeId, Region};

    use super::*;
    use crate::text::parse;

    const SEED: &str = "SUAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

    fn read(yaml: &str) -> Result<Nats, String> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct File {
            nats: Nats,
        }
        let file = parse::<File>(&format!("nats: {yaml}"), "test.yml");
        file.map(|it| it.nats).map_err(|error| error.to_string())
    }

    fn options(yaml: &str) -> Options {
        let node = NodeId::new("a").expect("a name");
        let region = Region::new("eu").expect("a name");
        read(yaml).expect(yaml).options(node, region)
    }

    #[test]
    fn an_address_a_list_and_a_map_say_the_same() {
        for yaml in [
            "nats://192.0.2.1",
            "['192.0.2.1:4222']",
            "{servers: 'nats://192.0.2.1:4222'}",
            "{servers: ['nats://192.0.2.1:4222']}",
        ] {
            let options = options(yaml);
            assert_eq!(options.servers.len(), 1, "{yaml}");
            assert_eq!(options.servers[0].as_str(), "nats://192.0.2.1:4222");
            assert_eq!(options.login, Login::Anonymous);
        }
    }

    #[test]
    fn logins_and_files_reach_the_engine() {
        let with = |more: &str| options(&format!("{{servers: 'tls://a', {more}}}"));
        let user = Login::User {
            name: "ann".to_owned(),
            password: "word".to_owned(),
        };
        assert_eq!(with("user: ann, password: word").login, user);
        assert_eq!(with("token: word").login, Login::Token("word".to_owned()));
        let nkey = with(&format!("nkey: {SEED}"));
        assert_eq!(nkey.login, Login::Nkey(SEED.to_owned()));
        let file = with("credentials: /etc/node.creds");
        assert_eq!(file.login, Login::Credentials("/etc/node.creds".into()));
        let tls = with("tls: {ca: ca.pem, certificate: c.pem, key: k.pem}").tls;
        let tls = tls.expect("it is stated");
        assert_eq!(tls.ca, Some("ca.pem".into()));
        assert_eq!(tls.identity, Some(("c.pem".into(), "k.pem".into())));
        let other = with("replicas: 3, monitoring: 'http://a:8222'");
        assert_eq!(other.replicas, Some(3));
        assert!(other.monitoring.is_some());
    }

    #[test]
    fn what_does_not_fit_together_says_what_to_write() {
        for (yaml, part) in [
            ("[]", "servers` is empty"),
            ("{user: ann}", "servers` is empty"),
            ("http://a", "nats:// or tls://"),
            ("nats://ann:s3cret@a", "as keys"),
            ("nats://ann:1/s3cret@a", "as %2F"),
            ("nats://ann:s3#cret@a", "as %2F"),
            ("{servers: a, user: ann}", "belong together"),
            ("{servers: a, token: b, nkey: c}", "two ways"),
            ("{servers: a, token: b, credentials: c}", "two ways"),
            ("{servers: a, nkey: s3cret}", "begins with SU"),
            ("{servers: a, tls: {certificate: b}}", "belong together"),
            ("{servers: a, replicas: 2}", "1, 3 or 5"),
            (
                "{servers: a, monitoring: 'nats://a'}",
                "http://192.0.2.1:8222",
            ),
            ("{servers: a, monitoring: x}", "http://192.0.2.1:8222"),
            ("{servers: a, tokn: b}", "did you mean 'token'?"),
            ("7", "an address like"),
        ] {
            let error = read(yaml).expect_err(yaml);
            assert!(error.starts_with("test.yml"), "{error}");
            assert!(error.contains(part), "{yaml}: {error}");
            assert!(!error.contains("s3cret"), "no secret in it: {error}");
        }
    }

    #[test]
    fn secrets_are_neither_written_nor_printed() {
        let yaml = "{servers: a, user: ann, password: s3cret}";
        let nats = read(yaml).expect("a good section");
        let node = NodeId::new("a").expect("a name");
        let region = Region::new("eu").expect("a name");
        let printed = [
            format!("{nats:?}"),
            serde_json::to_string(&nats).expect("plain data"),
            format!("{:?}", nats.options(node, region)),
        ];
        for text in printed {
            assert!(!text.contains("s3cret"), "{text}");
        }
    }
}
