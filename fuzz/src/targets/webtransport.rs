//! A WebTransport client that sends anything: SETTINGS, CONNECT requests, capsules, streams, datagrams
//! and messages of MoQ. Nobody gets a session without a right, and nothing is left of one.

pub(crate) fn run(bytes: &[u8]) {
    glassline_quic_listener::fuzzing::webtransport(bytes);
}
