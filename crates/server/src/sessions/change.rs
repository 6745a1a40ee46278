//! Changes to a session that exists: more ICE candidates, an ICE restart, its end.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_egress::webrtc::LayerRequest;
use glassline_events::failures::FailureRecord;
use glassline_hub::{Stream, StreamName};
use glassline_ingest::whip::{Arrivals, LayerOrdersListener};
use glassline_latency::CaptureLog;
use glassline_latency::FrameStamps;
use glassline_runtime::SessionId;
use glassline_webrtc::sdp::{Candidate, Fragment, IceCredentials, restart_fragment};
use tokio::sync::oneshot;

use super::diagnosis::ClientView;
use super::endings::EndReason;
use super::negotiator::{Negotiator, draw_secrets};
use super::peer::{Dismissal, Peer};
use super::record::{IceGeneration, SessionLocation, SessionRecord};
use super::registry::Registry;
use super::shard::Command;

/// Longest wait for a shard to release a session; a shard that takes longer is stuck.
const LEAVING: Duration = Duration::from_secs(2);

/// The ICE generation that a restart request refers to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Expected<'a> {
    /// The request names no generation: the present one is replaced, whichever that is.
    Any,
    /// The request names the generation with this local ICE user name fragment. `None` means that
    /// the request names a generation that never existed.
    Generation(Option<&'a str>),
}

/// The result of an ICE restart.
#[derive(Debug)]
pub(crate) struct Restarted {
    /// SDP fragment of the answer, with the server's credentials and candidates (RFC 8840).
    pub(crate) fragment: String,
    /// The server's new user name fragment, which identifies the generation.
    pub(crate) ufrag: String,
}

/// The reason why a session could not be changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ChangeError {
    /// The session has ended.
    #[error("the session has ended")]
    Ended,
    /// The inbox of the session's shard is full; the request can be repeated.
    #[error("the session's shard has too many requests waiting")]
    Busy,
    /// ICE was restarted after the generation that the request names.
    #[error("the session's ICE generation is {current}")]
    Stale {
        /// The server's user name fragment of the present generation.
        current: String,
    },
}

/// The place where a session can be changed.
enum Owner<'a> {
    Waiting(&'a mut Peer),
    Shard,
}

/// The end of a session, which leaves the registry when this is dropped.
struct Removal<'a> {
    registry: &'a Registry,
    record: &'a SessionRecord,
}

impl Drop for Removal<'_> {
    fn drop(&mut self) {
        self.registry.remove(&self.record.id);
    }
}

impl Negotiator {
    /// Returns the session with the id `session`, if it is a session of the stream or file `name`.
    pub(crate) fn find(&self, name: &str, session: &str) -> Option<Arc<SessionRecord>> {
        let record = self.shared.registry.by_id(&SessionId::new(session));
        record.filter(|record| record.resource_name() == name)
    }

    /// Returns why the server ended a session, of the stream or file `name` if one is given, if that
    /// was lately.
    pub(crate) fn ending(&self, name: Option<&str>, session: &str) -> Option<EndReason> {
        let id = SessionId::new(session);
        self.shared.registry.ending(name, &id)
    }

    /// Returns the session with this id.
    pub(crate) fn by_id(&self, id: &SessionId) -> Option<Arc<SessionRecord>> {
        self.shared.registry.by_id(id)
    }

    /// Adds ICE candidates of the peer. An ICE-lite server learns a peer's addresses from its
    /// connectivity checks, so these candidates are optional.
    ///
    /// # Errors
    /// Returns [`ChangeError::Ended`] or [`ChangeError::Busy`].
    pub(crate) fn trickle(
        &self,
        record: &SessionRecord,
        candidates: Vec<Candidate>,
    ) -> Result<(), ChangeError> {
        let mut state = record.state();
        self.change(&mut state.location, |owner| match owner {
            Owner::Waiting(peer) => {
                let session = peer.session_mut();
                for candidate in &candidates {
                    session.add_remote_candidate(candidate, Instant::now());
                }
                None
            }
            Owner::Shard => Some(Command::Trickle(record.id.clone(), candidates)),
        })
    }

