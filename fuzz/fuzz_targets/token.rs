//! Tokens of an identity provider, their claims, and the sets of keys that verify them: any bytes are
//! refused, or give rights within their bounds; no forged signature is right.

#![no_main]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| glassline_server::fuzzing::token(bytes));
