//! Objects of the container `bursts`, by which servers pull streams from each other.

use glassline_media::Stamps;
use glassline_quic::moq::{UnitCatalog, parse_unit};

pub(crate) fn run(bytes: &[u8]) {
    let _ = UnitCatalog::parse(bytes);
    // What is read is written and read again by `parse_unit` itself.
    let Ok(unit) = parse_unit(bytes, Stamps::arrived(std::time::Instant::now())) else {
        return;
    };
    assert!(unit.packet_count() > 0 && unit.payload_bytes() <= bytes.len());
    assert!(unit.payloads().all(|payload| !payload.is_empty()));
    if let Some(frame) = unit.coded_frame() {
        assert_eq!(frame.to_vec().len(), frame.byte_count());
    }
}
