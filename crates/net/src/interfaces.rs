use std::io;
use std::net::IpAddr;

/// An address of a network interface.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InterfaceAddress {
    /// Name of the interface, like `eth0`.
    pub interface: String,
    /// IP address of the interface.
    pub ip: IpAddr,
}

/// Returns the addresses of this machine's interfaces that are up, each once, in the order of
/// interfaces' names. Link-local addresses of IPv6 are left out: they mean something only together
/// with an interface.
///
/// # Errors
/// Returns the system's error if it does not tell.
pub fn interface_addresses() -> io::Result<Vec<InterfaceAddress>> {
    let mut addresses = sys::addresses()?;
    addresses.retain(|address| match address.ip {
        IpAddr::V4(_) => true,
        IpAddr::V6(ip) => !ip.is_unicast_link_local(),
    });
    addresses.sort_unstable();
    addresses.dedup();
    Ok(addresses)
}

/// Returns the name of this machine, which may have a domain behind it; `None` if it has none, or
/// one that is not text.
pub fn host_name() -> Option<String> {
    sys::host_name()
}

#[cfg(unix)]
mod sys {
    #![expect(
        unsafe_code,
        reason = "getifaddrs and gethostname have no safe interface in std"
    )]

    use std::ffi::CStr;
    use std::io;
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
    use std::ptr;

    use super::InterfaceAddress;

    /// Calls `getifaddrs`.
    pub(super) fn addresses() -> io::Result<Vec<InterfaceAddress>> {
        let mut first = ptr::null_mut();
        // SAFETY: the kernel writes one pointer, to a list that is freed below.
        if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let mut found = Vec::new();
        let mut next = first;
        while !next.is_null() {
            // SAFETY: `next` is an entry of the list, which is not freed yet.
            let entry = unsafe { &*next };
            if entry.ifa_flags & libc::IFF_UP as libc::c_uint != 0 {
                found.extend(address(entry.ifa_addr).map(|ip| InterfaceAddress {
                    interface: name(entry.ifa_name),
                    ip,
                }));
            }
            next = entry.ifa_next;
        }
        // SAFETY: the list came from `getifaddrs`, and nothing points into it any more.
        unsafe { libc::freeifaddrs(first) };
        Ok(found)
    }

    /// Returns an interface's name; an empty one for none.
    fn name(name: *const libc::c_char) -> String {
        if name.is_null() {
            return String::new();
        }
        // SAFETY: the list is not freed yet, and its names end with a zero.
        let name = unsafe { CStr::from_ptr(name) };
        name.to_string_lossy().into_owned()
    }

    /// Returns an IP address; `None` for none, or one of another family.
    fn address(address: *const libc::sockaddr) -> Option<IpAddr> {
        if address.is_null() {
            return None;
        }
        // SAFETY: every socket address begins with its family.
        let family = i32::from(unsafe { (*address).sa_family });
        match family {
            libc::AF_INET => {
                let address = address.cast::<libc::sockaddr_in>();
                // SAFETY: the family says what follows it. The entry may lie at any address.
                let address = unsafe { ptr::read_unaligned(address) };
                let bits = u32::from_be(address.sin_addr.s_addr);
                Some(Ipv4Addr::from_bits(bits).into())
            }
            libc::AF_INET6 => {
                let address = address.cast::<libc::sockaddr_in6>();
                // SAFETY: as above.
                let address = unsafe { ptr::read_unaligned(address) };
                Some(Ipv6Addr::from(address.sin6_addr.s6_addr).into())
            }
            _ => None,
        }
    }

    /// Calls `gethostname`.
    pub(super) fn host_name() -> Option<String> {
        // POSIX limits a name to 255 bytes; a longer one would be cut without a zero behind it.
        let mut name = [0_u8; 256];
        // SAFETY: the kernel writes at most as many bytes as there are.
        let result = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len()) };
        if result != 0 {
            return None;
        }
        let end = name.iter().position(|byte| *byte == 0)?;
        let name = std::str::from_utf8(name.get(..end)?).ok()?;
        (!name.is_empty()).then(|| name.to_owned())
    }
}

#[cfg(not(unix))]
mod sys {
    use std::io;
    use std::net::Ipv4Addr;

    use super::InterfaceAddress;

    pub(super) fn addresses() -> io::Result<Vec<InterfaceAddress>> {
        Ok(vec![InterfaceAddress {
            interface: String::new(),
            ip: Ipv4Addr::LOCALHOST.into(),
        }])
    }

    pub(super) fn host_name() -> Option<String> {
        std::env::var("COMPUTERNAME").ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn this_machine_has_a_loopback_address_and_a_name() {
        let addresses = interface_addresses().expect("the system tells");
        let loopback = addresses
            .iter()
            .find(|address| address.ip == Ipv4Addr::LOCALHOST);
        let loopback = loopback.unwrap_or_else(|| panic!("{addresses:?}"));
        assert_eq!(loopback.interface.is_empty(), cfg!(not(unix)));
        let name = host_name().expect("it has one");
        assert!(name.len() < 256 && !name.contains('\0'), "{name}");
    }
}
