use super::PasswordHash;
use super::token_digest::TokenDigest;

/// Somebody who uses the admin port. What a person may do is looked up again for each request, so
/// that a right that was taken away is gone.
#[derive(Clone, Debug)]
pub struct Operator {
    /// Name as people are shown it.
    pub(super) shown: String,
    pub(super) proof: Proof,
}

/// What an operator has shown.
#[derive(Clone, Debug)]
pub(super) enum Proof {
    /// Nothing: the request comes from this machine, and nobody needs a credential.
    Nothing,
    /// The password of the user `name`, which had this hash.
    Password { name: String, hash: PasswordHash },
    /// A token of the configuration, or one that was made over the API.
    Token(TokenDigest),
    /// A token of the identity provider, whose holder has this name.
    Signed(String),
}

impl Operator {
    /// Returns the name as people are shown it.
    pub fn name(&self) -> &str {
        &self.shown
    }

    /// Returns whether the two are the same user, or the same holder of a token.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (&self.proof, &other.proof) {
            (Proof::Nothing, Proof::Nothing) => true,
            (Proof::Password { name, .. }, Proof::Password { name: other, .. })
            | (Proof::Signed(name), Proof::Signed(other)) => name == other,
            (Proof::Token(digest), Proof::Token(other)) => digest == other,
            _ => false,
        }
    }
}
