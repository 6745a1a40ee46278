//! The four-way handshake: INIT, INIT ACK, COOKIE ECHO, COOKIE ACK (RFC 9260 §5).

use std::time::{Duration, Instant};

use super::Association;
use super::cookie::{self, Cookie, OwnInit, PeerParameters, TieTags};
use crate::chunk::parameter::{ERROR_DETECTION_DTLS, Parameter};
use crate::chunk::{CookieEcho, Init, InitAck, Parameters, kind};
use crate::packet::{Header, NoRoom, PacketBuilder};
use crate::receive::Receiver;
use crate::send::Sender;
use crate::timer::{Backoff, Timer};
use crate::{CloseReason, Dropped, Event, State, Tsn};

/// Largest state cookie that is accepted from a peer, in bytes. A larger one would not fit
/// the COOKIE ECHO packet that must bring it back.
const COOKIE_BYTES_MAX: usize = 1024;

/// State of the handshake, and its messages that wait to be sent.
#[derive(Debug, Default)]
pub(super) struct Handshake {
    /// Whether an INIT or COOKIE ECHO has to be sent now.
    pub(super) due: bool,
    /// T1: retransmits INIT and COOKIE ECHO, and counts how often.
    pub(super) timer: Timer,
    /// The peer's state cookie, to be echoed.
    cookie: Vec<u8>,
    /// The INIT ACK to send. There is at most one, however many INITs came.
    pub(super) init_ack: Option<PendingInitAck>,
    /// Whether a COOKIE ACK has to be sent.
    pub(super) cookie_ack: bool,
    /// A state cookie that came too late; its sender gets an ERROR chunk.
    pub(super) stale: Option<ExpiredCookie>,
    /// When INIT or COOKIE ECHO left; `None` after a retransmission, whose answer would be
    /// ambiguous as a round-trip sample.
    sent_at: Option<Instant>,
}

/// A state cookie that arrived after its lifetime.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExpiredCookie {
    /// Time past the end of the cookie's lifetime, in µs.
    pub(super) over: u32,
    /// Verification tag of the peer that sent the cookie.
    pub(super) tag: u32,
}

/// The content of an INIT ACK that waits to be sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingInitAck {
    cookie: Cookie,
}

impl PendingInitAck {
    /// Returns the verification tag of the packet that carries the INIT ACK.
    pub(super) const fn tag(&self) -> u32 {
        self.cookie.peer.tag
    }
}

impl Association {
    /// Starts the handshake with an INIT.
    pub(super) fn begin(&mut self) {
        self.state = State::CookieWait;
        self.handshake.due = true;
    }

    /// Handles T1: sends INIT or COOKIE ECHO again, or gives up after
    /// `max_init_retransmissions`.
    pub(super) fn handshake_timeout(&mut self, now: Instant) {
        if !self.handshake.timer.is_over(now) {
            return;
        }
        let max = self.config.max_init_retransmissions;
        if max.is_some_and(|max| self.handshake.timer.times > max) {
            self.end(CloseReason::ConnectTimeout);
            return;
        }
        self.handshake.timer.stop();
        self.handshake.due = true;
    }

    /// Writes our INIT, which travels alone in its packet.
    pub(super) fn write_init(
        &mut self,
        now: Instant,
        packet: &mut PacketBuilder<'_>,
    ) -> Result<(), NoRoom> {
        let init = self.own_init(self.own_tag, self.secrets.initial_tsn, self.config.streams);
        let extensions = self.own_extensions();
        let parameters = parameters(&extensions, self.config.zero_checksum);
        init.write_with(&parameters, packet)?;
        self.handshake_sent(now);
        Ok(())
    }

    /// Writes a COOKIE ECHO, which travels alone in its packet.
    pub(super) fn write_cookie_echo(
        &mut self,
        now: Instant,
        packet: &mut PacketBuilder<'_>,
    ) -> Result<(), NoRoom> {
        let cookie = &self.handshake.cookie;
        CookieEcho { cookie }.write(packet)?;
        self.handshake_sent(now);
        Ok(())
    }

    /// Starts T1 after INIT or COOKIE ECHO left at `now`.
    fn handshake_sent(&mut self, now: Instant) {
        self.handshake.due = false;
        let first = self.handshake.timer.times == 0;
        self.handshake.sent_at = first.then_some(now);
        let backoff = Backoff {
            first: self.config.rto_initial,
            longest: self.config.rto_max,
        };
        self.handshake.timer.start(now, backoff);
    }

    /// Writes the INIT ACK that answers the latest INIT.
    pub(super) fn write_init_ack(
        &mut self,
        init_ack: &PendingInitAck,
        packet: &mut PacketBuilder<'_>,
    ) -> Result<(), NoRoom> {
        let PendingInitAck { cookie } = *init_ack;
        let sealed = cookie.seal(&self.secrets.cookie_key);
        let streams = self.config.streams.min(cookie.peer.inbound);
        let init = self.own_init(cookie.own_tag, cookie.own_tsn, streams);
        let extensions = self.own_extensions();
        let mut all = vec![Parameter::StateCookie(&sealed)];
        all.extend(parameters(&extensions, self.config.zero_checksum));
        InitAck(init).write_with(&all, packet)
    }

