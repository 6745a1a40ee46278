//! The open bitstream units of AV1 (AV1 specification §5.3).

/// A unit of a temporal unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Obu<'a> {
    /// Type of the unit (§6.2.2).
    pub(crate) kind: u8,
    header: u8,
    extension: Option<u8>,
    /// Bytes behind header and size.
    pub(crate) body: &'a [u8],
}

impl Obu<'_> {
    /// Type of a sequence header.
    pub(crate) const SEQUENCE_HEADER: u8 = 1;

    /// Appends the unit with its size.
    pub(crate) fn put_with_size(&self, out: &mut Vec<u8>) {
        out.push(self.header | 2);
        out.extend(self.extension);
        let mut size = self.body.len();
        while size > 0x7f {
            out.push((size & 0x7f) as u8 | 0x80);
            size >>= 7;
        }
        out.push(size as u8);
        out.extend_from_slice(self.body);
    }
}

/// Returns the units in the first bytes of a temporal unit. The body of the last one may be cut.
pub(crate) fn obus(start: &[u8]) -> impl Iterator<Item = Obu<'_>> {
    let mut rest = start;
    std::iter::from_fn(move || {
        let &header = rest.first()?;
        let has_extension = header >> 2 & 1 == 1;
        let extension = has_extension.then(|| rest.get(1).copied()).flatten();
        let body = rest.get(1 + usize::from(has_extension)..)?;
        let (size, size_bytes) = match header & 2 {
            0 => (body.len(), 0),
            _ => leb128(body)?,
        };
        let body = body.get(size_bytes..)?;
        let (body, after) = body.split_at(size.min(body.len()));
        rest = after;
        Some(Obu {
            kind: header >> 3 & 15,
            header,
            extension,
            body,
        })
    })
}

/// Returns how many bytes of the delimiter a temporal unit begins with; samples go without one.
pub(super) fn delimiter_bytes<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> usize {
    let mut start = [0xff; 3];
    let bytes = pieces.flatten();
    start
        .iter_mut()
        .zip(bytes)
        .for_each(|(to, from)| *to = *from);
    match start {
        [0x12, 0, _] => 2,
        [0x16, _, 0] => 3,
        _ => 0,
    }
}

/// Reads a number of seven bits per byte, lowest first (§4.10.5). Returns the number and the bytes
/// that it takes.
fn leb128(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut value = 0;
    for (place, byte) in bytes.iter().take(4).enumerate() {
        value |= usize::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Some((value, place + 1));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read_and_written_with_their_size() {
        let bytes = [0x12, 0, 0x0a, 2, 7, 8, 0x34, 5, 9, 9];
        let kinds: Vec<_> = obus(&bytes).map(|obu| (obu.kind, obu.body.len())).collect();
        assert_eq!(kinds, [(2, 0), (1, 2), (6, 2)]);
        let mut out = Vec::new();
        obus(&bytes).for_each(|obu| obu.put_with_size(&mut out));
        assert_eq!(out, [0x12, 0, 0x0a, 2, 7, 8, 0x36, 5, 2, 9, 9]);
        assert_eq!(obus(&[0x0a, 0x80]).count(), 0);
        let long = [&[0x30][..], &[7; 300]].concat();
        let mut out = Vec::new();
        obus(&long).for_each(|obu| obu.put_with_size(&mut out));
        assert_eq!(obus(&out).next().map(|obu| obu.body.len()), Some(300));
    }

    #[test]
    fn delimiters_are_found_across_pieces() {
        let of = |pieces: &[&'static [u8]]| delimiter_bytes(pieces.iter().copied());
        assert_eq!(of(&[&[0x12], &[0, 0x32]]), 2);
        assert_eq!(of(&[&[0x16, 8], &[0], &[1]]), 3);
        assert_eq!(of(&[&[0x32, 0]]), 0);
        assert_eq!(of(&[]), 0);
    }
}
