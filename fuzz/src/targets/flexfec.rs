//! FEC packets and packets of the media, in any order: what is rebuilt is an RTP packet of the stream,
//! not longer than what arrived, and at most one for each FEC packet.
//!
//! The input is a sequence of parts, each behind its length in one byte; a part with an odd first byte
//! is the payload of a FEC packet behind that byte, others are packets.

use glassline_media::Ssrc;
use glassline_rtp::Header;
use glassline_rtp::flexfec::Decoder;

pub(crate) fn run(mut bytes: &[u8]) {
    let ssrc = Ssrc(0x0102_0304);
    let mut decoder = Decoder::new(ssrc);
    let (mut repairs, mut rebuilt, mut longest) = (0, 0, 0);
    while let Some((&length, rest)) = bytes.split_first() {
        let (part, rest) = rest.split_at(usize::from(length).min(rest.len()));
        bytes = rest;
        longest = longest.max(part.len());
        match part.split_first() {
            Some((first, payload)) if first & 1 == 1 => {
                repairs += u64::from(decoder.on_repair(payload).is_ok());
            }
            _ => decoder.on_media(part),
        }
        while let Some(packet) = decoder.poll() {
            rebuilt += 1;
            let header = Header::parse(&packet).expect("a fixed header");
            assert_eq!(header.ssrc, ssrc);
            assert!(packet.len() <= longest);
        }
    }
    assert!(rebuilt <= repairs);
}
