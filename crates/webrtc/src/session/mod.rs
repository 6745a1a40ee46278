//! One peer: ICE, DTLS, SRTP, RTCP and data channels, driven by datagrams and `now`.
//!
//! After every input (`handle_*`, a command, a seal) call [`Session::poll_transmit`] and
//! [`Session::poll_event`] until they return `None`, then wait until [`Session::poll_timeout`].
//! Nothing here allocates per media packet, and every queue has a limit. A session with data
//! channels needs two more calls: [`Session::end_batch`] after the datagrams that arrived
//! together, and [`Session::poll_transmit_batch`] in place of `poll_transmit`.

mod anchor;
mod budget;
mod burst_size;
mod channels;
mod config;
mod congestion;
mod congestion_control;
mod connection_report;
mod control;
mod counts;
mod data;
mod error;
mod establish;
mod event;
mod fec;
mod fec_stream;
mod feedback_allowance;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod index;
mod lifecycle;
mod media;
mod narrowing;
mod outgoing;
mod path;
mod rebuilding;
mod receiver;
mod repairs;
mod reports;
mod reseal;
mod sender;
mod standby;
mod template;
#[cfg(test)]
pub(crate) mod tests;
mod turn_path;
mod unchecked;

pub use config::{
    AcceptConfig, DataConfig, DialConfig, Kinds, ReceiveMode, Secrets, SimulcastLayer, TRACKS_MAX,
    TrackSecrets,
};
pub use congestion::{ControlPlan, ControlStart};
pub use congestion_control::PathReport;
pub use connection_report::ConnectionReport;
pub use counts::Counts;
pub use data::DataCounts;
pub use error::{AcceptError, SetAnswerError};
pub use event::{CloseReason, Dropped, Event, NACK_LOST_MAX, Received, Sealed};
pub use fec::ProtectedHeader;
pub use fec_stream::Fec;
pub use index::{LayerIndex, ReceiverIndex, SenderIndex};
pub use outgoing::SKIP_MAX;
pub use path::{Path, PathEnd};
pub use rebuilding::FecCounts;
pub use receiver::{Receiver, SenderTime};
pub use repairs::REPAIRS_MAX;
pub use sender::{Rtx, Sender};

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_media::{Ssrc, TrackIndex};
use glassline_rtp::twcc::{Recorder, SendHistory};
use smallvec::SmallVec;

use crate::demux::{DatagramKind, classify, is_rtcp};
use crate::dtls::{Association, Certificate, CipherChoice};
use crate::ice::{self, PathChange};
use crate::sdp::{self, IceCredentials};
use crate::srtp::{Inbound, Outbound};
use crate::{TransportAddress, turn};

use congestion::Congestion;
use data::Data;
use event::EventQueue;
use path::Unwrapped;
use reports::Reports;

/// One WebRTC session with one peer. [`Session::accept`] answers an offer, [`Session::dial`]
/// makes one; the [crate's example](crate) shows both.
#[derive(Debug)]
pub struct Session {
    state: State,
    ice: ice::Agent,
    /// Allocations on TURN servers; empty unless this end dialed.
    turn_allocations: Vec<turn::Allocation>,
    dtls: Option<Association>,
    keys: Option<Box<Keys>>,
    /// Stored inline, so that sealing follows fewer pointers to memory that is not cached.
    senders: SmallVec<[Sender; 2]>,
    receivers: Vec<Receiver>,
    data: Option<Box<Data>>,
    mode: ReceiveMode,
    /// Extended transport-wide sequence number of the next packet that carries one.
    transport_sequence: u64,
    history: SendHistory,
    /// Congestion control of what is sent, or what starts it.
    congestion: Congestion,
    recorder: Option<Box<Recorder>>,
    reports: Reports,
    events: EventQueue,
    /// SSRC of the RTCP packets that are sent; it does not change.
    rtcp_ssrc: Ssrc,
    /// ICE credentials of this end.
    local: IceCredentials,
    remote: Option<IceCredentials>,
    /// The state that a dialed session needs until the answer arrives.
    dialing: Option<Box<Dialing>>,
    /// Cached result of [`poll_timeout`](Self::poll_timeout), which is called after every burst
    /// of media although media moves no deadline. Everything that may move a deadline clears
    /// the cache.
    timeout: Option<Option<Instant>>,
}

/// SRTP contexts of both directions.
#[derive(Debug)]
struct Keys {
    outbound: Outbound,
    inbound: Inbound,
}

/// The state that a dialed session needs until the answer arrives.
#[derive(Debug)]
struct Dialing {
    certificate: Arc<Certificate>,
    offer: sdp::SessionDescription,
    /// RTP sources of each `m=` line on which the offer sends, in the order of the lines.
    sent: Vec<Vec<SentSource>>,
    /// Configured choice of ciphers for data.
    cipher: Option<CipherChoice>,
}

