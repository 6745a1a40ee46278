//! DTLS 1.2 records of application data (RFC 6347 §4.1), sealed and opened in place.
//!
//! ```text
//!  type(1) version(2) epoch(2) sequence(6) length(2) │ nonce(8, GCM only) │ payload │ tag(16)
//!  └── HEADER_BYTES ───────────────────────────────┘  └── offset ─────────┘
//! ```
//!
//! The caller writes the payload at [`Sealer::payload_offset`], and header and tag are written
//! around it, so the cipher makes the only copy. The explicit nonce of AES-GCM is epoch and sequence
//! number (RFC 5288 §3, RFC 6347 §4.1.2.5), a counter that cannot repeat. ChaCha20-Poly1305 combines
//! them with its IV (RFC 7905 §2).

use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
};
use smallvec::SmallVec;

use super::Cipher;
use super::replay::{ReplayCheck, ReplayWindow};

/// Length of type, version, epoch, sequence number and length in bytes.
pub const HEADER_BYTES: usize = 13;
/// Length of the tag of all three ciphers in bytes.
pub const TAG_BYTES: usize = 16;
/// Largest payload of one record in bytes (RFC 5246 §6.2.1).
pub const PAYLOAD_MAX: usize = 1 << 14;

/// Version DTLS 1.2, as in every record after the handshake.
const VERSION: [u8; 2] = [0xfe, 0xfd];
/// Epoch of all records with keys: there is only one handshake.
const EPOCH: u64 = 1;
/// Largest sequence number of a record, a field of 48 bits.
const SEQUENCE_MAX: u64 = (1 << 48) - 1;

/// First sequence number of our records under the keys of the handshake. Lower numbers belong
/// to the handshake: its Finished, repeated as often as the peer asks. The number is small
/// enough that a repetition still fits a peer's replay window of 64.
pub(super) const FIRST_SEQUENCE: u64 = 32;

/// Most cipher blocks that one AES-GCM key seals: 140 TB of payload. An attacker then
/// distinguishes the stream from noise with an advantage of about σ²/2¹²⁹ = 2⁻⁴³ (Luykx and
/// Paterson, "Limits on Authenticated Encryption Use in TLS"). RFC 8446 §5.5 aims at 2⁻⁵⁷, for
/// a protocol that can change keys; here that would end a connection after 390 GB, which these
/// records carry in five minutes.
const GCM_BLOCKS_MAX: u64 = 1 << 43;
/// Number of forgeries after which a key opens no more records (RFC 9147 §4.5.3 for
/// ChaCha20-Poly1305, the lower of the two).
const FORGED_MAX: u64 = 1 << 36;

/// Content type of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentType {
    /// An alert: close_notify or a failure.
    Alert = 21,
    /// Application data, here an SCTP packet.
    ApplicationData = 23,
}

/// The reason why a record was not sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// The key has sealed as much as is safe. The session must end; connect again.
    #[error("the record key is used up after {records} records; connect again")]
    KeyExhausted {
        /// Number of records sealed with the key.
        records: u64,
    },
    /// The payload is too large for the buffer or for a record. The caller is at fault.
    #[error("a payload of {payload} bytes does not fit a buffer of {buffer}, or a record")]
    NoRoom {
        /// Length of the payload in bytes.
        payload: usize,
        /// Length of the buffer in bytes.
        buffer: usize,
    },
}

/// The reason why a record was not opened. The record is dropped (RFC 6347 §4.1.2.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The record is shorter than its overhead or longer than a record may be, or has another
    /// version or epoch.
    #[error("malformed record")]
    Malformed,
    /// The record was received before.
    #[error("replayed record")]
    Replayed,
    /// The record is older than the replay window, so that it cannot be checked.
    #[error("record older than the replay window")]
    Stale,
    /// The record was not sealed with this key, or is damaged.
    #[error("record does not authenticate")]
    Forged,
}

/// A key does not have the length that its cipher needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{cipher} needs a key of {} bytes, not {got}", .cipher.key_bytes())]
pub struct KeyError {
    /// Cipher of the key.
    pub cipher: Cipher,
    /// Length of the key in bytes.
    pub got: usize,
}

pub(super) fn key(cipher: Cipher, bytes: &[u8]) -> Result<LessSafeKey, KeyError> {
    let algorithm = match cipher {
        Cipher::Aes128Gcm => &AES_128_GCM,
        Cipher::Aes256Gcm => &AES_256_GCM,
        Cipher::ChaCha20Poly1305 => &CHACHA20_POLY1305,
    };
    let got = bytes.len();
    let unbound = UnboundKey::new(algorithm, bytes).map_err(|_| KeyError { cipher, got })?;
    Ok(LessSafeKey::new(unbound))
}

/// Returns epoch and sequence number as one number, as on the wire.
const fn with_epoch(sequence: u64) -> u64 {
    EPOCH << 48 | sequence
}

