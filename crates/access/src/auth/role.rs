use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A role on the admin port, with all that its holder may do. Each role has the rights of those before
/// it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Reads: the dashboard, lists, metrics.
    Viewer,
    /// Disconnects viewers, requests keyframes, restarts sources, and drains the server.
    Operator,
    /// Creates, changes and deletes sources, users and tokens, and reads the audit log.
    Admin,
}

impl Role {
    /// Every role, from the one with the fewest rights up.
    pub const ALL: [Self; 3] = [Self::Viewer, Self::Operator, Self::Admin];

    /// Returns the name of the role in configurations and answers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for Role {
    type Err = RoleError;

    fn from_str(text: &str) -> Result<Self, RoleError> {
        let found = Self::ALL.into_iter().find(|role| role.as_str() == text);
        found.ok_or(RoleError)
    }
}

/// A text is not a [`Role`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a role is one of viewer, operator and admin")]
pub struct RoleError;
