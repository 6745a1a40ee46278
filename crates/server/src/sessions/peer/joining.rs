//! The steps of a peer's join, for a trace of it.

use std::time::Instant;

use glassline_events::failures::ConnectionFailure;
use glassline_media::Kind;
use glassline_telemetry::{JoinPart, JoinSender, Outcome, PeerPart, Steps};

use super::{Peer, Role};

/// The steps that a peer has passed so far; nothing if no trace is wanted, or once it is told.
#[derive(Debug)]
pub(in crate::sessions) struct Joining(Option<Box<Following>>);

#[derive(Debug)]
struct Following {
    parts: JoinSender,
    steps: Steps,
}

impl Joining {
    /// Returns the state of a peer whose steps nobody follows.
    pub(in crate::sessions::peer) const fn unfollowed() -> Self {
        Self(None)
    }

    /// Returns whether the peer's steps are still to be followed.
    pub(in crate::sessions::peer) const fn is_on(&self) -> bool {
        self.0.is_some()
    }
}

impl Peer {
    /// Follows the peer's steps from now on, and tells `parts` of them.
    pub(in crate::sessions) fn follow(&mut self, parts: JoinSender) {
        let steps = Steps::default();
        self.joining.0 = Some(Box::new(Following { parts, steps }));
    }

    /// Notes the steps that the peer has passed at `now`, and tells of the join once media flows.
    #[cold]
    pub(in crate::sessions::peer) fn note_steps(&mut self, now: Instant) {
        let has_path = self.session.peer().is_some();
        let (is_joined, progress) = (self.is_joined(), self.progress(now));
        let Some(following) = &mut self.joining.0 else {
            return;
        };
        let steps = &mut following.steps;
        steps.heard.get_or_insert(now);
        let note = |step: &mut Option<Instant>, is_passed: bool| {
            if is_passed {
                step.get_or_insert(now);
            }
        };
        note(&mut steps.path, has_path);
        note(&mut steps.connected, is_joined);
        note(&mut steps.keyframe, progress.has_keyframe);
        note(&mut steps.packet, progress.has_packet);
        if is_joined && progress.is_done {
            self.tell(Outcome::Connected, now);
            self.joining.0 = None;
        }
    }

    /// Tells of a join that ended before media flowed. `failure` is why, if it failed.
    pub(in crate::sessions) fn end_join(&self, failure: Option<&ConnectionFailure>, now: Instant) {
        let outcome = match failure {
            None => Outcome::Left,
            Some(failure) => Outcome::Failed {
                stage: failure.stage.as_str(),
                reason: failure.reason.clone(),
                remedy: failure.remedy.clone(),
            },
        };
        self.tell(outcome, now);
    }

    fn tell(&self, outcome: Outcome, ended: Instant) {
        let Some(following) = &self.joining.0 else {
            return;
        };
        following.parts.send(JoinPart::Peer(Box::new(PeerPart {
            session: self.id.clone(),
            steps: following.steps,
            ended,
            outcome,
        })));
    }

    /// Returns which media has passed.
    fn progress(&self, now: Instant) -> Progress {
        match &self.role {
            Role::Viewer(viewer) => {
                let senders = self.session.senders();
                let has_sent = |kind: Option<Kind>| {
                    let of_kind = |it: &&_| kind.is_none_or(|kind| kind_of(it) == kind);
                    let mut senders = senders.iter().filter(of_kind);
                    senders.any(|it| it.counts().packets > 0)
                };
                let has_video = senders.iter().any(|it| kind_of(it) == Kind::Video);
                let video_sent = has_video && has_sent(Some(Kind::Video));
                Progress {
                    has_keyframe: video_sent || viewer.sender.has_video_waiting(),
                    has_packet: has_sent(None),
                    is_done: match has_video {
                        true => video_sent,
                        // Without any media, the session carries messages only.
                        false => senders.is_empty() || has_sent(None),
                    },
                }
            }
            Role::Publisher(publisher) => {
                let receivers = self.session.receivers();
                let has_packet = receivers.iter().any(|it| it.totals().received > 0);
                let is_live = has_packet && publisher.shortfall(&self.session, now).is_none();
                Progress {
                    has_keyframe: is_live,
                    has_packet,
                    is_done: is_live || receivers.is_empty(),
                }
            }
            // Somebody who is muted sends nothing.
            Role::Participant(_) | Role::Talker(_) | Role::DataPublisher(_) => Progress {
                is_done: true,
                ..Progress::default()
            },
        }
    }
}

fn kind_of(sender: &glassline_webrtc::Sender) -> Kind {
    sender.codec.kind()
}

/// Media of a peer that has passed so far.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    has_keyframe: bool,
    has_packet: bool,
    /// Whether the join is over.
    is_done: bool,
}
