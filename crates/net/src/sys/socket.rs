//! Opens and binds sockets, and sets their options.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use super::name::{Name, socklen};
use super::result::{check, usize_of};
use crate::options::{Multicast, Options};

/// Opens a non-blocking socket, sets its options and binds it.
pub(crate) fn bind(address: SocketAddr, options: &Options) -> io::Result<UdpSocket> {
    let family = match address {
        SocketAddr::V4(_) => libc::AF_INET,
        SocketAddr::V6(_) => libc::AF_INET6,
    };
    let kind = libc::SOCK_DGRAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: takes three integers.
    let fd = check(unsafe { libc::socket(family, kind, 0) })?;
    // SAFETY: `fd` was just opened and nobody else owns it.
    let socket = UdpSocket::from(unsafe { OwnedFd::from_raw_fd(fd) });
    if options.reuse_port {
        set(fd, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)?;
    }
    if options.this_machine_only {
        keep_to_loopback(fd)?;
    }
    if options.receive_timestamps {
        set(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
    }
    if options.coalescing {
        set(fd, libc::SOL_UDP, libc::UDP_GRO, 1)?;
    }
    if address.is_ipv6() {
        set(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 0)?;
    }
    if options.path_errors {
        // An IPv6 socket may serve IPv4 too, whose errors have an option of their own.
        if address.is_ipv6() {
            set(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1)?;
        }
        set(fd, libc::IPPROTO_IP, libc::IP_RECVERR, 1)?;
    }
    if address.ip().is_unspecified() {
        match family {
            libc::AF_INET => set(fd, libc::IPPROTO_IP, libc::IP_PKTINFO, 1)?,
            _ => set(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)?,
        }
    }
    for (bytes, force, name) in [
        (
            options.receive_buffer,
            libc::SO_RCVBUFFORCE,
            libc::SO_RCVBUF,
        ),
        (options.send_buffer, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF),
    ] {
        if let Some(bytes) = bytes {
            let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX / 2);
            // Beyond the system's limit only with CAP_NET_ADMIN; otherwise up to the limit.
            set(fd, libc::SOL_SOCKET, force, bytes)
                .or_else(|_| set(fd, libc::SOL_SOCKET, name, bytes))?;
        }
    }
    if let Some(multicast) = &options.multicast {
        set_multicast(fd, multicast)?;
    }
    let (name, len) = Name::new(address, false);
    // SAFETY: `name` lives across the call and `len` is the size of the variant
    // it holds.
    check(unsafe { libc::bind(fd, (&raw const name).cast(), len) })?;
    Ok(socket)
}

/// Lets only datagrams through that came by the loopback interface, as all do that this machine sends
/// to an address of its own. `SO_BINDTODEVICE` would let those to 127.0.0.1 through only, because the
/// kernel counts the others for the interface that has the address.
fn keep_to_loopback(fd: RawFd) -> io::Result<()> {
    // SAFETY: the name is a string that ends with a zero.
    let loopback = unsafe { libc::if_nametoindex(c"lo".as_ptr()) };
    if loopback == 0 {
        return Err(io::Error::last_os_error());
    }
    // Classic BPF: the index of the interface, compared, and all of the datagram or nothing.
    let step = |code: u32, jf: u8, k: u32| libc::sock_filter {
        code: u16::try_from(code).expect("codes have 16 bits"),
        jt: 0,
        jf,
        k,
    };
    let interface = (libc::SKF_AD_OFF + libc::SKF_AD_IFINDEX).cast_unsigned();
    let mut steps = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, interface),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, loopback),
        step(libc::BPF_RET | libc::BPF_K, 0, u32::MAX),
        step(libc::BPF_RET | libc::BPF_K, 0, 0),
    ];
    let program = libc::sock_fprog {
        len: 4,
        filter: steps.as_mut_ptr(),
    };
    let len = socklen::<libc::sock_fprog>();
    let (level, name) = (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER);
    // SAFETY: the kernel reads `len` bytes of `program` and the steps that `program` points to.
    check(unsafe { libc::setsockopt(fd, level, name, (&raw const program).cast(), len) }).map(drop)
}

