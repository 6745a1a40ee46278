//! Adapter of the `is` crate: connectivity checks, the selected path, and path changes.
//!
//! The accepting side is ICE-lite (RFC 8445 §2.5): it answers checks on its one port and goes where
//! the peer nominates, once the peer has proven that address ([`consent`]). The dialing side is a
//! full, controlling agent.

mod candidate;
mod check;
mod consent;
mod integrity;
mod lite;
mod mapped;
mod priority;
mod stated;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use is::stun::{StunMessage, StunPacket};
use is::{
    Candidate, CandidateKind, IceAgent, IceAgentEvent, IceConnectionState::Disconnected, IceCreds,
    Protocol,
};

use crate::TransportAddress;
use crate::sdp::{self, IceCredentials};

use candidate::{protocol, translate, transport_address};
pub use check::{is_stun_response, stun_check};
use consent::Consent;
use integrity::HMAC_SHA1;
pub use integrity::stun_is_authentic;
use lite::HandshakePath;
pub use mapped::{binding_request, mapped_address};
pub use stated::StatedCandidates;

fn creds(credentials: IceCredentials) -> IceCreds {
    IceCreds {
        ufrag: credentials.ufrag,
        pass: credentials.pwd,
    }
}

/// Most addresses that are remembered per peer. A phone that moves between networks needs a few
/// at a time; without a limit the agent's tables would grow with every port from which a
/// hostile peer sends.
const ADDRESSES_MAX: usize = 24;
/// Most remote candidates that are taken from SDP and trickle.
const CANDIDATES_MAX: usize = 32;
/// Minimum interval between checks. RFC 8445 §14.2 suggests 50 ms for media of unknown rate and
/// requires at least 5 ms; a short interval makes joining fast.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);
/// Buffer size that `is` is configured with, in bytes. STUN responses are under 100 bytes.
const STUN_BYTES: usize = 320;
/// Time for which a nominated path is kept against nominations of other paths, unless the peer sends
/// by another one. Aggressive nomination of several paths at once must not make media jump between
/// them.
const NOMINATION_HELD: Duration = Duration::from_millis(900);

/// Time without authentic STUN after which the peer is gone: from the address in use, for a lite
/// agent, which asks every 4 to 6 s itself. The `is` agent of a dialing end gives up after 15 s.
const STUN_TIMEOUT: Duration = Duration::from_secs(20);

/// The reason why a STUN message had no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ignored {
    /// The message does not parse.
    Malformed,
    /// The user name or message integrity is wrong, or the message is a response to no request.
    Foreign,
    /// STUN arrived from more addresses than a peer may have.
    TooManyAddresses,
}

/// A change on which the session must act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathChange {
    /// Datagrams for the peer go to this address from now on.
    Path(TransportAddress),
    /// The peer no longer answers checks.
    Disconnected,
}

/// An ICE agent, and the addresses that it validated.
#[derive(derive_more::Debug)]
#[debug("Agent {{ lite: {lite:?}, path: {path:?}, .. }}")]
pub(crate) struct Agent {
    agent: Box<IceAgent>,
    lite: bool,
    local: Vec<TransportAddress>,
    /// Addresses on TURN servers that are allocated for this agent.
    relayed: Vec<TransportAddress>,
    /// The peer's addresses with the candidate types that the peer stated.
    described: Vec<(TransportAddress, CandidateKind)>,
    stated: StatedCandidates,
    /// Addresses from which authentic STUN arrived since the last restart.
    validated: Vec<TransportAddress>,
    remote_candidates: usize,
    /// Authentic checks and responses of the peer.
    received: u32,
    path: Option<TransportAddress>,
    /// The local address from which datagrams on `path` are sent.
    path_local: Option<TransportAddress>,
    /// Instant at which the controlling peer last confirmed `path`.
    nominated: Option<Instant>,
    /// Address that the peer nominated last, and the local address: not proven yet, or nominated
    /// while another path was kept.
    wanted: Option<(TransportAddress, TransportAddress)>,
    /// The peer's consent to be sent to; `None` for a full agent, whose checks are consent.
    consent: Option<Box<Consent>>,
    /// Address that the handshake was sent to.
    handshake: HandshakePath,
    /// Instant at which authentic STUN last arrived; from the path's address, for a lite agent.
    last_received: Instant,
    /// Whether authentic media of the peer counts as a sign of life, as checks do.
    media_is_life: bool,
    /// Whether such media has arrived from the path's address.
    heard_by_media: bool,
}

