use std::io;
use std::net::IpAddr;

/// Returns the addresses of this machine's interfaces that are up, each once, in no order. Link-local
/// addresses of IPv6 are left out: they mean something only together with an interface.
pub fn interface_addresses() -> io::Result<Vec<IpAddr>> {
    let mut addresses = sys::addresses()?;
    addresses.retain(|address| match address {
        IpAddr::V4(_) => true,
        IpAddr::V6(address) => !address.is_unicast_link_local(),
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

    use std::io;
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
    use std::ptr;

    /// Calls `getifaddrs`.
    pub(super) fn addresses() -> io::Result<Vec<IpAddr>> {
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
                found.extend(address(entry.ifa_addr));
            }
            next = entry.ifa_next;
        }
        // SAFETY: the list came from `getifaddrs`, and nothing points into it any more.
        unsafe { libc::freeifaddrs(first) };
        Ok(found)
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
    use std::net::{IpAddr, Ipv4Addr};

    pub(super) fn addresses() -> io::Result<Vec<IpAddr>> {
        Ok(vec![Ipv4Addr::LOCALHOST.into()])
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
        assert!(
            addresses.contains(&Ipv4Addr::LOCALHOST.into()),
            "{addresses:?}"
        );
        let name = host_name().expect("it has one");
        assert!(name.len() < 256 && !name.contains('\0'), "{name}");
    }
}
