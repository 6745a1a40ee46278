//! Behind the handshake: an authentic peer sends any RTCP, RTP, SCTP chunks and alerts. The session
//! goes on, answers within bounds, and believes nothing that cannot be.

#![no_main]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| glassline_webrtc::fuzzing::established(bytes));
