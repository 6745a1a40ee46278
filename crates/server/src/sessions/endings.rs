//! Why the server ended sessions, for peers that ask after the end.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use glassline_events::failures::DISMISSED;
use glassline_runtime::SessionId;

/// Time for which a reason is kept, as for failures. A page asks as soon as it sees its connection
/// closed, which may be long after the end if its own network was away.
const KEPT: Duration = Duration::from_secs(3600);

/// Most reasons that are kept; beyond that the oldest is forgotten.
const KEPT_MAX: usize = 1024;

/// The reason why the server ended a session that its peer would have continued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndReason {
    /// The stream has other tracks than the session negotiated.
    #[error("the session negotiated tracks that the stream no longer has; POST a new offer")]
    TracksChanged,
    /// An operator deleted the stream.
    #[error("an operator deleted the stream")]
    Deleted,
    /// The video has B-frames.
    #[error(
        "browsers would show frames in the wrong order; encode without B-frames, with ffmpeg by -bf 0, \
         or POST a new offer with ?transcode"
    )]
    Reordered,
    /// Another publisher took the stream over.
    #[error("another publisher took the stream over; POST a new offer with ?override to return")]
    Replaced,
    /// A publisher sent no media, or no keyframe.
    #[error(
        "no media arrived that viewers can begin with; check the encoder, then POST a new offer"
    )]
    NoMedia,
    /// An operator of the server ended the session.
    #[error("an operator of this server ended the session")]
    Dismissed,
    /// The stream of a publisher could not be published.
    #[error("the stream could not be published; the server's log has the reason")]
    NotPublished,
    /// The server leaves its cluster, and others serve its viewers.
    #[error("this server is about to stop; POST a new offer, which another server answers")]
    Draining,
    /// Another server of the cluster has fewer viewers.
    #[error(
        "another server of the cluster has fewer viewers; POST a new offer, which that one answers"
    )]
    Moved,
    /// The token that the session was made with has expired, or the right that the webhook gave.
    #[error(
        "the token or the right of this session has expired; POST a new offer with a new token"
    )]
    TokenExpired,
}

impl EndReason {
    /// Returns the reason in a few words.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::TracksChanged => "The source changed its codecs",
            Self::Deleted => "The stream was deleted",
            Self::Reordered => "The video has B-frames",
            Self::Replaced => "Replaced by another publisher",
            Self::NoMedia => "No media arrived",
            Self::Dismissed => "Ended by an operator",
            Self::NotPublished => "Not published",
            Self::TokenExpired => "The token or the right has expired",
            Self::Draining => "The server is about to stop",
            Self::Moved => "Another server has fewer viewers",
        }
    }

    /// Returns the reason's name for programs.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::TracksChanged => "tracks_changed",
            Self::Deleted => "deleted",
            Self::Reordered => "b_frames",
            Self::Replaced => "replaced",
            Self::NoMedia => "no_media",
            Self::Dismissed => "dismissed",
            Self::NotPublished => "not_published",
            Self::TokenExpired => "expired",
            Self::Draining => "draining",
            Self::Moved => "moved",
        }
    }

    /// Returns what happened and what to change, as the operator's list of failures has it.
    pub(super) const fn explain(self) -> (&'static str, &'static str) {
        match self {
            Self::TracksChanged => (
                "the server ended the session: the source of the stream changed its codecs",
                "players join again by themselves; if they do not, let them POST a new offer",
            ),
            Self::Deleted => (
                "the server ended the session: an operator or the API deleted the stream",
                "add the source again if that was a mistake; GET /api/v1/audit has who deleted it",
            ),
            Self::Reordered => (
                "the server ended the session: the stream's video has B-frames, which browsers show in the \
                 wrong order",
                "have the encoder make no B-frames (ffmpeg: -bf 0), or let the player ask with ?transcode",
            ),
            Self::Replaced => (
                "the server ended the session: another publisher took the stream over",
                "if both shall publish, give each a name of its own",
            ),
            Self::NoMedia => (
                "the server ended the session: the publisher sent no media that viewers can begin with",
                "see whether its encoder runs, and set the keyframe interval to 1 or 2 s",
            ),
            Self::Dismissed => DISMISSED,
            Self::NotPublished => (
                "the server ended the session: the stream could not be published",
                "the lines before in the server's log have the reason",
            ),
            Self::TokenExpired => (
                "the server ended the session: its token, or the right that the webhook gave, has expired",
                "give the client a new token before the old one ends, or tokens of a longer life",
            ),
            Self::Draining => (
                "the server sent the session to the other servers of the cluster: it is about to stop",
                "players join again by themselves; if they do not, see whether another server has the stream",
            ),
            Self::Moved => (
                "the server sent the session to another server of the cluster, which has fewer viewers",
                "players join again by themselves; if they do not, set cluster.rebalance to pages or off",
            ),
        }
    }
}

/// The reasons of the latest ends, oldest first. Most sessions end because their peer leaves, and
/// have none.
#[derive(Debug, Default)]
pub(super) struct Endings(VecDeque<Ending>);

#[derive(Debug)]
struct Ending {
    session: SessionId,
    /// Name of the stream or file in the session's URL.
    resource: Box<str>,
    reason: EndReason,
    at: Instant,
}

impl Endings {
    /// Notes why `session` has ended, whose URL names the stream or file `resource`.
    pub(super) fn note(
        &mut self,
        session: &SessionId,
        resource: &str,
        reason: EndReason,
        now: Instant,
    ) {
        self.forget_old(now);
        if self.0.len() == KEPT_MAX {
            self.0.pop_front();
        }
        self.0.push_back(Ending {
            session: session.clone(),
            resource: resource.into(),
            reason,
            at: now,
        });
    }

    /// Forgets the reasons that were kept for long enough.
    pub(super) fn forget_old(&mut self, now: Instant) {
        let is_old = |it: &Ending| now.saturating_duration_since(it.at) > KEPT;
        while self.0.front().is_some_and(is_old) {
            self.0.pop_front();
        }
        if self.0.is_empty() {
            self.0.shrink_to_fit();
        }
    }

    /// Returns why `session` has ended, if its URL names `resource`; whatever it named without one.
    pub(super) fn get(&self, session: &SessionId, resource: Option<&str>) -> Option<EndReason> {
        let is_of = |it: &&Ending| resource.is_none_or(|resource| *it.resource == *resource);
        let mut kept = self.0.iter().filter(is_of);
        kept.find(|it| it.session == *session).map(|it| it.reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_kept_for_a_while_and_their_number_is_bounded() {
        let (mut endings, now) = (Endings::default(), Instant::now());
        let id = |number: usize| SessionId::new(&number.to_string());
        for number in 0..=KEPT_MAX {
            endings.note(&id(number), "cam", EndReason::TracksChanged, now);
        }
        assert_eq!(
            endings.get(&id(0), Some("cam")),
            None,
            "the oldest made room"
        );
        assert_eq!(
            endings.get(&id(1), Some("cam")),
            Some(EndReason::TracksChanged)
        );
        assert_eq!(endings.get(&id(1), None), Some(EndReason::TracksChanged));
        assert_eq!(endings.get(&id(1), Some("other")), None, "another stream's");
        endings.note(&id(7_000), "cam", EndReason::Reordered, now + KEPT);
        assert!(endings.get(&id(2), None).is_some(), "not yet");
        endings.forget_old(now + KEPT + Duration::from_millis(1));
        assert_eq!(endings.get(&id(KEPT_MAX), None), None);
        assert_eq!(endings.get(&id(7_000), None), Some(EndReason::Reordered));
    }
}
