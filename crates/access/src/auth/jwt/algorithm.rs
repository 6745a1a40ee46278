use aws_lc_rs::hmac;
use aws_lc_rs::rsa::RsaParameters;
use aws_lc_rs::signature::{self, VerificationAlgorithm};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A signature algorithm of JWS (RFC 7518 §3.1, RFC 8037 §3.1). There is no `none`.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, derive_more::Display,
)]
#[display("{}", self.as_str())]
pub enum Algorithm {
    /// HMAC with SHA-256.
    HS256,
    /// HMAC with SHA-384.
    HS384,
    /// HMAC with SHA-512.
    HS512,
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    RS256,
    /// RSASSA-PKCS1-v1_5 with SHA-384.
    RS384,
    /// RSASSA-PKCS1-v1_5 with SHA-512.
    RS512,
    /// RSASSA-PSS with SHA-256.
    PS256,
    /// RSASSA-PSS with SHA-384.
    PS384,
    /// RSASSA-PSS with SHA-512.
    PS512,
    /// ECDSA over P-256 with SHA-256.
    ES256,
    /// ECDSA over P-384 with SHA-384.
    ES384,
    /// ECDSA over P-521 with SHA-512.
    ES512,
    /// EdDSA over Curve25519, which is Ed25519.
    EdDSA,
}

/// The verification that an algorithm needs, by the kind of its keys.
pub(super) enum Verification {
    Hmac(hmac::Algorithm),
    Rsa(&'static RsaParameters),
    /// The curve's name in a JWK, and the bytes of one coordinate.
    Curve(&'static dyn VerificationAlgorithm, &'static str, usize),
    Edwards(&'static dyn VerificationAlgorithm),
}

impl Algorithm {
    const ALL: [Self; 13] = [
        Self::HS256,
        Self::HS384,
        Self::HS512,
        Self::RS256,
        Self::RS384,
        Self::RS512,
        Self::PS256,
        Self::PS384,
        Self::PS512,
        Self::ES256,
        Self::ES384,
        Self::ES512,
        Self::EdDSA,
    ];

    /// Returns the algorithm of this name in a token's header. `Ed25519` is the name of RFC 9864 for
    /// what RFC 8037 calls `EdDSA`.
    pub fn from_name(name: &str) -> Option<Self> {
        let name = if name == "Ed25519" { "EdDSA" } else { name };
        Self::ALL.into_iter().find(|it| it.as_str() == name)
    }

    /// Returns the name in a token's header.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::HS256 => "HS256",
            Self::HS384 => "HS384",
            Self::HS512 => "HS512",
            Self::RS256 => "RS256",
            Self::RS384 => "RS384",
            Self::RS512 => "RS512",
            Self::PS256 => "PS256",
            Self::PS384 => "PS384",
            Self::PS512 => "PS512",
            Self::ES256 => "ES256",
            Self::ES384 => "ES384",
            Self::ES512 => "ES512",
            Self::EdDSA => "EdDSA",
        }
    }

    /// Returns the fewest bytes that a shared secret must have (RFC 7518 §3.2); `None` if the
    /// algorithm has public keys.
    pub const fn secret_bytes_min(self) -> Option<usize> {
        match self {
            Self::HS256 => Some(32),
            Self::HS384 => Some(48),
            Self::HS512 => Some(64),
            _ => None,
        }
    }

    /// Returns how a signature of this algorithm is verified.
    pub(super) fn verification(self) -> Verification {
        match self {
            Self::HS256 => Verification::Hmac(hmac::HMAC_SHA256),
            Self::HS384 => Verification::Hmac(hmac::HMAC_SHA384),
            Self::HS512 => Verification::Hmac(hmac::HMAC_SHA512),
            Self::RS256 => Verification::Rsa(&signature::RSA_PKCS1_2048_8192_SHA256),
            Self::RS384 => Verification::Rsa(&signature::RSA_PKCS1_2048_8192_SHA384),
            Self::RS512 => Verification::Rsa(&signature::RSA_PKCS1_2048_8192_SHA512),
            Self::PS256 => Verification::Rsa(&signature::RSA_PSS_2048_8192_SHA256),
            Self::PS384 => Verification::Rsa(&signature::RSA_PSS_2048_8192_SHA384),
            Self::PS512 => Verification::Rsa(&signature::RSA_PSS_2048_8192_SHA512),
            Self::ES256 => Verification::Curve(&signature::ECDSA_P256_SHA256_FIXED, "P-256", 32),
            Self::ES384 => Verification::Curve(&signature::ECDSA_P384_SHA384_FIXED, "P-384", 48),
            Self::ES512 => Verification::Curve(&signature::ECDSA_P521_SHA512_FIXED, "P-521", 66),
            Self::EdDSA => Verification::Edwards(&signature::ED25519),
        }
    }
}