impl Agent {
    /// Creates a controlled ICE-lite agent. `consent`: random bytes for its checks.
    pub(crate) fn lite(
        local: IceCredentials,
        tie_breaker: u64,
        consent: &[u8; 32],
        addresses: &[TransportAddress],
        now: Instant,
    ) -> Self {
        Self {
            consent: Some(Box::new(Consent::new(consent, tie_breaker, now))),
            ..Self::new(local, tie_breaker, addresses, true, now)
        }
    }

    /// Creates a controlling full agent with addresses of UDP.
    pub(crate) fn full(
        local: IceCredentials,
        tie_breaker: u64,
        addresses: &[SocketAddr],
        now: Instant,
    ) -> Self {
        let addresses: Vec<_> = addresses.iter().copied().map(Into::into).collect();
        Self::new(local, tie_breaker, &addresses, false, now)
    }

    fn new(
        credentials: IceCredentials,
        tie_breaker: u64,
        addresses: &[TransportAddress],
        lite: bool,
        now: Instant,
    ) -> Self {
        let mut agent = IceAgent::with_hmac(creds(credentials), &HMAC_SHA1);
        agent.set_ice_lite(lite);
        agent.set_controlling(!lite);
        agent.set_control_tie_breaker(tie_breaker);
        agent.set_timing_advance(CHECK_INTERVAL);
        agent.set_mtu(STUN_BYTES..=1200);
        let mut agent = Self {
            agent: Box::new(agent),
            lite,
            local: Vec::with_capacity(addresses.len()),
            relayed: Vec::new(),
            described: Vec::new(),
            stated: StatedCandidates::default(),
            validated: Vec::new(),
            remote_candidates: 0,
            received: 0,
            path: None,
            path_local: None,
            nominated: None,
            wanted: None,
            consent: None,
            handshake: HandshakePath::None,
            last_received: now,
            media_is_life: false,
            heard_by_media: false,
        };
        for address in addresses {
            agent.add_local(*address);
        }
        agent
    }

    /// Adds an address of this end as a host candidate; ignored if the address is unusable, and
    /// beyond the limit.
    pub(crate) fn add_local(&mut self, address: TransportAddress) {
        let candidate = Candidate::host(address.socket, protocol(address.transport));
        if let (Ok(candidate), true) = (candidate, self.local.len() < CANDIDATES_MAX) {
            self.agent.add_local_candidate(candidate);
            self.local.push(address);
        }
    }

    /// Returns the addresses that serve as host candidates, without unusable ones.
    pub(crate) fn local(&self) -> &[TransportAddress] {
        &self.local
    }

    /// Adds an address on a TURN server that was allocated from the local address `base`.
    pub(crate) fn add_relayed(&mut self, relayed: SocketAddr, base: SocketAddr) {
        if let Ok(candidate) = Candidate::relayed(relayed, base, Protocol::Udp) {
            self.agent.add_local_candidate(candidate);
            self.relayed.push(relayed.into());
        }
    }

    /// Records a candidate's type as the peer stated it, for [`kind_of`](Self::kind_of).
    pub(crate) fn describe_remote(&mut self, candidate: &sdp::Candidate) {
        self.stated.add(candidate);
        let known = self.described.len() < CANDIDATES_MAX;
        if let (true, Some(candidate)) = (known, translate(candidate)) {
            let address = transport_address(candidate.proto(), candidate.addr());
            self.described.push((address, candidate.kind()));
        }
    }

    /// Returns which kinds of candidates the peer stated so far.
    pub(crate) const fn stated(&self) -> StatedCandidates {
        self.stated
    }

    /// Returns the candidate type of a remote address as the peer stated it; peer-reflexive if
    /// it did not.
    pub(crate) fn kind_of(&self, remote: TransportAddress) -> CandidateKind {
        let mut described = self.described.iter();
        let found = described.find(|(address, _)| *address == remote);
        found.map_or(CandidateKind::PeerReflexive, |(_, kind)| *kind)
    }

    /// Returns whether datagrams from `source` to `destination` come by the path in use.
    pub(crate) fn is_path(&self, source: TransportAddress, destination: TransportAddress) -> bool {
        self.path == Some(source) && self.path_local == Some(self.arrived_at(destination))
    }

    /// Returns the local address of the path, and whether that is on a TURN server.
    pub(crate) fn path_local(&self) -> Option<(TransportAddress, bool)> {
        let local = self.path_local?;
        Some((local, self.relayed.contains(&local)))
    }