    /// Returns our INIT (or the fixed part of our INIT ACK). `outbound`: streams that we
    /// send on.
    fn own_init(&self, tag: u32, tsn: u32, outbound: u16) -> Init<'static> {
        Init {
            initiate_tag: tag,
            a_rwnd: self.receiver.first_window(),
            outbound_streams: outbound,
            inbound_streams: self.config.streams,
            initial_tsn: Tsn(tsn),
            parameters: Parameters::NONE,
        }
    }

    /// Returns the chunk types that we support beyond RFC 9260.
    fn own_extensions(&self) -> Vec<u8> {
        let mut kinds = vec![kind::RE_CONFIG, kind::FORWARD_TSN];
        if self.config.interleaving {
            kinds.extend([kind::I_DATA, kind::I_FORWARD_TSN]);
        }
        kinds
    }

    /// Returns the tie-tags of the association as it is now.
    const fn tie_tags(&self) -> TieTags {
        TieTags {
            own: self.own_tag,
            peer: self.peer_tag,
        }
    }

    /// Handles an INIT. The answer carries everything in its cookie, and no state is kept
    /// (RFC 9260 §5.1 B, §5.2.1, §5.2.2).
    pub(super) fn on_init(&mut self, init: &Init<'_>, now: Instant) -> Result<(), Dropped> {
        let peer = peer(init).ok_or(Dropped::State)?;
        let (own, tie_tags) = match self.state {
            State::Closed if self.is_over => return Err(Dropped::Closed),
            State::ShutdownAckSent => {
                // §9.2: the peer missed our SHUTDOWN ACK, which is sent again.
                self.shutdown.due = true;
                return Ok(());
            }
            // Both ends connect: the answer carries the same tag and TSN as our own INIT.
            State::Closed | State::CookieWait | State::CookieEchoed => {
                let own = OwnInit {
                    tag: self.own_tag,
                    initial_tsn: self.secrets.initial_tsn,
                };
                (own, TieTags::default())
            }
            _ => {
                let key = &self.secrets.cookie_key;
                let own = cookie::derive_restart(key, peer.tag, self.own_tag);
                (own, self.tie_tags())
            }
        };
        self.handshake.init_ack = Some(PendingInitAck {
            cookie: Cookie {
                made: now.saturating_duration_since(self.made),
                peer,
                own_tag: own.tag,
                own_tsn: own.initial_tsn,
                tie_tags,
            },
        });
        Ok(())
    }

    /// Handles an INIT ACK (RFC 9260 §5.1 C).
    pub(super) fn on_init_ack(&mut self, ack: &InitAck<'_>, now: Instant) -> Result<(), Dropped> {
        if self.state != State::CookieWait {
            return Err(Dropped::State);
        }
        let peer = peer(&ack.0).ok_or(Dropped::State)?;
        let Some(cookie) = ack.0.parameters.state_cookie() else {
            self.abort_for_violation("INIT ACK without a state cookie");
            return Ok(());
        };
        if cookie.len() > COOKIE_BYTES_MAX {
            self.abort_for_violation("state cookie of more than 1024 bytes");
            return Ok(());
        }
        self.handshake.cookie = cookie.to_vec();
        if let Some(sent) = self.handshake.sent_at {
            self.note_round_trip(now.saturating_duration_since(sent));
        }
        self.adopt_peer_parameters(&peer);
        self.state = State::CookieEchoed;
        self.handshake.timer = Timer::default();
        self.handshake.due = true;
        Ok(())
    }

    /// Handles a COOKIE ECHO (RFC 9260 §5.1 D, §5.2.4). `tag`: the packet's verification
    /// tag.
    pub(super) fn on_cookie_echo(
        &mut self,
        echo: &CookieEcho<'_>,
        tag: u32,
        now: Instant,
    ) -> Result<(), Dropped> {
        let cookie = Cookie::open(echo.cookie, &self.secrets.cookie_key).ok_or(Dropped::Cookie)?;
        if tag != cookie.own_tag {
            return Err(Dropped::Tag);
        }
        if self.is_over {
            return Err(Dropped::Closed);
        }
        let own_matches = cookie.own_tag == self.own_tag;
        let peer_matches = cookie.peer.tag == self.peer_tag;
        let age = now
            .saturating_duration_since(self.made)
            .saturating_sub(cookie.made);
        if age > self.config.cookie_life && !(own_matches && peer_matches) {
            let over = (age - self.config.cookie_life).as_micros();
            let over = u32::try_from(over).unwrap_or(u32::MAX);
            self.handshake.stale = Some(ExpiredCookie {
                over,
                tag: cookie.peer.tag,
            });
            return Err(Dropped::StaleCookie);
        }
        let connecting = matches!(
            self.state,
            State::Closed | State::CookieWait | State::CookieEchoed
        );
        match (own_matches, peer_matches) {
            // §5.2.4 D, and the normal case for an end that did not send an INIT.
            (true, true) if connecting => self.establish(None),
            (true, true) => {}
            // §5.2.4 B: both sent INIT.
            (true, false) if connecting => {
                self.note_round_trip(age);
                self.establish(Some(&cookie.peer));
            }
            // §5.2.4 A: the peer lost its state.
            (false, false) if cookie.tie_tags == self.tie_tags() => {
                if self.state == State::ShutdownAckSent {
                    return Err(Dropped::State);
                }
                self.restart(&cookie);
            }
            _ => return Err(Dropped::State),
        }
        self.handshake.cookie_ack = true;
        Ok(())
    }

    /// Handles a COOKIE ACK, which completes the handshake.
    pub(super) fn on_cookie_ack(&mut self) {
        if self.state == State::CookieEchoed {
            self.establish(None);
        }
    }

    /// Handles a Stale Cookie error: starts the handshake again from the INIT (RFC 9260
    /// §5.2.6).
    pub(super) fn on_stale_cookie(&mut self) {
        if self.state == State::CookieEchoed {
            self.handshake.timer.stop();
            self.peer_tag = 0;
            self.begin();
        }
    }

    /// Adopts the tag, TSN, window, streams and extensions that the peer announced.
    fn adopt_peer_parameters(&mut self, peer: &PeerParameters) {
        self.peer_tag = peer.tag;
        self.outgoing_streams = self.config.streams.min(peer.inbound);
        self.incoming_streams = self.config.streams.min(peer.outbound);
        let extensions = peer.extensions;
        self.extensions = extensions;
        self.interleaving = self.config.interleaving && extensions.interleaving;
        self.zero_checksum = self.config.zero_checksum && extensions.zero_checksum;
        self.sender
            .establish(peer.window, self.interleaving, extensions.forward_tsn);
        self.receiver.establish(peer.initial_tsn);
        self.resets.establish(self.own_tsn, peer.initial_tsn);
    }

    /// Enters the established state, after adopting `peer` if it is given.
    fn establish(&mut self, peer: Option<&PeerParameters>) {
        if let Some(peer) = peer {
            self.adopt_peer_parameters(peer);
        }
        self.state = State::Established;
        self.handshake.timer = Timer::default();
        self.handshake.due = false;
        self.handshake.cookie = Vec::new();
        self.unordered_events.push_back(Event::Connected {
            outgoing: self.outgoing_streams,
            incoming: self.incoming_streams,
        });
    }

    /// Replaces the association after the peer restarted. Messages that were received and
    /// not yet read stay readable.
    fn restart(&mut self, cookie: &Cookie) {
        self.own_tag = cookie.own_tag;
        self.own_tsn = cookie.own_tsn;
        self.sender = Sender::new(&self.config, cookie.own_tsn);
        let unread = std::mem::replace(&mut self.receiver, Receiver::new(&self.config));
        self.receiver.adopt_unread(unread);
        self.push_event(Event::Restarted);
        self.shutdown = super::shutdown::Shutdown::default();
        self.heartbeat = super::heartbeat::Heartbeats::default();
        self.errors = 0;
        self.establish(Some(&cookie.peer));
    }

    /// Records a round-trip time that the handshake measured.
    fn note_round_trip(&mut self, round_trip: Duration) {
        self.round_trip = Some(round_trip);
    }

    /// Returns the common header of a packet for the peer, with verification tag `tag`.
    pub(super) const fn header(&self, tag: u32) -> Header {
        Header {
            source_port: self.config.local_port,
            destination_port: self.config.remote_port,
            verification_tag: tag,
        }
    }
}

/// Returns the parameters that INIT and INIT ACK share.
fn parameters(extensions: &[u8], zero_checksum: bool) -> Vec<Parameter<'_>> {
    let mut all = vec![
        Parameter::ForwardTsnSupported,
        Parameter::SupportedExtensions(extensions),
    ];
    if zero_checksum {
        all.push(Parameter::ZeroChecksumAcceptable(ERROR_DETECTION_DTLS));
    }
    all
}

/// Reads what an INIT says of its sender; `None` if it has a value that RFC 9260 §3.3.2
/// forbids.
fn peer(init: &Init<'_>) -> Option<PeerParameters> {
    let valid = init.initiate_tag != 0 && init.outbound_streams != 0 && init.inbound_streams != 0;
    valid.then(|| PeerParameters {
        tag: init.initiate_tag,
        initial_tsn: init.initial_tsn.0,
        window: init.a_rwnd,
        outbound: init.outbound_streams,
        inbound: init.inbound_streams,
        extensions: init.parameters.extensions(),
    })
}
