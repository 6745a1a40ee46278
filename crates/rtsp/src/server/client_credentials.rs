use crate::auth::User;
use crate::auth::digest::{Algorithm, Credentials};
use crate::message::Method;

/// Credentials that a client presents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientCredentials {
    /// Name and password, to be compared with the user store.
    Basic(User),
    /// A digest hash, to be verified with the result of [`digest::secret`].
    ///
    /// [`digest::secret`]: crate::auth::digest::secret
    Digest(Digest),
}

impl ClientCredentials {
    /// Returns the user's name.
    pub fn user(&self) -> &str {
        match self {
            Self::Basic(user) => &user.name,
            Self::Digest(digest) => &digest.credentials.user,
        }
    }
}

/// Digest credentials of one request, and the request's method, which the hash covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    pub(super) credentials: Credentials,
    pub(super) method: Method,
}

impl Digest {
    /// Returns the user's name.
    pub fn user(&self) -> &str {
        &self.credentials.user
    }

    /// Returns the hash algorithm that the secret must use; never one with a session key.
    pub const fn algorithm(&self) -> Algorithm {
        self.credentials.algorithm
    }

    /// Returns whether the credentials are those of the user with this secret, which
    /// [`digest::secret`] computes for the server's realm.
    ///
    /// [`digest::secret`]: crate::auth::digest::secret
    pub fn verify(&self, secret: &str) -> bool {
        let method = self.method.as_str();
        self.credentials.verify(secret, method, b"")
    }
}
