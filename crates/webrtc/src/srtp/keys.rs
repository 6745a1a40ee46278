//! Derivation of session keys from the master key, and the two transforms that use them.

use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::cipher::{self, EncryptingKey, EncryptionContext, UnboundCipherKey};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use aws_lc_rs::iv::FixedLength;
use zeroize::Zeroizing;

use super::Profile;

/// Labels of the key derivation (RFC 3711 §4.3.1–4.3.2).
const RTP_KEYS: u8 = 0;
/// First label of the SRTCP keys.
const RTCP_KEYS: u8 = 3;

/// Session keys of one direction.
pub(super) struct SessionKeys {
    pub(super) rtp: Transform,
    pub(super) rtcp: Transform,
}

impl SessionKeys {
    /// Derives the session keys. The caller has checked that `key` and `salt` have the lengths
    /// of `profile`.
    pub(super) fn derive(profile: Profile, key: &[u8], salt: &[u8]) -> Self {
        Self {
            rtp: Transform::derive(profile, key, salt, RTP_KEYS),
            rtcp: Transform::derive(profile, key, salt, RTCP_KEYS),
        }
    }
}

/// Length of the tag of HMAC-SHA1-80 in bytes.
const SHA1_80_TAG: usize = 10;
/// Most bytes of padding of a packet.
const PADDING_MAX: usize = 16;
/// Length of the tag of AES-GCM in bytes.
const GCM_TAG: usize = 16;
/// The E flag of SRTCP's index word: the packet is encrypted (RFC 3711 §3.4).
pub(super) const ENCRYPTED: u32 = 0x8000_0000;
/// Length of RTCP header and sender SSRC in bytes, which are not encrypted.
pub(super) const RTCP_CLEAR: usize = 8;

/// One set of expanded session keys.
pub(super) enum Transform {
    Gcm {
        key: Box<LessSafeKey>,
        salt: [u8; 12],
    },
    CmSha1 {
        cipher: Box<EncryptingKey>,
        auth: Box<hmac::Key>,
        salt: [u8; 14],
    },
}

impl Transform {
    pub(super) fn derive(profile: Profile, key: &[u8], salt: &[u8], label: u8) -> Self {
        // The cipher keeps a copy of its own, which it clears itself.
        let mut session_key = Zeroizing::new([0; 32]);
        let session_key = &mut session_key[..profile.key_bytes()];
        generate(key, salt, label, session_key);
        match profile {
            Profile::Aes128CmSha1_80 => {
                let (mut auth, mut session_salt) = (Zeroizing::new([0; 20]), [0; 14]);
                generate(key, salt, label + 1, &mut *auth);
                generate(key, salt, label + 2, &mut session_salt);
                Self::cm_sha1(session_key, &*auth, session_salt)
            }
            Profile::AeadAes128Gcm | Profile::AeadAes256Gcm => {
                let mut session_salt = [0; 12];
                generate(key, salt, label + 2, &mut session_salt);
                Self::gcm(session_key, session_salt)
            }
        }
    }

    /// Creates an AEAD transform from session keys: 16 or 32 bytes of key.
    pub(super) fn gcm(key: &[u8], salt: [u8; 12]) -> Self {
        let algorithm = if key.len() == 16 {
            &AES_128_GCM
        } else {
            &AES_256_GCM
        };
        let key = UnboundKey::new(algorithm, key).expect("16 or 32 bytes");
        Self::Gcm {
            key: Box::new(LessSafeKey::new(key)),
            salt,
        }
    }

