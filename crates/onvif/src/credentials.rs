//! User and password at a camera.

use std::fmt;

/// User name and password at a camera.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// User name, as the camera knows it.
    pub user: String,
    /// Password, which is sent as a digest only.
    pub password: String,
}

/// Shows the user alone.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}
