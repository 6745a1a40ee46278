//! One peer: ICE, DTLS, SRTP and RTCP joined, driven by bytes and `now`.
//!
//! After every input (`handle_*`, a command, a seal) drain
//! [`Session::poll_transmit`] and [`Session::poll_event`], then sleep until
//! [`Session::poll_timeout`]. Nothing here allocates per media packet, and every
//! queue has a bound. With data channels call [`Session::end_batch`] after the
//! datagrams that came together, and drain [`Session::poll_transmit_batch`] instead.

mod config;
mod control;
mod data;
mod establish;
mod event;
mod media;
mod path;
mod receiver;
mod sender;
mod steering;
#[cfg(test)]
pub(crate) mod tests;

pub use config::{
    AcceptConfig, DataConfig, DialConfig, Kinds, ReceiveMode, Secrets, TRACKS_MAX, TrackSecrets,
};
pub use data::DataCounts;
pub use establish::{AcceptError, SetAnswerError};
pub use event::{CloseReason, Dropped, Event, NACK_LOST_MAX, Received, Sealed};
pub use path::{Path, PathEnd};
pub use receiver::{Receiver, SenderTime};
pub use sender::{Counts, REPAIRS_MAX, Rtx, Sender};
pub use steering::PathReport;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_congestion::Algorithm;
use glassline_media::{Ssrc, WallClock};
use glassline_rtp::twcc::{Recorder, SendHistory};
use smallvec::SmallVec;

use crate::demux::{DatagramKind, classify, is_rtcp};
use crate::dtls::{Association, Certificate, CipherChoice, Material, Progress};
use crate::ice::{self, Change};
use crate::sdp::{self, IceCredentials};
use crate::srtp::{self, Inbound, Outbound, Role};
use crate::turn;

use data::Data;
use path::Unwrapped;
use sender::Outgoing;
use steering::Steering;

/// One WebRTC peer session.
#[derive(Debug)]
pub struct Session {
    state: State,
    ice: ice::Agent,
    /// Allocations on TURN servers; none but where we dial.
    relays: Vec<turn::Relay>,
    dtls: Option<Association>,
    keys: Option<Box<Keys>>,
    /// In place: sealing follows fewer pointers to memory that is far away.
    senders: SmallVec<[Sender; 2]>,
    receivers: Vec<Receiver>,
    data: Option<Box<Data>>,
    mode: ReceiveMode,
    /// Wide number of the next packet that carries one.
    transport_sequence: u64,
    history: SendHistory,
    /// Congestion control of what is sent, if it is switched on.
    steering: Option<Box<Steering>>,
    recorder: Option<Box<Recorder>>,
    /// Sealed RTCP, to be sent.
    rtcp: VecDeque<Vec<u8>>,
    events: VecDeque<Event>,
    events_dropped: u64,
    report_at: Option<Instant>,
    nacked: u64,
    wall: WallClock,
    /// Names that stay: RTCP's canonical name, the SSRC we report under, and ours in ICE.
    cname: Box<str>,
    rtcp_ssrc: Ssrc,
    local: IceCredentials,
    remote: Option<IceCredentials>,
    /// What a dialled session needs until the answer comes.
    dialling: Option<Box<Dialling>>,
    /// What [`poll_timeout`](Self::poll_timeout) last found. Asked for after every
    /// burst of media, which moves no deadline; whatever may move one forgets it.
    timeout: Option<Option<Instant>>,
}

/// SRTP in both directions.
#[derive(Debug)]
struct Keys {
    outbound: Outbound,
    inbound: Inbound,
}

#[derive(Debug)]
struct Dialling {
    certificate: Arc<Certificate>,
    offer: sdp::SessionDescription,
    /// Tracks that the offer sends, in the order of its `m=` lines.
    sent: Vec<(usize, TrackSecrets)>,
    /// What was configured for data.
    cipher: Option<CipherChoice>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Until this instant the peer may finish the handshake.
    Connecting {
        deadline: Instant,
    },
    Connected,
    Closed,
}

/// ICE and DTLS together may take this long, unless told otherwise. Half-open sessions cost memory on a
/// server; a viewer that needs longer has tried again by then.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// Events that wait for the owner. They are drained after every input, so that
/// only an owner that stopped draining meets the bound; newer ones are dropped.
const EVENTS_MAX: usize = 64;
/// Sequence numbers that [`Session::skip`] leaves out at most: far fewer than the 2¹⁵ from
/// which on a peer would take them for a step back (RFC 3711 §3.3.1).
pub const SKIP_MAX: u16 = 1000;
/// RTCP datagrams that wait for a path; the oldest goes first.
const RTCP_MAX: usize = 16;

