//! Sends and receives many datagrams per call, with the control messages of each.

use std::io;
use std::mem::{self, MaybeUninit};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::AsRawFd;
use std::ptr;
use std::time::Duration;

use super::fit::fit;
use super::name::{Name, socklen};
use super::result::{check, usize_of};
use crate::receive::{ReceiveBatch, Slot};
use crate::send::{MESSAGES_MAX, Message, PathError, PathErrorKind};

/// Calls `sendmmsg`, or `sendmsg` for a single message. Returns the number of messages
/// accepted, at least one if there is one, or the first one's error. Takes at most
/// `MESSAGES_MAX` of `messages`.
///
/// It takes an iterator and leaves unused array elements unwritten: most batches are one
/// message, a frame for one viewer.
pub(crate) fn send<'a>(
    socket: &UdpSocket,
    ipv6_socket: bool,
    messages: impl IntoIterator<Item = Message<'a>>,
) -> io::Result<usize> {
    let mut names = [const { MaybeUninit::<(Name, libc::socklen_t)>::uninit() }; MESSAGES_MAX];
    let mut parts = [const { MaybeUninit::<libc::iovec>::uninit() }; MESSAGES_MAX];
    let mut controls = [const { MaybeUninit::<Control>::uninit() }; MESSAGES_MAX];
    let mut headers = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; MESSAGES_MAX];
    let mut count = 0;
    for (index, message) in messages.into_iter().take(MESSAGES_MAX).enumerate() {
        let name = names[index].write(Name::new(message.destination, ipv6_socket));
        let part = parts[index].write(libc::iovec {
            iov_base: message.contents.as_ptr().cast_mut().cast(),
            iov_len: message.contents.len(),
        });
        let mut header = empty_header();
        header.msg_name = (&raw mut name.0).cast();
        header.msg_namelen = name.1;
        header.msg_iov = part;
        header.msg_iovlen = 1;
        if message.segment_size > 0 || message.source.is_some() {
            let control = controls[index].write(Control::EMPTY);
            header.msg_control = control.0.as_mut_ptr().cast();
            header.msg_controllen = fit(write_control(control, &message, ipv6_socket));
        }
        headers[index].write(libc::mmsghdr {
            msg_hdr: header,
            msg_len: 0,
        });
        count += 1;
    }
    if count == 1 {
        // SAFETY: the first header is initialised and points to a name, a part, a
        // control buffer and contents that outlive the call; the kernel only reads.
        let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), headers[0].as_ptr().cast(), 0) };
        // A datagram is accepted whole or not at all.
        return if sent < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(1)
        };
    }
    let count = libc::c_uint::try_from(count).expect("at most 32 messages");
    // SAFETY: the first `count` headers are initialised and point to names,
    // parts, controls and contents that outlive the call; the kernel only reads
    // through them and writes `msg_len` of the headers. `iov_base` is `*mut` for
    // `recvmsg`'s sake only.
    let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), headers.as_mut_ptr().cast(), count, 0) };
    check(sent).map(usize_of)
}

/// Calls `recvmmsg`, which fills the batch's slots; returns how many.
pub(crate) fn receive(socket: &UdpSocket, batch: &mut ReceiveBatch) -> io::Result<usize> {
    const MAX: usize = ReceiveBatch::CAPACITY_MAX;
    let mut names = [const { MaybeUninit::<libc::sockaddr_storage>::uninit() }; MAX];
    let mut parts = [const { MaybeUninit::<libc::iovec>::uninit() }; MAX];
    let mut controls = [const { MaybeUninit::<Control>::uninit() }; MAX];
    let mut headers = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; MAX];
    let count = batch.slots.len().min(MAX);
    let buffers = batch.bytes.chunks_exact_mut(batch.buffer_bytes);
    for (index, buffer) in buffers.take(count).enumerate() {
        let part = parts[index].write(libc::iovec {
            iov_base: buffer.as_mut_ptr().cast(),
            iov_len: buffer.len(),
        });
        let mut header = empty_header();
        header.msg_name = names[index].as_mut_ptr().cast();
        header.msg_namelen = socklen::<libc::sockaddr_storage>();
        header.msg_iov = part;
        header.msg_iovlen = 1;
        header.msg_control = controls[index].as_mut_ptr().cast();
        header.msg_controllen = fit(size_of::<Control>());
        headers[index].write(libc::mmsghdr {
            msg_hdr: header,
            msg_len: 0,
        });
    }
    let wanted = libc::c_uint::try_from(count).expect("at most 64 datagrams");
    // SAFETY: the first `wanted` headers are initialised; each points to a name,
    // a control buffer and a part of `batch.bytes` of its own, with their true
    // sizes, and all of them outlive the call.
    let filled = unsafe {
        libc::recvmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr().cast(),
            wanted,
            fit(libc::MSG_DONTWAIT),
            ptr::null_mut(),
        )
    };
    let filled = check(filled).map(usize_of)?.min(count);
    for (slot, header) in batch.slots.iter_mut().zip(&headers).take(filled) {
        // SAFETY: the first `wanted` headers were initialised above.
        let header = unsafe { header.assume_init_ref() };
        // SAFETY: the kernel filled this header's name and control buffer, and
        // wrote their lengths into it.
        *slot = unsafe { read_slot(header) };
        slot.len = slot.len.min(batch.buffer_bytes);
    }
    Ok(filled)
}

