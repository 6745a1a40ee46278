use std::fmt;
use std::net::{IpAddr, SocketAddr};

use super::error::Reason;
use crate::{Transport, TransportAddress};

/// Name of the extension that states which end of a TCP candidate connects, and its value for an
/// end that waits (RFC 6544 §4.5).
const TCP_TYPE: &str = "tcptype";
const PASSIVE: &str = "passive";

/// An ICE candidate (RFC 8839 §5.1; TCP types RFC 6544 §4.5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Foundation: equal for candidates of the same type, base and server.
    pub foundation: String,
    /// Component, 1..=256: 1 for RTP, and for everything if RTCP is multiplexed.
    pub component: u16,
    /// Transport protocol of the candidate.
    pub protocol: Protocol,
    /// Priority; larger values are preferred.
    pub priority: u32,
    /// Address, or a name that is not resolved yet.
    pub address: Address,
    /// Port; 9 for active TCP candidates.
    pub port: u16,
    /// Type of the candidate.
    pub kind: CandidateKind,
    /// Related address and port (`raddr`, `rport`): the base of a reflexive or relayed
    /// candidate.
    pub related: Option<(Address, u16)>,
    /// Further name/value pairs in their order: `tcptype`, `generation`, `ufrag`, …
    pub extensions: Vec<(String, String)>,
}

/// Transport protocol of a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Protocol {
    /// The User Datagram Protocol, which every end has candidates of.
    Udp,
    /// TCP (RFC 6544), to which only the end connects that is not passive.
    Tcp,
    /// Any other, in lower case; such candidates are ignored (RFC 8839 §5.1).
    Other(String),
}

/// Address of a candidate.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display)]
pub enum Address {
    /// The candidate has an IP address.
    Ip(IpAddr),
    /// A name that is not resolved yet, such as the `….local` names of multicast DNS.
    Name(String),
}

/// Type of a candidate: how its address was learned.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CandidateKind {
    /// Host candidate: an address of a local interface.
    Host,
    /// Server-reflexive candidate: an address that a STUN server reported.
    ServerReflexive,
    /// Peer-reflexive candidate: an address from which a check arrived.
    PeerReflexive,
    /// Relayed candidate: an address that is allocated on a TURN server.
    Relay,
    /// Any other; such candidates are ignored (RFC 8839 §5.1).
    Other(String),
}

impl Candidate {
    /// Creates a host candidate for component 1, the one with index `index` of its agent. One of
    /// TCP is passive (RFC 6544 §4.5): the other end connects.
    ///
    /// Earlier candidates get higher priorities (RFC 8445 §5.1.2.1: type preference 126, local
    /// preference 65535 − `index`). Those of TCP come after all of UDP (RFC 6544 §4.2: a lower type
    /// preference, here 90, and a direction preference of 4 in the local preference).
    pub fn host(address: TransportAddress, index: usize) -> Self {
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        let (protocol, kind, local) = match address.transport {
            Transport::Udp => (Protocol::Udp, 126, 65_535 - index.min(65_535)),
            Transport::Tcp => (Protocol::Tcp, 90, (4 << 13) | (8_191 - index.min(8_191))),
        };
        let mut extensions = Vec::new();
        if address.is_tcp() {
            extensions.push((TCP_TYPE.to_owned(), PASSIVE.to_owned()));
        }
        Self {
            foundation: index.saturating_add(1).to_string(),
            component: 1,
            protocol,
            priority: (kind << 24) | (local << 8) | 255,
            address: Address::Ip(address.socket.ip().to_canonical()),
            port: address.socket.port(),
            kind: CandidateKind::Host,
            related: None,
            extensions,
        }
    }

    /// Creates a UDP candidate on a TURN server that was allocated from `base`, the one with
    /// index `index` of its agent. Its type preference is 0, so that every direct path is tried
    /// before.
    pub fn relayed(address: SocketAddr, base: SocketAddr, index: usize) -> Self {
        let host = Self::host(address.into(), index);
        Self {
            foundation: format!("r{}", index + 1),
            priority: host.priority & 0x00ff_ffff,
            kind: CandidateKind::Relay,
            related: Some((Address::Ip(base.ip().to_canonical()), base.port())),
            ..host
        }
    }

