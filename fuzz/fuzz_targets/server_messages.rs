//! Messages beside streams between the servers of a cluster: any bytes are refused, or are a message that
//! is written and read again as the same.

#![no_main]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| glassline_server::fuzzing::server_messages(bytes));
