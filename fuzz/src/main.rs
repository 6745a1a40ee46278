//! One fuzz target under libFuzzer: that which `GLASSLINE_FUZZ_TARGET` names when this is compiled.

#![no_main]

/// Chosen by the compiler, so that the program has the code and the counters of its target alone.
const TARGET: glassline_fuzz::Target = glassline_fuzz::target(env!("GLASSLINE_FUZZ_TARGET"));

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| TARGET.check(bytes));
