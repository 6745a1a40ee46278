//! What a peer asks of a session that it has: candidates, an ICE restart, an end.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_webrtc::sdp::{Candidate, Fragment, IceCredentials, restart_fragment};
use tokio::sync::oneshot;

use super::negotiator::{Negotiator, draw_secrets};
use super::peer::Peer;
use super::record::{IceGeneration, SessionLocation, SessionRecord};
use super::shard::Command;
use crate::latency::FrameStamps;
use crate::runtime::SessionId;

/// A shard that does not let a session go within this stands still; nobody waits for it.
const LEAVING: Duration = Duration::from_secs(2);

/// Which ICE generation a restart was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Expected<'a> {
    /// Whichever there is.
    Any,
    /// The one with this user name fragment of ours; `None` is none that ever was.
    Generation(Option<&'a str>),
}

/// A new ICE generation.
#[derive(Debug)]
pub(crate) struct Restarted {
    /// The answer: our credentials and candidates.
    pub(crate) fragment: String,
    /// Our user name fragment, which names the generation.
    pub(crate) ufrag: String,
}

/// Why a session was not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ChangeError {
    /// It is over.
    #[error("the session has ended")]
    Ended,
    /// Its shard has as many commands waiting as it may: try again.
    #[error("the session's shard has too many requests waiting")]
    Busy,
    /// Its ICE was restarted meanwhile.
    #[error("the session's ICE generation is {current}")]
    Stale {
        /// Our user name fragment of the present generation.
        current: String,
    },
}

/// Where a session can be changed.
enum Reached<'a> {
    Waiting(&'a mut Peer),
    Shard,
}

impl Negotiator {
    /// The session called `session` of the stream called `stream`.
    pub(crate) fn find(&self, stream: &str, session: &str) -> Option<Arc<SessionRecord>> {
        let record = self.shared.registry.by_id(&SessionId::new(session));
        record.filter(|record| record.stream.as_str() == stream)
    }

    /// The session called `id`.
    pub(crate) fn by_id(&self, id: &SessionId) -> Option<Arc<SessionRecord>> {
        self.shared.registry.by_id(id)
    }

    /// More candidates. An ICE-lite server learns addresses from checks, so these
    /// are a courtesy.
    pub(crate) fn trickle(
        &self,
        record: &SessionRecord,
        candidates: Vec<Candidate>,
    ) -> Result<(), ChangeError> {
        let mut state = record.state();
        self.change(&mut state.location, |reached| match reached {
            Reached::Waiting(peer) => {
                let session = peer.session_mut();
                for candidate in &candidates {
                    session.add_remote_candidate(candidate, Instant::now());
                }
                None
            }
            Reached::Shard => Some(Command::Trickle(record.id.clone(), candidates)),
        })
    }

    /// New credentials of the peer, `theirs` in its `fragment`: ICE begins anew, DTLS and
    /// media go on. `reached` is our address that the peer reached with them.
    pub(crate) fn restart(
        &self,
        record: &SessionRecord,
        expected: Expected<'_>,
        fragment: &Fragment,
        theirs: IceCredentials,
        reached: IpAddr,
    ) -> Result<Restarted, ChangeError> {
        // Held to the end: of two restarts of one generation only one may win.
        let mut state = record.state();
        let current = &state.ice.ours;
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
            ours: ours.ufrag.clone(),
            theirs: theirs.ufrag.clone(),
        };
        let answer = restart_fragment(fragment, &ours, &self.candidates(reached));
        self.change(&mut state.location, |reached| match reached {
            Reached::Waiting(peer) => {
                let session = peer.session_mut();
                session.restart_ice(ours, theirs, Instant::now());
                None
            }
            Reached::Shard => Some(Command::Restart {
                session: record.id.clone(),
                ours,
                theirs,
            }),
        })?;
        self.shared.registry.add_ufrag(&record.id, &ice.ours);
        let ufrag = ice.ours.clone();
        state.ice = ice;
        Ok(Restarted {
            fragment: answer,
            ufrag,
        })
    }

    /// Ends a session; its peer is gone when this returns. Needs a tokio runtime.
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
        if let Some(gone) = gone {
            // An error is the sender dropped: gone in another way.
            let _ = tokio::time::timeout(LEAVING, gone).await;
        }
        self.shared.registry.remove(&record.id);
        drop(left);
        Ok(())
    }

    /// Asks a viewer's shard when these frames passed its stages; no reply comes from a
    /// shard that does not know the viewer any more.
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
        let state = record.state();
        let shard = match &state.location {
            SessionLocation::Shard(index) => self.shared.shard(*index),
            SessionLocation::Waiting(_) | SessionLocation::Gone => None,
        };
        let sent = shard.ok_or(ChangeError::Ended)?.send(ask);
        drop(state);
        sent.map_err(|_| ChangeError::Busy)?;
        Ok(stamps)
    }

    /// Changes a session in place while nobody came for it, else through its shard.
    fn change(
        &self,
        location: &mut SessionLocation,
        change: impl FnOnce(Reached<'_>) -> Option<Command>,
    ) -> Result<(), ChangeError> {
        match location {
            SessionLocation::Waiting(peer) => {
                change(Reached::Waiting(peer));
                Ok(())
            }
            SessionLocation::Shard(index) => {
                match (self.shared.shard(*index), change(Reached::Shard)) {
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
