//! The first datagram of a QUIC connection, before anything is decrypted: a newcomer above the rate
//! never passes without a token of ours, and a token never with a changed byte.

pub(crate) fn run(bytes: &[u8]) {
    glassline_quic::first_packet(bytes, std::time::Instant::now());
}
