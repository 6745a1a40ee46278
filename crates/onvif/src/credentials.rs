//! User and password at a camera.

/// User name and password at a camera.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
// Shows the user alone.
#[debug("Credentials {{ user: {user:?}, .. }}")]
pub struct Credentials {
    /// User name, as the camera knows it.
    pub user: String,
    /// Password, which is sent as a digest only.
    pub password: String,
}
