//! The names under which holders of tokens are known, beside those of users.

use super::token_digest::{TokenDigest, digest_of};

/// Begins the name of each holder. No user's name has a colon.
pub(super) const PREFIX: &str = "token:";

/// Returns the name of the holder of `token`, which is different for each token and tells nothing of
/// it.
pub(super) fn name_of(token: &str) -> String {
    name_of_digest(&digest_of(token))
}

/// Returns the name of the holder of the token with this hash.
pub(super) fn name_of_digest(digest: &TokenDigest) -> String {
    let half = digest.iter().take(16);
    half.fold(PREFIX.to_owned(), |name, byte| format!("{name}{byte:02x}"))
}

/// Returns whether `name` is that of a holder.
pub(super) fn is_holder(name: &str) -> bool {
    name.starts_with(PREFIX)
}