    pub(crate) fn set_remote(&mut self, remote: IceCredentials, now: Instant) {
        self.agent.set_remote_credentials(creds(remote));
        self.agent.handle_timeout(now);
    }

    /// Adds one of the peer's candidates; ignored beyond the limit.
    pub(crate) fn add_remote_candidate(&mut self, candidate: &sdp::Candidate, now: Instant) {
        self.describe_remote(candidate);
        // A lite agent sends no checks, so it has no use for candidates: it learns addresses
        // from the checks that arrive (and mDNS names do not matter).
        if self.lite || self.remote_candidates >= CANDIDATES_MAX {
            return;
        }
        let Some(candidate) = translate(candidate) else {
            return;
        };
        self.remote_candidates += 1;
        self.agent.add_remote_candidate(candidate);
        self.agent.handle_timeout(now);
    }

    /// Sets new credentials on both sides (RFC 8445 §9). The path stays in use until checks
    /// find a new one.
    pub(crate) fn restart(&mut self, local: IceCredentials, remote: IceCredentials, now: Instant) {
        self.agent.ice_restart(creds(local), true);
        self.agent.set_remote_credentials(creds(remote));
        self.remote_candidates = 0;
        self.nominated = None;
        self.wanted = None;
        // Media continues on the old path meanwhile (RFC 8445 §9: data can continue to be sent
        // using the previously selected pair).
        let path = self.path;
        self.validated.retain(|address| Some(*address) == path);
        if let Some(consent) = &mut self.consent {
            consent.restart(path, now);
        }
        self.agent.handle_timeout(now);
    }

    /// Returns when authentic STUN last arrived; from the path's address, for a lite agent.
    pub(crate) const fn last_received(&self) -> Instant {
        self.last_received
    }

    /// Returns the instant at which the peer counts as gone unless it is heard from before, and
    /// answers checks if it ever answered one.
    pub(crate) fn stun_deadline(&self) -> Instant {
        let silent = self.last_received + STUN_TIMEOUT;
        if self.heard_by_media {
            // A publisher that sends media may answer no checks. Little is sent to it.
            return silent;
        }
        let consent = self.consent.as_ref();
        let expired = consent.and_then(|consent| consent.deadline(self.path));
        expired.map_or(silent, |at| at.min(silent))
    }

    /// Counts authentic media as a sign of life from now on.
    pub(crate) fn count_media_as_life(&mut self) {
        self.media_is_life = true;
    }

    /// Notes that authentic media arrived from `source`.
    pub(crate) fn on_media(&mut self, now: Instant, source: TransportAddress) {
        if self.media_is_life && self.path == Some(source) {
            self.last_received = now;
            self.heard_by_media = true;
        }
    }

    /// Returns whether authentic media counts as a sign of life and has arrived.
    pub(crate) const fn is_heard_by_media(&self) -> bool {
        self.heard_by_media
    }

    /// Returns whether the peer proved that it receives at `address`.
    pub(crate) fn is_proven(&self, address: TransportAddress, now: Instant) -> bool {
        let consent = self.consent.as_ref();
        consent.is_some_and(|consent| consent.is_proven(address, now))
    }

    /// Returns the round-trip time of the last connectivity check; `None` for a lite agent,
    /// which sends none.
    pub(crate) fn round_trip(&self) -> Option<Duration> {
        self.agent.nominated_pair_rtt()
    }

    /// Returns whether authentic STUN arrived from `source`.
    pub(crate) fn is_validated(&self, source: TransportAddress) -> bool {
        self.path == Some(source) || self.validated.contains(&source)
    }

    /// Returns the number of authentic checks of the peer, and the addresses that they came from
    /// since the last restart.
    pub(crate) fn received(&self) -> (u32, &[TransportAddress]) {
        (self.received, &self.validated)
    }

    /// Returns how many checks this end sent, and how many of them were answered; zero for a full
    /// agent.
    pub(crate) fn own_checks(&self) -> (u32, u32) {
        let counts = self.consent.as_ref().map(|consent| consent.counts());
        counts.map_or((0, 0), |counts| (counts.sent, counts.answered))
    }

    /// Returns the remote address of the selected path.
    pub(crate) fn path(&self) -> Option<TransportAddress> {
        self.path
    }

