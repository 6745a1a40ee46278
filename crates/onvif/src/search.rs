//! The sockets of a search for cameras.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use crate::discovery::{self, DEVICES_MAX, Device};
use crate::envelope;
use futures_util::future::{Either, select, select_all};
use tokio::net::UdpSocket;
use tokio::time::{Instant, sleep_until};

/// Group and port of WS-Discovery (§2.4).
const GROUP: SocketAddr = SocketAddr::new(
    IpAddr::V4(Ipv4Addr::new(239, 255, 255, 250)),
    DISCOVERY_PORT,
);

/// UDP port of WS-Discovery.
pub const DISCOVERY_PORT: u16 = 3702;

/// When the probe is sent again: datagrams get lost.
const REPEATS: [Duration; 2] = [Duration::from_millis(250), Duration::from_millis(750)];

/// Most bytes of answers that are read: a network full of cameras sends less than half of them.
const ANSWERS_BYTES_MAX: usize = 4 << 20;

/// Size of the buffer for answers: the longest datagram of UDP.
const DATAGRAM_BYTES: usize = 64 << 10;

/// Whom a probe is sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All devices of the networks that this machine's IPv4 interfaces belong to.
    Networks,
    /// The devices at these addresses, which may be in other networks.
    Addresses(Vec<SocketAddr>),
}

/// Sends probes and returns the devices that answer within `patience`, in the order of addresses,
/// at most [`DEVICES_MAX`].
///
/// # Errors
/// Returns the error of the system if no probe can be sent.
pub async fn find(scope: &Scope, patience: Duration) -> io::Result<Vec<Device>> {
    let (sockets, to) = match scope {
        Scope::Networks => (of_interfaces().await?, vec![GROUP]),
        Scope::Addresses(to) => (of_families(to).await?, to.clone()),
    };
    let message = discovery::uuid(rand::random());
    let probe = envelope::probe(&message);
    let begun = Instant::now();
    send(&sockets, &to, &probe).await?;
    let mut devices: Vec<Device> = Vec::new();
    let mut left = ANSWERS_BYTES_MAX;
    let mut buffer = vec![0; DATAGRAM_BYTES];
    for (turn, until) in REPEATS.into_iter().chain([patience]).enumerate() {
        let until = begun + until.min(patience);
        while let Some(socket) = readable(&sockets, until).await {
            // An error may be an ICMP answer: nobody listens at one of the addresses.
            let Ok((bytes, from)) = socket.try_recv_from(&mut buffer) else {
                continue;
            };
            let Some(rest) = left.checked_sub(bytes) else {
                return Ok(in_order(devices));
            };
            left = rest;
            for device in discovery::answers(&buffer[..bytes], from, &message) {
                let is_new = devices.iter().all(|it| it.id != device.id);
                if is_new && devices.len() < DEVICES_MAX {
                    devices.push(device);
                }
            }
        }
        if turn < REPEATS.len() {
            // The first probes left, so that an error now is the network's.
            let _ = send(&sockets, &to, &probe).await;
        }
    }
    Ok(in_order(devices))
}

fn in_order(mut devices: Vec<Device>) -> Vec<Device> {
    devices.sort_by_key(|device| device.address);
    devices
}

/// Waits until a socket can be read, which is returned, or until a time.
async fn readable(sockets: &[UdpSocket], until: Instant) -> Option<&UdpSocket> {
    if Instant::now() >= until {
        return None;
    }
    let readable = sockets.iter().map(|socket| {
        Box::pin(async move {
            // An error is found by reading.
            let _ = socket.readable().await;
            socket
        })
    });
    match select(select_all(readable), Box::pin(sleep_until(until))).await {
        Either::Left(((socket, ..), _)) => Some(socket),
        Either::Right(_) => None,
    }
}

/// Returns a socket for each IPv4 address of this machine. The kernel sends a multicast datagram by
/// the interface that has the address of its socket.
async fn of_interfaces() -> io::Result<Vec<UdpSocket>> {
    let addresses = glassline_net::interface_addresses()?;
    let addresses = addresses.iter().map(|it| it.ip);
    let usable = addresses.filter(|ip| ip.is_ipv4() && !ip.is_loopback());
    let mut sockets = Vec::new();
    for ip in usable {
        sockets.extend(UdpSocket::bind((ip, 0)).await);
    }
    match sockets.is_empty() {
        true => Err(io::Error::other(
            "this machine has no network with IPv4 addresses",
        )),
        false => Ok(sockets),
    }
}

/// Returns a socket for each family of the addresses.
async fn of_families(to: &[SocketAddr]) -> io::Result<Vec<UdpSocket>> {
    let any = |of: &SocketAddr| -> IpAddr {
        match of {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        }
    };
    let mut families: Vec<_> = to.iter().map(any).collect();
    families.sort_unstable();
    families.dedup();
    let mut sockets = Vec::new();
    for ip in families {
        sockets.push(UdpSocket::bind((ip, 0)).await?);
    }
    Ok(sockets)
}

/// Sends the probe by every socket to every address of its family. Fails if none left.
async fn send(sockets: &[UdpSocket], to: &[SocketAddr], probe: &str) -> io::Result<()> {
    let mut last = Err(ErrorKind::NotFound.into());
    for socket in sockets {
        let is_ipv4 = socket.local_addr()?.is_ipv4();
        for to in to.iter().filter(|it| it.is_ipv4() == is_ipv4) {
            match socket.send_to(probe.as_bytes(), to).await {
                Ok(_) => last = Ok(()),
                Err(error) if last.is_err() => last = Err(error),
                Err(_) => {}
            }
        }
    }
    last
}
