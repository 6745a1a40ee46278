use std::io;

/// The reason why a file cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The bytes could not be read.
    #[error("reading {bytes} bytes at byte {offset} failed: {error}")]
    Io {
        /// Offset of the first byte.
        offset: u64,
        /// Number of bytes that were asked for.
        bytes: usize,
        /// The fault in words.
        error: io::Error,
    },
    /// The file ends before its header does: nothing was recorded.
    #[error("the file ends at byte {bytes}, before its header does: it has no fragment")]
    NoHeader {
        /// Number of bytes of the file.
        bytes: u64,
    },
    /// The bytes are not what this crate writes.
    #[error("the file is no recording of this program, or damaged, at byte {offset}: {reason}")]
    Damaged {
        /// Offset of the box.
        offset: u64,
        /// The fault that it has.
        reason: &'static str,
    },
    /// The samples of a track cannot be made frames again.
    #[error(transparent)]
    Samples(#[from] glassline_demux::Error),
}
