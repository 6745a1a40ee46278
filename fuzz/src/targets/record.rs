//! A publisher by RTSP, with or without tunnel, from its first request to the stream in the hub.

pub(crate) fn run(bytes: &[u8]) {
    glassline_ingest::fuzzing::record(bytes);
}
