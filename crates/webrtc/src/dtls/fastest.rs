//! Selection of the cipher that this machine computes fastest.

use std::time::{Duration, Instant};

use super::cipher::Cipher;
use super::record::{ContentType, Sealer};

impl Cipher {
    /// Measures which of AES-128-GCM and ChaCha20-Poly1305 is faster on this machine, by
    /// sealing 160 records with each: well under a millisecond with AES instructions. Call it
    /// once per process.
    ///
    /// The cipher is measured instead of asking for processor features, because the speed
    /// depends on the library as well: AES without carry-less multiplication, a virtual machine
    /// that hides features, or a library that was configured not to use them all affect the
    /// result. `clock` returns the current time.
    pub fn fastest(mut clock: impl FnMut() -> Instant) -> Self {
        let aes = seal_time(Self::Aes128Gcm, &mut clock);
        let chacha = seal_time(Self::ChaCha20Poly1305, &mut clock);
        if aes <= chacha {
            Self::Aes128Gcm
        } else {
            Self::ChaCha20Poly1305
        }
    }
}

/// Returns the shortest of eight rounds, since a round may be interrupted.
fn seal_time(cipher: Cipher, clock: &mut impl FnMut() -> Instant) -> Duration {
    let key = [7; 32];
    let mut sealer = Sealer::new(cipher, &key[..cipher.key_bytes()], &[0; 12])
        .expect("the key is as long as the cipher wants");
    let mut record = [0; 1200];
    let rounds = (0..8).map(|_| {
        let start = clock();
        for _ in 0..20 {
            sealer
                .seal(ContentType::ApplicationData, &mut record, 1150)
                .expect("a new key seals 160 records");
        }
        clock().saturating_duration_since(start)
    });
    rounds.min().unwrap_or_default()
}
