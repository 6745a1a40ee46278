//! RTSP 1.0 (RFC 2326) without sockets: messages, interleaved frames, digest
//! authentication, and the dialling end's state machine.
