//! IVF files of any bytes.

use glassline_demux::Format;

pub(crate) fn run(bytes: &[u8]) {
    crate::playing::open(Format::Ivf, bytes);
}
