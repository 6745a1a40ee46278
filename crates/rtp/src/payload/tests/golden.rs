//! Bytes of others.

/// A JPEG picture of 64 x 48 pixels with this for its coded data.
pub(super) fn jpeg(scan: &[u8]) -> Vec<u8> {
    crate::payload::jpeg::tests::picture(scan)
}
