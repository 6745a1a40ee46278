use crate::auth::User;
use crate::auth::digest::{Algorithm, Credentials};
use crate::message::Method;

/// Whom a client says that it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presented {
    /// By name and password: to be held against the user store.
    Basic(User),
    /// By a hash of them: to be held against what [`digest::secret`] gives.
    ///
    /// [`digest::secret`]: crate::auth::digest::secret
    Digest(Digest),
}

impl Presented {
    /// The name.
    pub fn user(&self) -> &str {
        match self {
            Self::Basic(user) => &user.name,
            Self::Digest(digest) => &digest.credentials.user,
        }
    }
}

/// The credentials of one request, and what else they are the hash of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    pub(super) credentials: Credentials,
    pub(super) method: Method,
}

impl Digest {
    /// The user's name.
    pub fn user(&self) -> &str {
        &self.credentials.user
    }

    /// Which hash the secret must be of. Never one of a session.
    pub const fn algorithm(&self) -> Algorithm {
        self.credentials.algorithm
    }

    /// They are of the user whose secret this is, for the server's realm:
    /// [`digest::secret`].
    ///
    /// [`digest::secret`]: crate::auth::digest::secret
    pub fn verify(&self, secret: &str) -> bool {
        let method = self.method.as_str();
        self.credentials.verify(secret, method, b"")
    }
}
