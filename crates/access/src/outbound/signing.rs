use aws_lc_rs::hmac;

/// Header with the signature of a request's body.
pub const SIGNATURE: &str = "x-glassline-signature";

/// Signs the bodies of requests, so that the receiver knows who sent them.
#[derive(Debug)]
pub struct Signer(hmac::Key);

impl Signer {
    /// Creates the signer of a secret that the receiver knows, too.
    pub fn new(secret: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    /// Returns the value of [`SIGNATURE`] for `body`: `sha256=` and the HMAC-SHA-256 (RFC 2104) in
    /// hexadecimal.
    pub fn sign(&self, body: &[u8]) -> String {
        let tag = hmac::sign(&self.0, body);
        let digits = tag.as_ref().iter();
        digits.fold("sha256=".to_owned(), |text, byte| {
            format!("{text}{byte:02x}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_signed_by_hmac_sha_256() {
        // RFC 4231 §4.3.
        let expected = "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        let signer = Signer::new(b"Jefe");
        assert_eq!(signer.sign(b"what do ya want for nothing?"), expected);
    }
}
