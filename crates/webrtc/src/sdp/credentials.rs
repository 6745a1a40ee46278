use std::fmt;

/// User fragment and password of an ICE agent (RFC 8839 §5.4).
///
/// `Debug` does not show the password.
#[derive(Clone, PartialEq, Eq)]
pub struct IceCredentials {
    /// User fragment, 4 to 256 characters.
    pub ufrag: String,
    /// Password, 22 to 256 characters.
    pub pwd: String,
}

impl fmt::Debug for IceCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IceCredentials")
            .field("ufrag", &self.ufrag)
            .finish_non_exhaustive()
    }
}
