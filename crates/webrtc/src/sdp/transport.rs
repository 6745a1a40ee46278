use crate::TransportAddress;
use std::net::SocketAddr;

use super::attribute::{Attribute, Setup};
use super::attributes::Attributes;
use super::candidate::Candidate;
use super::credentials::IceCredentials;
use super::fingerprint::Fingerprint;

/// The peer's parameters of the one transport that all media share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteTransport {
    /// ICE credentials of the peer.
    pub credentials: IceCredentials,
    /// Whether the peer is an ICE-lite agent, which answers checks and sends none.
    pub ice_lite: bool,
    /// Whether the peer accepts and sends candidates later (trickle ICE, RFC 8840).
    pub trickle: bool,
    /// Candidates of component 1 in their order, without repetitions.
    pub candidates: Vec<Candidate>,
    /// Whether no further candidates will come.
    pub end_of_candidates: bool,
    /// Fingerprints by SHA-256, SHA-384 or SHA-512, never empty. The peer's certificate must
    /// match one of them.
    pub fingerprints: Vec<Fingerprint>,
    /// DTLS role as the peer stated it.
    pub setup: Option<Setup>,
}

/// The attribute that a description lacks to set up its transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MissingAttribute {
    Credentials,
    Fingerprint,
}

impl RemoteTransport {
    /// Reads the transport from the sections that may describe it, the most specific first: the
    /// `m=` section itself, that of the bundle's tag, the session.
    pub(super) fn read(sections: &[&Attributes]) -> Result<Self, MissingAttribute> {
        let credentials = sections.iter().find_map(|section| section.credentials());
        let fingerprints = sections
            .iter()
            .find(|section| section.fingerprints().next().is_some())
            .into_iter()
            .flat_map(|section| section.fingerprints())
            .filter(|fingerprint| fingerprint.algorithm.is_strong())
            .cloned()
            .collect::<Vec<_>>();
        if fingerprints.is_empty() {
            return Err(MissingAttribute::Fingerprint);
        }
        let has = |attribute| sections.iter().any(|section| section.has(&attribute));
        let mut candidates: Vec<Candidate> = Vec::new();
        for candidate in sections.iter().flat_map(|section| section.candidates()) {
            let known = candidates.contains(candidate);
            if candidate.component == 1 && !known && candidates.len() < CANDIDATES_MAX {
                candidates.push(candidate.clone());
            }
        }
        Ok(Self {
            credentials: credentials.ok_or(MissingAttribute::Credentials)?,
            ice_lite: has(Attribute::IceLite),
            trickle: sections.iter().any(|it| it.has_ice_option("trickle")),
            candidates,
            end_of_candidates: has(Attribute::EndOfCandidates),
            fingerprints,
            setup: sections.iter().find_map(|section| section.setup()),
        })
    }
}

/// Most candidates that are kept: enough for a host with many interfaces, and each one costs
/// checks.
const CANDIDATES_MAX: usize = 64;

/// Appends the attributes of our end of the transport, except for candidates.
pub(super) fn push_transport(
    attributes: &mut Attributes,
    credentials: &IceCredentials,
    fingerprint: &Fingerprint,
    setup: Setup,
) {
    push_credentials(attributes, credentials);
    attributes.push(Attribute::Fingerprint(fingerprint.clone()));
    attributes.push(Attribute::Setup(setup));
}

pub(super) fn push_credentials(attributes: &mut Attributes, credentials: &IceCredentials) {
    attributes.push(Attribute::IceUfrag(credentials.ufrag.clone()));
    attributes.push(Attribute::IcePwd(credentials.pwd.clone()));
}

/// Appends relayed candidates, each with the local address that allocated it.
pub(super) fn push_relayed(attributes: &mut Attributes, relayed: &[(SocketAddr, SocketAddr)]) {
    for (index, (address, base)) in relayed.iter().enumerate() {
        let candidate = Candidate::relayed(*address, *base, index);
        attributes.push(Attribute::Candidate(candidate));
    }
}

/// Appends all host candidates.
pub(super) fn push_candidates(attributes: &mut Attributes, candidates: &[TransportAddress]) {
    for (index, address) in candidates.iter().enumerate() {
        attributes.push(Attribute::Candidate(Candidate::host(*address, index)));
    }
    attributes.push(Attribute::EndOfCandidates);
}

/// Returns port and `c=` value of the default candidate (RFC 8839 §4.2.1.2): IPv4 is preferred
/// to IPv6; port 9 and address 0.0.0.0 without candidates of UDP.
pub(super) fn default_destination(candidates: &[TransportAddress]) -> (u16, String) {
    let udp = || candidates.iter().filter(|it| !it.is_tcp());
    let v4 = udp().find(|it| it.socket.ip().to_canonical().is_ipv4());
    match v4.or(udp().next()) {
        Some(address) => {
            let ip = address.socket.ip().to_canonical();
            let family = if ip.is_ipv4() { "IP4" } else { "IP6" };
            (address.socket.port(), format!("IN {family} {ip}"))
        }
        None => (9, "IN IP4 0.0.0.0".to_owned()),
    }
}