    /// Takes a viewer's request for a layer of its video.
    ///
    /// # Errors
    /// Returns [`ChangeError::Ended`] or [`ChangeError::Busy`].
    pub(crate) fn request_layer(
        &self,
        record: &SessionRecord,
        request: LayerRequest,
    ) -> Result<(), ChangeError> {
        let mut state = record.state();
        self.change(&mut state.location, |owner| match owner {
            Owner::Waiting(peer) => {
                peer.request_layer(request, Instant::now());
                None
            }
            Owner::Shard => Some(Command::LayerRequest(record.id.clone(), request)),
        })
    }

    /// Sends a viewer the stream `to` from now on, within its session. Returns false if the stream does not
    /// suit the session, or the session is no connected viewer's.
    ///
    /// # Errors
    /// Returns [`ChangeError::Ended`] or [`ChangeError::Busy`].
    pub(crate) async fn go_over(
        &self,
        record: &SessionRecord,
        to: Arc<Stream>,
    ) -> Result<bool, ChangeError> {
        let (done, went) = oneshot::channel();
        let session = record.id.clone();
        self.ask(record, Command::GoOver { session, to, done })?;
        // A shard that takes longer has the command, and will follow it.
        let went = tokio::time::timeout(LEAVING, went).await;
        Ok(went.is_err() || matches!(went, Ok(Ok(true))))
    }

    /// Restarts ICE with the peer's new credentials `theirs`, which came in `fragment`. DTLS and
    /// media continue. `reached` is the server's address that the request arrived at.
    ///
    /// # Errors
    /// Returns a [`ChangeError`]; [`ChangeError::Stale`] if `expected` is not the present
    /// generation.
    pub(crate) fn restart(
        &self,
        record: &SessionRecord,
        expected: Expected<'_>,
        fragment: &Fragment,
        theirs: IceCredentials,
        reached: IpAddr,
    ) -> Result<Restarted, ChangeError> {
        // The lock is held to the end: of two restarts of one generation only one may succeed.
        let mut state = record.state();
        let current = &state.ice.ours.ufrag;
        let is_expected = match expected {
            Expected::Any => true,
            Expected::Generation(ufrag) => ufrag == Some(current.as_str()),
        };
        if !is_expected {
            let current = current.clone();
            return Err(ChangeError::Stale { current });
        }
        let secrets = draw_secrets();
        let ours = IceCredentials {
            ufrag: secrets.ufrag,
            pwd: secrets.pwd,
        };
        let ice = IceGeneration {
            ours: ours.clone(),
            theirs: theirs.ufrag.clone(),
        };
        let answer = restart_fragment(fragment, &ours, &self.candidates(reached, true));
        self.change(&mut state.location, |owner| match owner {
            Owner::Waiting(peer) => {
                let session = peer.session_mut();
                session.restart_ice(ours, theirs, Instant::now());
                None
            }
            Owner::Shard => Some(Command::Restart {
                session: record.id.clone(),
                ours,
                theirs,
            }),
        })?;
        self.shared.registry.add_ufrag(&record.id, &ice.ours.ufrag);
        let ufrag = ice.ours.ufrag.clone();
        state.ice = ice;
        Ok(Restarted {
            fragment: answer,
            ufrag,
        })
    }

    /// Ends the sessions whose rights have ended. Returns how many were left because their shard is
    /// busy: the next call finds them again.
    pub(crate) async fn end_lapsed(&self, now: Instant) -> usize {
        let mut left = 0;
        for record in self.shared.registry.lapsed(now) {
            let reason = EndReason::TokenExpired;
            self.shared.registry.note_ending(&record.id, reason, now);
            tracing::info!(stream = %record.stream, session = %record.id, "session ended: its token or its right has expired");
            if matches!(self.leave(&record).await, Err(ChangeError::Busy)) {
                left += 1;
            }
        }
        left
    }

