//! Behind the handshake: an authentic peer sends any RTCP, RTP, SCTP chunks and alerts. The session
//! goes on, answers within bounds, and believes nothing that cannot be.

pub(crate) fn run(bytes: &[u8]) {
    glassline_webrtc::fuzzing::established(bytes);
}
