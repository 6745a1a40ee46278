//! The section `tls` of the configuration: which certificate the server shows.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::{Acme, AcmeName, Lan, PemFiles};

/// Where the certificate of HTTPS comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tls {
    /// From files of the operator.
    Files(PemFiles),
    /// From this server's own private authority.
    Lan(Lan),
    /// From an authority on the internet.
    Acme(Acme),
}

/// The certificate of HTTPS, which RTSPS and QUIC also use unless they have their own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Tls")]
pub struct TlsKeys {
    /// PEM file with the certificate chain.
    pub certificate: Option<PathBuf>,
    /// PEM file with the private key, without a passphrase.
    pub key: Option<PathBuf>,
    /// Certificate of this server's own private authority, for local networks; `tls: lan` for
    /// short.
    pub lan: Option<Lan>,
    /// Certificate that an authority like Let's Encrypt issues to this server.
    pub acme: Option<Acme>,
}

impl Tls {
    /// Returns the paths that are relative to the configuration file.
    pub fn paths_mut(&mut self) -> Vec<&mut PathBuf> {
        match self {
            Self::Files(files) => vec![&mut files.certificate, &mut files.key],
            Self::Lan(_) => Vec::new(),
            Self::Acme(acme) => acme.roots.iter_mut().collect(),
        }
    }
}

impl FromStr for Tls {
    type Err = String;

    /// Reads `lan`; or `acme:` and names with commas between them; or the paths of certificate and
    /// key with a comma between them.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "lan" {
            return Ok(Self::Lan(Lan::default()));
        }
        if let Some(names) = text.strip_prefix("acme:") {
            let names = names.split(',').map(str::parse::<AcmeName>);
            let names = names.collect::<Result<_, _>>();
            return Ok(Self::Acme(Acme {
                names: names.map_err(|error| error.to_string())?,
                ..Acme::default()
            }));
        }
        let named = text
            .split_once(',')
            .filter(|(certificate, key)| !certificate.is_empty() && !key.is_empty());
        let (certificate, key) =
            named.ok_or("write lan, acme:media.example, or two files: cert.pem,key.pem")?;
        Ok(Self::Files(PemFiles {
            certificate: certificate.into(),
            key: key.into(),
            section: "tls",
        }))
    }
}

impl TryFrom<TlsKeys> for Tls {
    type Error = String;

    fn try_from(keys: TlsKeys) -> Result<Self, String> {
        let files = PemFiles::of("tls", keys.certificate.as_ref(), keys.key.as_ref());
        let files = files.map_err(|error| error.to_string())?;
        match (files, keys.lan, keys.acme) {
            (Some(files), None, None) => Ok(Self::Files(files)),
            (None, Some(lan), None) => Ok(Self::Lan(lan)),
            (None, None, Some(acme)) => match acme.fault() {
                None => Ok(Self::Acme(acme)),
                Some(fault) => Err(fault.to_owned()),
            },
            (None, None, None) => Err(
                "names no certificate: write `tls: lan`, give the files `certificate` and `key`, \
                 or `acme` with the names of this server"
                    .to_owned(),
            ),
            _ => Err("names two certificates: give files, `lan` or `acme`".to_owned()),
        }
    }
}

impl From<&Tls> for TlsKeys {
    fn from(tls: &Tls) -> Self {
        match tls {
            Tls::Files(files) => Self {
                certificate: Some(files.certificate.clone()),
                key: Some(files.key.clone()),
                ..Self::default()
            },
            Tls::Lan(lan) => Self {
                lan: Some(lan.clone()),
                ..Self::default()
            },
            Tls::Acme(acme) => Self {
                acme: Some(acme.clone()),
                ..Self::default()
            },
        }
    }
}

impl Serialize for Tls {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        TlsKeys::from(self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Tls {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(TlsVisitor)
    }
}

struct TlsVisitor;

impl<'de> Visitor<'de> for TlsVisitor {
    type Value = Tls;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`lan`, the files `certificate` and `key`, or `acme` with names")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Tls, E> {
        match text {
            "lan" => Ok(Tls::Lan(Lan::default())),
            text => Err(E::custom(format_args!(
                "'{text}' is no certificate: write `lan`, the files as `certificate` and `key`, or `acme: {{names: [media.example]}}`"
            ))),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Tls, A::Error> {
        let keys = TlsKeys::deserialize(MapAccessDeserializer::new(map))?;
        Tls::try_from(keys).map_err(A::Error::custom)
    }
}
