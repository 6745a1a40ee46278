//! Answers of the webhook that decides about rights: any bytes are refused, or give rights to what was
//! asked for, with an end that has not passed.

#![no_main]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| glassline_server::fuzzing::rights_answer(bytes));
