//! The section `https` of the configuration.

use std::fmt;
use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::de::{Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use super::Config;

/// Port of HTTPS unless the configuration names another.
pub const HTTPS_PORT: u16 = 8443;

/// HTTPS: pages, WHEP, WHIP and the API within TLS, with the certificate of `tls`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Https {
    /// Where to listen: `IP:PORT`, or `off`. With `tls`, null takes port 8443 where plain HTTP
    /// listens.
    #[schemars(with = "Option<String>")]
    pub address: HttpsAddress,
}

/// Where HTTPS listens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HttpsAddress {
    /// At the IP address of plain HTTP, on port 8443, if there is a certificate.
    #[default]
    BesideHttp,
    /// HTTPS is turned off, even if there is a certificate.
    Off,
    /// At this address.
    At(SocketAddr),
}

impl Config {
    /// Returns the address of HTTPS; `None` if it is turned off.
    pub fn https_address(&self) -> Option<SocketAddr> {
        match self.https.address {
            HttpsAddress::BesideHttp if self.tls.is_some() => {
                Some(SocketAddr::new(self.http.address.ip(), HTTPS_PORT))
            }
            HttpsAddress::BesideHttp | HttpsAddress::Off => None,
            HttpsAddress::At(address) => Some(address),
        }
    }
}

impl Serialize for HttpsAddress {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::BesideHttp => to.serialize_none(),
            Self::Off => to.serialize_str("off"),
            Self::At(address) => to.collect_str(address),
        }
    }
}

impl<'de> Deserialize<'de> for HttpsAddress {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(AddressVisitor)
    }
}

struct AddressVisitor;

impl Visitor<'_> for AddressVisitor {
    type Value = HttpsAddress;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an address like 0.0.0.0:8443, `off`, or null")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<HttpsAddress, E> {
        Ok(HttpsAddress::BesideHttp)
    }

    fn visit_bool<E: serde::de::Error>(self, is_on: bool) -> Result<HttpsAddress, E> {
        // YAML 1.1 readers take `off` for false.
        match is_on {
            false => Ok(HttpsAddress::Off),
            true => Err(E::invalid_type(serde::de::Unexpected::Bool(is_on), &self)),
        }
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<HttpsAddress, E> {
        match text {
            "off" => Ok(HttpsAddress::Off),
            text => text.parse().map(HttpsAddress::At).map_err(|_| {
                E::custom(format_args!(
                    "'{text}' is no address: write one like 0.0.0.0:8443, `off`, or null"
                ))
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(yaml: &str) -> Option<String> {
        let config = Config::from_yaml(yaml, "test.yml").expect(yaml);
        Some(config.https_address()?.to_string())
    }

    #[test]
    fn https_is_beside_http_as_soon_as_there_is_a_certificate() {
        let tls = "tls: {certificate: a.pem, key: b.pem}\n";
        let with = |https: &str| address(&format!("{tls}{https}"));
        assert_eq!(address("https: {address: null}"), None);
        assert_eq!(with("").as_deref(), Some("127.0.0.1:8443"));
        let everywhere = with("http: {address: '0.0.0.0:80'}");
        assert_eq!(everywhere.as_deref(), Some("0.0.0.0:8443"));
        assert_eq!(with("https: {address: off}"), None);
        let chosen = with("https: {address: '[::]:443'}");
        assert_eq!(chosen.as_deref(), Some("[::]:443"));
    }

    #[test]
    fn each_form_is_written_as_it_is_read() {
        for text in ["null", "off", "192.0.2.1:443"] {
            let yaml = format!("https:\n  address: {text}\n");
            let config = Config::from_yaml(&yaml, "test.yml").expect("a good file");
            let again = Config::from_yaml(&config.to_yaml(), "again.yml").expect("its own");
            assert_eq!(config, again, "{text}");
        }
    }

    #[test]
    fn names_for_an_authority_are_read_checked_and_count_as_the_servers_own() {
        let acme = |keys: &str| {
            let yaml = format!("tls:\n  acme: {{{keys}}}\n");
            Config::from_yaml(&yaml, "test.yml").map_err(|error| error.to_string())
        };
        let names = "names: [Media.example, 203.0.113.7]";
        let config = acme(&format!("{names}, challenge: tls-alpn-01")).expect("good names");
        let again = Config::from_yaml(&config.to_yaml(), "again.yml").expect("its own");
        assert_eq!(config, again);
        let local = "192.0.2.9:8443".parse().expect("an address");
        assert!(config.sites().is_own_host("media.example", local));
        assert!(!config.sites().is_own_host("other.example", local));
        for (keys, part) in [
            ("names: []", "tls.acme.names is empty"),
            ("names: ['*.example']", "each name"),
            ("names: [media.example], directory: 'http://a/'", "https://"),
            ("names: [media.example], challenge: dns-01", "http-01"),
        ] {
            let error = acme(keys).expect_err(keys);
            assert!(error.contains(part), "{keys}: {error}");
        }
        let both = "tls: {lan: {}, acme: {names: [media.example]}}";
        let error = Config::from_yaml(both, "test.yml").expect_err("two certificates");
        assert!(error.to_string().contains("two certificates"), "{error}");
    }

    #[test]
    fn errors_show_an_example_and_the_missing_key() {
        let error = |yaml: &str| {
            let error = Config::from_yaml(yaml, "test.yml").expect_err(yaml);
            error.to_string()
        };
        let shown = error("https:\n  address: localhost\n");
        assert!(shown.starts_with("test.yml:2:"), "{shown}");
        assert!(shown.contains("0.0.0.0:8443"), "{shown}");
        let shown = error("http: {}\ntls:\n  certificate: a.pem\n");
        assert!(shown.starts_with("test.yml:"), "{shown}");
        assert!(shown.contains("tls.key is missing"), "{shown}");
        let shown = error("tls:\n  certificat: a.pem\n");
        assert!(shown.contains("did you mean 'certificate'?"), "{shown}");
        let shown = error("tls: {}\n");
        assert!(shown.contains("names no certificate"), "{shown}");
    }
}
