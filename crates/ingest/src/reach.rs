//! The addresses that the server may dial for a source.
//!
//! A camera of the operator's file is dialled wherever it is. One that came over the API was named by
//! a caller, who must not use the server to reach what the caller cannot: services of this machine, at
//! whichever of its addresses,
//! and addresses at which clouds answer with credentials. A name is resolved once for each
//! connection, and the address that was checked is the one that is dialled, so that a name server
//! cannot answer differently the second time (DNS rebinding).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use glassline_runtime as runtime;

/// The addresses that may be dialled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// All addresses: the operator named the source.
    #[default]
    Anywhere,
    /// Addresses within these limits.
    Within(AddressLimits),
}

/// Limits of the addresses that a caller of the API may name. Link-local addresses, metadata services
/// and addresses of no single host are never allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressLimits {
    /// Whether addresses of private networks are allowed.
    pub private: bool,
    /// Whether addresses of this machine are allowed.
    pub loopback: bool,
}

/// The purpose of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    Public,
    Private,
    Loopback,
    /// Never dialled, with the reason.
    Never(&'static str),
}

/// IPv4 addresses outside of link-local networks at which clouds answer their machines: Azure,
/// Alibaba Cloud, Oracle Cloud.
const METADATA_V4: [Ipv4Addr; 3] = [
    Ipv4Addr::new(168, 63, 129, 16),
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(192, 0, 0, 192),
];

/// Port that an address is looked at with (RFC 863). Nothing is sent there.
const DISCARD: u16 = 9;

/// The metadata service of AWS over IPv6.
const METADATA_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);

impl Reach {
    /// Resolves `host`, and returns those of its addresses that may be dialled.
    ///
    /// # Errors
    /// Returns an error if the host has no address, or none that may be dialled
    /// ([`io::ErrorKind::PermissionDenied`]).
    pub async fn resolve(self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let found = runtime::resolve(host, port).await?;
        let Self::Within(limits) = self else {
            return Ok(found);
        };
        let mut refused = None;
        let mut allowed = Vec::new();
        for address in found {
            match limits.check(address.ip()) {
                Ok(()) => allowed.push(address),
                Err(refusal) => refused = Some(refusal),
            }
        }
        match refused {
            Some(refusal) if allowed.is_empty() => {
                Err(io::Error::new(io::ErrorKind::PermissionDenied, refusal))
            }
            _ => Ok(allowed),
        }
    }

    /// Returns whether datagrams may go to an address.
    pub fn allows(self, ip: IpAddr) -> bool {
        match self {
            Self::Anywhere => true,
            Self::Within(limits) => limits.check(ip).is_ok(),
        }
    }
}

impl AddressLimits {
    /// Checks an address.
    ///
    /// # Errors
    /// Returns why the address must not be dialled.
    pub fn check(self, ip: IpAddr) -> Result<(), String> {
        self.judge(ip, is_of_this_machine)
    }

    fn judge(self, ip: IpAddr, is_own: impl Fn(IpAddr) -> bool) -> Result<(), String> {
        let why = match scope_here(ip, is_own) {
            Scope::Public => return Ok(()),
            Scope::Private if self.private => return Ok(()),
            Scope::Loopback if self.loopback => return Ok(()),
            Scope::Private => {
                "belongs to a private network, which `admin.sources.private` does not allow"
            }
            Scope::Loopback => "is this machine, which `admin.sources.loopback` does not allow",
            Scope::Never(why) => why,
        };
        Err(format!(
            "{ip} {why}; sources of the configuration may have any address"
        ))
    }
}

/// Sorts an address as [`scope`] does, where those of this machine's interfaces are this machine.
fn scope_here(ip: IpAddr, is_own: impl Fn(IpAddr) -> bool) -> Scope {
    let within = match ip {
        IpAddr::V6(ip) => embedded(ip).map(IpAddr::V4),
        IpAddr::V4(_) => None,
    };
    match scope(ip) {
        Scope::Public | Scope::Private if is_own(ip) || within.is_some_and(&is_own) => {
            Scope::Loopback
        }
        scope => scope,
    }
}

