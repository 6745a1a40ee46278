use std::net::SocketAddr;
use std::time::Duration;

use crate::message::Limits;

/// How a server behaves; the same for all its connections.
#[derive(Clone, Debug)]
pub struct Config {
    /// Names the program in every response; empty for none.
    pub server_name: String,
    /// What passwords are for; secrets kept for digest are made with it.
    pub realm: String,
    /// How long a session lives without a sign of its client.
    pub session_timeout: Duration,
    /// How long a request may take from its first byte to its last.
    pub request_timeout: Duration,
    /// How long a connection may stand without a session and without a request.
    pub idle_timeout: Duration,
    /// What a message may have.
    pub limits: Limits,
    /// Tracks may go by UDP to the client's own address.
    pub udp: bool,
    /// Tracks may go to a multicast group where a client asks for it.
    pub multicast: bool,
    /// Within TLS, whether tracks go as SRTP, which may go by UDP too. Their keys stand
    /// in the description ([`Section::key_management`]).
    ///
    /// [`Section::key_management`]: crate::sdp::Section::key_management
    pub srtp: SrtpPolicy,
    /// Basic authentication is offered outside of TLS too: the password passes in
    /// the clear.
    pub basic_over_plain: bool,
}

impl Default for Config {
    /// Sessions of 60 s, 10 s for a request, 30 s without anything; no multicast, no SRTP.
    fn default() -> Self {
        Self {
            server_name: String::new(),
            realm: "glassline".to_owned(),
            session_timeout: Duration::from_secs(60),
            request_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(30),
            limits: Limits::default(),
            udp: true,
            multicast: false,
            srtp: SrtpPolicy::Off,
            basic_over_plain: false,
        }
    }
}

/// Whether tracks are sealed by themselves within TLS (RFC 3711, RFC 4567). Outside of
/// it they never are, since their keys would be anybody's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SrtpPolicy {
    /// They are not.
    #[default]
    Off,
    /// Where a client asks for it.
    Optional,
    /// No client gets them otherwise.
    Required,
}

/// Both ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// The client's; tracks by UDP go to this address alone.
    pub peer: SocketAddr,
    /// Ours.
    pub local: SocketAddr,
    /// It runs inside of TLS.
    pub secure: bool,
}
