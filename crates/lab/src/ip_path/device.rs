//! A network interface whose packets this program reads and writes: a TUN device of Linux.

#![expect(unsafe_code, reason = "TUNSETIFF has no safe interface in std")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;

/// Makes the interface called `name`, which goes when the file is closed. Each read returns a packet of IP,
/// or `WouldBlock`, and each write sends one.
///
/// # Errors
/// There is no `/dev/net/tun`, this program may not make interfaces, or the name is taken or too long.
pub(super) fn open(name: &str) -> io::Result<File> {
    // The kernel wants a zero behind the name.
    if name.len() >= libc::IFNAMSIZ {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("the name of an interface has at most 15 bytes, and '{name}' has more"),
        ));
    }
    let mut options = File::options();
    options.read(true).write(true);
    options.custom_flags(libc::O_NONBLOCK);
    let file = options.open("/dev/net/tun")?;
    let mut request = libc::ifreq {
        ifr_name: [0; libc::IFNAMSIZ],
        ifr_ifru: libc::__c_anonymous_ifr_ifru {
            ifru_flags: (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short,
        },
    };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from.cast_signed();
    }
    // SAFETY: the request is a whole `ifreq` with a flag field, as TUNSETIFF takes it; the kernel reads it
    // and writes the name back during the call only.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    match result {
        0 => Ok(file),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::open;

    #[test]
    fn a_name_that_is_too_long_is_refused() {
        let refused = open("a-name-of-16-byte").expect_err("one byte too many");
        assert_eq!(refused.kind(), std::io::ErrorKind::InvalidInput);
    }
}