impl Session {
    /// Feeds one datagram of the peer; RTP and RTCP are decrypted in place.
    ///
    /// `destination` is the local address it came to.
    ///
    /// # Errors
    /// [`Dropped`] says why it had no effect: count it and go on.
    pub fn handle_datagram<'a>(
        &mut self,
        now: Instant,
        source: SocketAddr,
        destination: SocketAddr,
        datagram: &'a mut [u8],
    ) -> Result<Received<'a>, Dropped> {
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
            } => self.handle_peer(now, peer, relayed, &mut datagram[range]),
        }
    }

    /// A datagram of the peer, out of any relay's frame.
    fn handle_peer<'a>(
        &mut self,
        now: Instant,
        source: SocketAddr,
        destination: SocketAddr,
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
            // Only addresses that ICE vouches for get at DTLS and the media keys.
            _ if !self.ice.is_validated(source) => Err(Dropped::UnknownAddress),
            DatagramKind::Dtls => {
                if self.ice.use_before_nomination(source, destination) {
                    self.on_path_change(now, Some(Change::Path(source)));
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
                Ok(Received::Consumed)
            }
            DatagramKind::Rtp => self.handle_rtp(now, datagram),
        }
    }

    /// Lets time pass: call at [`poll_timeout`](Self::poll_timeout); earlier does no harm.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.timeout = None;
        match self.state {
            State::Closed => return,
            State::Connecting { deadline } if now >= deadline => {
                return self.finish(CloseReason::HandshakeTimeout);
            }
            State::Connected if now >= self.ice.silent_at() => {
                return self.finish(CloseReason::Vanished);
            }
            _ => {}
        }
        self.handle_relay_timeouts(now);
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

    /// When [`handle_timeout`](Self::handle_timeout) is due; `None` once closed.
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
            State::Connected => self.ice.silent_at(),
        };
        let (reports, data) = match self.state {
            State::Connected => (
                self.reports_at(),
                self.data.as_ref().and_then(|data| data.poll_timeout()),
            ),
            _ => (None, None),
        };
        let dtls = self.dtls.as_ref().and_then(Association::poll_timeout);
        let relays = self
            .relays
            .iter()
            .filter_map(turn::Relay::poll_timeout)
            .min();
        let ice = self.ice.poll_timeout();
        [Some(limit), reports, data, ice, dtls, relays]
            .into_iter()
            .flatten()
            .min()
    }

    /// Writes the next datagram over `out` and returns where it goes; call until `None`.
    ///
    /// Gives the farewell after the session closed.
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>) -> Option<SocketAddr> {
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
        self.poll_relay_transmit(out)
    }

    /// The next datagram for the path.
    fn poll_path_transmit(&mut self, out: &mut Vec<u8>) -> Option<SocketAddr> {
        let path = self.ice.path()?;
        if let Some(datagram) = self.dtls.as_mut().and_then(Association::poll_transmit) {
            self.timeout = None;
            out.clear();
            out.extend_from_slice(&datagram);
            return Some(path);
        }
        let datagram = self.rtcp.pop_front()?;
        out.clear();
        out.extend_from_slice(&datagram);
        Some(path)
    }

    /// The next event; call until `None`.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Seals one payload as a datagram for [`peer`](Self::peer) into `out`.
    ///
    /// `timestamp` goes on the wire as it is. `None` before
    /// [`Event::Connected`], after the end, for an unknown sender, or if `out`
    /// has no room for 20 bytes of header, the payload and 16 of tag. All
    /// datagrams of a sender have the same overhead.
    #[inline]
    pub fn seal(
        &mut self,
        sender: usize,
        timestamp: u32,
        marker: bool,
        payload: &[u8],
        now: Instant,
        out: &mut [u8],
    ) -> Option<Sealed> {
        self.seal_padded(sender, timestamp, marker, payload, 0, now, out)
    }

    /// Like [`seal`](Self::seal), made longer by `padding` bytes (RFC 3550 §5.1), at
    /// most 16. `None`, too, for more or if the sender may not ([`Sender::may_pad`]).
    #[inline]
    #[expect(
        clippy::too_many_arguments,
        reason = "a packet's fields, once; a struct would be built for this call only"
    )]
    pub fn seal_padded(
        &mut self,
        sender: usize,
        timestamp: u32,
        marker: bool,
        payload: &[u8],
        padding: u8,
        now: Instant,
        out: &mut [u8],
    ) -> Option<Sealed> {
        if self.state != State::Connected {
            return None;
        }
        let sender = self.senders.get_mut(sender)?;
        if padding > 0 && !sender.may_pad() {
            return None;
        }
        let keys = self.keys.as_mut()?;
        let packet = Outgoing {
            timestamp,
            marker,
            payload,
            padding,
        };
        let transport = sender::wire(self.transport_sequence);
        if sender.report_at().is_none() {
            // Its first report becomes due with its first packet.
            self.timeout = None;
        }
        let sealed = sender.seal(&mut keys.outbound, transport, packet, now, out)?;
        if sender.is_numbered() {
            self.note_sent(sealed.bytes, now);
        }
        Some(Sealed {
            len: sealed.bytes,
            sequence: sealed.index,
        })
    }

    /// Leaves out the next `count` sequence numbers of a sender: packets that were lost
    /// before they came here, so that the peer sees a loss for what it is, and not for
    /// silence. False if nothing can be sealed, or for more than [`SKIP_MAX`].
    pub fn skip(&mut self, sender: usize, count: u16) -> bool {
        let (Some(sender), Some(keys)) = (self.senders.get_mut(sender), self.keys.as_mut()) else {
            return false;
        };
        count <= SKIP_MAX && sender.skip(&mut keys.outbound, count).is_some()
    }

    /// Seals again the packet that [`seal`](Self::seal) gave `original_sequence`,
    /// from the same timestamp, marker and payload; returns the bytes written.
    ///
    /// With RTX (RFC 4588) it goes out under its own SSRC and number. Without,
    /// the very datagram of the first time is made again: the same nonce is then
    /// sound, because it seals the same bytes, and this is checked (see
    /// [`Outbound::reseal`]); senders without RTX carry nothing that changes
    /// between sendings. `None` if it cannot be: never sent, too long ago
    /// (without RTX: 512 packets), NACK not negotiated, other bytes.
    #[expect(
        clippy::too_many_arguments,
        reason = "a packet's fields, once; a struct would be built for this call only"
    )]
    pub fn seal_retransmission(
        &mut self,
        sender: usize,
        original_sequence: u64,
        timestamp: u32,
        marker: bool,
        payload: &[u8],
        now: Instant,
        out: &mut [u8],
    ) -> Option<usize> {
        if self.state != State::Connected {
            return None;
        }
        let sender = self.senders.get_mut(sender)?;
        let keys = self.keys.as_mut()?;
        let packet = Outgoing {
            timestamp,
            marker,
            payload,
            padding: 0,
        };
        let bytes = sender.seal_retransmission(
            &mut keys.outbound,
            sender::wire(self.transport_sequence),
            original_sequence,
            &packet,
            out,
        )?;
        if sender.is_numbered() {
            self.note_sent(bytes, now);
        }
        Some(bytes)
    }

    /// A packet with a transport-wide number left.
    #[inline]
    fn note_sent(&mut self, bytes: usize, now: Instant) {
        self.history.sent(self.transport_sequence, now, bytes);
        if let Some(steering) = &mut self.steering {
            steering.on_sent(self.transport_sequence, bytes, now);
        }
        self.transport_sequence += 1;
    }

    /// Puts what is sent under congestion control, by what the peer's transport-wide
    /// feedback tells: [`budget`](Self::budget) then says how much may leave. False,
    /// and nothing changes, if the peer agreed to none for any track.
    pub fn steer(&mut self, algorithm: Algorithm, now: Instant) -> bool {
        let numbered = self.senders.iter().any(Sender::is_numbered);
        if numbered {
            self.steering = Some(Box::new(Steering::new(algorithm, now)));
        }
        numbered
    }

    /// What is sent is under congestion control.
    #[inline]
    pub const fn is_steered(&self) -> bool {
        self.steering.is_some()
    }

    /// Bytes that may leave at `now`; `None` if nothing bounds them. What leaves
    /// without asking counts all the same.
    #[inline]
    pub fn budget(&mut self, now: Instant) -> Option<u64> {
        Some(self.steering.as_mut()?.budget(now))
    }

    /// When `bytes` may leave, unless feedback allows them before; `None` if nothing
    /// bounds them, or only feedback can tell.
    pub fn budget_at(&mut self, bytes: u64, now: Instant) -> Option<Instant> {
        self.steering.as_mut()?.budget_at(now, bytes)
    }

    /// There is nothing more to send for now, though more might leave: rates that are
    /// measured meanwhile are not the path's.
    #[inline]
    pub fn note_idle(&mut self) {
        if let Some(steering) = &mut self.steering {
            steering.on_idle();
        }
    }

    /// How the way to the peer stands, as congestion control sees it; `None` without.
    pub fn path_report(&self) -> Option<PathReport> {
        Some(self.steering.as_ref()?.report())
    }

    /// Reads a little of everything that [`seal`](Self::seal) reads, and returns a
    /// number of no meaning.
    ///
    /// A server with many sessions finds each one gone from the nearer caches
    /// whenever its turn comes. Sealing meets those misses one after the other;
    /// here they overlap. Call it for the session after the one being sealed.
    pub fn touch(&self) -> u64 {
        let senders = self.senders.iter().map(Sender::touch).sum::<u64>();
        let keys = self.keys.as_ref().map_or(0, |keys| keys.outbound.touch());
        let own = self.transport_sequence + u64::from(self.timeout.is_some());
        let path = u64::from(self.ice.path().is_some());
        senders ^ keys ^ own ^ path ^ self.history.len() as u64
    }

    /// Sends a sender's packets under the payload type of its redundancy (RFC 2198), whose
    /// payloads the caller then makes, or under its own. False, and nothing changes, if
    /// the peer takes no redundancy.
    pub fn set_redundant(&mut self, sender: usize, redundant: bool) -> bool {
        let sender = self.senders.get_mut(sender);
        sender.is_some_and(|sender| sender.set_redundant(redundant))
    }

    /// States that RTP timestamp `timestamp` of a sender is the instant `at`;
    /// sender reports extrapolate from it. Without, from the first packet sealed.
    pub fn anchor(&mut self, sender: usize, timestamp: u32, at: Instant) {
        if let Some(sender) = self.senders.get_mut(sender) {
            sender.set_anchor(timestamp, at);
        }
    }

    /// Gives the peer until `deadline` to finish the handshake, instead of ten
    /// seconds; no use beyond 25 s, when DTLS gives up. Nothing once connected.
    pub fn set_handshake_deadline(&mut self, deadline: Instant) {
        self.timeout = None;
        if let State::Connecting { .. } = self.state {
            self.state = State::Connecting { deadline };
        }
    }

    /// Says goodbye (RTCP BYE, DTLS close_notify) and ends the session.
    pub fn close(&mut self, now: Instant) {
        self.timeout = None;
        if self.state == State::Closed {
            return;
        }
        if self.keys.is_some() {
            self.send_bye(now);
        }
        self.abort_data(now);
        if let Some(dtls) = &mut self.dtls {
            dtls.close(now);
        }
        for relay in &mut self.relays {
            relay.note_now(now);
        }
        self.finish(CloseReason::Local);
    }

    /// Restarts ICE (RFC 8445 §9) with new credentials on both sides; media
    /// keeps flowing over the old path until a new one is found.
    pub fn restart_ice(&mut self, local: IceCredentials, remote: IceCredentials, now: Instant) {
        self.timeout = None;
        self.local = local.clone();
        self.remote = Some(remote.clone());
        self.ice.restart(local, remote, now);
    }

    /// Adds a candidate that the peer trickled (RFC 8838). An ICE-lite session
    /// has no use for it; names and TCP are ignored.
    pub fn add_remote_candidate(&mut self, candidate: &sdp::Candidate, now: Instant) {
        self.timeout = None;
        self.ice.add_remote_candidate(candidate, now);
    }

    /// What we send, in the order of [`seal`](Self::seal)'s index.
    pub fn senders(&self) -> &[Sender] {
        &self.senders
    }

    /// What we receive; empty before the answer.
    pub fn receivers(&self) -> &[Receiver] {
        &self.receivers
    }

    /// Packets of a receiver given up since the last call: time to ask for a
    /// keyframe.
    pub fn take_given_up(&mut self, receiver: usize) -> u64 {
        let receiver = self.receivers.get_mut(receiver);
        receiver.map_or(0, Receiver::take_given_up)
    }

    /// Packets asked for again, each time counted.
    pub fn nacked(&self) -> u64 {
        self.nacked
    }

    /// Where datagrams for the peer go; `None` before ICE found a path.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.ice.path()
    }

    /// Media can flow.
    pub fn is_connected(&self) -> bool {
        self.state == State::Connected
    }

    /// The session is over.
    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// Our ICE credentials: STUN requests to us begin with this user fragment.
    pub fn local_credentials(&self) -> &IceCredentials {
        &self.local
    }

    /// The peer's ICE credentials; `None` before the answer.
    pub fn remote_credentials(&self) -> Option<&IceCredentials> {
        self.remote.as_ref()
    }

    /// Events lost because the owner did not drain.
    pub fn events_dropped(&self) -> u64 {
        self.events_dropped
    }

    fn on_path_change(&mut self, now: Instant, change: Option<Change>) {
        let connected = self.state == State::Connected;
        match change {
            Some(Change::Path(peer)) if connected => self.push(Event::AddressChanged { peer }),
            Some(Change::Path(_)) => {
                if let Some(dtls) = &mut self.dtls
                    && dtls.poll_timeout().is_none()
                {
                    let progress = dtls.start(now);
                    self.on_progress(now, progress);
                }
            }
            Some(Change::Disconnected) if connected => self.finish(CloseReason::Vanished),
            // During the handshake its own deadline decides.
            Some(Change::Disconnected) | None => {}
        }
    }

    fn on_progress(&mut self, now: Instant, progress: Option<Progress>) {
        match progress {
            None => {}
            Some(Progress::Connected { role, srtp }) => self.connect(now, role, srtp),
            Some(Progress::WrongFingerprint) => {
                // Nothing more goes to an impostor, not even the queued Finished.
                self.dtls = None;
                self.finish(CloseReason::WrongFingerprint);
            }
            Some(Progress::FatalAlert(description)) => {
                tracing::debug!(description, ufrag = self.local.ufrag, "fatal DTLS alert");
                self.finish(CloseReason::Peer);
            }
            Some(Progress::CloseNotify) => self.finish(CloseReason::Peer),
            // Media does without DTLS once it has its keys.
            Some(Progress::Failed(error)) => {
                tracing::debug!(%error, ufrag = self.local.ufrag, "DTLS failed");
                if self.state != State::Connected {
                    self.finish(CloseReason::HandshakeFailed);
                }
            }
        }
    }

    fn connect(&mut self, now: Instant, role: Role, srtp: Option<(srtp::Profile, Material)>) {
        // A session of data alone has no use for SRTP, and its peer may offer none.
        let has_media = !self.senders.is_empty() || !self.receivers.is_empty();
        let profile = match srtp {
            None if has_media => return self.finish(CloseReason::NoSrtpProfile),
            Some((profile, material)) if has_media => {
                if self.protect_media(profile, role, &material.0).is_err() {
                    return self.finish(CloseReason::HandshakeFailed);
                }
                Some(profile)
            }
            _ => None,
        };
        self.state = State::Connected;
        if !self.receivers.is_empty() {
            self.report_at = Some(now + control::REPORT_INTERVAL);
        }
        self.push(Event::Connected { profile });
        if let (Some(data), Some(dtls)) = (&mut self.data, &mut self.dtls) {
            data.connect(now);
            dtls.open_early(|packet| data.handle_packet(packet, now));
            data.end_batch(now);
        }
    }

    fn protect_media(
        &mut self,
        profile: srtp::Profile,
        role: Role,
        material: &[u8],
    ) -> Result<(), srtp::KeyError> {
        let (mut outbound, inbound) = srtp::derive(profile, material, role)?;
        for sender in &mut self.senders {
            sender
                .connect(&mut outbound)
                .expect("SSRCs were checked to differ");
        }
        self.keys = Some(Box::new(Keys { outbound, inbound }));
        Ok(())
    }

    /// Ends the session; what is queued for the peer stays to be polled.
    fn finish(&mut self, reason: CloseReason) {
        if self.state == State::Closed {
            return;
        }
        self.state = State::Closed;
        self.keys = None;
        if let Some(data) = &mut self.data {
            data.disconnect();
        }
        self.events.push_back(Event::Closed(reason));
    }

    fn push(&mut self, event: Event) {
        if self.events.len() < EVENTS_MAX {
            self.events.push_back(event);
        } else {
            self.events_dropped += 1;
        }
    }
}
