//! One WebRTC peer session without input or output: SDP, ICE, DTLS, SRTP, RTCP.
