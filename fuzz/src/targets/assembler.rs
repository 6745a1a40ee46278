//! RTP packets of a source, with any numbers, times and payloads: units of frames that came, on one
//! timeline, in order.

pub(crate) fn run(bytes: &[u8]) {
    glassline_ingest::fuzzing::assembler(bytes);
}
