use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::message::Limits;

/// Configuration of an RTSP server, shared by all its connections.
#[derive(Clone, Debug)]
pub struct Config {
    /// Value of `Server` in every response; empty to send none.
    pub server_name: String,
    /// The realm that passwords are for. Secrets stored for digest depend on it.
    pub realm: String,
    /// How long a session lives while its client sends nothing.
    pub session_timeout: Duration,
    /// How long a request may take from its first byte to its last.
    pub request_timeout: Duration,
    /// How long a connection may last without a session, from its beginning or from the last
    /// request that the owner granted. Requests that take no right, such as OPTIONS, and requests
    /// that are refused do not prolong this time.
    pub idle_timeout: Duration,
    /// Bounds for the size of a message.
    pub limits: Limits,
    /// Whether tracks may use UDP, to the client's own address.
    pub udp: bool,
    /// Whether tracks may use multicast where a client asks for it.
    pub multicast: bool,
    /// Whether tracks use SRTP within TLS; SRTP may use UDP, too. Its keys are part of the
    /// description ([`Section::key_management`]).
    ///
    /// [`Section::key_management`]: crate::sdp::Section::key_management
    pub srtp: SrtpPolicy,
    /// Whether digest authentication is offered. It is not where somebody else checks passwords, who
    /// needs them as they are.
    pub digest: bool,
    /// Whether basic authentication is also offered outside of TLS, where the password passes
    /// unencrypted.
    pub basic_over_plain: bool,
    /// Decides under which host names tunnels may be opened; `None` for all names.
    pub tunnel_hosts: Option<Arc<dyn TunnelHosts>>,
}

/// The host names under which HTTP requests may open tunnels.
///
/// A page of a browser can send HTTP to an RTSP port, too, under any name that its owner lets
/// resolve to the server's address (DNS rebinding). Players name the host that they were told.
pub trait TunnelHosts: fmt::Debug + Send + Sync {
    /// Returns whether `host`, the value of the request's `Host`, is a name of the server, which the
    /// client reached at `local`.
    fn has(&self, host: &str, local: SocketAddr) -> bool;
}

impl Default for Config {
    /// 60 s for a session, 10 s for a request, 10 s without a session; no multicast, no SRTP.
    fn default() -> Self {
        Self {
            server_name: String::new(),
            realm: "glassline".to_owned(),
            session_timeout: Duration::from_secs(60),
            request_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(10),
            limits: Limits::default(),
            udp: true,
            multicast: false,
            srtp: SrtpPolicy::Off,
            digest: true,
            basic_over_plain: false,
            tunnel_hosts: None,
        }
    }
}

/// Whether tracks use SRTP within TLS (RFC 3711, RFC 4567). Outside of TLS they never do, since
/// anybody could read their keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SrtpPolicy {
    /// Tracks never use SRTP.
    #[default]
    Off,
    /// Tracks use SRTP where a client asks for it.
    Optional,
    /// All tracks that clients receive use SRTP.
    Required,
}

/// Addresses of a connection, and whether it is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoints {
    /// The client's address. Tracks by UDP go to this address only.
    pub peer: SocketAddr,
    /// Address of the server's end of the connection.
    pub local: SocketAddr,
    /// Whether the connection runs within TLS.
    pub secure: bool,
}
