//! Hashes of tokens, which stand for the tokens in tables and in names.

/// SHA-256 of a token. A token is random, so its hash tells nothing of it.
pub type TokenDigest = [u8; 32];

/// Returns the hash of a token.
pub fn digest_of(token: &str) -> TokenDigest {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, token.as_bytes());
    digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
}
