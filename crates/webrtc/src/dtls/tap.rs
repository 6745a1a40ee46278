//! Copies the keys of the handshake for our own record layer.
//!
//! `dimpl` runs the handshake and keeps its keys private. It obtains ciphers from a pluggable
//! provider, however. The provider here wraps the usual one and records every cipher that is
//! created: the key at creation, and the fixed part of the nonce when the first record, the
//! handshake's Finished, is sealed or opened.
//!
//! ```text
//!  key block ─► create_cipher(client key) ─► Tap ┐ thread-local, for the length of
//!             ► create_cipher(server key) ─► Tap ┘ one call into dimpl ─► Association
//!  Finished  ─► encrypt, decrypt ─► Tap: nonce
//! ```
//!
//! From the moment at which the record layer takes over a key, the handshake may seal with it only
//! what cannot share a nonce with the record layer: see [`Tap::may_seal`].

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::aead::LessSafeKey;
use dimpl::crypto::aws_lc_rs::default_provider;
use dimpl::crypto::{
    Aad, Buf, Cipher as DimplCipher, CryptoProvider, Dtls12CipherSuite, HashAlgorithm, Nonce,
    SupportedDtls12CipherSuite, TmpBuf,
};
use dimpl::{CryptoError, CryptoOperation};
use smallvec::SmallVec;

use super::Cipher;
use super::record::{FIRST_SEQUENCE, Opener, Sealer, key};

/// The keys of one handshake: the client's, then the server's.
pub(super) type Taps = Vec<Arc<Tap>>;

thread_local! {
    /// Keys created during the running call into `dimpl`. `dimpl` does not state for which
    /// association a cipher is, but its calls return on the thread on which they were made.
    static CREATED: RefCell<Taps> = const { RefCell::new(Vec::new()) };
}

/// Returns the keys that the last call into `dimpl` has created, and forgets them.
pub(super) fn take_created() -> Taps {
    CREATED.with_borrow_mut(std::mem::take)
}

/// The key of one direction.
#[derive(derive_more::Debug)]
#[debug("Tap {{ cipher: {cipher:?}, .. }}")]
pub(super) struct Tap {
    cipher: Cipher,
    state: Mutex<State>,
    /// Whether the record layer seals with this key as well.
    live: AtomicBool,
}

/// The record of a tap about its key.
struct State {
    /// The key, until the record layer takes it.
    key: Option<LessSafeKey>,
    /// Nonce of the first record; for GCM, only the first four bytes are constant.
    iv: Option<[u8; 12]>,
    /// Explicit nonces of handshake records that the record layer's counter would reach.
    used_nonces: SmallVec<[u64; 1]>,
}

impl Tap {
    fn create(cipher: Cipher, bytes: &[u8]) -> Result<Arc<Self>, CryptoError> {
        let key = key(cipher, bytes)
            .map_err(|_| CryptoError::OperationFailed(CryptoOperation::CreateCipher))?;
        let tap = Arc::new(Self {
            cipher,
            state: Mutex::new(State {
                key: Some(key),
                iv: None,
                used_nonces: SmallVec::new(),
            }),
            live: AtomicBool::new(false),
        });
        CREATED.with_borrow_mut(|created| created.push(Arc::clone(&tap)));
        Ok(tap)
    }

    fn with_state<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the sealing side of the key; `None` before Finished was sealed with it.
    pub(super) fn sealer(&self) -> Option<Sealer> {
        let sealer = self.with_state(|state| {
            let (key, iv) = (state.key.take()?, state.iv?);
            let used_nonces = std::mem::take(&mut state.used_nonces);
            Some(Sealer::with_key(self.cipher, key, iv, used_nonces))
        });
        self.live.store(true, Ordering::Relaxed);
        sealer
    }

    /// Returns the opening side of the key; `None` before Finished was opened with it.
    pub(super) fn opener(&self) -> Option<Opener> {
        self.with_state(|state| {
            let (key, iv) = (state.key.take()?, state.iv?);
            Some(Opener::with_key(self.cipher, key, iv))
        })
    }

    /// Records the nonce of a record with this epoch and sequence number.
    fn record_nonce(&self, number: u64, nonce: &Nonce) {
        self.with_state(|state| {
            let mut iv = nonce.0;
            if self.cipher == Cipher::ChaCha20Poly1305 {
                for (byte, with) in iv[4..].iter_mut().zip(number.to_be_bytes()) {
                    *byte ^= with;
                }
            }
            state.iv.get_or_insert(iv);
        });
    }

    /// Returns whether the handshake may seal with this nonce, and records it.
    ///
    /// The sequence numbers of the handshake stay below those of the record layer. Its GCM
    /// nonces are random: one in 2¹⁶ begins as those of the record layer do. Before the record
    /// layer has the key, such a nonce is recorded and later skipped; afterwards it may have
    /// been used, so it is refused, and Finished is not repeated.
    fn may_seal(&self, number: u64, nonce: &Nonce) -> bool {
        if number & 0xffff_ffff_ffff >= FIRST_SEQUENCE {
            return false;
        }
        let explicit = u64::from_be_bytes(nonce.0[4..].try_into().expect("eight bytes"));
        if self.cipher == Cipher::ChaCha20Poly1305 || explicit >> 48 != number >> 48 {
            return true;
        }
        let live = self.live.load(Ordering::Relaxed);
        if !live {
            self.with_state(|state| state.used_nonces.push(explicit));
        }
        !live
    }
}

/// A cipher of `dimpl` with a tap.
#[derive(Debug)]
struct Tapped {
    cipher: Box<dyn DimplCipher>,
    tap: Arc<Tap>,
}

/// Returns epoch and sequence number, with which the additional data begins.
fn number(additional: &Aad) -> u64 {
    let bytes = additional.0.first_chunk().copied().unwrap_or_default();
    u64::from_be_bytes(bytes)
}

