//! Candidates and addresses as the `is` crate has them.

use std::net::SocketAddr;

use is::{Candidate, CandidateKind, Protocol};

use crate::{Transport, TransportAddress, sdp};

/// Names a transport protocol as the `is` crate does.
pub(super) const fn protocol(transport: Transport) -> Protocol {
    match transport {
        Transport::Udp => Protocol::Udp,
        Transport::Tcp => Protocol::Tcp,
    }
}

/// Reads an address of the `is` crate.
pub(super) fn transport_address(protocol: Protocol, socket: SocketAddr) -> TransportAddress {
    match protocol {
        Protocol::Udp => TransportAddress::udp(socket),
        _ => TransportAddress::tcp(socket),
    }
}

/// Converts a candidate; `None` for those that cannot be used: TCP to which nobody can connect,
/// the RTCP component, unresolved names.
pub(super) fn translate(candidate: &sdp::Candidate) -> Option<Candidate> {
    let address = candidate.socket_addr()?;
    let kind = match candidate.kind {
        sdp::CandidateKind::Host => CandidateKind::Host,
        sdp::CandidateKind::ServerReflexive => CandidateKind::ServerReflexive,
        sdp::CandidateKind::PeerReflexive => CandidateKind::PeerReflexive,
        sdp::CandidateKind::Relay => CandidateKind::Relayed,
        _ => return None,
    };
    if candidate.component != 1 || address.port() == 0 {
        return None;
    }
    let protocol = match candidate.protocol {
        sdp::Protocol::Udp => Protocol::Udp,
        // Simultaneous opens are not supported, and an active end connects by itself.
        sdp::Protocol::Tcp if candidate.is_tcp_passive() => Protocol::Tcp,
        _ => return None,
    };
    Some(Candidate::from_parts(
        candidate.foundation.clone(),
        1,
        protocol,
        candidate.priority,
        address,
        kind,
        None,
        None,
        candidate.extension("ufrag").map(str::to_owned),
    ))
}
