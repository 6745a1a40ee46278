use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

/// Bytes of an RTP header as our packets have it for a viewer without congestion control: the fixed
/// header alone.
pub const HEADER_BYTES: usize = 12;

/// Bytes that AEAD adds to a packet.
pub const TAG_BYTES: usize = 16;

/// Copies and seals one packet, and does nothing else.
#[derive(derive_more::Debug)]
#[debug("Sealer {{ .. }}")]
pub struct Sealer {
    key: LessSafeKey,
    number: u64,
}

impl Sealer {
    /// Makes a sealer for AES-GCM with a key of `bits` (128, else 256), which is made from
    /// `seed`.
    pub fn new(seed: u64, bits: usize) -> Self {
        let (algorithm, bytes) = if bits == 128 {
            (&AES_128_GCM, 16)
        } else {
            (&AES_256_GCM, 32)
        };
        let mut key = [0x5a; 32];
        key[..8].copy_from_slice(&seed.to_be_bytes());
        let key = UnboundKey::new(algorithm, &key[..bytes]).expect("the key's length fits");
        Self {
            key: LessSafeKey::new(key),
            number: 0,
        }
    }

    /// Writes header, sealed payload and tag into `out`; returns their length.
    ///
    /// # Panics Panics if `out` is shorter than that.
    pub fn seal(&mut self, payload: &[u8], out: &mut [u8]) -> usize {
        self.number += 1;
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&self.number.to_be_bytes());
        let (header, body) = out.split_at_mut(HEADER_BYTES);
        header[0] = 0x80;
        header[2..10].copy_from_slice(&self.number.to_be_bytes());
        let (text, rest) = body.split_at_mut(payload.len());
        self.key
            .seal_out_of_place_scatter(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(&*header),
                payload,
                text,
                &[],
                &mut rest[..TAG_BYTES],
            )
            .expect("lengths fit");
        HEADER_BYTES + payload.len() + TAG_BYTES
    }
}
