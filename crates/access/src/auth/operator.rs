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

/// The credential that an operator has shown.
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

/// The identity of an operator, whatever right the operator has at the moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum OperatorId {
    /// Somebody at this machine, while nobody needs a credential.
    Here,
    /// A user of this name.
    User(String),
    /// The holder of a token of the configuration or the API.
    Token(TokenDigest),
    /// The holder of a token of the identity provider.
    Signed(String),
}

impl Operator {
    /// Returns the name as people are shown it.
    pub fn name(&self) -> &str {
        &self.shown
    }

    /// Returns who the operator is.
    pub fn id(&self) -> OperatorId {
        match &self.proof {
            Proof::Nothing => OperatorId::Here,
            Proof::Password { name, .. } => OperatorId::User(name.clone()),
            Proof::Token(digest) => OperatorId::Token(*digest),
            Proof::Signed(name) => OperatorId::Signed(name.clone()),
        }
    }
}
