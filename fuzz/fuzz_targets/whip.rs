//! A publisher by WHIP: authentic packets of any kind, from the session to the stream in the hub.

#![no_main]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| glassline_server::fuzzing::whip(bytes));
