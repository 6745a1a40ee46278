use super::gate::Shown;
use super::target::Target;
use super::{Access, RequestId, Way};
use crate::message::Request;
use crate::sdp::Description;
use crate::transport::Profile;

/// A request that waits for the owner's word.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) id: RequestId,
    pub(super) request: Request,
    pub(super) target: Target,
    pub(super) stage: Stage,
}

/// What the owner is asked, and what is done with its answer.
#[derive(Debug)]
pub(super) enum Stage {
    Authorise {
        access: Access,
        /// Whom the client says that it is.
        presented: Option<String>,
        /// The credentials are to be shown once more, with a fresh nonce.
        stale: bool,
        /// There were some.
        shown: bool,
    },
    Describe,
    SetUp {
        track: usize,
        way: Way,
        profile: Profile,
        access: Access,
    },
    Play,
    Pause,
    Announce {
        description: Box<Description>,
    },
    Record,
}

impl Stage {
    /// What to ask first of a request that shows these credentials.
    pub(super) fn authorise(access: Access, shown: &Shown) -> Self {
        Self::Authorise {
            access,
            presented: match shown {
                Shown::Usable(presented) => Some(presented.user().to_owned()),
                _ => None,
            },
            stale: matches!(shown, Shown::Stale),
            shown: matches!(shown, Shown::Usable(_) | Shown::Unusable),
        }
    }
}
