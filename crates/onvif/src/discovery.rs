//! Messages of WS-Discovery: a probe, and the answers of devices.

use std::net::{IpAddr, SocketAddr};

use url::Url;

use crate::envelope::{self, LocalName as _};

/// Most devices that are listed; answers of further ones are ignored.
pub const DEVICES_MAX: usize = 256;

/// A device that answered a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Identifier that stays the same for the device's life, usually a URN with a UUID.
    pub id: String,
    /// Address that the device answered from.
    pub address: SocketAddr,
    /// Name that the device has by its scopes.
    pub name: Option<String>,
    /// Model that the device has by its scopes.
    pub hardware: Option<String>,
    /// Place that the device has by its scopes.
    pub location: Option<String>,
    /// URL of its device service, at the address that it answered from.
    pub service: Url,
}

/// Reads the devices of an answer to the probe `message` that came from `from`; none if the datagram
/// is something else.
pub(crate) fn answers(bytes: &[u8], from: SocketAddr, message: &str) -> Vec<Device> {
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
            id: envelope::shown(id)?,
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
    envelope::shown(&decoded)
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
    let there = urls.iter().position(|url| url.host() == Some(host.clone()));
    let mut url = match urls.into_iter().nth(there.unwrap_or(0)) {
        Some(url) => url,
        None => Url::parse("http://camera.invalid/onvif/device_service").ok()?,
    };
    let _ = (url.set_username(""), url.set_password(None));
    url.set_ip_host(from).ok()?;
    Some(url)
}

/// Returns a UUID of version 4 (RFC 9562 §5.4) of these random bytes.
pub(crate) fn uuid(mut bytes: [u8; 16]) -> String {
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
