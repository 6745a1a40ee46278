//! IVF files of any bytes.

#![no_main]

mod playing;

use glassline_demux::Format;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| playing::open(Format::Ivf, bytes));
