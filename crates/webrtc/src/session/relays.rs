//! Relays on the way to the peer.
//!
//! A shell sees only sockets. What a relay of ours takes to the peer is wrapped here on
//! its way out, and what comes from a relay's server is unwrapped on its way in.

use std::net::SocketAddr;
use std::time::Instant;

use super::path::{Path, PathEnd, Unwrapped};
use super::{Session, State};
use crate::sdp::CandidateKind;
use crate::turn;

impl Session {
    /// The pair of candidates in use; `None` before there is one.
    pub fn path(&self) -> Option<Path> {
        let remote = self.ice.path()?;
        let (local, is_relayed) = self.ice.path_local()?;
        let relay = self.relays.iter().find(|it| it.relayed() == Some(local));
        Some(Path {
            local: PathEnd {
                address: local,
                kind: match is_relayed {
                    true => CandidateKind::Relay,
                    false => CandidateKind::Host,
                },
            },
            remote: PathEnd {
                address: remote,
                kind: match self.ice.kind_of(remote) {
                    is::CandidateKind::Host => CandidateKind::Host,
                    is::CandidateKind::ServerReflexive => CandidateKind::ServerReflexive,
                    is::CandidateKind::PeerReflexive => CandidateKind::PeerReflexive,
                    is::CandidateKind::Relayed => CandidateKind::Relay,
                },
            },
            round_trip: self.ice.round_trip(),
            relay: relay.map(|relay| relay.server().clone()),
        })
    }

    /// Allocations on TURN servers that the session was dialled with.
    pub fn relays(&self) -> &[turn::Relay] {
        &self.relays
    }

    pub(super) fn unwrap_relayed(
        &mut self,
        now: Instant,
        source: SocketAddr,
        datagram: &[u8],
    ) -> Unwrapped {
        let mut from = Unwrapped::Direct;
        for relay in &mut self.relays {
            relay.note_now(now);
            if relay.address() != source {
                continue;
            }
            from = match (relay.handle(now, datagram), relay.relayed()) {
                (turn::Input::Data { peer, range }, Some(relayed)) => {
                    return Unwrapped::Relayed {
                        peer,
                        relayed,
                        range,
                    };
                }
                _ => Unwrapped::Consumed,
            };
        }
        from
    }

    pub(super) fn handle_relay_timeouts(&mut self, now: Instant) {
        for relay in &mut self.relays {
            relay.note_now(now);
            if relay.poll_timeout().is_some_and(|at| at <= now) {
                relay.handle_timeout(now);
            }
        }
    }

    /// Where `datagram` goes so that it leaves `local` for `remote`, wrapped if it has
    /// to be. `None` if it waits in a relay, or cannot go.
    pub(super) fn wrap_relayed(
        &mut self,
        local: SocketAddr,
        remote: SocketAddr,
        datagram: &mut Vec<u8>,
    ) -> Option<SocketAddr> {
        let mut relays = self.relays.iter_mut();
        let Some(relay) = relays.find(|it| it.relayed() == Some(local)) else {
            return Some(remote);
        };
        self.timeout = None;
        let bare = std::mem::take(datagram);
        let destination = relay.address();
        relay.wrap(remote, &bare, datagram).then_some(destination)
    }

    /// The next frame of the relays' own.
    pub(super) fn poll_relay_transmit(&mut self, out: &mut Vec<u8>) -> Option<SocketAddr> {
        for relay in &mut self.relays {
            if self.state == State::Closed {
                // Only now: what was for the peer has left.
                relay.close();
            }
            if relay.poll_transmit(out) {
                self.timeout = None;
                return Some(relay.address());
            }
        }
        None
    }
}
