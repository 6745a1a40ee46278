//! DTLS 1.2 records of application data (RFC 6347 §4.1), sealed and opened in place.
//!
//! ```text
//!  type(1) version(2) epoch(2) sequence(6) length(2) │ nonce(8, GCM only) │ payload │ tag(16)
//!  └── HEADER_BYTES ───────────────────────────────┘  └── offset ─────────┘
//! ```
//!
//! The caller writes the payload at [`Sealer::payload_offset`] and the rest grows
//! around it, so that there is no copy but the cipher's. AES-GCM's explicit nonce
//! is epoch and sequence number (RFC 5288 §3, RFC 6347 §4.1.2.5): counted, so it
//! cannot repeat. ChaCha20-Poly1305 combines them with its IV (RFC 7905 §2).

use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
};
use smallvec::SmallVec;

use super::Cipher;
use super::replay::{ReplayWindow, Verdict};

/// Type, version, epoch, sequence number and length.
pub const HEADER_BYTES: usize = 13;
/// The tag of all three ciphers.
pub const TAG_BYTES: usize = 16;
/// Payload of one record at most (RFC 5246 §6.2.1).
pub const PAYLOAD_MAX: usize = 1 << 14;

/// DTLS 1.2 as it stands in every record after the handshake.
const VERSION: [u8; 2] = [0xfe, 0xfd];
/// There is one handshake, so one epoch with keys.
const EPOCH: u64 = 1;
const SEQUENCE_MAX: u64 = (1 << 48) - 1;

/// The first sequence number of ours under the handshake's keys. Those below
/// belong to the handshake: its Finished, repeated as often as the peer asks.
/// Few enough that a repetition still fits a peer's replay window of 64.
pub(super) const FIRST_SEQUENCE: u64 = 32;

/// Cipher blocks that one AES-GCM key seals: 140 TB of payload. An attacker then
/// tells the stream from noise with an advantage of about σ²/2¹²⁹ = 2⁻⁴³ (Luykx
/// and Paterson, "Limits on Authenticated Encryption Use in TLS"). The 2⁻⁵⁷ that
/// RFC 8446 §5.5 aims at is for a protocol that can change keys; here it would
/// end a connection after 390 GB, five minutes of what these records are for.
const GCM_BLOCKS_MAX: u64 = 1 << 43;
/// Forgeries after which a key opens nothing any more (RFC 9147 §4.5.3 for
/// ChaCha20-Poly1305, which is the lower of the two).
const FORGED_MAX: u64 = 1 << 36;

/// What a record carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentType {
    /// close_notify and failures.
    Alert = 21,
    /// SCTP packets here.
    ApplicationData = 23,
}

/// Why a record was not sealed: the session has to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// The key has sealed as much as is safe; connect anew.
    #[error("the record key is used up after {records} records; connect again")]
    KeyExhausted {
        /// Records sealed with it.
        records: u64,
    },
    /// Our caller's fault.
    #[error("a payload of {payload} bytes does not fit a buffer of {buffer}, or a record")]
    NoRoom {
        /// Its bytes.
        payload: usize,
        /// The buffer's.
        buffer: usize,
    },
}

/// Why a record was not opened; RFC 6347 §4.1.2.7 has it dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Shorter than its own overhead, longer than a record may be, another
    /// version or another epoch.
    #[error("malformed record")]
    Malformed,
    /// Seen before.
    #[error("replayed record")]
    Replayed,
    /// Too old to tell whether it was seen before.
    #[error("record older than the replay window")]
    Stale,
    /// Not sealed with this key, or damaged.
    #[error("record does not authenticate")]
    Forged,
}

/// The key is not of the cipher's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{cipher} wants a key of {} bytes, not {got}", .cipher.key_bytes())]
pub struct KeyError {
    /// The cipher.
    pub cipher: Cipher,
    /// Bytes given.
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

/// Epoch and sequence number as one number, as the wire has them.
const fn numbered(sequence: u64) -> u64 {
    EPOCH << 48 | sequence
}

/// The nonce of a record: `explicit` is what GCM records carry, and the epoch and
/// sequence number for ChaCha20.
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

/// RFC 5246 §6.2.3.3: number, type, version and the payload's length.
fn additional(number: u64, content: u8, payload: usize) -> Aad<[u8; 13]> {
    let mut bytes = [0; 13];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes[8] = content;
    bytes[9..11].copy_from_slice(&VERSION);
    bytes[11..].copy_from_slice(&(payload as u16).to_be_bytes());
    Aad::from(bytes)
}

/// Our direction.
pub struct Sealer {
    cipher: Cipher,
    iv: [u8; 12],
    key: LessSafeKey,
    next: u64,
    blocks: u64,
    /// Explicit nonces that the handshake drew by chance from among ours.
    taken: SmallVec<[u64; 1]>,
}

impl Sealer {
    /// `iv`: all 12 bytes for ChaCha20; the first four count for GCM.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn new(cipher: Cipher, key_bytes: &[u8], iv: &[u8; 12]) -> Result<Self, KeyError> {
        let key = key(cipher, key_bytes)?;
        Ok(Self::with_key(cipher, key, *iv, SmallVec::new()))
    }

