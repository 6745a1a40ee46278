//! RTP packets: a packet that parses is written, extensions included, and parsed again to the
//! same value; its payload is parsed as a retransmission and as Opus.

use glassline_rtp::{Packet, header_size, opus, rtx, write_header};

pub(crate) fn run(bytes: &[u8]) {
    let header_len = Packet::header_len(bytes);
    let Ok(packet) = Packet::parse(bytes) else {
        return;
    };
    assert!(header_len.is_ok_and(|length| length + packet.payload.len() <= bytes.len()));
    let elements: Vec<(u8, &[u8])> = packet.extensions.iter().collect();
    let mut out = vec![0; header_size(&elements)];
    assert_eq!(write_header(&mut out, &packet.header, &elements), out.len());
    out.extend_from_slice(packet.payload);
    let again = Packet::parse(&out).expect("we wrote it");
    assert_eq!(again.header, packet.header);
    assert!(again.extensions.iter().eq(elements));
    assert_eq!(again.payload, packet.payload);
    retransmitted(packet.payload);
    if let Ok(samples) = opus::samples(packet.payload) {
        assert!((120..=5760).contains(&samples));
    }
}

fn retransmitted(payload: &[u8]) {
    let Some((sequence, original)) = rtx::unwrap(payload) else {
        assert!(payload.len() < rtx::OVERHEAD_BYTES);
        return;
    };
    let mut out = vec![0; original.len() + rtx::OVERHEAD_BYTES];
    rtx::wrap(sequence, original, &mut out);
    assert_eq!(out, payload);
}
