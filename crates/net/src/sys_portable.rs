//! The calls of `sys` with what every system has: one datagram per call, no offload, and
//! the routes choose the source address.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use crate::Options;
use crate::receive::{DATAGRAM_BYTES_MAX, ReceiveBatch, Slot};
use crate::send::Message;

pub(crate) fn bind(address: SocketAddr, options: &Options) -> io::Result<UdpSocket> {
    if options.reuse_port {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "sockets that share a port spread peers on Linux only; run one shard",
        ));
    }
    if options.this_machine_only {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let socket = UdpSocket::bind(address)?;
    socket.set_nonblocking(true)?;
    if let Some(multicast) = &options.multicast {
        if multicast.interface.is_some() {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "the interface of multicast can be chosen on Linux only; leave it to the routes",
            ));
        }
        socket.set_multicast_ttl_v4(multicast.ttl.into())?;
        socket.set_multicast_loop_v4(multicast.is_looped)?;
    }
    Ok(socket)
}

pub(crate) fn listen(address: SocketAddr, share: bool, _: i32) -> io::Result<TcpListener> {
    if share {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "listeners that share a port spread connections on Linux only; run one shard",
        ));
    }
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

pub(crate) fn set_unsent_limit(_: &TcpStream, _: u32) -> io::Result<()> {
    Ok(())
}

pub(crate) fn unacknowledged_bytes(_: &TcpStream) -> io::Result<u64> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn reset_on_close(_: &TcpStream) {}

pub(crate) fn receive_buffer(_: &UdpSocket) -> io::Result<usize> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn send_buffer(_: &UdpSocket) -> io::Result<usize> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn send<'a>(
    socket: &UdpSocket,
    ipv6_socket: bool,
    messages: impl IntoIterator<Item = Message<'a>>,
) -> io::Result<usize> {
    let mut accepted = 0;
    for message in messages {
        let mut to = message.destination;
        if let (true, IpAddr::V4(ip)) = (ipv6_socket, to.ip()) {
            to.set_ip(ip.to_ipv6_mapped().into());
        }
        if message.segment_size > 0 {
            return Err(io::ErrorKind::Unsupported.into());
        }
        match socket.send_to(message.contents, to) {
            Ok(_) => accepted += 1,
            Err(_) if accepted > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(accepted)
}

pub(crate) fn receive(socket: &UdpSocket, batch: &mut ReceiveBatch) -> io::Result<usize> {
    let mut filled = 0;
    let buffers = batch.bytes.chunks_exact_mut(DATAGRAM_BYTES_MAX);
    for (slot, buffer) in batch.slots.iter_mut().zip(buffers) {
        match socket.recv_from(buffer) {
            Ok((len, mut source)) => {
                source.set_ip(source.ip().to_canonical());
                *slot = Slot {
                    len,
                    source,
                    ..Slot::EMPTY
                };
                filled += 1;
            }
            Err(_) if filled > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

pub(crate) fn take_error(_: &UdpSocket) -> io::Result<Option<crate::PathError>> {
    Err(io::ErrorKind::WouldBlock.into())
}

pub(crate) fn may_be_of_another(_: &io::Error) -> bool {
    false
}

pub(crate) fn is_no_buffers(_: &io::Error) -> bool {
    false
}

pub(crate) fn is_too_large(_: &io::Error) -> bool {
    false
}

pub(crate) fn is_offload_refused(_: &io::Error) -> bool {
    false
}

pub(crate) fn is_offload_absent(_: &io::Error) -> bool {
    false
}

pub(crate) fn page_bytes() -> u64 {
    4096
}

pub(crate) fn kill_process_group(_: u32) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn terminate_process_group(_: u32) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn isolate(_: &mut std::process::Command) {}

pub(crate) fn release_free_memory() -> bool {
    false
}

pub(crate) fn map_large_blocks(_: i32) -> bool {
    false
}

pub(crate) fn allocated_bytes_modulo() -> Option<u32> {
    None
}

pub(crate) fn process_cpu() -> Duration {
    Duration::ZERO
}

pub(crate) fn thread_cpu() -> Duration {
    Duration::ZERO
}
