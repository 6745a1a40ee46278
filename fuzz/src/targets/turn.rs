//! A TURN server that answers as it should, differently, twice or never, and sends frames of its own:
//! the allocation stays within its bounds and writes whole frames only.

pub(crate) fn run(bytes: &[u8]) {
    glassline_webrtc::fuzzing::turn(bytes);
}
