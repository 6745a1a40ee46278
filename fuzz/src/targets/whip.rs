//! A publisher by WHIP: authentic packets of any kind, from the session to the stream in the hub.

pub(crate) fn run(bytes: &[u8]) {
    glassline_ingest::fuzzing::whip(bytes);
}