impl DimplCipher for Tapped {
    fn encrypt(&mut self, plaintext: &mut Buf, aad: Aad, nonce: Nonce) -> Result<(), CryptoError> {
        let number = number(&aad);
        if !self.tap.may_seal(number, &nonce) {
            return Err(CryptoError::OperationFailed(CryptoOperation::Encrypt));
        }
        self.tap.record_nonce(number, &nonce);
        self.cipher.encrypt(plaintext, aad, nonce)
    }

    fn decrypt(
        &mut self,
        ciphertext: &mut TmpBuf<'_>,
        aad: Aad,
        nonce: Nonce,
    ) -> Result<(), CryptoError> {
        let (number, seen) = (number(&aad), nonce);
        self.cipher.decrypt(ciphertext, aad, nonce)?;
        // Only an authentic record counts: anybody can send a record with some nonce.
        self.tap.record_nonce(number, &seen);
        Ok(())
    }
}

/// A cipher suite of `dimpl` whose ciphers have taps.
#[derive(Debug)]
struct TappedSuite(Cipher);

impl TappedSuite {
    fn inner(&self) -> &'static dyn SupportedDtls12CipherSuite {
        let suites = default_provider().cipher_suites;
        *suites
            .iter()
            .find(|suite| suite.suite() == self.0.suite())
            .expect("aws-lc has the three suites")
    }
}

impl SupportedDtls12CipherSuite for TappedSuite {
    fn suite(&self) -> Dtls12CipherSuite {
        self.0.suite()
    }

    fn hash_algorithm(&self) -> HashAlgorithm {
        self.inner().hash_algorithm()
    }

    fn key_lengths(&self) -> (usize, usize, usize) {
        self.inner().key_lengths()
    }

    fn explicit_nonce_len(&self) -> usize {
        self.inner().explicit_nonce_len()
    }

    fn tag_len(&self) -> usize {
        self.inner().tag_len()
    }

    fn create_cipher(&self, key: &[u8]) -> Result<Box<dyn DimplCipher>, CryptoError> {
        let cipher = self.inner().create_cipher(key)?;
        let tap = Tap::create(self.0, key)?;
        Ok(Box::new(Tapped { cipher, tap }))
    }
}

/// A cipher suite as `dimpl` takes it.
type Suite = &'static dyn SupportedDtls12CipherSuite;

/// The suite AES-128-GCM, whose keys the session learns.
static AES_128: TappedSuite = TappedSuite(Cipher::Aes128Gcm);
/// The suite AES-256-GCM, whose keys the session learns.
static AES_256: TappedSuite = TappedSuite(Cipher::Aes256Gcm);
/// The suite ChaCha20-Poly1305, whose keys the session learns.
static CHACHA20: TappedSuite = TappedSuite(Cipher::ChaCha20Poly1305);

/// The suites with AES-128-GCM preferred.
static AES_128_FIRST: [Suite; 3] = [&AES_128, &AES_256, &CHACHA20];
/// The suites with AES-256-GCM preferred.
static AES_256_FIRST: [Suite; 3] = [&AES_256, &AES_128, &CHACHA20];
/// The suites with ChaCha20-Poly1305 preferred.
static CHACHA20_FIRST: [Suite; 3] = [&CHACHA20, &AES_128, &AES_256];

/// Returns the usual provider with tapped suites, of which `first` is preferred.
pub(super) fn provider(first: Cipher) -> CryptoProvider {
    CryptoProvider {
        cipher_suites: match first {
            Cipher::Aes128Gcm => &AES_128_FIRST,
            Cipher::Aes256Gcm => &AES_256_FIRST,
            Cipher::ChaCha20Poly1305 => &CHACHA20_FIRST,
        },
        ..default_provider()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tap() -> Arc<Tap> {
        let tap = Tap::create(Cipher::Aes128Gcm, &[1; 16]).expect("16 bytes");
        assert_eq!(take_created().len(), 1);
        tap
    }

    fn drawn(explicit: u64) -> Nonce {
        let mut bytes = [9; 12];
        bytes[4..].copy_from_slice(&explicit.to_be_bytes());
        Nonce(bytes)
    }

    #[test]
    fn a_nonce_the_handshake_drew_from_among_ours_is_left_out() {
        let tap = tap();
        let ours = 1 << 48 | (FIRST_SEQUENCE + 1);
        assert!(tap.may_seal(1 << 48, &drawn(ours)));
        tap.record_nonce(1 << 48, &drawn(ours));
        let mut sealer = tap.sealer().expect("seen");
        let mut numbers = Vec::new();
        for _ in 0..3 {
            let mut record = [0; 64];
            let content = super::super::record::ContentType::ApplicationData;
            sealer.seal(content, &mut record, 4).expect("sealed");
            numbers.push(u64::from_be_bytes(
                record[13..21].try_into().expect("eight"),
            ));
        }
        assert_eq!(numbers, [ours - 1, ours + 1, ours + 2]);
    }

    #[test]
    fn once_records_are_ours_the_handshake_keeps_out_of_the_way() {
        let tap = tap();
        tap.record_nonce(1 << 48, &drawn(77));
        assert!(tap.sealer().is_some());
        assert!(tap.may_seal(1 << 48 | 1, &drawn(77)), "another prefix");
        assert!(!tap.may_seal(1 << 48 | 2, &drawn(1 << 48 | 40)), "ours");
        assert!(
            !tap.may_seal(1 << 48 | FIRST_SEQUENCE, &drawn(78)),
            "our number"
        );
    }

    #[test]
    fn a_key_is_handed_out_once_and_only_with_its_nonce() {
        let tap = tap();
        assert!(tap.opener().is_none());
    }
}
