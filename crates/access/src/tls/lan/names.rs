//! The names by which clients in the local network reach this machine.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rcgen::{CidrSubnet, GeneralSubtree, NameConstraints, SanType};
use serde::{Deserialize, Serialize};

/// Ends of names that the private authority may vouch for: nobody can register such names for the
/// public (RFC 6761, RFC 6762, RFC 8375, ICANN's reservation of 2024), or routers hand them out.
const PRIVATE_SUFFIXES: [&str; 8] = [
    "localhost",
    "local",
    "home.arpa",
    "internal",
    "lan",
    "home",
    "corp",
    "localdomain",
];

/// Networks of IPv4 that the authority may vouch for: RFC 1918, loopback, link-local (RFC 3927), and
/// addresses shared within a provider's network (RFC 6598).
const PRIVATE_V4: [(Ipv4Addr, u8); 6] = [
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
];

/// Networks of IPv6 that the authority may vouch for: unique local addresses (RFC 4193), loopback.
const PRIVATE_V6: [(Ipv6Addr, u8); 2] = [
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7),
    (Ipv6Addr::LOCALHOST, 128),
];

/// Addresses and host names, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LanNames {
    /// Addresses of this machine.
    pub addresses: BTreeSet<IpAddr>,
    /// Host names in lower case.
    pub hosts: BTreeSet<String>,
}

impl LanNames {
    /// Returns the names of this machine as the system tells them now, and those that the operator
    /// added.
    pub(super) fn of_machine(added: &[String]) -> Self {
        let mut names = Self::default();
        names.addresses.extend([
            IpAddr::from(Ipv4Addr::LOCALHOST),
            Ipv6Addr::LOCALHOST.into(),
        ]);
        names.hosts.insert("localhost".to_owned());
        // Without the system's answer, the names above and those of the operator remain.
        let found = glassline_net::interface_addresses().unwrap_or_default();
        names.addresses.extend(found.into_iter().map(|it| it.ip));
        if let Some(host) = glassline_net::host_name() {
            names.add_host_name(&host);
        }
        for name in added {
            names.add(name);
        }
        names
    }

    /// Adds the machine's own name, and the one by which multicast DNS knows the machine (RFC 6762).
    fn add_host_name(&mut self, host: &str) {
        self.add(host);
        let label = host.split('.').next().unwrap_or_default();
        self.add(label);
        self.add(&format!("{label}.local"));
    }

    /// Adds an address or a host name.
    fn add(&mut self, name: &str) {
        match name.trim_matches(['[', ']']).parse::<IpAddr>() {
            Ok(address) => {
                self.addresses.insert(address.to_canonical());
            }
            Err(_) if is_host_name(name) => {
                self.hosts.insert(name.to_ascii_lowercase());
            }
            Err(_) => {}
        }
    }

    /// Divides the names: those that an authority for this machine, whose own name is `host`, may
    /// vouch for, and the others.
    pub(super) fn split(self, host: Option<&str>) -> (Self, Self) {
        let (mut private, mut others) = (Self::default(), Self::default());
        for address in self.addresses {
            let to = if is_private(address) {
                &mut private
            } else {
                &mut others
            };
            to.addresses.insert(address);
        }
        for name in self.hosts {
            let is_own = host.is_some_and(|host| has_suffix(&name, host));
            let is_private = is_own || PRIVATE_SUFFIXES.iter().any(|it| has_suffix(&name, it));
            let to = if is_private {
                &mut private
            } else {
                &mut others
            };
            to.hosts.insert(name);
        }
        (private, others)
    }

    /// Returns an address or a name that other machines of the network can use, the simplest first.
    pub fn reachable_host(&self) -> Option<String> {
        let is_elsewhere = |it: &&IpAddr| !it.is_loopback();
        let mut addresses = self.addresses.iter().filter(is_elsewhere);
        let v4 = addresses.clone().find(|it| it.is_ipv4());
        let address = v4.or_else(|| addresses.next()).map(|it| match it {
            IpAddr::V4(it) => it.to_string(),
            IpAddr::V6(it) => format!("[{it}]"),
        });
        let name = || self.hosts.iter().find(|it| it.ends_with(".local")).cloned();
        address.or_else(name)
    }

    /// Returns all names as text.
    pub fn to_texts(&self) -> Vec<String> {
        let addresses = self.addresses.iter().map(ToString::to_string);
        addresses.chain(self.hosts.iter().cloned()).collect()
    }

