//! MP4 and QuickTime files of any bytes.

use glassline_demux::Format;

pub(crate) fn run(bytes: &[u8]) {
    crate::playing::open(Format::Mp4, bytes);
}
