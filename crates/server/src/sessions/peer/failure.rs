//! Why a peer's connection failed.

use std::time::{Duration, Instant};

use glassline_webrtc::CloseReason;

use super::connecting::Dismissal;
use super::{Peer, Role};
use crate::failures::{ClientRole, ConnectionFailure, Protocol, Stage};
use crate::sessions::diagnosis::{self, ClientView, Diagnosis, Evidence, Surroundings};
use crate::sessions::endings::EndReason;

/// Time that a client may wait for its handshake or its first frame and leave, without that the
/// connection counts as failed.
const PATIENCE: Duration = Duration::from_secs(5);

impl Peer {
    /// Returns why the connection failed; `None` if media flowed, or if somebody wanted the session to
    /// end. `resource` is the name in the session's URL, and `view` what the client told.
    pub(in crate::sessions) fn failure(
        &self,
        resource: &str,
        view: Option<&ClientView>,
        surroundings: Surroundings,
        now: Instant,
    ) -> Option<ConnectionFailure> {
        let waited = now.saturating_duration_since(self.created);
        let is_left_soon =
            self.dismissal == Some(Dismissal::Left) && waited < PATIENCE && view.is_none();
        // The server stops, or the session was made in vain for a reason that has been told.
        let is_stopped = self.closed == Some(CloseReason::Local) && self.dismissal.is_none();
        let (diagnosis, from) = match &self.connecting {
            Some(_) if is_left_soon || is_stopped => return None,
            Some(connecting) => {
                let evidence = Evidence {
                    report: &self.session.connection_report(),
                    addresses: connecting.addresses,
                    surroundings,
                    waited,
                    closed: self.closed,
                    is_evicted: self.dismissal == Some(Dismissal::Evicted),
                    client: view,
                };
                (evidence.diagnose(), connecting.addresses.peer.ip())
            }
            None => {
                let diagnosis = self.without_media(view, waited);
                (diagnosis?, self.session.peer()?.socket.ip())
            }
        };
        Some(ConnectionFailure {
            stream: resource.to_owned(),
            protocol: Protocol::WebRtc,
            role: match &self.role {
                Role::Viewer(_) => ClientRole::Viewer,
                Role::Participant(_) => ClientRole::Participant,
                Role::Publisher(_) | Role::DataPublisher(_) | Role::Talker(_) => {
                    ClientRole::Publisher
                }
            },
            stage: diagnosis.stage,
            from,
            session: Some(self.id.clone()),
            reason: diagnosis.reason,
            remedy: diagnosis.remedy,
        })
    }

    /// Returns why no media flowed although the handshake was done; `None` if some flowed, or if none
    /// was wanted.
    fn without_media(&self, view: Option<&ClientView>, waited: Duration) -> Option<Diagnosis> {
        match &self.role {
            Role::Publisher(_) => {
                let ending = self.ending.filter(|it| *it != EndReason::Replaced)?;
                Some(Diagnosis {
                    stage: Stage::Media,
                    reason: ending.to_string(),
                    remedy: None,
                })
            }
            _ if view.is_some() => Some(diagnosis::not_seen_by_client()),
            Role::Viewer(viewer) if !viewer.sender.is_empty() && self.ending.is_none() => {
                let senders = self.session.senders();
                let is_silent = senders.iter().all(|it| it.counts().packets == 0);
                let is_stopped =
                    self.closed == Some(CloseReason::Local) && self.dismissal.is_none();
                if !is_silent || is_stopped || waited < PATIENCE {
                    return None;
                }
                let state = self.stream.state();
                let detail = state.detail().map(|it| format!(": {it}"));
                Some(Diagnosis {
                    stage: Stage::Media,
                    reason: format!(
                        "connected, but the source gave no keyframe to begin with within {} s; the stream is \
                         {}{}",
                        waited.as_secs(),
                        state.as_str(),
                        detail.unwrap_or_default()
                    ),
                    remedy: Some(
                        "set the encoder's keyframe interval to 1 or 2 s, and look at the source"
                            .to_owned(),
                    ),
                })
            }
            _ => None,
        }
    }
}