    /// Returns the names as a certificate has them.
    pub(super) fn subject_names(&self) -> Vec<SanType> {
        let addresses = self.addresses.iter().copied().map(SanType::IpAddress);
        let hosts = self.hosts.iter().filter_map(|host| {
            let host = host.as_str().try_into().ok()?;
            Some(SanType::DnsName(host))
        });
        addresses.chain(hosts).collect()
    }
}

/// Returns the names that an authority of the machine called `host` is limited to (RFC 5280
/// §4.2.1.10). A thief of its key can pretend to be a machine of a private network, and no web site.
pub(super) fn constraints(host: Option<&str>) -> NameConstraints {
    let hosts = PRIVATE_SUFFIXES.iter().copied().chain(host);
    let hosts = hosts.map(|host| GeneralSubtree::DnsName(host.to_owned()));
    let v4 = PRIVATE_V4
        .iter()
        .map(|(network, bits)| (IpAddr::V4(*network), *bits));
    let v6 = PRIVATE_V6
        .iter()
        .map(|(network, bits)| (IpAddr::V6(*network), *bits));
    let networks = v4.chain(v6).map(|(network, bits)| {
        GeneralSubtree::IpAddress(CidrSubnet::from_addr_prefix(network, bits))
    });
    NameConstraints {
        permitted_subtrees: hosts.chain(networks).collect(),
        excluded_subtrees: Vec::new(),
    }
}

/// Returns the first label of this machine's name in lower case; `None` if there is no usable one.
pub(super) fn machine_label() -> Option<String> {
    let host = glassline_net::host_name()?;
    let label = host.split('.').next()?.to_ascii_lowercase();
    (is_host_name(&label) && label != "localhost").then_some(label)
}

fn is_private(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => PRIVATE_V4.iter().any(|(network, bits)| {
            let shift = 32 - u32::from(*bits);
            address.to_bits() >> shift == network.to_bits() >> shift
        }),
        IpAddr::V6(address) => PRIVATE_V6.iter().any(|(network, bits)| {
            let shift = 128 - u32::from(*bits);
            address.to_bits() >> shift == network.to_bits() >> shift
        }),
    }
}

/// Returns whether `name` is `suffix`, or a name below it. Both are in lower case.
fn has_suffix(name: &str, suffix: &str) -> bool {
    name.strip_suffix(suffix)
        .is_some_and(|head| head.is_empty() || head.ends_with('.'))
}

pub(in crate::tls) fn is_host_name(name: &str) -> bool {
    let is_label = |label: &str| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        (1..=63).contains(&label.len()) && label.chars().all(allowed)
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(texts: &[&str]) -> LanNames {
        let mut names = LanNames::default();
        for text in texts {
            names.add(text);
        }
        names
    }

    #[test]
    fn an_authority_vouches_for_private_names_only() {
        let all = names(&[
            "192.168.1.5",
            "172.31.0.1",
            "172.32.0.1",
            "10.1.2.3",
            "100.64.0.9",
            "203.0.113.9",
            "fd00::1",
            "2001:db8::1",
            "::1",
            "mycam",
            "mycam.local",
            "other",
            "media.example",
            "evil-local",
            "cam.LAN",
            "a b",
            "",
        ]);
        let (private, others) = all.split(Some("mycam"));
        assert_eq!(
            private.to_texts(),
            [
                "10.1.2.3",
                "100.64.0.9",
                "172.31.0.1",
                "192.168.1.5",
                "::1",
                "fd00::1",
                "cam.lan",
                "mycam",
                "mycam.local"
            ]
        );
        assert_eq!(
            others.to_texts(),
            [
                "172.32.0.1",
                "203.0.113.9",
                "2001:db8::1",
                "evil-local",
                "media.example",
                "other"
            ]
        );
    }

    #[test]
    fn a_machine_is_known_by_its_name_with_and_without_domain() {
        let mut names = LanNames::default();
        names.add_host_name("MyCam.office.example");
        let hosts: Vec<_> = names.hosts.iter().map(String::as_str).collect();
        assert_eq!(hosts, ["mycam", "mycam.local", "mycam.office.example"]);
        let here = LanNames::of_machine(&["cam.lan".to_owned(), "[fd00::7]".to_owned()]);
        assert!(here.hosts.contains("localhost") && here.hosts.contains("cam.lan"));
        assert!(
            here.addresses
                .contains(&"fd00::7".parse().expect("an address"))
        );
        assert!(here.addresses.contains(&Ipv4Addr::LOCALHOST.into()));
    }
}
