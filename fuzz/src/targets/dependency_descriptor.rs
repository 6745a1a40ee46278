//! Dependency descriptors of one RTP stream: each is a length and as many bytes.

use glassline_rtp::dependency_descriptor::DescriptorReader;

pub(crate) fn run(mut bytes: &[u8]) {
    let mut reader = DescriptorReader::default();
    while let Some((&length, rest)) = bytes.split_first() {
        let (descriptor, rest) = rest.split_at(rest.len().min(length.into()));
        bytes = rest;
        if let Ok(temporal) = reader.read(descriptor) {
            assert!(temporal.needs <= temporal.layer && temporal.opens <= 7);
        }
    }
}
