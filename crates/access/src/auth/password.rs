use argon2::password_hash::{PasswordHasher, PasswordVerifier, SaltString};
use argon2::{Algorithm, Argon2, Params, Version};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use super::{HIDDEN, SecretText};

/// Most memory that checking a hash may take, in KiB. With the limits on passes and lanes it keeps
/// a line of a file from stopping the server.
const MEMORY_KIB_MAX: u32 = 256 << 10;
const PASSES_MAX: u32 = 16;
const LANES_MAX: u32 = 16;

/// The argon2id hash of a password (RFC 9106) in the form `$argon2id$v=19$m=…,t=…,p=…$SALT$HASH`.
/// The server never prints it.
#[derive(Clone, PartialEq, Eq, Deserialize, JsonSchema, derive_more::Debug)]
#[debug("{HIDDEN}")]
#[serde(try_from = "String")]
#[schemars(with = "SecretText")]
pub struct PasswordHash(String);

impl PasswordHash {
    /// Hashes `password`, which takes some 20 ms and 19 MiB. `salt` must be drawn for this password
    /// alone.
    pub fn of(password: &str, salt: &[u8; 16]) -> Self {
        let salt = SaltString::encode_b64(salt).expect("sixteen bytes fit a salt");
        let hash = hasher().hash_password(password.as_bytes(), &salt);
        Self(
            hash.expect("the parameters are the library's own")
                .to_string(),
        )
    }

    /// Returns a hash that takes as long to check as others and matches no password.
    pub(super) fn of_nobody() -> Self {
        let parameters = hasher().params().clone();
        let (m, t, p) = (
            parameters.m_cost(),
            parameters.t_cost(),
            parameters.p_cost(),
        );
        let (salt, hash) = ("A".repeat(22), "A".repeat(43));
        Self(format!("$argon2id$v=19$m={m},t={t},p={p}${salt}${hash}"))
    }

    /// Parses a hash as it appears in a file.
    ///
    /// # Errors
    /// Returns [`HashError`] if the text is not an argon2id hash, or if checking it would cost too
    /// much.
    pub fn parse(text: &str) -> Result<Self, HashError> {
        let hash = argon2::PasswordHash::new(text).map_err(|_| HashError::Form)?;
        if hash.algorithm != Algorithm::Argon2id.ident() || hash.hash.is_none() {
            return Err(HashError::Form);
        }
        let cost = Params::try_from(&hash).map_err(|_| HashError::Form)?;
        let bounded = cost.m_cost() <= MEMORY_KIB_MAX
            && cost.t_cost() <= PASSES_MAX
            && cost.p_cost() <= LANES_MAX;
        if !bounded {
            return Err(HashError::Cost);
        }
        Ok(Self(text.to_owned()))
    }

    /// Returns whether `password` has this hash. Takes as long as hashing it.
    pub fn is_of(&self, password: &str) -> bool {
        let hash = argon2::PasswordHash::new(&self.0);
        hash.is_ok_and(|hash| hasher().verify_password(password.as_bytes(), &hash).is_ok())
    }

    /// Returns the hash as text, to be written into a file that only the server reads.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

/// Returns argon2id with OWASP's first choice of parameters: 19 MiB, two passes, one lane.
fn hasher() -> Argon2<'static> {
    Argon2::new(Algorithm::Argon2id, Version::V0x13, Params::default())
}

impl Serialize for PasswordHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(HIDDEN)
    }
}

impl TryFrom<String> for PasswordHash {
    type Error = HashError;

    fn try_from(text: String) -> Result<Self, HashError> {
        Self::parse(&text)
    }
}

/// The reason why a text is not a [`PasswordHash`]. The text is not repeated, since it may be a
/// password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HashError {
    /// The text is not an argon2id hash.
    #[error("the password must be an argon2id hash: `glassline user add NAME` makes one")]
    Form,
    /// Checking the hash would take too much time or memory.
    #[error(
        "this password's hash would cost more than {} MiB, {PASSES_MAX} passes or {LANES_MAX} lanes to check: make another with `glassline user add NAME`",
        MEMORY_KIB_MAX >> 10
    )]
    Cost,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_knows_its_password_and_no_other() {
        let hash = PasswordHash::of("open sesame", &[7; 16]);
        let read = PasswordHash::parse(hash.reveal()).expect("our own hash");
        assert!(read.is_of("open sesame"));
        assert!(!read.is_of("open sesame!") && !read.is_of(""));
        assert_ne!(PasswordHash::of("open sesame", &[8; 16]), hash);
        assert!(!format!("{hash:?}").contains("argon2"));
    }

    #[test]
    fn the_hash_of_nobody_costs_what_others_cost() {
        let nobody = PasswordHash::of_nobody();
        let read = PasswordHash::parse(nobody.reveal()).expect("a hash like any other");
        let cost = |hash: &PasswordHash| {
            let hash = argon2::PasswordHash::new(hash.reveal()).expect("a hash");
            let hashed = hash.hash.expect("has one").len();
            (Params::try_from(&hash).expect("parameters"), hashed)
        };
        let (theirs, bytes) = cost(&PasswordHash::of("x", &[1; 16]));
        let (ours, our_bytes) = cost(&read);
        assert_eq!(
            (ours.m_cost(), ours.t_cost()),
            (theirs.m_cost(), theirs.t_cost())
        );
        assert_eq!(our_bytes, bytes);
        assert!(!read.is_of("") && !read.is_of("x"));
    }

    #[test]
    fn clear_passwords_other_hashes_and_costly_ones_are_refused() {
        let salt = "c29tZXNhbHRzb21lc2FsdA";
        let hash = "CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc";
        let with = |head: &str| PasswordHash::parse(&format!("{head}${salt}${hash}"));
        assert!(with("$argon2id$v=19$m=65536,t=2,p=1").is_ok());
        for (head, error) in [
            ("$argon2i$v=19$m=65536,t=2,p=1", HashError::Form),
            ("$argon2id$v=19$m=4194304,t=2,p=1", HashError::Cost),
            ("$argon2id$v=19$m=65536,t=200,p=1", HashError::Cost),
        ] {
            assert_eq!(with(head), Err(error), "{head}");
        }
        assert_eq!(PasswordHash::parse("hunter2"), Err(HashError::Form));
        let unhashed = format!("$argon2id$v=19$m=65536,t=2,p=1${salt}");
        assert_eq!(PasswordHash::parse(&unhashed), Err(HashError::Form));
    }
}