/// Sets the options of datagrams to multicast groups.
fn set_multicast(fd: RawFd, multicast: &Multicast) -> io::Result<()> {
    let ttl = multicast.ttl.into();
    set(fd, libc::IPPROTO_IP, libc::IP_MULTICAST_TTL, ttl)?;
    let is_looped = multicast.is_looped.into();
    set(fd, libc::IPPROTO_IP, libc::IP_MULTICAST_LOOP, is_looped)?;
    let Some(interface) = multicast.interface else {
        return Ok(());
    };
    let address = libc::in_addr {
        s_addr: u32::from_ne_bytes(interface.octets()),
    };
    let len = socklen::<libc::in_addr>();
    let (level, name) = (libc::IPPROTO_IP, libc::IP_MULTICAST_IF);
    // SAFETY: the kernel reads `len` bytes of `address`.
    check(unsafe { libc::setsockopt(fd, level, name, (&raw const address).cast(), len) }).map(drop)
}

/// Opens a non-blocking listener.
pub(crate) fn listen(address: SocketAddr, share: bool, backlog: i32) -> io::Result<TcpListener> {
    let family = match address {
        SocketAddr::V4(_) => libc::AF_INET,
        SocketAddr::V6(_) => libc::AF_INET6,
    };
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: takes three integers.
    let fd = check(unsafe { libc::socket(family, kind, 0) })?;
    // SAFETY: `fd` was just opened and nobody else owns it.
    let listener = TcpListener::from(unsafe { OwnedFd::from_raw_fd(fd) });
    set(fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
    if share {
        set(fd, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)?;
    }
    if address.is_ipv6() {
        set(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 0)?;
    }
    let (name, len) = Name::new(address, false);
    // SAFETY: `name` lives across the call and `len` is the size of the variant
    // it holds.
    check(unsafe { libc::bind(fd, (&raw const name).cast(), len) })?;
    // SAFETY: takes two integers.
    check(unsafe { libc::listen(fd, backlog) })?;
    Ok(listener)
}

/// Sets the socket option `TCP_NOTSENT_LOWAT`.
pub(crate) fn set_unsent_limit(stream: &TcpStream, bytes: u32) -> io::Result<()> {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    set(
        stream.as_raw_fd(),
        libc::IPPROTO_TCP,
        libc::TCP_NOTSENT_LOWAT,
        bytes,
    )
}

/// Reads the size of the send queue with `SIOCOUTQ`, which is Linux's name for `TIOCOUTQ` of a
/// socket (tcp(7)).
pub(crate) fn unacknowledged_bytes(stream: &TcpStream) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the kernel writes one integer to `bytes`.
    check(unsafe { libc::ioctl(stream.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) })?;
    Ok(u64::try_from(bytes).unwrap_or_default())
}

/// Sets `SO_LINGER` to 0 s, so that closing resets the connection.
pub(crate) fn reset_on_close(stream: &TcpStream) {
    let at_once = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    let len = socklen::<libc::linger>();
    let (level, name) = (libc::SOL_SOCKET, libc::SO_LINGER);
    // SAFETY: the kernel reads `len` bytes of `at_once`.
    let _ = unsafe {
        // A connection that cannot be told to is closed in the ordinary way.
        libc::setsockopt(
            stream.as_raw_fd(),
            level,
            name,
            (&raw const at_once).cast(),
            len,
        )
    };
}

/// Returns the size of the receive buffer, in bytes.
pub(crate) fn receive_buffer(socket: &UdpSocket) -> io::Result<usize> {
    get(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF)
}

/// Returns the size of the send buffer, in bytes.
pub(crate) fn send_buffer(socket: &UdpSocket) -> io::Result<usize> {
    get(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_SNDBUF)
}

/// Calls `setsockopt` with an integer.
fn set(fd: RawFd, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let len = socklen::<libc::c_int>();
    // SAFETY: the kernel reads `len` bytes of `value`.
    check(unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), len) }).map(drop)
}

/// Calls `getsockopt` for an integer.
fn get(fd: RawFd, level: libc::c_int, name: libc::c_int) -> io::Result<usize> {
    let mut value: libc::c_int = 0;
    let mut len = socklen::<libc::c_int>();
    // SAFETY: the kernel writes at most `len` bytes into `value`.
    check(unsafe { libc::getsockopt(fd, level, name, (&raw mut value).cast(), &raw mut len) })?;
    Ok(usize_of(value))
}
