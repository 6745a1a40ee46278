//! TCP options that std lacks: shared ports, and a limit of unsent data.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};

use crate::sys;

/// Connections that may wait to be accepted: many viewers reconnect at once after a
/// restart.
const BACKLOG: i32 = 4096;

/// Opens a non-blocking listener; port 0 takes a free one.
///
/// With `share` the port is shared with other listeners that also set it (`SO_REUSEPORT`),
/// and the kernel distributes connections over them by a hash of both addresses. Listeners
/// of another process would share it as well: call [`tcp_port_is_free`] first. A port whose
/// last connections linger can be bound nevertheless. `[::]` accepts IPv4 too.
pub fn listen(address: SocketAddr, share: bool) -> io::Result<TcpListener> {
    sys::listen(address, share, BACKLOG)
}

/// Checks that no socket listens at TCP `address`, by listening there exclusively for a
/// moment.
pub fn tcp_port_is_free(address: SocketAddr) -> io::Result<()> {
    sys::listen(address, false, BACKLOG).map(drop)
}

/// Limits the data that waits unsent in the kernel to about `bytes` (`TCP_NOTSENT_LOWAT`).
/// Beyond that a writer gets `WouldBlock`, however large the buffer is that the connection
/// needs for data in flight. Without this option in the system, nothing happens.
pub fn set_unsent_limit(stream: &TcpStream, bytes: u32) -> io::Result<()> {
    sys::set_unsent_limit(stream, bytes)
}

/// Returns the bytes that were written to `stream` and that the peer has not acknowledged, whether
/// they were sent or wait to be sent (`SIOCOUTQ`). The kernel counts them exactly, at no cost for the
/// connection.
///
/// # Errors
/// The system's error; `Unsupported` on systems other than Linux.
pub fn unacknowledged_bytes(stream: &TcpStream) -> io::Result<u64> {
    sys::unacknowledged_bytes(stream)
}

/// Closes a connection that was accepted, at the least cost: the peer is sent a reset, and the
/// kernel keeps no state of the connection (`SO_LINGER` of 0 s; RFC 9293 §3.10.4). Data that waits
/// in either direction is lost.
pub fn refuse(stream: TcpStream) {
    sys::reset_on_close(&stream);
    drop(stream);
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::Ipv4Addr;

    fn anywhere() -> SocketAddr {
        (Ipv4Addr::LOCALHOST, 0).into()
    }

    #[test]
    fn listeners_share_a_port_with_each_other_and_a_probe_finds_them() {
        let first = listen(anywhere(), true).expect("loopback");
        let address = first.local_addr().expect("bound");
        let _second = listen(address, true).expect("both share");
        let error = tcp_port_is_free(address).expect_err("it is held");
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn a_port_is_free_again_while_its_last_connection_lingers() {
        let listener = listen(anywhere(), true).expect("loopback");
        listener.set_nonblocking(false).expect("for the test");
        let address = listener.local_addr().expect("bound");
        let _client = TcpStream::connect(address).expect("it listens");
        let (accepted, _) = listener.accept().expect("a connection");
        // Closing first leaves this end in FIN-WAIT.
        drop((accepted, listener));
        tcp_port_is_free(address).expect("nobody listens");
        listen(address, true).expect("nobody listens");
    }

    #[test]
    fn a_refused_peer_is_reset() {
        let listener = listen(anywhere(), false).expect("loopback");
        listener.set_nonblocking(false).expect("for the test");
        let address = listener.local_addr().expect("bound");
        let mut client = TcpStream::connect(address).expect("it listens");
        let (accepted, _) = listener.accept().expect("a connection");
        refuse(accepted);
        let error = client.read(&mut [0]).expect_err("no orderly end");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    }

    #[test]
    fn what_the_peer_has_not_acknowledged_is_counted() {
        let listener = listen(anywhere(), false).expect("loopback");
        listener.set_nonblocking(false).expect("for the test");
        let address = listener.local_addr().expect("bound");
        let mut client = TcpStream::connect(address).expect("it listens");
        let (mut reader, _) = listener.accept().expect("a connection");
        client.set_nonblocking(true).expect("a socket");
        let mut written = 0;
        while let Ok(count) = client.write(&[0; 64 << 10]) {
            written += count as u64;
        }
        // The kernel of a peer that does not read acknowledges what its buffer takes.
        let waiting = unacknowledged_bytes(&client).expect("Linux has it");
        assert!((1..written).contains(&waiting), "{waiting} of {written}");
        drop(std::thread::spawn(move || {
            let mut buffer = vec![0; 64 << 10];
            while reader.read(&mut buffer).is_ok_and(|count| count > 0) {}
        }));
        let end = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while unacknowledged_bytes(&client).expect("Linux has it") > 0 {
            assert!(std::time::Instant::now() < end, "all is acknowledged");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    #[test]
    fn little_waits_unsent_for_a_peer_that_does_not_read() {
        let listener = listen(anywhere(), false).expect("loopback");
        listener.set_nonblocking(false).expect("for the test");
        let address = listener.local_addr().expect("bound");
        let mut taken = [0, 0];
        for (limit, taken) in [None, Some(16 << 10)].into_iter().zip(&mut taken) {
            let mut client = TcpStream::connect(address).expect("it listens");
            let (_reader, _) = listener.accept().expect("a connection");
            client.set_nonblocking(true).expect("a socket");
            if let Some(limit) = limit {
                set_unsent_limit(&client, limit).expect("Linux has it");
            }
            while let Ok(count) = client.write(&[0; 64 << 10]) {
                *taken += count;
            }
        }
        let [all, less] = taken;
        assert!(less < all, "{less} with a limit, {all} without");
    }
}