/// Calls `recvmsg` on the error queue. Returns the next error that the network reported,
/// `Ok(None)` for an entry of this machine's own, `WouldBlock` if none waits.
pub(crate) fn take_error(socket: &UdpSocket) -> io::Result<Option<PathError>> {
    let mut name = MaybeUninit::<libc::sockaddr_storage>::zeroed();
    let mut control = Control::EMPTY;
    let mut header = libc::mmsghdr {
        msg_hdr: empty_header(),
        msg_len: 0,
    };
    header.msg_hdr.msg_name = name.as_mut_ptr().cast();
    header.msg_hdr.msg_namelen = socklen::<libc::sockaddr_storage>();
    header.msg_hdr.msg_control = (&raw mut control).cast();
    header.msg_hdr.msg_controllen = fit(size_of::<Control>());
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: name and control buffer have their true sizes and outlive the call;
    // without parts the kernel writes no contents.
    let read = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header.msg_hdr, flags) };
    if read < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `recvmsg` filled this header, and what it points to is still there.
    let destination = unsafe { read_slot(&header) }.source;
    let mut found = None;
    // SAFETY: the control buffer is as the kernel left it, so the macros walk
    // within it; the payload is read unaligned and only if type and length fit.
    unsafe {
        let mut control = libc::CMSG_FIRSTHDR(&raw const header.msg_hdr);
        while let Some(head) = control.as_ref() {
            if matches!(
                (head.cmsg_level, head.cmsg_type),
                (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)
            ) && fit::<_, usize>(head.cmsg_len) >= control_len::<libc::sock_extended_err>()
            {
                let error: libc::sock_extended_err =
                    ptr::read_unaligned(libc::CMSG_DATA(control).cast());
                found = Some(error);
            }
            control = libc::CMSG_NXTHDR(&raw const header.msg_hdr, control);
        }
    }
    let from_network = |error: &libc::sock_extended_err| {
        matches!(
            error.ee_origin,
            libc::SO_EE_ORIGIN_ICMP | libc::SO_EE_ORIGIN_ICMP6
        )
    };
    Ok(found.filter(from_network).map(|error| PathError {
        destination,
        kind: match libc::c_int::try_from(error.ee_errno).unwrap_or(0) {
            libc::ECONNREFUSED => PathErrorKind::Refused,
            libc::EHOSTUNREACH | libc::ENETUNREACH | libc::EACCES => PathErrorKind::Unreachable,
            libc::EMSGSIZE => PathErrorKind::TooLarge,
            _ => PathErrorKind::Other,
        },
    }))
}

/// Reads what the kernel wrote behind `header`.
///
/// # Safety
/// `recvmmsg` must have filled `header`, whose pointers must still be valid.
unsafe fn read_slot(header: &libc::mmsghdr) -> Slot {
    let mut slot = Slot {
        len: header.msg_len as usize,
        truncated: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
        ..Slot::EMPTY
    };
    // SAFETY: `msg_name` points to a `sockaddr_storage`, of which the kernel
    // wrote `msg_namelen` bytes; the family says which variant, and the length
    // is checked against it. Both are plain integers.
    unsafe {
        let name = header.msg_hdr.msg_name;
        let len = header.msg_hdr.msg_namelen;
        if len >= socklen::<libc::sockaddr_in>() {
            let family = libc::c_int::from(ptr::read(name.cast::<libc::sa_family_t>()));
            if family == libc::AF_INET {
                let name: libc::sockaddr_in = ptr::read(name.cast());
                let ip = Ipv4Addr::from(u32::from_be(name.sin_addr.s_addr));
                slot.source = SocketAddr::from((ip, u16::from_be(name.sin_port)));
            } else if family == libc::AF_INET6 && len >= socklen::<libc::sockaddr_in6>() {
                let name: libc::sockaddr_in6 = ptr::read(name.cast());
                let ip = Ipv6Addr::from(name.sin6_addr.s6_addr);
                let port = u16::from_be(name.sin6_port);
                slot.source = match ip.to_ipv4_mapped() {
                    Some(ip) => SocketAddr::from((ip, port)),
                    None => SocketAddrV6::new(ip, port, 0, name.sin6_scope_id).into(),
                };
            }
        }
    }
    // SAFETY: `msg_control` and `msg_controllen` are as the kernel left them, so
    // the CMSG macros walk within the buffer; each payload is read unaligned and
    // only if its type and length are right.
    unsafe {
        let mut control = libc::CMSG_FIRSTHDR(&raw const header.msg_hdr);
        while let Some(head) = control.as_ref() {
            let data = libc::CMSG_DATA(control);
            let len: usize = fit(head.cmsg_len);
            match (head.cmsg_level, head.cmsg_type) {
                (libc::IPPROTO_IP, libc::IP_PKTINFO)
                    if len >= control_len::<libc::in_pktinfo>() =>
                {
                    let info: libc::in_pktinfo = ptr::read_unaligned(data.cast());
                    let ip = Ipv4Addr::from(u32::from_be(info.ipi_addr.s_addr));
                    slot.destination = Some(ip.into());
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO)
                    if len >= control_len::<libc::in6_pktinfo>() =>
                {
                    let info: libc::in6_pktinfo = ptr::read_unaligned(data.cast());
                    let ip = Ipv6Addr::from(info.ipi6_addr.s6_addr);
                    slot.destination = Some(ip.to_canonical());
                }
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS)
                    if len >= control_len::<libc::timespec>() =>
                {
                    let time: libc::timespec = ptr::read_unaligned(data.cast());
                    let parts = u64::try_from(time.tv_sec).ok();
                    slot.arrived = parts
                        .zip(u32::try_from(time.tv_nsec).ok())
                        .map(|(seconds, nanos)| Duration::new(seconds, nanos));
                }
                (libc::SOL_UDP, libc::UDP_GRO) if len >= control_len::<libc::c_int>() => {
                    let size: libc::c_int = ptr::read_unaligned(data.cast());
                    slot.segment = u16::try_from(size).ok().filter(|size| *size > 0);
                }
                _ => {}
            }
            control = libc::CMSG_NXTHDR(&raw const header.msg_hdr, control);
        }
    }
    slot
}

