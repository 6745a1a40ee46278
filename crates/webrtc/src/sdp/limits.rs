//! Limits of descriptions that are parsed.

/// Largest description in bytes.
pub const BYTES_MAX: usize = 64 * 1024;
/// Most lines in a description.
pub const LINES_MAX: usize = 4096;
/// Most `m=` lines in a description.
pub const MEDIA_MAX: usize = 64;
/// Most lines in the session section, or in one `m=` section.
pub const ATTRIBUTES_MAX: usize = 1024;
