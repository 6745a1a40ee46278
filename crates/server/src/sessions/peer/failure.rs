//! Why a peer's connection failed.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use glassline_events::failures::{ClientRole, ConnectionFailure, Protocol, Stage};
use glassline_media::TrackIndex;
use glassline_messages::{Association, Messages};
use glassline_transcode::VideoSource;
use glassline_transcoding::Hindrance;
use glassline_webrtc::CloseReason;

use super::connecting::Dismissal;
use super::{Peer, Publisher, Role, Viewer};
use crate::sessions::diagnosis::{self, ClientView, Diagnosis, Evidence, Surroundings};
use crate::sessions::endings::EndReason;

/// Time that a client may wait for its handshake or its first frame and leave, without that the
/// connection counts as failed.
const PATIENCE: Duration = Duration::from_secs(5);

/// Returns why a stream has no publisher any more, whose session ended for `reason`.
pub(super) fn departure(reason: CloseReason) -> String {
    match reason {
        CloseReason::Local | CloseReason::Peer => "the publisher stopped".to_owned(),
        other => format!("the publisher was lost: {other}"),
    }
}

impl Peer {
    /// Returns why the connection failed; `None` if media flowed until the client left, or if somebody
    /// wanted the session to end. `resource` is the name in the session's URL, and `view` what the client
    /// told.
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
        let (diagnosis, from) = match &self.connecting {
            Some(_) if is_left_soon || self.is_stopped() => return None,
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
                let diagnosis = self.unserved(view, waited, now);
                (diagnosis?, self.session.peer()?.socket.ip())
            }
        };
        Some(self.described(resource, diagnosis, from))
    }

    /// Returns the failure of data channels that should have opened by `now`, once; `None` if they did,
    /// or still may. The session goes on.
    pub(in crate::sessions) fn take_unopened_channels(
        &mut self,
        resource: &str,
        now: Instant,
    ) -> Option<ConnectionFailure> {
        let diagnosis = self.without_messages(now);
        // A deadline that has passed must not stay one, whatever it means.
        self.messages.as_mut()?.set_told();
        let from = self.session.peer()?.socket.ip();
        Some(self.described(resource, diagnosis?, from))
    }

    /// Returns whether [`take_unopened_channels`](Self::take_unopened_channels) has something to tell.
    pub(in crate::sessions) fn has_unopened_channels(&self, now: Instant) -> bool {
        let messages = self.messages.as_deref().filter(|_| self.closed.is_none());
        messages.is_some_and(|it| it.is_overdue(now))
    }

    /// Returns the entry of the list of failures for a session that the server ended for `why`; `None`
    /// if the client was never connected.
    pub(in crate::sessions) fn ended(
        &self,
        resource: &str,
        why: EndReason,
    ) -> Option<ConnectionFailure> {
        let from = self.session.peer()?.socket.ip();
        let (reason, remedy) = why.explain();
        let diagnosis = Diagnosis::new(Stage::Connected, reason, remedy);
        Some(self.described(resource, diagnosis, from))
    }

    fn described(&self, resource: &str, diagnosis: Diagnosis, from: IpAddr) -> ConnectionFailure {
        ConnectionFailure {
            stream: resource.to_owned(),
            protocol: Protocol::WebRtc,
            role: match &self.role {
                Role::Viewer(_) => ClientRole::Viewer,
                Role::Participant(_) => ClientRole::Participant,
                Role::Talker(_) => ClientRole::Talker,
                Role::Publisher(_) | Role::DataPublisher(_) => ClientRole::Publisher,
            },
            stage: diagnosis.stage,
            from,
            session: Some(self.id.clone()),
            reason: diagnosis.reason,
            remedy: diagnosis.remedy,
        }
    }

    /// Returns why the peer was not served although the handshake was done; `None` if it was.
    fn unserved(
        &self,
        view: Option<&ClientView>,
        waited: Duration,
        now: Instant,
    ) -> Option<Diagnosis> {
        match &self.role {
            Role::Publisher(publisher) if self.ending.is_some() || view.is_none() => {
                let unpublished = self.unpublished(publisher, waited, now);
                let lost = || self.lost(waited, now);
                unpublished
                    .or_else(lost)
                    .or_else(|| self.without_messages(now))
            }
            _ if view.is_some() => Some(diagnosis::not_seen_by_client()),
            _ if self.closed == Some(CloseReason::Vanished) => self.lost(waited, now),
            Role::Viewer(viewer) if self.is_media_missing(viewer, waited) => {
                Some(self.without_keyframe(waited))
            }
            _ => self.without_messages(now),
        }
    }

    /// Returns why a publisher did not go live, or was disconnected by the server.
    fn unpublished(
        &self,
        publisher: &Publisher,
        waited: Duration,
        now: Instant,
    ) -> Option<Diagnosis> {
        match self.ending {
            Some(EndReason::Replaced | EndReason::Deleted) => return None,
            Some(EndReason::NotPublished) => {
                let why = publisher.ended().unwrap_or_default();
                return Some(Diagnosis::new(
                    Stage::Media,
                    format!("the stream could not be published: {why}"),
                    "publish under another name, or end what holds this one: GET /api/v1/streams lists the \
                     streams",
                ));
            }
            None if waited < PATIENCE || self.is_stopped() => return None,
            _ => {}
        }
        let shortfall = publisher.shortfall(&self.session, now);
        let shortfall = shortfall.map(|it| Diagnosis::new(Stage::Media, it.reason, it.remedy));
        shortfall.or_else(|| {
            let why = publisher.ended().filter(|_| self.ending.is_some())?;
            Some(Diagnosis::new(
                Stage::Media,
                format!("the publisher went silent: {why}"),
                "see whether its encoder and its network still run",
            ))
        })
    }

    /// Returns whether a viewer was sent nothing, and has waited for it.
    fn is_media_missing(&self, viewer: &Viewer, waited: Duration) -> bool {
        let is_silent = || {
            let senders = self.session.senders();
            senders.iter().all(|it| it.counts().packets == 0)
        };
        let waits = !viewer.sender.is_empty() && self.ending.is_none() && !self.is_stopped();
        waits && waited >= PATIENCE && is_silent()
    }

    fn without_keyframe(&self, waited: Duration) -> Diagnosis {
        let state = self.stream.state();
        let detail = state.detail().map(|it| format!(": {it}"));
        let detail = detail.unwrap_or_default();
        let refreshed = "the source sent no IDR picture, with which browsers begin, but recovery points \
                         (intra refresh)";
        let (found, remedy) = match self.video_of_recovery_points() {
            Some(is_decoded) => (
                refreshed,
                match is_decoded {
                    true => {
                        "switch intra refresh off in the encoder, and set its keyframe interval to 1 or \
                         2 s; or let the player ask with ?transcode"
                    }
                    false => {
                        "switch intra refresh off in the encoder, and set its keyframe interval to 1 or \
                         2 s, since there is no decoder for this video with which ?transcode could help"
                    }
                },
            ),
            None => (
                "the source gave no keyframe to begin with",
                "set the encoder's keyframe interval to 1 or 2 s, and look at the source",
            ),
        };
        Diagnosis::new(
            Stage::Media,
            format!(
                "connected, but {found} within {} s; the stream is {}{detail}",
                waited.as_secs(),
                state.as_str(),
            ),
            remedy,
        )
    }

    /// Returns whether the server decodes the stream's video, at which decoders can start, but no
    /// browser; `None` if browsers can, too.
    fn video_of_recovery_points(&self) -> Option<bool> {
        let tracks = self.stream.tracks();
        let mut hindered = TrackIndex::enumerate(tracks.iter()).filter(|(index, track)| {
            Hindrance::of(&self.stream, *index, track) == Some(Hindrance::NoIdrFrames)
        });
        hindered
            .next()
            .map(|(_, track)| VideoSource::of(track).is_ok())
    }

    /// Returns how a client was lost that never said goodbye; `None` if the session ended otherwise.
    fn lost(&self, waited: Duration, now: Instant) -> Option<Diagnosis> {
        let is_lost = self.closed == Some(CloseReason::Vanished);
        let report = is_lost.then(|| self.session.connection_report())?;
        let silent = report
            .heard
            .map(|at| now.saturating_duration_since(at))
            .unwrap_or_default();
        Some(diagnosis::lost(self.session.peer(), waited, silent))
    }

    /// Returns why the data channels that offer and answer have never opened; `None` if they did, if
    /// there are none, or if the client left before that could be told.
    fn without_messages(&self, now: Instant) -> Option<Diagnosis> {
        let (messages, channels) = (self.messages.as_deref()?, self.session.channels()?);
        if self.ending.is_some() || self.is_stopped() || messages.is_told() {
            return None;
        }
        let waited = messages.waited(now);
        let refusal = match messages.association() {
            Association::Opening if waited >= PATIENCE => None,
            Association::Refused(why) if waited >= Messages::REFUSAL_TOLD => Some(&**why),
            _ => return None,
        };
        Some(diagnosis::never_opened(&channels.report(), refusal, waited))
    }

    /// Returns whether the session ended because the server stops, or because it was made in vain for
    /// a reason that has been told.
    fn is_stopped(&self) -> bool {
        self.closed == Some(CloseReason::Local) && self.dismissal.is_none()
    }
}
