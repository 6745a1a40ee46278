//! A publisher by RTSP, with or without tunnel, from its first request to the stream in the hub.

#![no_main]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| glassline_server::fuzzing::record(bytes));