/// Returns a header without name, parts and control.
fn empty_header() -> libc::msghdr {
    // SAFETY: all-zero is a valid header without name, parts and control; some
    // C libraries have padding fields, so it cannot be written as a literal.
    unsafe { mem::zeroed() }
}

/// Buffer for the control messages of one datagram: segment size, the larger of the two
/// packet infos, and a timestamp.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; 104]);

impl Control {
    /// A buffer of zeros.
    const EMPTY: Self = Self([0; 104]);
}

const _: () = assert!(
    control_space::<libc::c_int>()
        + control_space::<libc::in6_pktinfo>()
        + control_space::<libc::timespec>()
        <= size_of::<Control>()
);

/// Writes segment size and source address; returns the bytes used.
fn write_control(control: &mut Control, message: &Message<'_>, ipv6_socket: bool) -> usize {
    let mut used = 0;
    if message.segment_size > 0 {
        let (level, name) = (libc::SOL_UDP, libc::UDP_SEGMENT);
        used += append(control, used, level, name, message.segment_size);
    }
    match message.source {
        Some(source) if ipv6_socket => {
            let ip = match source {
                IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                IpAddr::V6(ip) => ip,
            };
            let info = libc::in6_pktinfo {
                ipi6_addr: libc::in6_addr {
                    s6_addr: ip.octets(),
                },
                ipi6_ifindex: 0,
            };
            let (level, name) = (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO);
            used += append(control, used, level, name, info);
        }
        Some(IpAddr::V4(ip)) => {
            let info = libc::in_pktinfo {
                ipi_ifindex: 0,
                ipi_spec_dst: libc::in_addr {
                    s_addr: u32::from(ip).to_be(),
                },
                ipi_addr: libc::in_addr { s_addr: 0 },
            };
            used += append(control, used, libc::IPPROTO_IP, libc::IP_PKTINFO, info);
        }
        // An IPv4 socket has no IPv6 address to send from; the routes choose.
        Some(IpAddr::V6(_)) | None => {}
    }
    used
}

/// Appends one control message at `used`; returns the bytes that it takes.
fn append<T: Copy>(
    control: &mut Control,
    used: usize,
    level: libc::c_int,
    name: libc::c_int,
    value: T,
) -> usize {
    let space = control_space::<T>();
    let place = &mut control.0[used..used + space];
    // SAFETY: all-zero is a valid header; musl's has padding, so it cannot be written as a literal.
    let mut head: libc::cmsghdr = unsafe { mem::zeroed() };
    head.cmsg_len = fit(control_len::<T>());
    head.cmsg_level = level;
    head.cmsg_type = name;
    let data = control_len::<T>() - size_of::<T>();
    // SAFETY: `place` was bounds-checked to hold header, padding and value;
    // both are plain data, written unaligned.
    unsafe {
        ptr::write_unaligned(place.as_mut_ptr().cast(), head);
        ptr::write_unaligned(place.as_mut_ptr().add(data).cast(), value);
    }
    space
}

/// Returns `CMSG_LEN` of a value of type `T`.
const fn control_len<T>() -> usize {
    // SAFETY: pure arithmetic on the length.
    (unsafe { libc::CMSG_LEN(size_of::<T>() as libc::c_uint) }) as usize
}

/// Returns `CMSG_SPACE` of a value of type `T`.
const fn control_space<T>() -> usize {
    // SAFETY: pure arithmetic on the length.
    (unsafe { libc::CMSG_SPACE(size_of::<T>() as libc::c_uint) }) as usize
}
