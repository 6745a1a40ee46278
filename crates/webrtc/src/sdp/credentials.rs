/// User fragment and password of an ICE agent (RFC 8839 §5.4).
///
/// `Debug` does not show the password.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("IceCredentials {{ ufrag: {ufrag:?}, .. }}")]
pub struct IceCredentials {
    /// User fragment, 4 to 256 characters.
    pub ufrag: String,
    /// Password, 22 to 256 characters.
    pub pwd: String,
}
