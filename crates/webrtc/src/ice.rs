//! The seam over `is`: connectivity checks, the path, and how it moves.
//!
//! The accepting side is ICE-lite (RFC 8445 §2.5): it answers checks on its one
//! port and sends none. The dialling side is a full, controlling agent.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use aws_lc_rs::hmac;
use is::stun::{StunMessage, StunPacket};
use is::{
    Candidate, CandidateKind, IceAgent, IceAgentEvent, IceConnectionState, IceCreds, Protocol,
};

use crate::sdp::{self, IceCredentials};

fn creds(credentials: IceCredentials) -> IceCreds {
    IceCreds {
        ufrag: credentials.ufrag,
        pass: credentials.pwd,
    }
}

/// STUN's message integrity by aws-lc (RFC 8489 §14.5).
#[derive(Debug)]
struct HmacSha1;

impl is::Sha1HmacProvider for HmacSha1 {
    fn sha1_hmac(&self, key: &[u8], payloads: &[&[u8]]) -> [u8; 20] {
        let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, key);
        let mut context = hmac::Context::with_key(&key);
        for payload in payloads {
            context.update(payload);
        }
        let mut tag = [0; 20];
        tag.copy_from_slice(context.sign().as_ref());
        tag
    }
}

static HMAC_SHA1: HmacSha1 = HmacSha1;

/// Addresses that a peer is remembered by. A phone that walks through networks
/// needs a few at a time; without a bound the agent's tables would grow with
/// every port a hostile peer sends from.
const ADDRESSES_MAX: usize = 24;
/// Remote candidates taken from SDP and trickle.
const CANDIDATES_MAX: usize = 32;
/// Checks go out no closer than this (RFC 8445 §14.2 suggests 50 ms for media
/// of unknown rate, 5 ms as the least); joins are short this way.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);
/// STUN answers are under 100 bytes; `is` sizes its buffers by this.
const STUN_BYTES: usize = 320;
/// A nomination of another path is believed once the path in use was not
/// confirmed for this long: aggressive nomination of several paths at once must
/// not make media jump between them.
const NOMINATION_HELD: Duration = Duration::from_millis(900);

/// Browsers check every 2.5–5 s, RFC 7675 §5.1 ends consent after 30 s; the
/// agent below gives a pair up after 15 s, and this catches what it does not
/// see: a restart that the peer never followed.
const SILENCE_MAX: Duration = Duration::from_secs(20);

/// Why a STUN message had no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ignored {
    /// It does not parse.
    Malformed,
    /// Its user name or message integrity is wrong, or it answers no request.
    Foreign,
    /// STUN came from more addresses than a peer may have.
    TooManyAddresses,
}

/// Something the session must act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Datagrams go here from now on.
    Path(SocketAddr),
    /// Nobody answers any more.
    Disconnected,
}

/// One ICE agent and the addresses it vouches for.
pub(crate) struct Agent {
    agent: Box<IceAgent>,
    lite: bool,
    local: Vec<SocketAddr>,
    /// Addresses on TURN servers that are ours, too.
    relayed: Vec<SocketAddr>,
    /// What the peer said of its addresses.
    described: Vec<(SocketAddr, CandidateKind)>,
    /// Addresses from which authentic STUN came, since the last restart.
    validated: Vec<SocketAddr>,
    remote_candidates: usize,
    path: Option<SocketAddr>,
    /// Which of our addresses `path` leaves from.
    path_local: Option<SocketAddr>,
    /// When the controlling peer last confirmed `path`.
    nominated: Option<Instant>,
    /// When authentic STUN last came.
    heard: Instant,
}

impl Agent {
    /// A controlled ICE-lite agent.
    pub(crate) fn lite(
        local: IceCredentials,
        tie_breaker: u64,
        addresses: &[SocketAddr],
        now: Instant,
    ) -> Self {
        Self::new(local, tie_breaker, addresses, true, now)
    }

    /// A controlling full agent.
    pub(crate) fn full(
        local: IceCredentials,
        tie_breaker: u64,
        addresses: &[SocketAddr],
        now: Instant,
    ) -> Self {
        Self::new(local, tie_breaker, addresses, false, now)
    }

    fn new(
        credentials: IceCredentials,
        tie_breaker: u64,
        addresses: &[SocketAddr],
        lite: bool,
        now: Instant,
    ) -> Self {
        let mut agent = IceAgent::with_hmac(creds(credentials), &HMAC_SHA1);
        agent.set_ice_lite(lite);
        agent.set_controlling(!lite);
        agent.set_control_tie_breaker(tie_breaker);
        agent.set_timing_advance(CHECK_INTERVAL);
        agent.set_mtu(STUN_BYTES..=1200);
        let mut local = Vec::with_capacity(addresses.len());
        for address in addresses.iter().take(CANDIDATES_MAX) {
            if let Ok(candidate) = Candidate::host(*address, Protocol::Udp) {
                agent.add_local_candidate(candidate);
                local.push(*address);
            }
        }
        Self {
            agent: Box::new(agent),
            lite,
            local,
            relayed: Vec::new(),
            described: Vec::new(),
            validated: Vec::new(),
            remote_candidates: 0,
            path: None,
            path_local: None,
            nominated: None,
            heard: now,
        }
    }

