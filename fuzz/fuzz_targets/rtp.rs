//! RTP packets: what parses is written and parsed again to the same.

#![no_main]

use glassline_rtp::{Packet, write_header};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let header_len = Packet::header_len(bytes);
    let Ok(packet) = Packet::parse(bytes) else {
        return;
    };
    assert!(header_len.is_ok_and(|length| length <= bytes.len()));
    for (_, element) in packet.extensions.iter() {
        assert!(element.len() <= 255);
    }
    let mut out = [0; 64];
    let length = write_header(&mut out, &packet.header, &[]);
    let again = Packet::parse(&out[..length]).expect("we wrote it");
    assert_eq!(again.header, packet.header);
});