/// Returns whether an address is one of this machine: an interface has it, or the system takes it as
/// its own, so that packets to it come from it. Nothing is sent.
fn is_of_this_machine(ip: IpAddr) -> bool {
    // Without a list of interfaces, the system's own choice is left.
    let interfaces = glassline_net::interface_addresses().unwrap_or_default();
    let is_chosen = || {
        let unspecified: IpAddr = match ip {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((unspecified, 0)).ok()?;
        // Connecting a UDP socket chooses an address, and sends no datagram (RFC 768 has no handshake).
        socket.connect((ip, DISCARD)).ok()?;
        socket.local_addr().ok()
    };
    interfaces.iter().any(|it| it.ip == ip) || is_chosen().is_some_and(|own| own.ip() == ip)
}

fn scope(ip: IpAddr) -> Scope {
    match ip {
        IpAddr::V4(ip) => scope_v4(ip),
        IpAddr::V6(ip) => scope_v6(ip),
    }
}

/// Sorts an IPv4 address by the registry of special addresses (RFC 6890).
fn scope_v4(ip: Ipv4Addr) -> Scope {
    if METADATA_V4.contains(&ip) || ip == Ipv4Addr::new(169, 254, 169, 254) {
        return Scope::Never("is a metadata service of a cloud");
    }
    match ip.octets() {
        [0, ..] => Scope::Never("means this network, and no host"),
        [127, ..] => Scope::Loopback,
        [169, 254, ..] => Scope::Never("is link-local"),
        [10, ..] | [192, 168, ..] => Scope::Private,
        [172, second, ..] if (16..32).contains(&second) => Scope::Private,
        // Shared by customers of one provider (RFC 6598), and for measurements (RFC 2544).
        [100, second, ..] if (64..128).contains(&second) => Scope::Private,
        [198, 18 | 19, ..] => Scope::Private,
        [192, 0, 0, _] => Scope::Never("belongs to protocols of the IETF"),
        [224..=239, ..] => Scope::Never("is a multicast group"),
        [240..=255, ..] => Scope::Never("is reserved"),
        _ => Scope::Public,
    }
}

fn scope_v6(ip: Ipv6Addr) -> Scope {
    if let Some(within) = embedded(ip) {
        return scope_v4(within);
    }
    if ip == METADATA_V6 {
        return Scope::Never("is a metadata service of a cloud");
    }
    match ip.segments() {
        [0, 0, 0, 0, 0, 0, 0, 1] => Scope::Loopback,
        [0, 0, 0, 0, 0, 0, 0, 0] => Scope::Never("means no host"),
        [first, ..] if first & 0xffc0 == 0xfe80 => Scope::Never("is link-local"),
        [first, ..] if first & 0xffc0 == 0xfec0 => Scope::Never("is site-local"),
        [first, ..] if first & 0xff00 == 0xff00 => Scope::Never("is a multicast group"),
        [first, ..] if first & 0xfe00 == 0xfc00 => Scope::Private,
        // Where the IPv4 address is within them depends on the network (RFC 8215).
        [0x64, 0xff9b, 1, ..] => Scope::Never("stands for an IPv4 address that cannot be told"),
        _ => Scope::Public,
    }
}

/// Returns the IPv4 address that an IPv6 address stands for: mapped (RFC 4291 §2.5.5.2), compatible
/// (§2.5.5.1), translated (RFC 2765 §2.1), translated by NAT64 (RFC 6052 §2.1), 6to4 (RFC 3056 §2),
/// Teredo, whose client's address is inverted (RFC 4380 §4), or ISATAP (RFC 5214 §6.1).
fn embedded(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let of = |high: u16, low: u16| {
        let [[a, b], [c, d]] = [high.to_be_bytes(), low.to_be_bytes()];
        Ipv4Addr::new(a, b, c, d)
    };
    match ip.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0, 0, 0, 0, 0xffff, 0, high, low] => {
            Some(of(high, low))
        }
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 || low > 1 => Some(of(high, low)),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(of(high, low)),
        [0x2002, high, low, ..] => Some(of(high, low)),
        [0x2001, 0, .., high, low] => Some(of(!high, !low)),
        // An address that never leaves its link is judged by that.
        [first, .., 0 | 0x200, 0x5efe, high, low] if first & 0xffc0 != 0xfe80 => {
            Some(of(high, low))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, proptest};

    use super::*;

    const ALL: AddressLimits = AddressLimits {
        private: true,
        loopback: true,
    };
    const PUBLIC: AddressLimits = AddressLimits {
        private: false,
        loopback: false,
    };

    fn ip(text: &str) -> IpAddr {
        text.parse().expect(text)
    }

    #[test]
    fn link_local_metadata_and_no_hosts_are_never_dialled_in_any_disguise() {
        let never = [
            "169.254.169.254",
            "169.254.1.1",
            "0.0.0.0",
            "0.1.2.3",
            "100.100.100.200",
            "168.63.129.16",
            "192.0.0.192",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
            "fd00:ec2::254",
            "::ffff:169.254.169.254",
            "::169.254.169.254",
            "64:ff9b::169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::a9fe:a9fe",
            "2002:a9fe:a9fe::1",
            "2001:0:a9fe:a9fe::1",
            "::ffff:0.0.0.0",
        ];
        for text in never {
            let refusal = ALL.judge(ip(text), |_| false).expect_err(text);
            assert!(refusal.starts_with(&ip(text).to_string()), "{refusal}");
        }
    }

    #[test]
    fn this_machine_and_private_networks_are_as_configured() {
        let machine = [
            "127.0.0.1",
            "127.9.9.9",
            "::1",
            "::ffff:127.0.0.1",
            "64:ff9b::7f00:1",
            "::ffff:0:127.0.0.1",
            "2002:7f00:1::",
            "2001:0:808:808::80ff:fffe",
            "2606:4700::5efe:7f00:1",
        ];
        let private = [
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.20",
            "100.64.0.1",
            "fc00::1",
            "fd12::1",
            "::ffff:10.0.0.1",
            "2002:c0a8:101::1",
            "::ffff:0:10.0.0.1",
            "2001:0:808:808::f5ff:fffe",
            "2606:4700::200:5efe:a00:1",
        ];
        let only = |private, loopback| AddressLimits { private, loopback };
        for text in machine {
            assert!(
                only(false, true).judge(ip(text), |_| false).is_ok(),
                "{text}"
            );
            let refusal = only(true, false)
                .judge(ip(text), |_| false)
                .expect_err(text);
            assert!(refusal.contains("admin.sources.loopback"), "{refusal}");
        }
        for text in private {
            assert!(
                only(true, false).judge(ip(text), |_| false).is_ok(),
                "{text}"
            );
            let refusal = only(false, true)
                .judge(ip(text), |_| false)
                .expect_err(text);
            assert!(refusal.contains("admin.sources.private"), "{refusal}");
        }
        for text in [
            "8.8.8.8",
            "172.32.0.1",
            "100.128.0.1",
            "2606:4700::1111",
            "64:ff9b::808:808",
        ] {
            assert!(PUBLIC.judge(ip(text), |_| false).is_ok(), "{text}");
        }
    }

    #[test]
    fn addresses_of_interfaces_are_this_machine_in_any_disguise() {
        let own = ip("203.0.113.7");
        let is_own = |it| it == own || it == ip("fd00::2");
        let outside = AddressLimits {
            private: true,
            loopback: false,
        };
        for text in [
            "203.0.113.7",
            "fd00::2",
            "::ffff:203.0.113.7",
            "64:ff9b::203.0.113.7",
            "2002:cb00:7107::1",
        ] {
            let refusal = outside.judge(ip(text), is_own).expect_err(text);
            assert!(refusal.contains("admin.sources.loopback"), "{refusal}");
            assert!(ALL.judge(ip(text), is_own).is_ok(), "{text}");
        }
        assert!(outside.judge(ip("203.0.113.8"), is_own).is_ok());
        for of_interface in glassline_net::interface_addresses().expect("a list") {
            assert!(is_of_this_machine(of_interface.ip), "{of_interface:?}");
            let refused = outside.check(of_interface.ip);
            assert!(refused.is_err(), "{of_interface:?}");
        }
        assert!(!is_of_this_machine(ip("8.8.8.8")));
    }

    #[tokio::test]
    async fn a_name_leads_only_to_addresses_that_are_allowed() {
        let within = |limits| Reach::Within(limits);
        let found = within(ALL)
            .resolve("localhost", 554)
            .await
            .expect("this machine");
        assert!(!found.is_empty() && found.iter().all(|it| it.ip().is_loopback()));
        let refused = within(PUBLIC)
            .resolve("localhost", 554)
            .await
            .expect_err("refused");
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        let anywhere = Reach::Anywhere.resolve("169.254.169.254", 554).await;
        assert_eq!(anywhere.expect("the operator's").len(), 1);
    }

    proptest! {
        /// An IPv4 address is judged alike in every form that leads to it.
        #[test]
        fn every_form_of_an_address_is_judged_alike(bits in any::<u32>(), private: bool, loopback: bool) {
            let limits = AddressLimits { private, loopback };
            let v4 = Ipv4Addr::from_bits(bits);
            let plain = limits.judge(v4.into(), |_| false).is_ok();
            let [a, b, c, d] = v4.octets().map(u16::from);
            let (high, low) = (a << 8 | b, c << 8 | d);
            let forms = [
                v4.to_ipv6_mapped(),
                Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
                Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1),
                Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, high, low),
                Ipv6Addr::new(0x2001, 0, 8, 8, 0, 0, !high, !low),
            ];
            for form in forms {
                assert_eq!(limits.judge(form.into(), |_| false).is_ok(), plain, "{form}");
            }
        }
    }
}
