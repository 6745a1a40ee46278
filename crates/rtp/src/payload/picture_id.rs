/// Counter for the 15-bit picture ID in the descriptors of VP8 and VP9 (RFC 7741 §4.2, RFC 9628
/// §4.2), by which a receiver detects that a whole frame is missing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PictureId(u16);

impl PictureId {
    /// Returns the picture ID of the next frame in two bytes. The first bit says that there are
    /// two.
    pub(super) fn next(&mut self) -> [u8; 2] {
        let id = self.0;
        self.0 = (id + 1) & 0x7fff;
        (0x8000 | id).to_be_bytes()
    }
}

/// Returns what follows a picture ID of one or two bytes at the start of `bytes`.
pub(super) fn skip(bytes: &[u8]) -> Option<&[u8]> {
    match bytes {
        [first, _, rest @ ..] if first & 0x80 != 0 => Some(rest),
        [first, rest @ ..] if first & 0x80 == 0 => Some(rest),
        _ => None,
    }
}