    /// Takes a STUN message. It has an effect only if its integrity is right.
    pub(crate) fn handle_stun(
        &mut self,
        now: Instant,
        source: TransportAddress,
        destination: TransportAddress,
        datagram: &[u8],
    ) -> Result<Option<PathChange>, Ignored> {
        if self.take_response(now, source, datagram) {
            return Ok(self.follow_wanted(now));
        }
        let completed = match &self.agent {
            agent if self.lite => priority::complete(datagram, &agent.local_credentials().pass),
            _ => None,
        };
        let datagram = completed.as_deref().unwrap_or(datagram);
        let message = StunMessage::parse(datagram).map_err(|_| Ignored::Malformed)?;
        let known = self.validated.contains(&source);
        if !known && self.validated.len() >= ADDRESSES_MAX {
            if !self.lite {
                return Err(Ignored::TooManyAddresses);
            }
            if !self.agent.accepts_message(&message) {
                return Err(Ignored::Foreign);
            }
            self.forget_addresses();
        }
        let nominates = message.is_binding_request() && message.use_candidate();
        let packet = StunPacket {
            proto: protocol(source.transport),
            source: source.socket,
            destination: self.arrived_at(destination).socket,
            message,
        };
        if !self.agent.handle_packet(now, packet) {
            return Err(Ignored::Foreign);
        }
        if !known {
            self.validated.push(source);
        }
        self.received = self.received.saturating_add(1);
        if !self.lite || self.path.is_none_or(|path| path == source) {
            self.last_received = now;
        }
        self.agent.handle_timeout(now);
        let change = self.poll_change();
        let local = self.arrived_at(destination);
        if let Some(consent) = &mut self.consent {
            consent.ask(source, local, self.path, now);
        }
        if self.lite && nominates {
            return Ok(self.nominate(now, source, local).or(change));
        }
        Ok(change)
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) -> Option<PathChange> {
        if let Some(consent) = &mut self.consent {
            consent.handle_timeout(self.path, now);
        }
        self.agent.handle_timeout(now);
        self.end_hold(now).or(self.poll_change())
    }

    pub(crate) fn poll_timeout(&mut self) -> Option<Instant> {
        let consent = self.consent.as_ref();
        let consent = consent.and_then(|consent| consent.poll_timeout());
        let agent = self.agent.poll_timeout();
        let held = self.hold_deadline();
        [agent, consent, held].into_iter().flatten().min()
    }

    /// Writes the next STUN message over `out`. Returns the local address that it is sent from,
    /// and its destination.
    ///
    /// Checks go before responses: a peer that answers the check first has proven its address when
    /// the datagram arrives that the response lets it send.
    pub(crate) fn poll_transmit(
        &mut self,
        out: &mut Vec<u8>,
    ) -> Option<(TransportAddress, TransportAddress)> {
        if let Some(check) = self.poll_check(out) {
            return Some(check);
        }
        let transmit = self.agent.poll_transmit()?;
        out.clear();
        out.extend_from_slice(&transmit.contents);
        let address = |socket| transport_address(transmit.proto, socket);
        Some((address(transmit.source), address(transmit.destination)))
    }

    fn poll_change(&mut self) -> Option<PathChange> {
        let mut change = None;
        while let Some(event) = self.agent.poll_event() {
            match event {
                IceAgentEvent::NominatedSend {
                    proto,
                    source,
                    destination,
                    ..
                }
                    // A lite agent that has a path follows the peer instead, see `nominate`.
                    if !self.lite || self.path.is_none() =>
                {
                    self.path_local = Some(transport_address(proto, source));
                    let destination = transport_address(proto, destination);
                    if self.path.replace(destination) == Some(destination) {
                        continue;
                    }
                    change = Some(PathChange::Path(destination));
                }
                IceAgentEvent::IceConnectionStateChange(Disconnected) if !self.lite => {
                    change = Some(PathChange::Disconnected);
                }
                _ => {}
            }
        }
        change
    }

    /// Maps the address at which a datagram arrived to a candidate. A server behind a
    /// one-to-one NAT or on a wildcard socket receives at its inner address and offers its
    /// outer one, which is the only one that the agent knows.
    fn arrived_at(&self, destination: TransportAddress) -> TransportAddress {
        // A dual-stack socket shows IPv4 addresses as IPv4-mapped IPv6 addresses.
        let ip = destination.socket.ip().to_canonical();
        let destination = TransportAddress {
            socket: SocketAddr::new(ip, destination.socket.port()),
            ..destination
        };
        if self.local.contains(&destination) || self.relayed.contains(&destination) {
            return destination;
        }
        let is_like = |local: &&TransportAddress| {
            local.transport == destination.transport
                && local.socket.is_ipv4() == destination.socket.is_ipv4()
        };
        let candidate = self.local.iter().find(is_like);
        candidate.copied().unwrap_or(destination)
    }
}