/// Returns the nonce of a record. `explicit`: for GCM, the nonce bytes in the record; for
/// ChaCha20, epoch and sequence number.
fn nonce(cipher: Cipher, iv: &[u8; 12], explicit: u64) -> Nonce {
    let mut bytes = *iv;
    let explicit = explicit.to_be_bytes();
    match cipher {
        Cipher::Aes128Gcm | Cipher::Aes256Gcm => bytes[4..].copy_from_slice(&explicit),
        Cipher::ChaCha20Poly1305 => {
            for (byte, with) in bytes[4..].iter_mut().zip(explicit) {
                *byte ^= with;
            }
        }
    }
    Nonce::assume_unique_for_key(bytes)
}

/// Returns the additional data: number, type, version and payload length (RFC 5246 §6.2.3.3).
fn additional(number: u64, content: u8, payload: usize) -> Aad<[u8; 13]> {
    let mut bytes = [0; 13];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes[8] = content;
    bytes[9..11].copy_from_slice(&VERSION);
    bytes[11..].copy_from_slice(&(payload as u16).to_be_bytes());
    Aad::from(bytes)
}

/// Seals the records that are sent.
#[derive(derive_more::Debug)]
#[debug("Sealer {{ cipher: {cipher:?}, next: {next:?}, .. }}")]
pub struct Sealer {
    cipher: Cipher,
    iv: [u8; 12],
    key: LessSafeKey,
    next: u64,
    blocks: u64,
    /// Explicit nonces of the handshake that the counter would reach.
    used_nonces: SmallVec<[u64; 1]>,
}

impl Sealer {
    /// Creates a sealer. `iv`: all 12 bytes for ChaCha20, of which GCM uses the first four.
    ///
    /// # Errors
    /// [`KeyError`] if the key does not have the cipher's length.
    pub fn new(cipher: Cipher, key_bytes: &[u8], iv: &[u8; 12]) -> Result<Self, KeyError> {
        let key = key(cipher, key_bytes)?;
        Ok(Self::with_key(cipher, key, *iv, SmallVec::new()))
    }

    pub(super) fn with_key(
        cipher: Cipher,
        key: LessSafeKey,
        iv: [u8; 12],
        used_nonces: SmallVec<[u64; 1]>,
    ) -> Self {
        Self {
            cipher,
            iv,
            key,
            next: FIRST_SEQUENCE,
            blocks: 0,
            used_nonces,
        }
    }

    /// Returns the cipher of the records.
    pub const fn cipher(&self) -> Cipher {
        self.cipher
    }

    /// Number of records sealed.
    pub const fn sealed(&self) -> u64 {
        self.next - FIRST_SEQUENCE
    }

    /// Returns the offset at which the payload stands in the buffer: 21 for GCM, otherwise 13.
    pub const fn payload_offset(&self) -> usize {
        HEADER_BYTES + self.cipher.explicit_nonce_bytes()
    }

    /// Returns the number of bytes that a record adds to its payload: 37 for GCM, otherwise 29.
    pub const fn overhead(&self) -> usize {
        self.payload_offset() + TAG_BYTES
    }

    /// Seals the `payload` bytes at [`payload_offset`](Self::payload_offset) of `buffer`, and
    /// returns the length of the record. Behind the payload the buffer needs room for the tag.
    ///
    /// # Errors
    /// [`SealError`] if the payload does not fit, or the key is used up.
    #[inline]
    pub fn seal(
        &mut self,
        content: ContentType,
        buffer: &mut [u8],
        payload: usize,
    ) -> Result<usize, SealError> {
        let (offset, bytes) = (self.payload_offset(), payload + self.overhead());
        if payload > PAYLOAD_MAX || buffer.len() < bytes {
            return Err(SealError::NoRoom {
                payload,
                buffer: buffer.len(),
            });
        }
        let number = self.count(payload)?;
        let content = content as u8;
        let (header, rest) = buffer[..bytes].split_at_mut(offset);
        header[0] = content;
        header[1..3].copy_from_slice(&VERSION);
        header[3..11].copy_from_slice(&number.to_be_bytes());
        let length = (bytes - HEADER_BYTES) as u16;
        header[11..13].copy_from_slice(&length.to_be_bytes());
        if self.cipher.explicit_nonce_bytes() > 0 {
            header[13..].copy_from_slice(&number.to_be_bytes());
        }
        let (payload_bytes, tag_bytes) = rest.split_at_mut(payload);
        let nonce = nonce(self.cipher, &self.iv, number);
        let tag = self
            .key
            .seal_in_place_separate_tag(nonce, additional(number, content, payload), payload_bytes)
            .expect("a payload within a record's bound");
        tag_bytes.copy_from_slice(tag.as_ref());
        Ok(bytes)
    }