/// A track that an offer sends, or a layer of one.
#[derive(Debug)]
struct SentSource {
    track: TrackIndex,
    secrets: TrackSecrets,
    /// RID of a simulcast layer.
    rid: Option<String>,
}

/// State of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// ICE and DTLS run; the peer has until `deadline` to finish the handshake.
    Connecting {
        deadline: Instant,
    },
    Connected,
    Closed,
}

/// Time within which ICE and DTLS must finish, unless
/// [`set_handshake_deadline`](Session::set_handshake_deadline) changes it. Half-open sessions
/// cost memory on a server, and a viewer that needs longer has tried again by then.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
impl Session {
    /// Handles one datagram. RTP and RTCP are decrypted in place.
    ///
    /// `source` is the remote address, `destination` the local address at which it arrived.
    ///
    /// # Errors
    /// [`Dropped`] states why the datagram had no effect; count it and continue.
    pub fn handle_datagram<'a>(
        &mut self,
        now: Instant,
        source: impl Into<TransportAddress>,
        destination: impl Into<TransportAddress>,
        datagram: &'a mut [u8],
    ) -> Result<Received<'a>, Dropped> {
        let (source, destination) = (source.into(), destination.into());
        self.timeout = None;
        if self.state == State::Closed {
            return Err(Dropped::Closed);
        }
        match self.unwrap_relayed(now, source, datagram) {
            Unwrapped::Direct => self.handle_peer(now, source, destination, datagram),
            Unwrapped::Consumed => Ok(Received::Consumed),
            Unwrapped::Relayed {
                peer,
                relayed,
                range,
            } => self.handle_peer(now, peer.into(), relayed.into(), &mut datagram[range]),
        }
    }

    /// Handles a datagram of the peer, outside of any TURN frame.
    fn handle_peer<'a>(
        &mut self,
        now: Instant,
        source: TransportAddress,
        destination: TransportAddress,
        datagram: &'a mut [u8],
    ) -> Result<Received<'a>, Dropped> {
        let first = datagram.first().copied().ok_or(Dropped::Unknown)?;
        match classify(first) {
            DatagramKind::Stun => {
                let change = self.ice.handle_stun(now, source, destination, datagram)?;
                self.on_path_change(now, change);
                Ok(Received::Consumed)
            }
            DatagramKind::Other => Err(Dropped::Unknown),
            // DTLS and media are accepted only from addresses that ICE validated.
            _ if !self.ice.is_validated(source) => Err(Dropped::UnknownAddress),
            DatagramKind::Dtls => {
                if self.ice.use_before_nomination(source, destination) {
                    self.on_path_change(now, Some(PathChange::Path(source)));
                }
                let dtls = self.dtls.as_mut().ok_or(Dropped::TooEarly)?;
                let data = &mut self.data;
                let progress = dtls.handle_datagram(now, datagram, |packet| {
                    if let Some(data) = data {
                        data.handle_packet(packet, now);
                    }
                })?;
                self.on_progress(now, progress);
                Ok(Received::Consumed)
            }
            DatagramKind::Rtp if is_rtcp(datagram) => {
                self.handle_rtcp(now, datagram)?;
                self.on_authentic_media(now, source);
                Ok(Received::Consumed)
            }
            DatagramKind::Rtp => {
                let received = self.handle_rtp(now, datagram)?;
                self.on_authentic_media(now, source);
                Ok(received)
            }
        }
    }

    /// Handles everything that is due at `now`. Call it at
    /// [`poll_timeout`](Self::poll_timeout); a call before that has no effect.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.timeout = None;
        match self.state {
            State::Closed => return,
            State::Connecting { deadline } if now >= deadline => {
                return self.finish(CloseReason::HandshakeTimeout);
            }
            State::Connected if now >= self.ice.stun_deadline() => {
                return self.finish(CloseReason::Vanished);
            }
            _ => {}
        }
        self.handle_turn_timeouts(now);
        if self.ice.poll_timeout().is_some_and(|at| at <= now) {
            let change = self.ice.handle_timeout(now);
            self.on_path_change(now, change);
        }
        if let Some(dtls) = &mut self.dtls
            && dtls.poll_timeout().is_some_and(|at| at <= now)
        {
            let progress = dtls.handle_timeout(now);
            self.on_progress(now, progress);
        }
        if self.state == State::Connected {
            if let Some(data) = &mut self.data
                && data.poll_timeout().is_some_and(|at| at <= now)
            {
                data.handle_timeout(now);
            }
            self.send_reports(now);
        }
    }

    /// Returns the instant at which [`handle_timeout`](Self::handle_timeout) is due; `None`
    /// once the session is closed.
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        if let Some(known) = self.timeout {
            debug_assert_eq!(known, self.earliest_timeout(), "a deadline moved unseen");
            return known;
        }
        let found = self.earliest_timeout();
        self.timeout = Some(found);
        found
    }

    fn earliest_timeout(&mut self) -> Option<Instant> {
        let limit = match self.state {
            State::Closed => return None,
            State::Connecting { deadline } => deadline,
            State::Connected => self.ice.stun_deadline(),
        };
        let (reports, data) = match self.state {
            State::Connected => (
                self.reports_at(),
                self.data.as_ref().and_then(|data| data.poll_timeout()),
            ),
            _ => (None, None),
        };
        let dtls = self.dtls.as_ref().and_then(Association::poll_timeout);
        let turn_allocations = self
            .turn_allocations
            .iter()
            .filter_map(turn::Allocation::poll_timeout)
            .min();
        let ice = self.ice.poll_timeout();
        [Some(limit), reports, data, ice, dtls, turn_allocations]
            .into_iter()
            .flatten()
            .min()
    }

    /// Writes the next datagram over `out` and returns its destination. Call until `None`.
    ///
    /// After the session closed, the datagrams that tell the peer remain to be sent.
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>) -> Option<TransportAddress> {
        while let Some((local, remote)) = self.ice.poll_transmit(out) {
            self.timeout = None;
            if let Some(destination) = self.wrap_relayed(local, remote, out) {
                return Some(destination);
            }
        }
        while let Some(remote) = self.poll_path_transmit(out) {
            let local = self.ice.path_local().map_or(remote, |(local, _)| local);
            if let Some(destination) = self.wrap_relayed(local, remote, out) {
                return Some(destination);
            }
        }
        self.poll_turn_transmit(out)
    }

    /// Writes the next datagram for the selected path.
    fn poll_path_transmit(&mut self, out: &mut Vec<u8>) -> Option<TransportAddress> {
        let path = self.ice.path()?;
        if let Some(datagram) = self.dtls.as_mut().and_then(Association::poll_transmit) {
            self.timeout = None;
            self.ice.on_handshake_sent();
            out.clear();
            out.extend_from_slice(&datagram);
            return Some(path);
        }
        let datagram = self.reports.queue.pop_front()?;
        out.clear();
        out.extend_from_slice(&datagram);
        Some(path)
    }

    /// Returns the next event. Call until `None`.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop()
    }

    /// Adds an address of this end from which the peer can be reached: that of a TCP connection to
    /// one of the peer's passive candidates (RFC 6544 §4.1), or of another interface. The address
    /// makes pairs with the peer's candidates of the same protocol.
    pub fn add_local(&mut self, address: TransportAddress) {
        self.timeout = None;
        self.ice.add_local(address);
    }

    /// Adds a candidate that the peer trickled (RFC 8838). ICE-lite sessions ignore candidates;
    /// names, and TCP candidates that are not passive, are always ignored.
    pub fn add_remote_candidate(&mut self, candidate: &sdp::Candidate, now: Instant) {
        self.timeout = None;
        self.ice.add_remote_candidate(candidate, now);
    }

    /// Returns the tracks that are sent, in the order of [`SenderIndex`].
    pub fn senders(&self) -> &[Sender] {
        &self.senders
    }

    /// Returns the `m=` lines on which media is received; empty before the answer.
    pub fn receivers(&self) -> &[Receiver] {
        &self.receivers
    }

    /// Returns the number of packets of a receiver that were given up since the last call. If
    /// it is not zero, request a keyframe.
    pub fn take_given_up(&mut self, receiver: ReceiverIndex) -> u64 {
        let receiver = self.receivers.get_mut(receiver.0);
        receiver.map_or(0, Receiver::take_given_up)
    }

    /// Returns the number of packets that were requested by NACK, each request counted.
    pub fn nacked(&self) -> u64 {
        self.reports.nacked
    }

    /// Returns the address to which datagrams for the peer go; `None` before ICE found a path.
    pub fn peer(&self) -> Option<TransportAddress> {
        self.ice.path()
    }

    /// Returns whether datagrams from `source` to `destination` come by the path that ICE chose.
    pub fn is_path(
        &self,
        source: impl Into<TransportAddress>,
        destination: impl Into<TransportAddress>,
    ) -> bool {
        self.ice.is_path(source.into(), destination.into())
    }

    /// Returns whether the peer proved at most 30 s ago that it receives at `address`: it answered
    /// a check there, or made the handshake there. Only an ICE-lite end knows this.
    pub fn is_proven(&self, address: impl Into<TransportAddress>, now: Instant) -> bool {
        self.ice.is_proven(address.into(), now)
    }

    /// Returns whether the handshake is done, so that media can be sent.
    pub fn is_connected(&self) -> bool {
        self.state == State::Connected
    }

    /// Returns whether the session has ended.
    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// Returns the local ICE credentials. The user name of STUN requests to this session begins
    /// with their user fragment.
    pub fn local_credentials(&self) -> &IceCredentials {
        &self.local
    }

    /// Returns the peer's ICE credentials; `None` before the answer.
    pub fn remote_credentials(&self) -> Option<&IceCredentials> {
        self.remote.as_ref()
    }

    /// Returns the number of events that were lost because the owner did not poll.
    pub fn events_dropped(&self) -> u64 {
        self.events.dropped()
    }
}