    pub(super) fn cm_sha1(key: &[u8], auth: &[u8], salt: [u8; 14]) -> Self {
        Self::CmSha1 {
            cipher: Box::new(counter_mode(key)),
            auth: Box::new(hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, auth)),
            salt,
        }
    }

    pub(super) const fn tag_bytes(&self) -> usize {
        match self {
            Self::Gcm { .. } => GCM_TAG,
            Self::CmSha1 { .. } => SHA1_80_TAG,
        }
    }

    /// Seals `payload` behind the header with which `out` begins.
    ///
    /// `out` is exactly the header, room for the payload, and room for the tag. With AEAD the
    /// payload goes from the shared unit through the cipher to `out` in one pass; counter mode
    /// copies it first.
    pub(super) fn seal_rtp(
        &self,
        ssrc: [u8; 4],
        index: u64,
        header_bytes: usize,
        payload: &[u8],
        padding: u8,
        out: &mut [u8],
    ) -> Option<()> {
        let (header, body) = out.split_at_mut_checked(header_bytes)?;
        let (cipher_text, tag) = body.split_at_mut_checked(payload.len())?;
        // Zeros except for the last byte, which is the length (RFC 3550 §5.1).
        let mut padded = [0; PADDING_MAX];
        let padded = padded.get_mut(..usize::from(padding))?;
        if let Some(count) = padded.last_mut() {
            *count = padding;
        }
        match self {
            Self::Gcm { key, salt } => key
                .seal_out_of_place_scatter(
                    nonce(salt, ssrc, index),
                    Aad::from(&*header),
                    payload,
                    cipher_text,
                    padded,
                    tag,
                )
                .ok(),
            Self::CmSha1 { .. } => {
                cipher_text.copy_from_slice(payload);
                tag.get_mut(..padded.len())?.copy_from_slice(padded);
                self.seal_rtp_in_place(ssrc, index, header_bytes, out)
            }
        }
    }

    /// Like [`seal_rtp`](Self::seal_rtp), with the payload already in place.
    pub(super) fn seal_rtp_in_place(
        &self,
        ssrc: [u8; 4],
        index: u64,
        header_bytes: usize,
        out: &mut [u8],
    ) -> Option<()> {
        let text_bytes = out.len().checked_sub(self.tag_bytes())?;
        let (packet, tag) = out.split_at_mut(text_bytes);
        match self {
            Self::Gcm { key, salt } => {
                let (header, text) = packet.split_at_mut_checked(header_bytes)?;
                let sealed = key
                    .seal_in_place_separate_tag(nonce(salt, ssrc, index), Aad::from(&*header), text)
                    .ok()?;
                tag.copy_from_slice(sealed.as_ref());
            }
            Self::CmSha1 { cipher, auth, salt } => {
                let text = packet.get_mut(header_bytes..)?;
                crypt(cipher, salt, ssrc, index, text)?;
                tag.copy_from_slice(&authenticate(auth, packet, rollover(index))[..SHA1_80_TAG]);
            }
        }
        Some(())
    }

    /// Authenticates and decrypts in place. Returns the length of the payload in bytes.
    pub(super) fn open_rtp(
        &self,
        ssrc: [u8; 4],
        index: u64,
        header_bytes: usize,
        packet: &mut [u8],
    ) -> Option<usize> {
        let text_bytes = packet
            .len()
            .checked_sub(header_bytes)?
            .checked_sub(self.tag_bytes())?;
        match self {
            Self::Gcm { key, salt } => {
                let (header, body) = packet.split_at_mut(header_bytes);
                let nonce = nonce(salt, ssrc, index);
                key.open_in_place(nonce, Aad::from(&*header), body).ok()?;
            }
            Self::CmSha1 { cipher, auth, salt } => {
                let (signed, tag) = packet.split_at_mut(header_bytes + text_bytes);
                let expected = authenticate(auth, signed, rollover(index));
                verify_slices_are_equal(&expected[..SHA1_80_TAG], tag).ok()?;
                crypt(cipher, salt, ssrc, index, &mut signed[header_bytes..])?;
            }
        }
        Some(text_bytes)
    }

    /// Seals the RTCP compound packet in `packet`, and appends tag and index word.
    pub(super) fn seal_rtcp(&self, index: u32, packet: &mut Vec<u8>) -> Option<()> {
        let ssrc = rtcp_ssrc(packet)?;
        let word = (index | ENCRYPTED).to_be_bytes();
        match self {
            Self::Gcm { key, salt } => {
                let aad = rtcp_aad(packet, word)?;
                let text = packet.get_mut(RTCP_CLEAR..)?;
                let nonce = nonce(salt, ssrc, u64::from(index));
                let tag = key
                    .seal_in_place_separate_tag(nonce, Aad::from(aad), text)
                    .ok()?;
                packet.extend_from_slice(tag.as_ref());
                packet.extend_from_slice(&word);
            }
            Self::CmSha1 { cipher, auth, salt } => {
                let text = packet.get_mut(RTCP_CLEAR..)?;
                crypt(cipher, salt, ssrc, u64::from(index), text)?;
                packet.extend_from_slice(&word);
                let tag = authenticate(auth, packet, None);
                packet.extend_from_slice(&tag[..SHA1_80_TAG]);
            }
        }
        Some(())
    }

    /// Returns the index word of a sealed RTCP packet; `None` if it is too short.
    pub(super) fn rtcp_word(&self, packet: &[u8]) -> Option<u32> {
        let end = match self {
            Self::Gcm { .. } => packet.len(),
            Self::CmSha1 { .. } => packet.len().checked_sub(SHA1_80_TAG)?,
        };
        let word = packet.get(end.checked_sub(4)?..end)?;
        Some(u32::from_be_bytes(word.try_into().ok()?))
    }

    /// Authenticates and decrypts in place. Returns the length of the compound packet in bytes.
    pub(super) fn open_rtcp(&self, word: u32, packet: &mut [u8]) -> Option<usize> {
        let ssrc = rtcp_ssrc(packet)?;
        let index = u64::from(word & !ENCRYPTED);
        let clear_bytes = packet.len().checked_sub(4 + self.tag_bytes())?;
        if clear_bytes < RTCP_CLEAR {
            return None;
        }
        match self {
            Self::Gcm { key, salt } => {
                let aad = rtcp_aad(packet, word.to_be_bytes())?;
                let body_end = packet.len() - 4;
                let body = &mut packet[RTCP_CLEAR..body_end];
                let nonce = nonce(salt, ssrc, index);
                key.open_in_place(nonce, Aad::from(aad), body).ok()?;
            }
            Self::CmSha1 { cipher, auth, salt } => {
                let (signed, tag) = packet.split_at_mut(clear_bytes + 4);
                let expected = authenticate(auth, signed, None);
                verify_slices_are_equal(&expected[..SHA1_80_TAG], tag).ok()?;
                crypt(
                    cipher,
                    salt,
                    ssrc,
                    index,
                    &mut signed[RTCP_CLEAR..clear_bytes],
                )?;
            }
        }
        Some(clear_bytes)
    }
}

