//! Compound RTCP packets: a packet that parses is written and parsed again to the same value;
//! transport feedback is joined with a history of sent packets.

use std::time::Instant;

use glassline_rtp::rtcp::{self, Packet};
use glassline_rtp::twcc::SendHistory;

pub(crate) fn run(bytes: &[u8]) {
    let now = Instant::now();
    let mut history = SendHistory::new();
    for number in 0..64 {
        history.sent(65_500 + number, now, 1200);
    }
    let mut acknowledged = Vec::new();
    for packet in rtcp::parse(bytes).flatten() {
        match &packet {
            Packet::Nack(nack) => assert!(nack.lost().count() <= nack.items.len() * 17),
            Packet::TransportFeedback(feedback) => {
                let described: u32 = feedback.runs().map(|run| u32::from(run.count())).sum();
                assert_eq!(described, u32::from(feedback.status_count));
                history.on_feedback(feedback, now, &mut acknowledged);
            }
            _ => {}
        }
        let mut written = Vec::new();
        packet.write(&mut written);
        let mut again = rtcp::parse(&written);
        let first = again.next().expect("we wrote one").expect("we wrote it");
        assert!(again.next().is_none());
        if !matches!(packet, Packet::Unknown(_)) {
            assert_eq!(first, packet);
        }
    }
    // Each of 64 packets is reported at most twice: as missing, then as late.
    assert!(acknowledged.len() <= 128);
}
