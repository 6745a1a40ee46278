//! WS-Discovery: a probe by multicast, and the devices that answer.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use futures_util::future::{Either, select, select_all};
use tokio::net::UdpSocket;
use tokio::time::{Instant, sleep_until};
use url::Url;

use super::envelope::{self, LocalName as _};
use super::{DEVICES_MAX, Device};

/// Group and port of WS-Discovery (§2.4).
const GROUP: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(239, 255, 255, 250)), 3702);

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
    let message = uuid(rand::random());
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
            for device in answers(&buffer[..bytes], from, &message) {
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

/// Reads the devices of an answer to the probe `message` that came from `from`; none if the datagram
/// is something else.
pub(super) fn answers(bytes: &[u8], from: SocketAddr, message: &str) -> Vec<Device> {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return Vec::new();
    };
    let Ok(document) = envelope::parse(text) else {
        return Vec::new();
    };
    let root = document.root();
    let is_ours = envelope::text(root, "RelatesTo").is_some_and(|it| it.ends_with(message));
    if !is_ours {
        return Vec::new();
    }
    let matches = root
        .descendants()
        .filter(|it| it.has_tag_name_of("ProbeMatch"));
    let devices = matches.filter_map(|found| {
        let id = envelope::element(found, "EndpointReference");
        let id = id.and_then(|it| envelope::text(it, "Address"))?;
        let scopes = envelope::text(found, "Scopes").unwrap_or_default();
        let scope = |kind| scope(scopes, kind);
        Some(Device {
            id: id.to_owned(),
            address: from,
            name: scope("name"),
            hardware: scope("hardware"),
            location: scope("location"),
            service: service(
                envelope::text(found, "XAddrs").unwrap_or_default(),
                from.ip(),
            )?,
        })
    });
    devices.take(DEVICES_MAX).collect()
}

/// Returns the value of the scope `onvif://www.onvif.org/KIND/VALUE` (ONVIF Core §7.3.2.2), decoded.
fn scope(scopes: &str, kind: &str) -> Option<String> {
    let prefix = format!("onvif://www.onvif.org/{kind}/");
    let mut values = scopes
        .split_whitespace()
        .filter_map(|it| it.strip_prefix(&prefix));
    // A scope may have parts, like `location/country/germany`: the last one says most.
    let value = values.next()?.rsplit('/').next()?;
    // The decoder of forms takes these three for marks of its own.
    let value = value
        .replace('+', "%2B")
        .replace('&', "%26")
        .replace('=', "%3D");
    let decoded = url::form_urlencoded::parse(value.as_bytes())
        .next()
        .map(|(value, _)| value.into_owned())?;
    let shown: String = decoded
        .chars()
        .filter(|c| !c.is_control())
        .take(80)
        .collect();
    (!shown.is_empty()).then_some(shown)
}

/// Returns the URL of the device service among `addresses`: the one with the IP address that the
/// answer came from. A camera with another address in its answer, for example behind a NAT, is asked
/// by the same path at the address that it answered from.
fn service(addresses: &str, from: IpAddr) -> Option<Url> {
    let urls = addresses
        .split_whitespace()
        .filter_map(|it| Url::parse(it).ok());
    let urls: Vec<_> = urls
        .filter(|it| matches!(it.scheme(), "http" | "https"))
        .collect();
    let host = match from {
        IpAddr::V4(ip) => url::Host::Ipv4(ip),
        IpAddr::V6(ip) => url::Host::Ipv6(ip),
    };
    let is_there = |url: &&Url| url.host() == Some(host.clone());
    if let Some(url) = urls.iter().find(is_there) {
        return Some(url.clone());
    }
    let mut url = match urls.into_iter().next() {
        Some(url) => url,
        None => Url::parse("http://camera.invalid/onvif/device_service").ok()?,
    };
    url.set_ip_host(from).ok()?;
    Some(url)
}

/// Returns a UUID of version 4 (RFC 9562 §5.4) of these random bytes.
fn uuid(mut bytes: [u8; 16]) -> String {
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let (a, b, c, d, e) = (
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    );
    format!("{a}-{b}-{c}-{d}-{e}")
}
