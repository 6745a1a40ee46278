//! A WebTransport client that sends anything: SETTINGS, CONNECT requests, capsules, streams, datagrams
//! and messages of MoQ. Nobody gets a session without a right, and nothing is left of one.

#![no_main]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| glassline_server::fuzzing::webtransport(bytes));
