use super::{ReadAt, ReadError};
use crate::boxes::BoxKind;

/// Most bytes of a description: that of a header, of a fragment, and of the index.
pub(super) const DESCRIPTION_BYTES_MAX: u64 = 64 << 20;

/// Bytes that are read at once where a fragment begins: most descriptions of a second fit.
const PEEK_BYTES: usize = 4096;

/// Head of a box in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BoxHead {
    pub(super) kind: BoxKind,
    /// Offsets in the file: of the body, and behind the box.
    pub(super) body: u64,
    pub(super) end: u64,
}

impl BoxHead {
    /// Longest head in bytes.
    pub(super) const BYTES_MAX: u64 = 16;

    fn parse(bytes: &[u8], at: u64) -> Option<Self> {
        let size = u32::from_be_bytes(*bytes.first_chunk()?);
        let kind = *bytes.get(4..)?.first_chunk()?;
        let (head, size) = match size {
            1 => (16, u64::from_be_bytes(*bytes.get(8..)?.first_chunk()?)),
            size => (8, size.into()),
        };
        (size >= head).then_some(Self {
            kind,
            body: at + head,
            end: at.checked_add(size)?,
        })
    }
}

/// A part of the file in memory, which moves forward.
pub(super) struct Window<'a, S> {
    source: &'a S,
    /// Offset behind the bytes that may be read.
    limit: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl<'a, S: ReadAt> Window<'a, S> {
    pub(super) fn new(source: &'a S, limit: u64) -> Self {
        Self {
            source,
            limit,
            start: 0,
            bytes: Vec::new(),
        }
    }

    /// Returns the head of the box at `at`; `None` if the box is not whole, or none begins there.
    pub(super) fn head(&mut self, at: u64) -> Result<Option<BoxHead>, ReadError> {
        let limit = self.limit;
        let head = self.any_head(at)?;
        Ok(head.filter(|head| head.end <= limit))
    }

    /// Returns the head of the box at `at`, which may end behind the limit.
    pub(super) fn any_head(&mut self, at: u64) -> Result<Option<BoxHead>, ReadError> {
        let bytes = self.view(at, BoxHead::BYTES_MAX)?;
        Ok(BoxHead::parse(bytes, at))
    }

    /// Returns the body of a box; `None` if it is not whole, or too long.
    pub(super) fn load(&mut self, head: &BoxHead) -> Result<Option<&[u8]>, ReadError> {
        let length = head.end - head.body;
        if length > DESCRIPTION_BYTES_MAX {
            return Ok(None);
        }
        let body = self.view(head.body, length)?;
        Ok(body.get(..usize::try_from(length).unwrap_or(usize::MAX)))
    }

    /// Returns at least `length` bytes at `at`, or all up to the limit.
    fn view(&mut self, at: u64, length: u64) -> Result<&[u8], ReadError> {
        let length = length.min(self.limit.saturating_sub(at));
        let is_held = at >= self.start && at + length <= self.start + self.bytes.len() as u64;
        if !is_held {
            let wanted = length
                .max(PEEK_BYTES as u64)
                .min(self.limit.saturating_sub(at));
            self.bytes.resize(usize::try_from(wanted).unwrap_or(0), 0);
            self.start = at;
            read_exact(self.source, at, &mut self.bytes)?;
        }
        Ok(&self.bytes[usize::try_from(at - self.start).unwrap_or(0)..])
    }
}

/// Fills `buffer` from `offset` on.
pub(super) fn read_exact(
    source: &impl ReadAt,
    offset: u64,
    buffer: &mut [u8],
) -> Result<(), ReadError> {
    let bytes = buffer.len();
    let failed = |error| ReadError::Io {
        offset,
        bytes,
        error,
    };
    let mut filled = 0;
    while filled < bytes {
        match source.read_at(offset + filled as u64, &mut buffer[filled..]) {
            Ok(0) => return Err(failed(std::io::ErrorKind::UnexpectedEof.into())),
            Ok(count) => filled += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(())
}
