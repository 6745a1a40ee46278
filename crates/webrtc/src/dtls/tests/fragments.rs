//! Handshake messages in fragments (RFC 6347 §4.2.3). A ClientHello with a key of ML-KEM, as Firefox and
//! Chromium send it, is larger than a datagram.

use super::*;

/// Length of a record's header, of which the last two bytes are a length.
const RECORD_HEADER: usize = 13;
/// Length of a handshake message's header, of which the last six bytes are offset and length of the
/// fragment.
const MESSAGE_HEADER: usize = 12;

/// Splits a record with one handshake message into records with `size` bytes of it each.
fn fragments(record: &[u8], size: usize) -> Vec<Vec<u8>> {
    let (head, message) = record.split_at(RECORD_HEADER);
    let (header, body) = message.split_at(MESSAGE_HEADER);
    let u24 = |number: usize| u32::try_from(number).expect("short").to_be_bytes()[1..].to_vec();
    let piece = |(number, piece): (usize, &[u8])| {
        let mut record = head.to_vec();
        // Numbers of records that come later are higher than those of the handshake's next ones.
        record[10] = u8::try_from(number).expect("few");
        let length = u16::try_from(MESSAGE_HEADER + piece.len()).expect("short");
        record[11..].copy_from_slice(&length.to_be_bytes());
        record.extend(&header[..6]);
        record.extend(u24(number * size));
        record.extend(u24(piece.len()));
        record.extend(piece);
        record
    };
    body.chunks(size).enumerate().map(piece).collect()
}

#[test]
fn a_client_hello_in_fragments_is_answered_in_any_order() {
    for (size, is_reversed) in [(60, false), (60, true), (40, false), (20, true)] {
        let choice = CipherChoice::Prefer(Cipher::Aes128Gcm);
        let mut pair = Pair::new(Role::Server, choice, &Cipher::ALL);
        let hello = pair.to_us.pop_front().expect("a ClientHello");
        assert!(pair.to_us.is_empty());
        let mut pieces = fragments(&hello, size);
        assert!(pieces.len() > 1, "{}", hello.len());
        if is_reversed {
            pieces.reverse();
        }
        let last = pieces.pop().expect("several");
        for piece in pieces {
            pair.deliver_to_us(piece);
            assert!(pair.to_them.is_empty(), "half a message is answered");
        }
        pair.deliver_to_us(last);
        pair.run();
        assert_eq!(pair.connected, [true; 2], "{size} {is_reversed}");
    }
}
