//! Boxes of ISO/IEC 14496-12 §4.2, written into a buffer and found in one.
//!
//! The boxes are written by hand: there are thirty kinds of them, each a few fields long, and
//! fragments need sizes and offsets that are known only when their samples are.

use bytes::BufMut as _;

/// Name of a box.
pub(crate) type BoxKind = [u8; 4];

/// Bytes of a box before its body.
pub(crate) const HEAD_BYTES: usize = 8;

/// Appends a box whose body `body` appends.
pub(crate) fn put_box(out: &mut Vec<u8>, kind: &BoxKind, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.put_u32(0);
    out.put_slice(kind);
    body(out);
    let bytes = u32::try_from(out.len() - start).expect("descriptions stay far below 4 GiB");
    out[start..start + 4].copy_from_slice(&bytes.to_be_bytes());
}

/// Appends a box that begins with a version and flags.
pub(crate) fn put_full_box(
    out: &mut Vec<u8>,
    kind: &BoxKind,
    version: u8,
    flags: u32,
    body: impl FnOnce(&mut Vec<u8>),
) {
    put_box(out, kind, |out| {
        out.put_u32(u32::from(version) << 24 | flags);
        body(out);
    });
}

/// A box in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BoxView<'a> {
    /// Name of the box.
    pub(crate) kind: BoxKind,
    /// All bytes of the box.
    pub(crate) whole: &'a [u8],
    /// Bytes behind size and name.
    pub(crate) body: &'a [u8],
}

impl<'a> BoxView<'a> {
    /// Returns the box that begins at the first byte of `bytes`; `None` if it is no box, or ends
    /// behind them. A box of more than 4 GiB is no description.
    pub(crate) fn first(bytes: &'a [u8]) -> Option<Self> {
        let size = u32::from_be_bytes(*bytes.first_chunk()?) as usize;
        let kind = *bytes.get(4..)?.first_chunk()?;
        let whole = bytes.get(..size)?;
        Some(Self {
            kind,
            whole,
            body: whole.get(HEAD_BYTES..)?,
        })
    }

    /// Returns the boxes in `bytes` up to the first one that is damaged.
    pub(crate) fn all(bytes: &'a [u8]) -> impl Iterator<Item = Self> + Clone {
        let mut rest = bytes;
        std::iter::from_fn(move || {
            let found = Self::first(rest)?;
            rest = &rest[found.whole.len()..];
            Some(found)
        })
    }

    /// Returns the first box named `kind` in `bytes`.
    pub(crate) fn find(bytes: &'a [u8], kind: &BoxKind) -> Option<Self> {
        Self::all(bytes).find(|found| found.kind == *kind)
    }

    /// Returns the box that `path` leads to from `bytes`, a name for each level.
    pub(crate) fn at_path(bytes: &'a [u8], path: &[&BoxKind]) -> Option<Self> {
        let (first, rest) = path.split_first()?;
        let found = Self::find(bytes, first)?;
        match rest {
            [] => Some(found),
            rest => Self::at_path(found.body, rest),
        }
    }

    /// Returns a reader of the fields of the body.
    pub(crate) fn fields(&self) -> Fields<'a> {
        Fields(self.body)
    }
}

/// Reads fields in order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl Fields<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn i32(&mut self) -> Option<i32> {
        self.array().map(i32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// Reads version and flags.
    pub(crate) fn version(&mut self) -> Option<(u8, u32)> {
        let word = self.u32()?;
        Some(((word >> 24) as u8, word & 0xff_ffff))
    }

    /// Reads a field of 64 bits in version 1 of a box, of 32 bits in version 0.
    pub(crate) fn wide(&mut self, version: u8) -> Option<u64> {
        match version {
            0 => self.u32().map(u64::from),
            _ => self.u64(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_are_found_as_they_were_written() {
        let mut out = Vec::new();
        put_box(&mut out, b"moov", |out| {
            put_full_box(out, b"mvhd", 1, 7, |out| out.put_u32(9));
            put_box(out, b"trak", |out| put_box(out, b"mdia", |_| {}));
        });
        let header = BoxView::at_path(&out, &[b"moov", b"mvhd"]).expect("written");
        let mut fields = header.fields();
        assert_eq!(fields.version(), Some((1, 7)));
        assert_eq!((fields.u32(), fields.u32()), (Some(9), None));
        assert!(BoxView::at_path(&out, &[b"moov", b"trak", b"mdia"]).is_some());
        assert!(BoxView::at_path(&out, &[b"moov", b"trak", b"minf"]).is_none());
        for end in 0..out.len() {
            assert!(BoxView::first(&out[..end]).is_none(), "cut at {end}");
        }
        assert!(
            BoxView::first(b"\0\0\0\x07free").is_none(),
            "too short for its head"
        );
    }
}
