//! Signatures of peers whose certificates have other curves than P-256 and P-384, which `dimpl`
//! verifies itself.
//!
//! FFmpeg's WHIP muxer over GnuTLS generates P-224 keys: GnuTLS chooses that curve for its "medium"
//! security (112 bits), and FFmpeg asks for no more. P-521 costs nothing to support.

use aws_lc_rs::digest;
use aws_lc_rs::signature::{
    ECDSA_P521_SHA256_ASN1, ECDSA_P521_SHA384_ASN1, EcdsaVerificationAlgorithm, UnparsedPublicKey,
};
use dimpl::CryptoError;
use dimpl::crypto::aws_lc_rs::default_provider;
use dimpl::crypto::{CryptoProvider, HashAlgorithm, SignatureAlgorithm, SignatureVerifier};
use p224::ecdsa::signature::hazmat::PrehashVerifier;
use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::der::asn1::ObjectIdentifier;

/// Object identifiers of the curves (RFC 5480 §2.1.1.1).
const SECP224R1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.33");
const SECP521R1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.35");

/// Verifies signatures by keys on any curve that peers use.
#[derive(Debug)]
struct Verifier;

static VERIFIER: Verifier = Verifier;

/// Returns `provider` with support for more curves of the peer's certificate.
pub(super) fn provider(mut provider: CryptoProvider) -> CryptoProvider {
    provider.signature_verification = &VERIFIER;
    provider
}

impl SignatureVerifier for Verifier {
    fn verify_signature(
        &self,
        cert_der: &[u8],
        data: &[u8],
        signature: &[u8],
        hash_alg: HashAlgorithm,
        sig_alg: SignatureAlgorithm,
    ) -> Result<(), CryptoError> {
        let usual = default_provider().signature_verification;
        match usual.verify_signature(cert_der, data, signature, hash_alg, sig_alg) {
            Err(CryptoError::UnsupportedEcCurve) => verify(cert_der, data, signature, hash_alg),
            verified => verified,
        }
    }
}

/// Verifies an ECDSA signature by a key on one of the curves here.
fn verify(
    certificate: &[u8],
    data: &[u8],
    signature: &[u8],
    hash: HashAlgorithm,
) -> Result<(), CryptoError> {
    let certificate =
        Certificate::from_der(certificate).map_err(|_| CryptoError::CertificateParseFailed)?;
    let info = certificate.tbs_certificate().subject_public_key_info();
    let curve = info.algorithm.parameters.as_ref();
    let curve = curve.ok_or(CryptoError::MissingEcCurveParameter)?;
    let curve: ObjectIdentifier = curve
        .decode_as()
        .map_err(|_| CryptoError::InvalidEcCurveParameter)?;
    let key = info.subject_public_key.as_bytes();
    let key = key.ok_or(CryptoError::InvalidSubjectPublicKey)?;
    let is_right = match curve {
        SECP224R1 => verify_p224(key, data, signature, hash)?,
        SECP521R1 => verify_p521(key, data, signature, hash),
        _ => return Err(CryptoError::UnsupportedEcCurve),
    };
    // `dimpl` has no name for these curves, and so no error of its own for their signatures.
    is_right
        .then_some(())
        .ok_or(CryptoError::InvalidSubjectPublicKey)
}

fn verify_p224(
    key: &[u8],
    data: &[u8],
    signature: &[u8],
    hash: HashAlgorithm,
) -> Result<bool, CryptoError> {
    let key = p224::ecdsa::VerifyingKey::from_sec1_bytes(key)
        .map_err(|_| CryptoError::InvalidSubjectPublicKey)?;
    let algorithm = match hash {
        HashAlgorithm::SHA256 => &digest::SHA256,
        HashAlgorithm::SHA384 => &digest::SHA384,
        _ => return Ok(false),
    };
    let Ok(signature) = p224::ecdsa::DerSignature::try_from(signature) else {
        return Ok(false);
    };
    let digest = digest::digest(algorithm, data);
    Ok(key.verify_prehash(digest.as_ref(), &signature).is_ok())
}

fn verify_p521(key: &[u8], data: &[u8], signature: &[u8], hash: HashAlgorithm) -> bool {
    let algorithm: &EcdsaVerificationAlgorithm = match hash {
        HashAlgorithm::SHA256 => &ECDSA_P521_SHA256_ASN1,
        HashAlgorithm::SHA384 => &ECDSA_P521_SHA384_ASN1,
        _ => return false,
    };
    let key = UnparsedPublicKey::new(algorithm, key);
    key.verify(data, signature).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Certificates and signatures of `b"glassline"` with SHA-256, made by OpenSSL 3.0:
    /// `openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:CURVE -nodes -subj /CN=peer` and
    /// `openssl dgst -sha256 -sign`.
    const P224: [&str; 2] = [
        include_str!("testdata/p224.crt.hex"),
        include_str!("testdata/p224.sig.hex"),
    ];
    const P521: [&str; 2] = [
        include_str!("testdata/p521.crt.hex"),
        include_str!("testdata/p521.sig.hex"),
    ];

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex.trim().bytes().collect();
        let pair = |pair: &[u8]| {
            let text = std::str::from_utf8(pair).expect("digits");
            u8::from_str_radix(text, 16).expect("digits")
        };
        digits.chunks(2).map(pair).collect()
    }

    fn check(certificate: &[u8], data: &[u8], signature: &[u8]) -> Result<(), CryptoError> {
        let provider = provider(default_provider());
        provider.signature_verification.verify_signature(
            certificate,
            data,
            signature,
            HashAlgorithm::SHA256,
            SignatureAlgorithm::ECDSA,
        )
    }

    #[test]
    fn signatures_by_further_curves_are_verified() {
        for [certificate, signature] in [P224, P521] {
            let (certificate, signature) = (bytes(certificate), bytes(signature));
            assert_eq!(check(&certificate, b"glassline", &signature), Ok(()));
            assert!(check(&certificate, b"another", &signature).is_err());
            let mut damaged = signature.clone();
            *damaged.last_mut().expect("bytes") ^= 1;
            assert!(check(&certificate, b"glassline", &damaged).is_err());
            assert!(check(&certificate, b"glassline", b"").is_err());
            for at in 0..certificate.len() {
                let mut damaged = certificate.clone();
                damaged[at] ^= 0x55;
                // The result does not matter: the fingerprint holds the certificate together.
                let _ = check(&damaged, b"glassline", &signature);
            }
        }
    }
}
