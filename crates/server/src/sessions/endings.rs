//! Why the server ended sessions, for peers that ask after the end.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::record::SessionRecord;
use crate::runtime::SessionId;

/// Time for which a reason is kept. A page asks as soon as it sees its connection closed.
const KEPT: Duration = Duration::from_secs(30);

/// Most reasons that are kept; beyond that the oldest is forgotten.
const KEPT_MAX: usize = 1024;

/// Why the server ended a session that its peer would have continued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndReason {
    /// The stream has other tracks than the session negotiated.
    #[error("the session negotiated tracks that the stream no longer has; POST a new offer")]
    TracksChanged,
    /// The video has B-frames.
    #[error(
        "browsers would show frames in the wrong order; encode without B-frames, with ffmpeg by -bf 0"
    )]
    Reordered,
}

impl EndReason {
    /// Returns the reason in a few words.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::TracksChanged => "The source changed its codecs",
            Self::Reordered => "The video has B-frames",
        }
    }
}

/// The reasons of the latest ends, oldest first. Most sessions end because their peer leaves, and
/// have none.
#[derive(Debug, Default)]
pub(super) struct Endings(VecDeque<Ending>);

#[derive(Debug)]
struct Ending {
    record: Arc<SessionRecord>,
    reason: EndReason,
    at: Instant,
}

impl Endings {
    /// Notes why the session of `record` has ended.
    pub(super) fn note(&mut self, record: Arc<SessionRecord>, reason: EndReason, now: Instant) {
        self.forget_old(now);
        if self.0.len() == KEPT_MAX {
            self.0.pop_front();
        }
        self.0.push_back(Ending {
            record,
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

    /// Returns the record of the session with the identifier `id`, and why it has ended.
    pub(super) fn get(&self, id: &SessionId) -> Option<(&SessionRecord, EndReason)> {
        let mut kept = self.0.iter();
        let ending = kept.find(|it| it.record.id == *id)?;
        Some((&ending.record, ending.reason))
    }
}