    /// Ends a session. The peer is released when this returns. Needs a tokio runtime.
    ///
    /// # Errors
    /// Returns [`ChangeError::Ended`] or [`ChangeError::Busy`].
    pub(crate) async fn leave(&self, record: &SessionRecord) -> Result<(), ChangeError> {
        let (left, gone) = {
            let mut state = record.state();
            let mut gone = None;
            match &state.location {
                SessionLocation::Shard(index) => {
                    if let Some(shard) = self.shared.shard(*index) {
                        let (done, when_gone) = oneshot::channel();
                        let command = Command::Leave {
                            session: record.id.clone(),
                            done,
                        };
                        shard.send(command).map_err(|_| ChangeError::Busy)?;
                        gone = Some(when_gone);
                    }
                }
                SessionLocation::Waiting(_) => {}
                SessionLocation::Gone => return Err(ChangeError::Ended),
            }
            let left = std::mem::replace(&mut state.location, SessionLocation::Gone);
            (left, gone)
        };
        // The request may be dropped while it waits.
        let _removal = Removal {
            registry: &self.shared.registry,
            record,
        };
        if let Some(gone) = gone {
            // An error means that the shard dropped the sender: the session ended in another way.
            let _ = tokio::time::timeout(LEAVING, gone).await;
        }
        if let SessionLocation::Waiting(peer) = left {
            self.drop_waiting(record, peer, Dismissal::Left);
        }
        Ok(())
    }

    /// Returns the connected sessions of `stream` whose names begin with `letters`: what operators see
    /// of a name is its beginning.
    pub(crate) fn beginning_with(&self, stream: &str, letters: &str) -> Vec<Arc<SessionRecord>> {
        let mut records = self.shared.registry.all();
        records.retain(|it| it.stream.as_str() == stream && it.id.as_str().starts_with(letters));
        records
    }

    /// Ends a session on behalf of an operator.
    ///
    /// # Errors
    /// Returns [`ChangeError::Ended`] or [`ChangeError::Busy`].
    pub(crate) async fn dismiss(&self, record: &SessionRecord) -> Result<(), ChangeError> {
        let registry = &self.shared.registry;
        registry.note_ending(&record.id, EndReason::Dismissed, Instant::now());
        tracing::info!(session = %record.id, stream = %record.stream, "session ended by an operator");
        self.leave(record).await
    }

    /// Returns the sessions of viewers, without those of files.
    pub(crate) fn viewers_of_streams(&self) -> Vec<Arc<SessionRecord>> {
        let mut records = self.shared.registry.all();
        records.retain(|it| it.watches_stream());
        records
    }

    /// Ends the session of a viewer that another server of the cluster is to serve, for the reason
    /// `why`.
    ///
    /// # Errors
    /// Returns [`ChangeError::Ended`] or [`ChangeError::Busy`].
    pub(crate) async fn send_elsewhere(
        &self,
        record: &SessionRecord,
        why: EndReason,
    ) -> Result<(), ChangeError> {
        let registry = &self.shared.registry;
        registry.note_ending(&record.id, why, Instant::now());
        tracing::debug!(session = %record.id, stream = %record.stream, why = why.as_str(), "viewer sent away");
        self.leave(record).await
    }

    /// Ends a session whose client gives it up, and notes what the client has seen. Needs a tokio
    /// runtime.
    ///
    /// # Errors
    /// Returns [`ChangeError::Ended`] or [`ChangeError::Busy`].
    pub(crate) async fn give_up(
        &self,
        record: &SessionRecord,
        view: ClientView,
    ) -> Result<(), ChangeError> {
        record.state().client_view = Some(Box::new(view));
        self.leave(record).await
    }

    /// Returns why the connection of a session, of the stream or file `name` if one is given, failed,
    /// if it did within the last hour.
    pub(crate) fn failure(&self, name: Option<&str>, session: &str) -> Option<FailureRecord> {
        let id = SessionId::new(session);
        self.shared.failures.of_session(&id, name)
    }

    /// Drops a peer that no datagram of its client ever reached.
    fn drop_waiting(&self, record: &SessionRecord, mut peer: Box<Peer>, why: Dismissal) {
        peer.note_dismissal(why);
        self.shared.note_failure(record, &peer, Instant::now());
    }

