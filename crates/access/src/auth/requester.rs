use std::net::IpAddr;

/// The client of a request, as rights see it: its address, the listener that it came to, and
/// whether a proxy sent the request in the client's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requester {
    address: IpAddr,
    listener: Listener,
    is_forwarded: bool,
}

/// A listener that asks for credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listener {
    /// HTTP for viewers: pages, WHEP, WHIP, rooms, the API.
    Http,
    /// RTSP, plain and within TLS.
    Rtsp,
    /// MoQ over QUIC and WebTransport.
    Quic,
    /// HTTP for operators: dashboard, the whole API, metrics.
    Admin,
}

impl Listener {
    /// Every listener, in the order of metrics.
    pub const ALL: [Self; 4] = [Self::Http, Self::Rtsp, Self::Quic, Self::Admin];

    /// Returns the name in metrics and in the log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Rtsp => "rtsp",
            Self::Quic => "quic",
            Self::Admin => "admin",
        }
    }
}

impl Requester {
    /// Names of the headers by which proxies say that they forward a request (RFC 7239, RFC 9110
    /// §7.6.3, and the older ones of common proxies), in lower case.
    pub const FORWARDING_HEADERS: [&'static str; 4] =
        ["forwarded", "via", "x-forwarded-for", "x-real-ip"];

    /// Creates the client that connects from `address` itself.
    pub const fn direct(address: IpAddr, listener: Listener) -> Self {
        Self {
            address,
            listener,
            is_forwarded: false,
        }
    }

    /// Returns the same client if the request has one of
    /// [`FORWARDING_HEADERS`](Self::FORWARDING_HEADERS), so that the address is a proxy's.
    #[must_use]
    pub const fn forwarded(self, is_forwarded: bool) -> Self {
        Self {
            is_forwarded,
            ..self
        }
    }

    /// Returns the listener that the request came to.
    pub const fn listener(&self) -> Listener {
        self.listener
    }

    /// Returns the address that the request arrived from.
    pub const fn address(&self) -> IpAddr {
        self.address
    }

    /// Returns whether a proxy sent the request, so that the address is the proxy's.
    pub const fn is_forwarded(&self) -> bool {
        self.is_forwarded
    }

    /// Returns whether the client runs on this machine. A forwarded request never counts as local:
    /// a proxy on this machine serves clients from everywhere.
    pub fn is_local(&self) -> bool {
        !self.is_forwarded && self.address.to_canonical().is_loopback()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forwarded_request_never_counts_as_local() {
        for address in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
            let address = address.parse().expect("an address");
            let requester = Requester::direct(address, Listener::Http);
            assert!(requester.is_local());
            assert!(!requester.forwarded(true).is_local());
        }
        let away = "192.0.2.1".parse().expect("an address");
        assert!(!Requester::direct(away, Listener::Http).is_local());
    }
}
