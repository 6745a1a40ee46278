//! TURN allocations on the path to the peer.
//!
//! The owner of a session sees only sockets. Datagrams that go through a TURN server of ours are
//! put into its frames here, and datagrams of the peer are taken out of frames.

use std::time::Instant;

use super::path::{Path, PathEnd, Unwrapped};
use super::{Session, State};
use crate::sdp::CandidateKind;
use crate::{TransportAddress, turn};

impl Session {
    /// Returns the selected pair of candidates; `None` before there is one.
    pub fn path(&self) -> Option<Path> {
        let remote = self.ice.path()?;
        let (local, is_relayed) = self.ice.path_local()?;
        let allocation = self
            .turn_allocations
            .iter()
            .find(|it| it.relayed() == Some(local.socket));
        Some(Path {
            transport: remote.transport,
            local: PathEnd {
                address: local.socket,
                kind: match is_relayed {
                    true => CandidateKind::Relay,
                    false => CandidateKind::Host,
                },
            },
            remote: PathEnd {
                address: remote.socket,
                kind: match self.ice.kind_of(remote) {
                    is::CandidateKind::Host => CandidateKind::Host,
                    is::CandidateKind::ServerReflexive => CandidateKind::ServerReflexive,
                    is::CandidateKind::PeerReflexive => CandidateKind::PeerReflexive,
                    is::CandidateKind::Relayed => CandidateKind::Relay,
                },
            },
            round_trip: self.ice.round_trip(),
            relay: allocation.map(|allocation| allocation.server().clone()),
        })
    }

    /// Returns the allocations on TURN servers with which the session was dialed.
    pub fn turn_allocations(&self) -> &[turn::Allocation] {
        &self.turn_allocations
    }

    pub(super) fn unwrap_relayed(
        &mut self,
        now: Instant,
        source: TransportAddress,
        datagram: &[u8],
    ) -> Unwrapped {
        let mut from = Unwrapped::Direct;
        for allocation in &mut self.turn_allocations {
            allocation.set_now(now);
            if TransportAddress::udp(allocation.address()) != source {
                continue;
            }
            from = match (allocation.handle(now, datagram), allocation.relayed()) {
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

    pub(super) fn handle_turn_timeouts(&mut self, now: Instant) {
        for allocation in &mut self.turn_allocations {
            allocation.set_now(now);
            if allocation.poll_timeout().is_some_and(|at| at <= now) {
                allocation.handle_timeout(now);
            }
        }
    }

    /// Returns the destination of `datagram` from `local` to `remote`, and puts it into a TURN
    /// frame if necessary. `None` if it waits for a TURN channel, or cannot be sent.
    pub(super) fn wrap_relayed(
        &mut self,
        local: TransportAddress,
        remote: TransportAddress,
        datagram: &mut Vec<u8>,
    ) -> Option<TransportAddress> {
        let mut turn_allocations = self.turn_allocations.iter_mut();
        let Some(allocation) =
            turn_allocations.find(|it| it.relayed().map(TransportAddress::udp) == Some(local))
        else {
            return Some(remote);
        };
        self.timeout = None;
        let bare = std::mem::take(datagram);
        let destination = allocation.address().into();
        allocation
            .wrap(remote.socket, &bare, datagram)
            .then_some(destination)
    }

    /// Writes the next message of the allocations themselves.
    pub(super) fn poll_turn_transmit(&mut self, out: &mut Vec<u8>) -> Option<TransportAddress> {
        for allocation in &mut self.turn_allocations {
            if self.state == State::Closed {
                // Not before now: the datagrams for the peer have been sent.
                allocation.close();
            }
            if allocation.poll_transmit(out) {
                self.timeout = None;
                return Some(allocation.address().into());
            }
        }
        None
    }
}