    /// Ends a session whose handshake is not done, because another session needs its place.
    pub(super) fn evict(&self, id: &SessionId) {
        let Some(record) = self.shared.registry.by_id(id) else {
            return;
        };
        let mut state = record.state();
        if let SessionLocation::Shard(index) = state.location {
            if let Some(shard) = self.shared.shard(index) {
                // A full inbox is counted by the handle; the handshake then ends at its deadline.
                let _ = shard.send(Command::Evict(id.clone()));
            }
            return;
        }
        let location = std::mem::replace(&mut state.location, SessionLocation::Gone);
        drop(state);
        self.shared.registry.remove(id);
        if let SessionLocation::Waiting(peer) = location {
            self.drop_waiting(&record, peer, Dismissal::Evicted);
        }
    }

    /// Asks the viewer's shard when the frames with these RTP timestamps passed its stages. The
    /// receiver gets no reply if the shard no longer has the viewer.
    pub(crate) fn stamps(
        &self,
        record: &SessionRecord,
        timestamps: Vec<u32>,
    ) -> Result<oneshot::Receiver<Vec<Option<FrameStamps>>>, ChangeError> {
        let (reply, stamps) = oneshot::channel();
        let ask = Command::Stamps {
            session: record.id.clone(),
            timestamps,
            reply,
        };
        self.ask(record, ask)?;
        Ok(stamps)
    }

    /// Returns the session that publishes the stream `name` by WHIP, or is about to.
    pub(crate) fn publisher_of(&self, name: &StreamName) -> Option<Arc<SessionRecord>> {
        let (session, _) = self.reservations.holder(name, Instant::now())?;
        self.by_id(&session)
    }

    /// Returns all sessions that publish by WHIP, or are about to.
    pub(crate) fn publishers(&self) -> Vec<Arc<SessionRecord>> {
        let sessions = self.reservations.sessions();
        sessions.iter().filter_map(|it| self.by_id(it)).collect()
    }

    /// Returns the capture times of the stream `name`, if a WHIP session publishes it.
    pub(crate) fn captures(&self, name: &StreamName) -> Option<Arc<CaptureLog>> {
        self.reservations.captures(name)
    }

    /// Listens to the orders which layers a publisher should send; `None` if the session publishes no media,
    /// or enough others listen.
    pub(crate) fn layer_orders(&self, record: &SessionRecord) -> Option<LayerOrdersListener> {
        self.reservations.listen(&record.stream, &record.id)
    }

    /// Asks a publisher's shard what arrived. The receiver gets no reply if the session publishes no
    /// media, or has ended.
    pub(crate) fn arrivals(
        &self,
        record: &SessionRecord,
    ) -> Result<oneshot::Receiver<Arrivals>, ChangeError> {
        let (reply, arrivals) = oneshot::channel();
        let session = record.id.clone();
        self.ask(record, Command::Arrivals { session, reply })?;
        Ok(arrivals)
    }

    /// Sends a question to the shard that owns a session.
    fn ask(&self, record: &SessionRecord, question: Command) -> Result<(), ChangeError> {
        let state = record.state();
        let shard = match &state.location {
            SessionLocation::Shard(index) => self.shared.shard(*index),
            SessionLocation::Waiting(_) | SessionLocation::Gone => None,
        };
        let sent = shard.ok_or(ChangeError::Ended)?.send(question);
        drop(state);
        sent.map_err(|_| ChangeError::Busy)
    }

    /// Changes a session in place while it waits for its first datagram; sends a command to its
    /// shard otherwise.
    fn change(
        &self,
        location: &mut SessionLocation,
        change: impl FnOnce(Owner<'_>) -> Option<Command>,
    ) -> Result<(), ChangeError> {
        match location {
            SessionLocation::Waiting(peer) => {
                change(Owner::Waiting(peer));
                Ok(())
            }
            SessionLocation::Shard(index) => {
                match (self.shared.shard(*index), change(Owner::Shard)) {
                    (Some(shard), Some(command)) => {
                        shard.send(command).map_err(|_| ChangeError::Busy)
                    }
                    _ => Ok(()),
                }
            }
            SessionLocation::Gone => Err(ChangeError::Ended),
        }
    }
}
