//! Packets that the other end should refuse: with the association's own header, whatever their
//! chunks are.
//!
//! Tests of robustness need a peer that is authentic and hostile. Nothing else calls this.

use super::Association;
use crate::packet::{HEADER_BYTES, builder};

impl Association {
    /// Returns a packet of `chunks`, which are not looked at, behind a header that the peer
    /// accepts; `None` while the peer's verification tag is unknown.
    pub fn unchecked_packet(&self, chunks: &[u8]) -> Option<Vec<u8>> {
        if self.peer_tag == 0 {
            return None;
        }
        let mut packet = Vec::with_capacity(HEADER_BYTES + chunks.len());
        packet.extend(self.config.local_port.to_be_bytes());
        packet.extend(self.config.remote_port.to_be_bytes());
        packet.extend(self.peer_tag.to_be_bytes());
        packet.extend([0; 4]);
        packet.extend(chunks);
        // The least significant byte comes first (RFC 9260 appendix A).
        let checksum = builder::crc32c(&packet).to_le_bytes();
        packet[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&checksum);
        Some(packet)
    }

    /// Returns the TSN that the next chunk of data from this end has.
    pub fn next_tsn(&self) -> u32 {
        self.sender.last_tsn().wrapping_add(1) as u32
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::super::tests::secrets;
    use super::*;
    use crate::{Config, Dropped};

    #[test]
    fn the_peer_accepts_the_header_and_judges_the_chunks() {
        let now = Instant::now();
        let mut ends = [1, 2].map(|seed| Association::new(Config::default(), secrets(seed), now));
        assert_eq!(ends[0].unchecked_packet(&[]), None, "no tag is known yet");
        ends[0].connect(now);
        let mut packet = [0; 2048];
        for turn in 0..8 {
            while let Some(length) = ends[turn % 2].poll_transmit(now, &mut packet) {
                let taken = ends[1 - turn % 2].handle_packet(&packet[..length], now);
                taken.expect("a good packet");
            }
        }
        let heartbeat = [4, 0, 0, 8, 0, 1, 0, 4];
        let good = ends[0].unchecked_packet(&heartbeat).expect("a known tag");
        assert_eq!(ends[1].handle_packet(&good, now), Ok(()));
        let short = ends[0]
            .unchecked_packet(&[4, 0, 0, 2])
            .expect("a known tag");
        let refused = ends[1].handle_packet(&short, now);
        assert!(matches!(refused, Err(Dropped::Malformed(_))), "{refused:?}");
    }
}
