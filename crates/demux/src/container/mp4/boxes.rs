//! Parses boxes (ISO/IEC 14496-12 §4.2) and their fields.

use crate::error::{Fault, Reason};

/// Names of boxes that are compared in more than one place.
pub(super) struct Kind;

impl Kind {
    pub(super) const MOVIE: [u8; 4] = *b"moov";
}

/// Header of a box in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) kind: [u8; 4],
    /// Offsets in the file: of the box, of its body, and behind it.
    pub(super) start: u64,
    pub(super) body: u64,
    pub(super) end: u64,
}

impl Head {
    /// Longest header in bytes.
    pub(super) const BYTES_MAX: usize = 16;

    /// Parses the header at the start of `bytes`, which lie at `start` in the file. A box
    /// without a size extends to `limit`.
    pub(super) fn parse(bytes: &[u8], start: u64, limit: u64) -> Option<Self> {
        let size = u32::from_be_bytes(*bytes.first_chunk()?);
        let kind = *bytes.get(4..)?.first_chunk()?;
        let (head_bytes, size) = match size {
            0 => (8, limit.checked_sub(start)?),
            1 => (16, u64::from_be_bytes(*bytes.get(8..)?.first_chunk()?)),
            size => (8, u64::from(size)),
        };
        // Names consist of printable characters; anything else is not a box.
        let named = kind.iter().all(|&letter| letter >= b' ');
        (named && size >= head_bytes).then_some(Self {
            kind,
            start,
            body: start + head_bytes,
            end: start.saturating_add(size),
        })
    }
}

/// A box in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct InMemory<'a> {
    pub(super) kind: [u8; 4],
    pub(super) body: &'a [u8],
    /// Offset of the body in the file.
    pub(super) offset: u64,
}

impl<'a> InMemory<'a> {
    /// Returns the boxes in `body`, which lies at `offset` in the file. QuickTime ends some lists
    /// with zeros: fewer than eight bytes, or a box without a name and a body (QuickTime File
    /// Format, "terminator atom").
    pub(super) fn children(body: &'a [u8], offset: u64) -> Result<Vec<Self>, Fault> {
        let mut children = Vec::new();
        let mut at = 0;
        while body.len() - at >= 8 {
            if matches!(&body[at..at + 8], [0, 0, 0, 0 | 8, 0, 0, 0, 0]) {
                break;
            }
            let start = offset + at as u64;
            let limit = offset + body.len() as u64;
            let head = Head::parse(&body[at..], start, limit);
            let head = head.filter(|head| head.end <= limit).ok_or_else(|| {
                let reason = "a box is damaged, or longer than the one that it is in";
                Fault::at(start, Reason::Damaged(reason))
            })?;
            let place = |position: u64| usize::try_from(position - offset).unwrap_or(body.len());
            children.push(Self {
                kind: head.kind,
                body: &body[place(head.body)..place(head.end)],
                offset: head.body,
            });
            at = place(head.end);
        }
        Ok(children)
    }

    /// Returns the boxes in this one, behind its first `skip` bytes.
    pub(super) fn inside(&self, skip: usize) -> Result<Vec<Self>, Fault> {
        let body = self.body.get(skip..).unwrap_or_default();
        Self::children(body, self.offset + skip as u64)
    }

    pub(super) fn damaged(&self, what: &'static str) -> Fault {
        Fault::at(self.offset, Reason::Damaged(what))
    }

    /// Returns a reader of the fields in the body.
    pub(super) fn fields(&self) -> Fields<'a> {
        Fields {
            rest: self.body,
            offset: self.offset,
        }
    }
}

/// Returns the first of `boxes` with the name `kind`.
pub(super) fn find<'a>(boxes: &[InMemory<'a>], kind: &[u8; 4]) -> Option<InMemory<'a>> {
    boxes.iter().find(|found| found.kind == *kind).copied()
}

/// Reads the fields of a body in order.
pub(super) struct Fields<'a> {
    pub(super) rest: &'a [u8],
    offset: u64,
}

impl<'a> Fields<'a> {
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let (array, rest) = self.rest.split_first_chunk().ok_or_else(|| {
            let reason = "a box is shorter than its fields";
            Fault::at(self.offset, Reason::Damaged(reason))
        })?;
        self.rest = rest;
        Ok(*array)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Fault> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, Fault> {
        self.array().map(u64::from_be_bytes)
    }

    /// Reads a field of 64 bits in version 1 of a box, of 32 bits in version 0.
    pub(super) fn wide(&mut self, version: u8) -> Result<u64, Fault> {
        match version {
            0 => self.u32().map(u64::from),
            _ => self.u64(),
        }
    }

    /// Reads version and flags of a full box.
    pub(super) fn version(&mut self) -> Result<(u8, u32), Fault> {
        let word = self.u32()?;
        Ok(((word >> 24) as u8, word & 0xff_ffff))
    }

    /// Reads a table: the number of its entries, then the entries of `N` bytes each.
    pub(super) fn table<const N: usize>(&mut self) -> Result<&'a [[u8; N]], Fault> {
        let count = self.u32()? as usize;
        let (entries, _) = self.rest.as_chunks();
        entries.get(..count).ok_or_else(|| {
            let reason = "a table is longer than its box";
            Fault::at(self.offset, Reason::Damaged(reason))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_of_all_sizes() {
        let head = |body, end| {
            Some(Head {
                kind: *b"free",
                start: 100,
                body,
                end,
            })
        };
        assert_eq!(Head::parse(b"\0\0\0\x0cfree....", 100, 500), head(108, 112));
        assert_eq!(Head::parse(b"\0\0\0\0free", 100, 500), head(108, 500));
        assert_eq!(
            Head::parse(b"\0\0\0\x01free\0\0\0\0\0\0\x01\0", 100, 500),
            head(116, 356)
        );
        for bytes in [
            b"\0\0\0\x07free".as_slice(),
            b"\0\0\0\x01free\0\0\0\0\0\0\0\x0f",
            b"\0\0\0\x01free\0",
            b"\0\0\0\x08fr\0e",
            b"\0\0\0\x08fre",
        ] {
            assert_eq!(Head::parse(bytes, 0, 500), None, "{bytes:?}");
        }
    }

    #[test]
    fn children_stay_inside() {
        let body = b"\0\0\0\x09free1\0\0\0\x08skip\0\0\0\0";
        let children = InMemory::children(body, 50).expect("good");
        let kinds: Vec<_> = children
            .iter()
            .map(|child| (child.kind, child.offset))
            .collect();
        assert_eq!(kinds, [(*b"free", 58), (*b"skip", 67)]);
        let ended = b"\0\0\0\x08free\0\0\0\x08\0\0\0\0rest of no meaning";
        assert_eq!(InMemory::children(ended, 50).expect("good").len(), 1);
        let fault = InMemory::children(b"\0\0\0\x08free\0\0\0\x09skip", 50).err();
        assert_eq!(fault.and_then(|fault| fault.offset), Some(58));
    }

    #[test]
    fn tables_end_with_their_box() {
        let fields = |rest: &'static [u8]| Fields { rest, offset: 7 };
        let table = fields(&[0, 0, 0, 2, 1, 2, 3, 4]).table::<2>();
        assert_eq!(table.expect("good"), [[1, 2], [3, 4]]);
        assert!(
            fields(&[0xff, 0xff, 0xff, 0xff, 1, 2])
                .table::<2>()
                .is_err()
        );
        assert!(fields(&[0, 0]).u32().is_err());
    }
}