/// The pseudo-random function of RFC 3711 §4.3.3: AES in counter mode, keyed with the master
/// key; for AES-256, RFC 6188 §3.
///
/// A salt of 12 bytes is left-aligned in the 14 bytes (RFC 7714 §11).
pub(super) fn generate(key: &[u8], salt: &[u8], label: u8, out: &mut [u8]) {
    let mut iv = [0; 16];
    for (to, from) in iv.iter_mut().zip(salt.iter().take(14)) {
        *to = *from;
    }
    iv[7] ^= label;
    out.fill(0);
    counter_mode(key)
        .less_safe_encrypt(out, EncryptionContext::Iv128(FixedLength::from(iv)))
        .expect("a 16-byte IV and any length suit counter mode");
}

fn counter_mode(key: &[u8]) -> EncryptingKey {
    let algorithm = if key.len() == 16 {
        &cipher::AES_128
    } else {
        &cipher::AES_256
    };
    let key = UnboundCipherKey::new(algorithm, key).expect("16 or 32 bytes");
    EncryptingKey::ctr(key).expect("AES has a counter mode")
}

/// Returns the nonce of RFC 7714 §8.1 and §9.1: two zero bytes, SSRC, 48-bit index, xor salt.
/// SRTCP's 31-bit index is the low part of the 48 bits.
fn nonce(salt: &[u8; 12], ssrc: [u8; 4], index: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[2..6].copy_from_slice(&ssrc);
    bytes[6..].copy_from_slice(&index.to_be_bytes()[2..]);
    for (byte, salt) in bytes.iter_mut().zip(salt) {
        *byte ^= salt;
    }
    Nonce::assume_unique_for_key(bytes)
}

/// Encrypts or decrypts in counter mode (RFC 3711 §4.1.1).
fn crypt(
    cipher: &EncryptingKey,
    salt: &[u8; 14],
    ssrc: [u8; 4],
    index: u64,
    text: &mut [u8],
) -> Option<()> {
    if text.is_empty() {
        return Some(());
    }
    let mut iv = [0; 16];
    iv[..14].copy_from_slice(salt);
    for (to, from) in iv[4..8].iter_mut().zip(ssrc) {
        *to ^= from;
    }
    for (to, from) in iv[8..14].iter_mut().zip(&index.to_be_bytes()[2..]) {
        *to ^= from;
    }
    cipher
        .less_safe_encrypt(text, EncryptionContext::Iv128(FixedLength::from(iv)))
        .ok()
        .map(drop)
}

/// Returns the HMAC-SHA1 over the packet and, for RTP, the rollover counter (RFC 3711 §4.2).
fn authenticate(key: &hmac::Key, packet: &[u8], rollover: Option<[u8; 4]>) -> [u8; 20] {
    let mut context = hmac::Context::with_key(key);
    context.update(packet);
    if let Some(rollover) = rollover {
        context.update(&rollover);
    }
    let mut tag = [0; 20];
    tag.copy_from_slice(context.sign().as_ref());
    tag
}

// The index has 48 bits, of which the upper 32 are the rollover counter.
fn rollover(index: u64) -> Option<[u8; 4]> {
    Some(((index >> 16) as u32).to_be_bytes())
}

/// Returns bytes 4..8 of an RTCP packet: the sender's SSRC.
pub(super) fn rtcp_ssrc(packet: &[u8]) -> Option<[u8; 4]> {
    packet.get(4..RTCP_CLEAR)?.try_into().ok()
}

/// Returns the additional data of SRTCP: the unencrypted header and the index word (RFC 7714
/// §9.2).
fn rtcp_aad(packet: &[u8], word: [u8; 4]) -> Option<[u8; 12]> {
    let mut aad = [0; 12];
    aad[..RTCP_CLEAR].copy_from_slice(packet.get(..RTCP_CLEAR)?);
    aad[RTCP_CLEAR..].copy_from_slice(&word);
    Some(aad)
}
