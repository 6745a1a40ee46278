use glassline_media::TrackIndex;

use super::authenticator::CredentialCheck;
use super::target::Target;
use super::{Access, RequestId, SelectedTransport};
use crate::message::Request;
use crate::sdp::Description;
use crate::transport::Profile;

/// A request that waits for the owner's answer.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) id: RequestId,
    pub(super) request: Request,
    pub(super) target: Target,
    pub(super) stage: Stage,
}

/// The question to the owner, and all that the answer to it needs.
#[derive(Debug)]
pub(super) enum Stage {
    Authorize {
        access: Access,
        /// Name of the user that the client presents.
        presented: Option<String>,
        /// Whether the client must send its credentials again with a fresh nonce.
        stale: bool,
        /// Whether the request had credentials.
        shown: bool,
    },
    Describe,
    SetUp {
        track: TrackIndex,
        transport: SelectedTransport,
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
    /// Returns the stage of a request that needs authorization with these credentials.
    pub(super) fn authorize(access: Access, shown: &CredentialCheck) -> Self {
        Self::Authorize {
            access,
            presented: match shown {
                CredentialCheck::Usable(presented) => Some(presented.user().to_owned()),
                _ => None,
            },
            stale: matches!(shown, CredentialCheck::Stale),
            shown: matches!(
                shown,
                CredentialCheck::Usable(_) | CredentialCheck::Unusable
            ),
        }
    }
}