    /// Returns IP address and port; `None` if the name is not resolved.
    pub const fn socket_addr(&self) -> Option<SocketAddr> {
        match self.address {
            Address::Ip(ip) => Some(SocketAddr::new(ip, self.port)),
            Address::Name(_) => None,
        }
    }

    /// Returns whether this is a TCP candidate whose end waits for connections (RFC 6544 §4.5).
    pub fn is_tcp_passive(&self) -> bool {
        self.protocol == Protocol::Tcp && self.extension(TCP_TYPE) == Some(PASSIVE)
    }

    /// Returns the value of an extension such as `tcptype` or `ufrag`.
    pub fn extension(&self, name: &str) -> Option<&str> {
        let pair = self.extensions.iter().find(|(key, _)| key == name)?;
        Some(&pair.1)
    }

    /// Parses the value of `a=candidate:`.
    pub(super) fn parse(value: &str) -> Result<Self, Reason> {
        let problem = |problem| Reason::Attribute {
            name: "candidate",
            problem,
        };
        let mut fields = value.split_whitespace();
        let mut field = |what| fields.next().ok_or(problem(what));
        let foundation = field("no foundation")?.to_owned();
        let component = field("no component")?
            .parse()
            .ok()
            .filter(|id| (1..=256).contains(id))
            .ok_or(problem("the component is not 1..=256"))?;
        let protocol = Protocol::from_name(field("no transport")?);
        let priority = field("no priority")?
            .parse()
            .map_err(|_| problem("the priority is not a 32-bit number"))?;
        let address = Address::parse(field("no address")?);
        let port = field("no port")?
            .parse()
            .map_err(|_| problem("the port is not 0..=65535"))?;
        if field("no `typ`")? != "typ" {
            return Err(problem("expected `typ` after the port"));
        }
        let kind = CandidateKind::from_name(field("no type")?);
        let mut candidate = Self {
            foundation,
            component,
            protocol,
            priority,
            address,
            port,
            kind,
            related: None,
            extensions: Vec::new(),
        };
        candidate.read_extensions(fields).map_err(problem)?;
        Ok(candidate)
    }

    fn read_extensions<'a>(
        &mut self,
        mut fields: impl Iterator<Item = &'a str>,
    ) -> Result<(), &'static str> {
        let mut base: Option<Address> = None;
        let mut base_port: Option<u16> = None;
        while let Some(name) = fields.next() {
            // A single last word is an extension whose value is empty.
            let value = fields.next().unwrap_or_default();
            match name {
                "raddr" => base = Some(Address::parse(value)),
                "rport" => {
                    let port = value.parse().map_err(|_| "rport is not 0..=65535")?;
                    base_port = Some(port);
                }
                _ => self.extensions.push((name.to_owned(), value.to_owned())),
            }
        }
        self.related = base.map(|base| (base, base_port.unwrap_or(0)));
        Ok(())
    }
}

impl fmt::Display for Candidate {
    /// Writes the value of `a=candidate:`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} {} {} {} {} typ {}",
            self.foundation,
            self.component,
            self.protocol.as_str(),
            self.priority,
            self.address,
            self.port,
            self.kind.as_str()
        )?;
        if let Some((address, port)) = &self.related {
            write!(f, " raddr {address} rport {port}")?;
        }
        for (name, value) in &self.extensions {
            write!(f, " {name}")?;
            if !value.is_empty() {
                write!(f, " {value}")?;
            }
        }
        Ok(())
    }
}

impl Protocol {
    /// Returns the protocol as in SDP, in lower case.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Other(name) => name,
        }
    }

    fn from_name(name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        match name.as_str() {
            "udp" => Self::Udp,
            "tcp" => Self::Tcp,
            _ => Self::Other(name),
        }
    }
}

impl Address {
    fn parse(text: &str) -> Self {
        text.parse()
            .map_or_else(|_| Self::Name(text.to_owned()), Self::Ip)
    }
}

impl CandidateKind {
    /// Returns the type as in SDP, behind `typ`.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Host => "host",
            Self::ServerReflexive => "srflx",
            Self::PeerReflexive => "prflx",
            Self::Relay => "relay",
            Self::Other(name) => name,
        }
    }

    fn from_name(name: &str) -> Self {
        match name {
            "host" => Self::Host,
            "srflx" => Self::ServerReflexive,
            "prflx" => Self::PeerReflexive,
            "relay" => Self::Relay,
            _ => Self::Other(name.to_owned()),
        }
    }
}