    pub(super) fn with_key(
        cipher: Cipher,
        key: LessSafeKey,
        iv: [u8; 12],
        taken: SmallVec<[u64; 1]>,
    ) -> Self {
        Self {
            cipher,
            iv,
            key,
            next: FIRST_SEQUENCE,
            blocks: 0,
            taken,
        }
    }

    /// The cipher that was agreed.
    pub const fn cipher(&self) -> Cipher {
        self.cipher
    }

    /// Records sealed.
    pub const fn sealed(&self) -> u64 {
        self.next - FIRST_SEQUENCE
    }

    /// Where in the buffer the payload has to stand: 21 for GCM, else 13.
    pub const fn payload_offset(&self) -> usize {
        HEADER_BYTES + self.cipher.explicit_nonce_bytes()
    }

    /// Bytes that a record is longer than its payload: 37 for GCM, else 29.
    pub const fn overhead(&self) -> usize {
        self.payload_offset() + TAG_BYTES
    }

    /// Seals the `payload` bytes that stand at [`payload_offset`](Self::payload_offset)
    /// of `buffer`; returns the record's length. Behind them the buffer needs
    /// room for the tag.
    ///
    /// # Errors
    /// [`SealError`].
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

    /// The next record's epoch and sequence number, if the key still has one.
    #[inline]
    fn count(&mut self, payload: usize) -> Result<u64, SealError> {
        while self.taken.contains(&numbered(self.next)) {
            self.next += 1;
        }
        // One block for the length, one for a part.
        self.blocks += payload as u64 / 16 + 2;
        let counts_blocks = self.cipher != Cipher::ChaCha20Poly1305;
        if self.next > SEQUENCE_MAX || (counts_blocks && self.blocks > GCM_BLOCKS_MAX) {
            return Err(SealError::KeyExhausted {
                records: self.sealed(),
            });
        }
        let number = numbered(self.next);
        self.next += 1;
        Ok(number)
    }
}

impl std::fmt::Debug for Sealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sealer")
            .field("cipher", &self.cipher)
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

/// What became of the records that came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordCounts {
    /// Opened.
    pub opened: u64,
    /// Refused: see [`OpenError::Malformed`].
    pub malformed: u64,
    /// Refused: see [`OpenError::Replayed`].
    pub replayed: u64,
    /// Refused: see [`OpenError::Stale`].
    pub stale: u64,
    /// Refused: see [`OpenError::Forged`].
    pub forged: u64,
    /// Came before the handshake was done here, and did not fit what is kept of such.
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

/// The peer's direction.
pub struct Opener {
    cipher: Cipher,
    iv: [u8; 12],
    key: LessSafeKey,
    window: ReplayWindow,
    forged: u64,
}

impl Opener {
    /// `iv`: all 12 bytes for ChaCha20; the first four count for GCM.
    ///
    /// # Errors
    /// [`KeyError`].
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

    /// Opens one whole record, header included, in place; returns the payload.
    ///
    /// # Errors
    /// [`OpenError`]; the record's bytes are then worth nothing.
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
            Verdict::Fresh => {}
            Verdict::Replayed => return Err(OpenError::Replayed),
            Verdict::Stale => return Err(OpenError::Stale),
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

impl std::fmt::Debug for Opener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opener")
            .field("cipher", &self.cipher)
            .finish_non_exhaustive()
    }
}

/// Cuts the first record off a datagram: the record and what follows. `None` if
/// the datagram ends within it.
pub(super) fn split(datagram: &mut [u8]) -> Option<(&mut [u8], &mut [u8])> {
    let length = datagram.get(HEADER_BYTES - 2..HEADER_BYTES)?;
    let length = usize::from(u16::from_be_bytes([length[0], length[1]]));
    datagram.split_at_mut_checked(HEADER_BYTES + length)
}

/// The content of a record under the handshake's keys, if it is one of
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
