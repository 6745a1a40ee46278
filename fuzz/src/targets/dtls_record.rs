//! DTLS records of data: what is sealed opens once, in any order within the window, and nothing else
//! opens, whatever bytes come.

use glassline_webrtc::Cipher;
use glassline_webrtc::dtls::record::{ContentType, OpenError, Opener, PAYLOAD_MAX, Sealer};

const IV: [u8; 12] = [0xa0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];

/// Records that are certainly within the replay window of the newest one.
const WINDOW: usize = 64;

pub(crate) fn run(bytes: &[u8]) {
    let Some((&first, mut rest)) = bytes.split_first() else {
        return;
    };
    let cipher = Cipher::ALL[usize::from(first) % Cipher::ALL.len()];
    let key = &key_of(bytes)[..cipher.key_bytes()];
    let mut sealer = Sealer::new(cipher, key, &IV).expect("a key");
    let mut opener = Opener::new(cipher, key, &IV).expect("a key");
    // Payload, record, and whether it was opened.
    let mut records: Vec<(Vec<u8>, Vec<u8>, bool)> = Vec::new();
    while let Some((&[operation, argument], after)) = rest.split_first_chunk() {
        rest = after;
        let at = records.len().wrapping_sub(1 + usize::from(argument));
        match operation % 4 {
            0 => {
                let (payload, after) = rest.split_at(usize::from(argument).min(rest.len()));
                rest = after;
                let record = seal(&mut sealer, payload);
                records.push((payload.to_vec(), record, false));
            }
            1 => {
                let newest = records.len();
                let Some((payload, record, opened)) = records.get_mut(at) else {
                    continue;
                };
                match opener.open(&mut record.clone()) {
                    Ok(found) => {
                        assert!(!*opened, "opened twice");
                        assert_eq!(found, &payload[..]);
                        *opened = true;
                    }
                    Err(OpenError::Replayed) => assert!(*opened),
                    Err(OpenError::Stale) => assert!(newest - at > WINDOW),
                    Err(error) => panic!("our own record: {error:?}"),
                }
            }
            2 => {
                let (mask, after) = rest.split_at(usize::from(argument).min(rest.len()));
                rest = after;
                let Some((_, record, _)) = records.last() else {
                    continue;
                };
                let mut damaged = record.clone();
                for (byte, change) in damaged.iter_mut().zip(mask) {
                    *byte ^= change;
                }
                // The length is read by whoever splits the datagram, and not here.
                damaged[11..13].copy_from_slice(&record[11..13]);
                if damaged != *record {
                    assert!(
                        opener.open(&mut damaged).is_err(),
                        "a damaged record opened"
                    );
                }
            }
            _ => {
                let (noise, after) = rest.split_at(usize::from(argument).min(rest.len()));
                rest = after;
                assert!(opener.open(&mut noise.to_vec()).is_err(), "noise opened");
            }
        }
    }
    assert_eq!(sealer.sealed(), records.len() as u64);
    for pair in records.windows(2) {
        assert!(
            pair[0].1[3..11] < pair[1].1[3..11],
            "a number was used twice"
        );
    }
    let mut long = vec![0; PAYLOAD_MAX + 100];
    let refused = sealer.seal(ContentType::ApplicationData, &mut long, PAYLOAD_MAX + 1);
    assert!(refused.is_err());
}

/// A key that changes with every byte of the input. The search learns tags from comparisons, and
/// under one key for all inputs it forges records with them.
fn key_of(bytes: &[u8]) -> [u8; 32] {
    let folded = bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut key = [0x5c; 32];
    key[..8].copy_from_slice(&folded.to_be_bytes());
    key
}

fn seal(sealer: &mut Sealer, payload: &[u8]) -> Vec<u8> {
    let offset = sealer.payload_offset();
    let mut record = vec![0; payload.len() + sealer.overhead()];
    record[offset..offset + payload.len()].copy_from_slice(payload);
    let length = sealer.seal(ContentType::ApplicationData, &mut record, payload.len());
    assert_eq!(length, Ok(record.len()));
    record
}
