//! RTP packets of a source, with any numbers, times and payloads: units of frames that came, on one
//! timeline, in order.

#![no_main]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| glassline_server::fuzzing::assembler(bytes));
