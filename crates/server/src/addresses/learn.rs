//! Asks name servers and STUN servers for addresses.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use glassline_runtime as runtime;
use glassline_webrtc::{binding_request, mapped_address};
use tokio::net::UdpSocket;

use super::AdvertisedAddress;

/// Time that a name server has.
const LOOKUP: Duration = Duration::from_secs(5);
/// Waiting times for the answer to each request, which follow RFC 8489 §6.2.1: twice as long each
/// time. Four requests in 3.75 s are enough for a line that loses some.
const WAITS: [Duration; 4] = [
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
];
/// Longest datagram that is read. An answer has some 40 to 100 bytes.
const ANSWER_BYTES: usize = 1_500;

/// The reason why an address was not learned.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LearnError {
    /// The name has no address, or the name server gives none.
    #[error("cannot resolve {host}: {source}")]
    Name {
        /// The name that was asked for.
        host: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The name has no address that clients could send to.
    #[error("{0} has no address that clients could send to")]
    NoAddress(String),
    /// The STUN server did not answer.
    #[error("the STUN server {0} does not answer; it may be down, or a firewall drops UDP")]
    NoAnswer(String),
}

/// Returns the addresses that an entry of `media.advertise` stands for, sorted, at least one.
///
/// # Errors
/// Returns [`LearnError`], which names the entry.
pub(crate) async fn learn(entry: &AdvertisedAddress) -> Result<Vec<IpAddr>, LearnError> {
    let mut ips = match entry {
        AdvertisedAddress::Ip(ip) => vec![*ip],
        AdvertisedAddress::Host(host) => {
            let found = resolve(host.as_str(), 0).await?;
            found.iter().map(SocketAddr::ip).collect()
        }
        AdvertisedAddress::Stun { host, port } => {
            let servers = resolve(host, *port).await?;
            seen_by(&servers, &entry.to_string()).await?
        }
    };
    ips.iter_mut().for_each(|ip| *ip = ip.to_canonical());
    ips.retain(|ip| !ip.is_unspecified() && !ip.is_multicast());
    ips.sort_unstable();
    ips.dedup();
    match ips.is_empty() {
        true => Err(LearnError::NoAddress(entry.to_string())),
        false => Ok(ips),
    }
}

async fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, LearnError> {
    let failed = |source| LearnError::Name {
        host: host.to_owned(),
        source,
    };
    match tokio::time::timeout(LOOKUP, runtime::resolve(host, port)).await {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(error)) => Err(failed(error)),
        Err(_) => Err(failed(io::ErrorKind::TimedOut.into())),
    }
}

/// Asks the first server of each family at the same time.
async fn seen_by(servers: &[SocketAddr], name: &str) -> Result<Vec<IpAddr>, LearnError> {
    let of = |is_ipv4| servers.iter().find(move |it| it.is_ipv4() == is_ipv4);
    let ask = async |server: Option<&SocketAddr>| match server {
        // A machine without an address of the family cannot send: as without an answer.
        Some(server) => ask(*server).await.ok().flatten(),
        None => None,
    };
    let (ipv4, ipv6) = tokio::join!(ask(of(true)), ask(of(false)));
    match [ipv4, ipv6] {
        [None, None] => Err(LearnError::NoAnswer(name.to_owned())),
        seen => Ok(seen.into_iter().flatten().collect()),
    }
}

/// Returns the address from which `server` sees this machine; `None` without an answer.
async fn ask(server: SocketAddr) -> io::Result<Option<IpAddr>> {
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).await?;
    // The kernel drops datagrams of others.
    socket.connect(server).await?;
    let transaction = rand::random();
    let request = binding_request(transaction);
    let mut answer = [0; ANSWER_BYTES];
    for wait in WAITS {
        socket.send(&request).await?;
        let answered = async {
            loop {
                let bytes = socket.recv(&mut answer).await?;
                let seen = answer.get(..bytes);
                if let Some(seen) = seen.and_then(|bytes| mapped_address(bytes, transaction)) {
                    return io::Result::Ok(seen.ip());
                }
            }
        };
        match tokio::time::timeout(wait, answered).await {
            Ok(Ok(seen)) => return Ok(Some(seen)),
            // An ICMP answer: nobody listens there now, and the next request may find somebody.
            Ok(Err(_)) => tokio::time::sleep(wait).await,
            Err(_) => {}
        }
    }
    Ok(None)
}
