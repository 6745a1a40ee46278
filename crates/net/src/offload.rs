use std::io;

/// Whether a network interface divides large UDP datagrams itself (`tx-udp-segmentation`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceOffload {
    /// Name of the interface.
    pub interface: String,
    /// State of the feature.
    pub segmentation: OffloadState,
}

/// State of a feature of a network interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffloadState {
    /// The interface uses the feature.
    On,
    /// The interface has the feature, but someone turned it off.
    Off,
    /// The interface or its driver has no such feature.
    Absent,
}

/// Returns the state of UDP segmentation of each interface that is up. No privilege is needed.
///
/// # Errors
/// Returns the system's error, or `Unsupported` where the system has no such call.
pub fn interface_offloads() -> io::Result<Vec<InterfaceOffload>> {
    sys::offloads()
}

#[cfg(target_os = "linux")]
mod sys {
    #![expect(unsafe_code, reason = "ioctl has no safe interface in std")]

    use std::ffi::{CStr, c_char};
    use std::io;
    use std::net::UdpSocket;
    use std::os::fd::{AsRawFd as _, RawFd};

    use super::{InterfaceOffload, OffloadState};

    /// Requests of `SIOCETHTOOL` (linux/ethtool.h).
    const GET_STRINGS: u32 = 0x1b;
    const GET_SET_INFO: u32 = 0x37;
    const GET_FEATURES: u32 = 0x3a;
    const SIOCETHTOOL: libc::c_ulong = 0x8946;
    /// The set of strings with the names of features (`ETH_SS_FEATURES`).
    const FEATURE_NAMES: u32 = 4;
    /// Length of each name in bytes (`ETH_GSTRING_LEN`).
    const NAME_BYTES: usize = 32;
    /// Most features that are read; Linux 6.18 has 64.
    const FEATURES_MAX: usize = 256;
    /// Name of UDP segmentation.
    const UDP_SEGMENTATION: &[u8] = b"tx-udp-segmentation";

    pub(super) fn offloads() -> io::Result<Vec<InterfaceOffload>> {
        let socket = UdpSocket::bind("127.0.0.1:0").or_else(|_| UdpSocket::bind("[::]:0"))?;
        let mut found = Vec::new();
        for interface in interfaces_up()? {
            // An interface that vanished meanwhile, or has no such request, is left out.
            if let Ok(segmentation) = segmentation(socket.as_raw_fd(), &interface) {
                found.push(InterfaceOffload {
                    interface,
                    segmentation,
                });
            }
        }
        Ok(found)
    }

    /// Returns the names of the interfaces that are up, each once.
    fn interfaces_up() -> io::Result<Vec<String>> {
        let mut first = std::ptr::null_mut();
        // SAFETY: the kernel writes one pointer, to a list that is freed below.
        if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let mut names = Vec::new();
        let mut next = first;
        while !next.is_null() {
            // SAFETY: `next` is an entry of the list, which is not freed yet.
            let entry = unsafe { &*next };
            if entry.ifa_flags & libc::IFF_UP as libc::c_uint != 0 {
                // SAFETY: the name ends with a zero, and lives as long as the list.
                let name = unsafe { CStr::from_ptr(entry.ifa_name) };
                names.push(name.to_string_lossy().into_owned());
            }
            next = entry.ifa_next;
        }
        // SAFETY: the list came from `getifaddrs`, and nothing points into it any more.
        unsafe { libc::freeifaddrs(first) };
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    fn segmentation(fd: RawFd, interface: &str) -> io::Result<OffloadState> {
        let features = feature_count(fd, interface)?.min(FEATURES_MAX);
        // struct ethtool_gstrings: cmd, string_set, len, and the names.
        let mut names = vec![0_u32; 3 + features * NAME_BYTES / 4];
        names[..3].copy_from_slice(&[GET_STRINGS, FEATURE_NAMES, number(features)]);
        request(fd, interface, &mut names)?;
        let bytes: Vec<u8> = names[3..]
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .collect();
        let mut all = bytes.chunks_exact(NAME_BYTES);
        let place = all.position(|name| {
            name.starts_with(UDP_SEGMENTATION) && name[UDP_SEGMENTATION.len()] == 0
        });
        let Some(place) = place else {
            return Ok(OffloadState::Absent);
        };
        // struct ethtool_gfeatures: cmd, size, and for each 32 features the words available,
        // requested, active and never_changed.
        let blocks = features.div_ceil(32);
        let mut states = vec![0_u32; 2 + 4 * blocks];
        states[..2].copy_from_slice(&[GET_FEATURES, number(blocks)]);
        request(fd, interface, &mut states)?;
        let block = &states[2 + 4 * (place / 32)..][..4];
        let has = |word: u32| word & (1 << (place % 32)) != 0;
        Ok(match (has(block[2]), has(block[0])) {
            (true, _) => OffloadState::On,
            (false, true) => OffloadState::Off,
            (false, false) => OffloadState::Absent,
        })
    }

    fn feature_count(fd: RawFd, interface: &str) -> io::Result<usize> {
        // struct ethtool_sset_info: cmd, reserved, a mask of 64 bits, and the number asked for.
        let mut info = [GET_SET_INFO, 0, 0, 0, 0];
        let mask = (1_u64 << FEATURE_NAMES).to_ne_bytes();
        for (word, bytes) in info[2..4].iter_mut().zip(mask.chunks_exact(4)) {
            *word = u32::from_ne_bytes(bytes.try_into().expect("four bytes"));
        }
        request(fd, interface, &mut info)?;
        Ok(usize::try_from(info[4]).unwrap_or(0))
    }

    /// Calls `ioctl` with a structure of words whose first one is the request.
    fn request(fd: RawFd, interface: &str, words: &mut [u32]) -> io::Result<()> {
        // SAFETY: an `ifreq` is numbers and a pointer, for which zeros are valid.
        let mut ifreq: libc::ifreq = unsafe { std::mem::zeroed() };
        if interface.len() >= ifreq.ifr_name.len() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        for (to, from) in ifreq.ifr_name.iter_mut().zip(interface.bytes()) {
            *to = from as c_char;
        }
        ifreq.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
        // SAFETY: the name ends with a zero, and `words` is as long as the request says, or longer.
        match unsafe { libc::ioctl(fd, SIOCETHTOOL as _, &raw mut ifreq) } {
            0.. => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn number(count: usize) -> u32 {
        u32::try_from(count).unwrap_or(u32::MAX)
    }
}

#[cfg(not(target_os = "linux"))]
mod sys {
    use std::io;

    use super::InterfaceOffload;

    pub(super) fn offloads() -> io::Result<Vec<InterfaceOffload>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_among_the_interfaces() {
        let offloads = interface_offloads().expect("reading needs no privilege");
        // A sandbox may refuse the request; then no interface is listed.
        if !offloads.is_empty() {
            assert!(
                offloads.iter().any(|it| it.interface == "lo"),
                "{offloads:?}"
            );
        }
    }
}