    /// Returns epoch and sequence number of the next record, if the key may seal it.
    #[inline]
    fn count(&mut self, payload: usize) -> Result<u64, SealError> {
        while self.used_nonces.contains(&with_epoch(self.next)) {
            self.next += 1;
        }
        // One block for the length, one for a partial block.
        self.blocks += payload as u64 / 16 + 2;
        let counts_blocks = self.cipher != Cipher::ChaCha20Poly1305;
        if self.next > SEQUENCE_MAX || (counts_blocks && self.blocks > GCM_BLOCKS_MAX) {
            return Err(SealError::KeyExhausted {
                records: self.sealed(),
            });
        }
        let number = with_epoch(self.next);
        self.next += 1;
        Ok(number)
    }
}

/// Counts of received records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordCounts {
    /// Records that were opened.
    pub opened: u64,
    /// Records refused with [`OpenError::Malformed`].
    pub malformed: u64,
    /// Records refused with [`OpenError::Replayed`].
    pub replayed: u64,
    /// Records refused with [`OpenError::Stale`].
    pub stale: u64,
    /// Records refused with [`OpenError::Forged`].
    pub forged: u64,
    /// Records that arrived before the handshake was done and exceeded what is kept of them.
    pub early_dropped: u64,
}

impl RecordCounts {
    pub(super) fn note(&mut self, error: OpenError) {
        match error {
            OpenError::Malformed => self.malformed += 1,
            OpenError::Replayed => self.replayed += 1,
            OpenError::Stale => self.stale += 1,
            OpenError::Forged => self.forged += 1,
        }
    }
}

/// Opens the records that are received.
#[derive(derive_more::Debug)]
#[debug("Opener {{ cipher: {cipher:?}, .. }}")]
pub struct Opener {
    cipher: Cipher,
    iv: [u8; 12],
    key: LessSafeKey,
    window: ReplayWindow,
    forged: u64,
}

impl Opener {
    /// Creates an opener. `iv`: all 12 bytes for ChaCha20, of which GCM uses the first four.
    ///
    /// # Errors
    /// [`KeyError`] if the key does not have the cipher's length.
    pub fn new(cipher: Cipher, key_bytes: &[u8], iv: &[u8; 12]) -> Result<Self, KeyError> {
        Ok(Self::with_key(cipher, key(cipher, key_bytes)?, *iv))
    }

    pub(super) fn with_key(cipher: Cipher, key: LessSafeKey, iv: [u8; 12]) -> Self {
        Self {
            cipher,
            iv,
            key,
            window: ReplayWindow::default(),
            forged: 0,
        }
    }

    /// Opens one whole record, header included, in place. Returns the payload.
    ///
    /// # Errors
    /// [`OpenError`]. The bytes of the record are undefined then.
    #[inline]
    pub fn open<'a>(&mut self, record: &'a mut [u8]) -> Result<&'a mut [u8], OpenError> {
        let offset = HEADER_BYTES + self.cipher.explicit_nonce_bytes();
        let payload = record
            .len()
            .checked_sub(offset + TAG_BYTES)
            .filter(|&payload| payload <= PAYLOAD_MAX && record[1..3] == VERSION)
            .ok_or(OpenError::Malformed)?;
        let number = read_u64(record, 3);
        let sequence = number & SEQUENCE_MAX;
        if number >> 48 != EPOCH {
            return Err(OpenError::Malformed);
        }
        match self.window.check(sequence) {
            ReplayCheck::Fresh => {}
            ReplayCheck::Replayed => return Err(OpenError::Replayed),
            ReplayCheck::Stale => return Err(OpenError::Stale),
        }
        if self.forged >= FORGED_MAX {
            return Err(OpenError::Forged);
        }
        let explicit = match self.cipher.explicit_nonce_bytes() {
            0 => number,
            _ => read_u64(record, HEADER_BYTES),
        };
        let nonce = nonce(self.cipher, &self.iv, explicit);
        let additional = additional(number, record[0], payload);
        let opened = self
            .key
            .open_in_place(nonce, additional, &mut record[offset..]);
        let Ok(payload) = opened else {
            self.forged += 1;
            return Err(OpenError::Forged);
        };
        self.window.accept(sequence);
        Ok(payload)
    }
}

/// Splits the first record off a datagram. Returns it and what follows; `None` if the datagram
/// ends within the record.
pub(super) fn split(datagram: &mut [u8]) -> Option<(&mut [u8], &mut [u8])> {
    let length = datagram.get(HEADER_BYTES - 2..HEADER_BYTES)?;
    let length = usize::from(u16::from_be_bytes([length[0], length[1]]));
    datagram.split_at_mut_checked(HEADER_BYTES + length)
}

/// Returns the content type of a record under the keys of the handshake, if it is one of
/// [`ContentType`].
pub(super) fn content_of_epoch_1(record: &[u8]) -> Option<ContentType> {
    let content = [ContentType::Alert, ContentType::ApplicationData]
        .into_iter()
        .find(|content| record.first() == Some(&(*content as u8)))?;
    (record.get(3..5) == Some(&(EPOCH as u16).to_be_bytes())).then_some(content)
}

fn read_u64(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests;
