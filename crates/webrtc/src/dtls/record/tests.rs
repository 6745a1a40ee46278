use proptest::prelude::*;

use super::*;

const IV: [u8; 12] = [0xa0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];

fn pair(cipher: Cipher) -> (Sealer, Opener) {
    let key = &[0x5c; 32][..cipher.key_bytes()];
    (
        Sealer::new(cipher, key, &IV).expect("a key"),
        Opener::new(cipher, key, &IV).expect("a key"),
    )
}

fn sealed(sealer: &mut Sealer, payload: &[u8]) -> Vec<u8> {
    let offset = sealer.payload_offset();
    let mut record = vec![0; payload.len() + sealer.overhead()];
    record[offset..offset + payload.len()].copy_from_slice(payload);
    let bytes = sealer
        .seal(ContentType::ApplicationData, &mut record, payload.len())
        .expect("room and a fresh key");
    assert_eq!(bytes, record.len());
    record
}

/// The layout of RFC 6347 §4.1, and under GCM the explicit nonce of RFC 5288 §3.
#[test]
fn a_record_has_the_form_of_the_rfcs() {
    let (mut sealer, _) = pair(Cipher::Aes128Gcm);
    let record = sealed(&mut sealer, b"packet");
    assert_eq!(sealer.overhead(), 37);
    let number = [0, 1, 0, 0, 0, 0, 0, FIRST_SEQUENCE as u8];
    assert_eq!(record[..3], [23, 0xfe, 0xfd]);
    assert_eq!(record[3..11], number);
    assert_eq!(record[11..13], [0, 8 + 6 + 16]);
    assert_eq!(record[13..21], number);

    let (mut sealer, _) = pair(Cipher::ChaCha20Poly1305);
    let record = sealed(&mut sealer, b"packet");
    assert_eq!(sealer.overhead(), 29);
    assert_eq!(record[3..11], number);
    assert_eq!(record[11..13], [0, 6 + 16]);
}

/// Nothing else may stand where the tag covers it.
#[test]
fn every_changed_bit_is_found() {
    for cipher in Cipher::ALL {
        let (mut sealer, mut opener) = pair(cipher);
        let record = sealed(&mut sealer, b"packet");
        for bit in 0..record.len() * 8 {
            let mut damaged = record.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            // The length is read by `split`, before a record gets here.
            if (11..13).contains(&(bit / 8)) {
                continue;
            }
            let error = opener.open(&mut damaged).expect_err("changed");
            assert!(
                matches!(error, OpenError::Forged | OpenError::Malformed),
                "{cipher}, bit {bit}: {error:?}"
            );
        }
        assert_eq!(opener.open(&mut record.clone()).expect("whole"), b"packet");
    }
}

#[test]
fn a_record_opens_once_and_only_within_the_window() {
    let (mut sealer, mut opener) = pair(Cipher::Aes256Gcm);
    let oldest = sealed(&mut sealer, b"oldest");
    let late = sealed(&mut sealer, b"late");
    for _ in 0..ReplayWindow::BITS - 2 {
        sealed(&mut sealer, b"");
    }
    let mut newest = sealed(&mut sealer, b"newest");
    assert_eq!(opener.open(&mut newest.clone()).expect("new"), b"newest");
    assert_eq!(opener.open(&mut newest), Err(OpenError::Replayed));
    assert_eq!(opener.open(&mut late.clone()).expect("in window"), b"late");
    assert_eq!(opener.open(&mut late.clone()), Err(OpenError::Replayed));
    assert_eq!(opener.open(&mut oldest.clone()), Err(OpenError::Stale));
}

/// A forged record with a number far ahead must not move the window.
#[test]
fn a_forgery_moves_nothing() {
    let (mut sealer, mut opener) = pair(Cipher::ChaCha20Poly1305);
    let mut record = sealed(&mut sealer, b"true");
    let mut forged = record.clone();
    forged[5] = 0xff;
    assert_eq!(opener.open(&mut forged), Err(OpenError::Forged));
    assert_eq!(opener.open(&mut record).expect("true"), b"true");
}

#[test]
fn a_key_ends_before_its_numbers_repeat_or_its_cipher_wears_out() {
    let (mut sealer, _) = pair(Cipher::ChaCha20Poly1305);
    sealer.next = SEQUENCE_MAX;
    sealed(&mut sealer, b"the last");
    let error = sealer
        .seal(ContentType::ApplicationData, &mut [0; 64], 4)
        .expect_err("no number left");
    assert!(matches!(error, SealError::KeyExhausted { .. }), "{error}");

    let (mut sealer, _) = pair(Cipher::Aes128Gcm);
    sealer.blocks = GCM_BLOCKS_MAX - 3;
    sealed(&mut sealer, &[0; 16]);
    let error = sealer
        .seal(ContentType::ApplicationData, &mut [0; 64], 16)
        .expect_err("worn out");
    assert!(matches!(error, SealError::KeyExhausted { .. }), "{error}");
}

#[test]
fn what_does_not_fit_is_refused_before_a_number_is_spent() {
    let (mut sealer, _) = pair(Cipher::Aes128Gcm);
    let mut short = [0; 40];
    let error = sealer.seal(ContentType::ApplicationData, &mut short, 4);
    let (payload, buffer) = (4, 40);
    assert_eq!(error, Err(SealError::NoRoom { payload, buffer }));
    let mut large = vec![0; PAYLOAD_MAX + 100];
    let error = sealer.seal(ContentType::ApplicationData, &mut large, PAYLOAD_MAX + 1);
    assert!(matches!(error, Err(SealError::NoRoom { .. })));
    assert_eq!(sealer.sealed(), 0);
    assert!(Sealer::new(Cipher::Aes256Gcm, &[0; 16], &IV).is_err());
}

proptest! {
    #[test]
    fn what_is_sealed_opens_again(
        cipher in prop::sample::select(Cipher::ALL.to_vec()),
        payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..2000), 1..20),
    ) {
        let (mut sealer, mut opener) = pair(cipher);
        let mut datagram = Vec::new();
        for payload in &payloads {
            datagram.extend(sealed(&mut sealer, payload));
        }
        let mut rest = &mut datagram[..];
        for payload in &payloads {
            let (record, after) = split(rest).expect("a whole record");
            prop_assert_eq!(content_of_epoch_1(record), Some(ContentType::ApplicationData));
            prop_assert_eq!(&*opener.open(record).expect("ours"), &payload[..]);
            rest = after;
        }
        prop_assert!(rest.is_empty());
    }

    #[test]
    fn any_bytes_are_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let (_, mut opener) = pair(Cipher::Aes128Gcm);
        if let Some((record, _)) = split(&mut bytes) {
            prop_assert!(opener.open(record).is_err());
        }
    }
}
