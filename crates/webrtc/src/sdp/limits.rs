//! Bounds on what is read as a description.

/// The largest description that is read, in bytes.
pub const BYTES_MAX: usize = 64 * 1024;
/// The most lines in a description.
pub const LINES_MAX: usize = 4096;
/// The most `m=` lines in a description.
pub const MEDIA_MAX: usize = 64;
/// The most lines in the session section or under one `m=` line.
pub const ATTRIBUTES_MAX: usize = 1024;
