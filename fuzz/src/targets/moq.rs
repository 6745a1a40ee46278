//! Catalogs and frames of MoQ: any bytes are either refused with a reason or within
//! the bounds that the server counts on.

use glassline_quic::moq::{Catalog, Framing, parse_frame};

pub(crate) fn run(bytes: &[u8]) {
    match Catalog::parse(bytes) {
        Ok(catalog) => {
            assert!(catalog.renditions.len() + catalog.unsupported.len() <= 64);
            for rendition in &catalog.renditions {
                let video = &rendition.track.video;
                assert!(video.width <= 16_384 && video.height <= 16_384);
                assert!(rendition.sets.len() <= 32);
            }
            if let Err(error) = catalog.choose() {
                assert!(!error.to_string().is_empty());
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    let lengths = (1..=4).map(Framing::Lengths);
    for framing in [Framing::Whole, Framing::Adts].into_iter().chain(lengths) {
        match parse_frame(bytes.to_vec().into(), framing) {
            // A start code is at most two bytes longer than what it stands for.
            Ok((_, unit)) => assert!(unit.len() <= 3 * bytes.len()),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}