    /// Addresses that serve as host candidates, unusable ones left out.
    pub(crate) fn local(&self) -> &[SocketAddr] {
        &self.local
    }

    /// Adds an address on a TURN server, asked for from `base`.
    pub(crate) fn add_relayed(&mut self, relayed: SocketAddr, base: SocketAddr) {
        if let Ok(candidate) = Candidate::relayed(relayed, base, Protocol::Udp) {
            self.agent.add_local_candidate(candidate);
            self.relayed.push(relayed);
        }
    }

    /// Notes what the peer says of its addresses, for [`kind_of`](Self::kind_of).
    pub(crate) fn describe_remote(&mut self, candidate: &sdp::Candidate) {
        let known = self.described.len() < CANDIDATES_MAX;
        if let (true, Some(candidate)) = (known, translate(candidate)) {
            let described = (candidate.addr(), candidate.kind());
            self.described.push(described);
        }
    }

    /// How the peer learnt of its address, by its own words.
    pub(crate) fn kind_of(&self, remote: SocketAddr) -> CandidateKind {
        let mut described = self.described.iter();
        let found = described.find(|(address, _)| *address == remote);
        found.map_or(CandidateKind::PeerReflexive, |(_, kind)| *kind)
    }

    /// Which of our addresses the path leaves from, and whether it is on a TURN server.
    pub(crate) fn path_local(&self) -> Option<(SocketAddr, bool)> {
        let local = self.path_local?;
        Some((local, self.relayed.contains(&local)))
    }

    pub(crate) fn set_remote(&mut self, remote: IceCredentials, now: Instant) {
        self.agent.set_remote_credentials(creds(remote));
        self.agent.handle_timeout(now);
    }

    /// Adds one of the peer's addresses; beyond the bound it is ignored.
    pub(crate) fn add_remote_candidate(&mut self, candidate: &sdp::Candidate, now: Instant) {
        self.describe_remote(candidate);
        // A lite agent sends no checks, so it has no use for candidates: it
        // learns addresses from the checks that come in (and mDNS names do not matter).
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

    /// New credentials on both sides (RFC 8445 §9). The path stays in use until
    /// the checks find a new one.
    pub(crate) fn restart(&mut self, local: IceCredentials, remote: IceCredentials, now: Instant) {
        self.agent.ice_restart(creds(local), true);
        self.agent.set_remote_credentials(creds(remote));
        self.remote_candidates = 0;
        self.nominated = None;
        // Media keeps flowing over the old path meanwhile (RFC 8445 §9: data can
        // continue to be sent using the previously selected pair).
        let path = self.path;
        self.validated.retain(|address| Some(*address) == path);
        self.agent.handle_timeout(now);
    }

    /// When the peer counts as gone unless authentic STUN comes before.
    pub(crate) fn silent_at(&self) -> Instant {
        self.heard + SILENCE_MAX
    }

    /// The round trip of the last connectivity check; a lite agent sends none.
    pub(crate) fn round_trip(&self) -> Option<Duration> {
        self.agent.nominated_pair_rtt()
    }

    /// True for an address that authentic STUN came from.
    pub(crate) fn is_validated(&self, source: SocketAddr) -> bool {
        self.path == Some(source) || self.validated.contains(&source)
    }

    /// Where datagrams go: the selected path.
    pub(crate) fn path(&self) -> Option<SocketAddr> {
        self.path
    }

    /// Uses an address that ICE validated before the peer nominated any.
    ///
    /// Chromium sends its ClientHello over the first path that works and
    /// nominates some 50 ms later, Pion 200 ms later; waiting for the
    /// nomination would add that to every join.
    pub(crate) fn use_before_nomination(
        &mut self,
        source: SocketAddr,
        destination: SocketAddr,
    ) -> bool {
        if self.path.is_some() || !self.validated.contains(&source) {
            return false;
        }
        self.path = Some(source);
        self.path_local = Some(self.arrived_at(destination));
        true
    }

    pub(crate) fn handle_stun(
        &mut self,
        now: Instant,
        source: SocketAddr,
        destination: SocketAddr,
        datagram: &[u8],
    ) -> Result<Option<Change>, Ignored> {
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
            proto: Protocol::Udp,
            source,
            destination: self.arrived_at(destination),
            message,
        };
        if !self.agent.handle_packet(now, packet) {
            return Err(Ignored::Foreign);
        }
        if !known {
            self.validated.push(source);
        }
        self.heard = now;
        self.agent.handle_timeout(now);
        let change = self.poll_change();
        if self.lite && nominates {
            let local = self.arrived_at(destination);
            return Ok(self.nominate(now, source, local).or(change));
        }
        Ok(change)
    }

