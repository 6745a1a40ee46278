//! Writes Retry packets (RFC 9000 §17.2.5).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use noq_proto::crypto::CryptoError;

use super::initial::{CONNECTION_ID_MAX, InitialHeader, VERSION_1};
use super::token::TokenKey;

/// Key and nonce of the integrity tag of version 1 (RFC 9001 §5.8). Everybody knows them: the tag
/// tells damage, and that the sender has seen the client's packet.
const INTEGRITY_KEY: [u8; 16] = [
    0xbe, 0x0c, 0x69, 0x0b, 0x9f, 0x66, 0x57, 0x5a, 0x1d, 0x76, 0x6b, 0x54, 0xe3, 0x68, 0xc8, 0x4e,
];
const INTEGRITY_NONCE: [u8; 12] = [
    0x46, 0x15, 0x99, 0xd3, 0x5d, 0x63, 0x2b, 0xf2, 0x23, 0x98, 0x25, 0xbb,
];

/// First byte of a Retry packet; its last four bits mean nothing.
const FIRST: u8 = 0xff;

/// Length of the connection IDs that a client has to use after a Retry packet, in bytes. A client
/// ignores a Retry packet without one.
const SOURCE_BYTES: usize = 8;

/// Returns whether a Retry packet of `version` can be written here.
pub(super) const fn has_version(version: u32) -> bool {
    version == VERSION_1
}

/// Writes Retry packets with tokens of one key.
#[derive(derive_more::Debug)]
#[debug("RetryWriter {{ .. }}")]
pub(super) struct RetryWriter {
    key: Arc<TokenKey>,
    integrity: LessSafeKey,
    /// The next token's nonce. It begins anywhere, as those of noq do, and counts.
    nonce: u128,
    /// The packet with the client's connection ID in front of it, which the tag is computed over.
    pseudo_packet: Vec<u8>,
}

impl RetryWriter {
    /// Creates a writer whose nonces begin with `nonce`, a random number.
    ///
    /// # Errors
    /// The cryptographic library has no AES-GCM.
    pub(super) fn new(key: Arc<TokenKey>, nonce: u128) -> Result<Self, CryptoError> {
        let integrity = UnboundKey::new(&AES_128_GCM, &INTEGRITY_KEY).map_err(|_| CryptoError)?;
        Ok(Self {
            key,
            integrity: LessSafeKey::new(integrity),
            nonce,
            pseudo_packet: Vec::new(),
        })
    }

    /// Returns the Retry packet that answers `initial` of `client`, until the next call.
    ///
    /// # Errors
    /// The cryptographic library fails.
    pub(super) fn write(
        &mut self,
        initial: &InitialHeader<'_>,
        client: SocketAddr,
        now: SystemTime,
    ) -> Result<&[u8], CryptoError> {
        self.nonce = self.nonce.wrapping_add(1);
        let token = self
            .key
            .seal_retry(client, initial.destination, now, self.nonce)?;
        // The sealed bytes look random, and differ from token to token.
        let (source, _) = token.split_first_chunk().ok_or(CryptoError)?;
        self.compose(initial, source, &token)
    }

    fn compose(
        &mut self,
        initial: &InitialHeader<'_>,
        source: &[u8; SOURCE_BYTES],
        token: &[u8],
    ) -> Result<&[u8], CryptoError> {
        debug_assert!(initial.source.len() <= CONNECTION_ID_MAX);
        let out = &mut self.pseudo_packet;
        out.clear();
        out.push(initial.destination.len() as u8);
        out.extend(initial.destination);
        let packet = out.len();
        out.push(FIRST);
        out.extend(initial.version.to_be_bytes());
        out.push(initial.source.len() as u8);
        out.extend(initial.source);
        out.push(source.len() as u8);
        out.extend(source);
        out.extend(token);
        let nonce = Nonce::assume_unique_for_key(INTEGRITY_NONCE);
        let tag = self
            .integrity
            .seal_in_place_separate_tag(nonce, Aad::from(&*out), &mut [])
            .map_err(|_| CryptoError)?;
        out.extend(tag.as_ref());
        Ok(&self.pseudo_packet[packet..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_packet_of_rfc_9001_is_written() {
        let key = Arc::new(TokenKey::new(&[1; 16]).expect("a key"));
        let mut writer = RetryWriter::new(key, 0).expect("a key");
        let initial = InitialHeader {
            version: VERSION_1,
            destination: &[0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08],
            source: &[],
            token: &[],
        };
        let source = [0xf0, 0x67, 0xa5, 0x50, 0x2a, 0x42, 0x62, 0xb5];
        let written = writer.compose(&initial, &source, b"token");
        // RFC 9001 §A.4.
        let mut expected = vec![0xff, 0, 0, 0, 1, 0, 8];
        expected.extend(source);
        expected.extend(b"token");
        expected.extend([
            0x04, 0xa2, 0x65, 0xba, 0x2e, 0xff, 0x4d, 0x82, 0x90, 0x58, 0xfb, 0x3f, 0x0f, 0x24,
            0x96, 0xba,
        ]);
        assert_eq!(written.expect("a tag"), expected);
    }
}
