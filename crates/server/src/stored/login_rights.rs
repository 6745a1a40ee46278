use glassline_access::auth::{Role, StreamRights};
use serde::{Deserialize, Serialize};

/// Rights of a user or token, as the file and the API have them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Rights {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) role: Option<Role>,
    #[serde(flatten)]
    pub(crate) streams: StreamRights,
}