    /// Empties the tables but for the path in use. A lite agent knows nothing
    /// that the peer's next checks would not tell it again; a viewer whose NAT
    /// gives it a new port now and then would otherwise go black after hours.
    fn forget_addresses(&mut self) {
        let local = self.agent.local_credentials().clone();
        let remote = self.agent.remote_credentials().cloned();
        self.agent.ice_restart(local, true);
        if let Some(remote) = remote {
            self.agent.set_remote_credentials(remote);
        }
        let path = self.path;
        self.validated.retain(|address| Some(*address) == path);
    }

    /// A lite agent follows the peer's last nomination: the agent below would
    /// stay with the older path of higher priority until it dies 15 s later,
    /// which is how a phone that leaves its Wi-Fi goes black.
    fn nominate(&mut self, now: Instant, source: SocketAddr, local: SocketAddr) -> Option<Change> {
        if self.path == Some(source) {
            self.nominated = Some(now);
            return None;
        }
        let held = self
            .nominated
            .is_some_and(|at| now.saturating_duration_since(at) < NOMINATION_HELD);
        if held {
            return None;
        }
        self.nominated = Some(now);
        self.path = Some(source);
        self.path_local = Some(local);
        Some(Change::Path(source))
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) -> Option<Change> {
        self.agent.handle_timeout(now);
        self.poll_change()
    }

    pub(crate) fn poll_timeout(&mut self) -> Option<Instant> {
        self.agent.poll_timeout()
    }

    /// Writes the next STUN message and returns which of our addresses it leaves from,
    /// and its destination.
    pub(crate) fn poll_transmit(&mut self, out: &mut Vec<u8>) -> Option<(SocketAddr, SocketAddr)> {
        let transmit = self.agent.poll_transmit()?;
        out.clear();
        out.extend_from_slice(&transmit.contents);
        Some((transmit.source, transmit.destination))
    }

    fn poll_change(&mut self) -> Option<Change> {
        let mut change = None;
        while let Some(event) = self.agent.poll_event() {
            match event {
                IceAgentEvent::NominatedSend {
                    source,
                    destination,
                    ..
                }
                    // Once a lite agent has a path it follows the peer, see `nominate`.
                    if !self.lite || self.path.is_none() =>
                {
                    self.path_local = Some(source);
                    if self.path.replace(destination) == Some(destination) {
                        continue;
                    }
                    change = Some(Change::Path(destination));
                }
                IceAgentEvent::IceConnectionStateChange(IceConnectionState::Disconnected) => {
                    change = Some(Change::Disconnected);
                }
                _ => {}
            }
        }
        change
    }

    /// A server behind a one-to-one NAT or on a wildcard socket is addressed by
    /// its inner address and offers its outer one; the agent knows only the latter.
    fn arrived_at(&self, destination: SocketAddr) -> SocketAddr {
        // A dual-stack socket shows IPv4 as mapped IPv6.
        let destination = SocketAddr::new(destination.ip().to_canonical(), destination.port());
        if self.local.contains(&destination) || self.relayed.contains(&destination) {
            return destination;
        }
        self.local
            .iter()
            .find(|local| local.is_ipv4() == destination.is_ipv4())
            .copied()
            .unwrap_or(destination)
    }
}

/// `None` for what we cannot reach: TCP, RTCP of its own, unresolved names.
fn translate(candidate: &sdp::Candidate) -> Option<Candidate> {
    let address = candidate.socket_addr()?;
    let kind = match candidate.kind {
        sdp::CandidateKind::Host => CandidateKind::Host,
        sdp::CandidateKind::ServerReflexive => CandidateKind::ServerReflexive,
        sdp::CandidateKind::PeerReflexive => CandidateKind::PeerReflexive,
        sdp::CandidateKind::Relay => CandidateKind::Relayed,
        _ => return None,
    };
    if candidate.protocol != sdp::Protocol::Udp || candidate.component != 1 || address.port() == 0 {
        return None;
    }
    Some(Candidate::from_parts(
        candidate.foundation.clone(),
        1,
        Protocol::Udp,
        candidate.priority,
        address,
        kind,
        None,
        None,
        candidate.extension("ufrag").map(str::to_owned),
    ))
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agent")
            .field("lite", &self.lite)
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}
