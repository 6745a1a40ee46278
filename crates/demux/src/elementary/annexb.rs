//! The byte stream format of H.264 (ITU-T H.264 annex B): NAL units with start codes.
//!
//! [`nals`] splits bytes in memory. `Scanner` reads a file of any size through a window of 64
//! KiB, and finds the locations of its NAL units.

use std::io::{self, Read};

pub use glassline_media::annexb::{Nals, nals};

use glassline_media::annexb::{START_CODE, find_start_code, trim_zeros};

/// Values of `nal_unit_type` (H.264 table 7-1).
pub mod nal_type {
    /// Slice of a picture that is not an IDR picture.
    pub const SLICE: u8 = 1;
    /// First data partition of a slice, which holds its header.
    pub const PARTITION_A: u8 = 2;
    /// Slice of an IDR picture.
    pub const IDR: u8 = 5;
    /// Supplemental enhancement information, which decoding does not need.
    pub const SEI: u8 = 6;
    /// Sequence parameter set: frame size, reordering and timing of a stream.
    pub const SPS: u8 = 7;
    /// Picture parameter set: coding tools that slices refer to by its number.
    pub const PPS: u8 = 8;
    /// Access unit delimiter, which may stand in front of each access unit.
    pub const AUD: u8 = 9;
}

/// Returns the type of a NAL unit, from its first byte; 0 (unspecified) if it is empty.
pub fn nal_type(nal: &[u8]) -> u8 {
    nal.first().map_or(0, |header| header & 0x1f)
}

/// Joins NAL units with start codes of four bytes, as parameter sets should have.
pub(crate) fn join<'a>(nals: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for nal in nals {
        bytes.push(0);
        bytes.extend(START_CODE);
        bytes.extend_from_slice(nal);
    }
    bytes
}

/// Bytes of a parameter set that are stored. Real ones have fewer than 1,000.
pub(crate) const PARAMETER_SET_BYTES_MAX: usize = 4096;

/// Bytes of any other NAL unit that are stored: more than the fields of a slice header that
/// distinguish pictures can take.
const HEAD_BYTES: usize = 128;

const WINDOW_BYTES: usize = 64 * 1024;

/// Location of a NAL unit in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// Offset of the start code, with the zero byte before it if there is one.
    pub(crate) code: u64,
    /// Offset of the first byte behind the start code.
    pub(crate) start: u64,
    /// Offset behind the last byte, without trailing zero bytes.
    pub(crate) end: u64,
}

/// Finds the NAL units of a byte stream in one pass with bounded memory.
pub(crate) struct Scanner<R> {
    input: R,
    /// Returns whether a NAL unit with this first byte is a parameter set.
    is_parameter_set: fn(u8) -> bool,
    window: Vec<u8>,
    window_bytes: usize,
    /// Offset of the window's first byte in the file.
    base: u64,
    /// Offset in the window at which the search continues.
    next: usize,
    /// Offset in the file behind the last byte so far that is not zero.
    solid_end: u64,
    /// Bytes before the first start code, if they are not all zero.
    leading: u64,
    open: Option<Open>,
    head: Vec<u8>,
    first: bool,
    ended: bool,
}

#[derive(Clone, Copy)]
struct Open {
    code: u64,
    start: u64,
}

impl<R: Read> Scanner<R> {
    pub(crate) fn new(input: R, is_parameter_set: fn(u8) -> bool) -> Self {
        Self::with_window(input, is_parameter_set, WINDOW_BYTES)
    }

    fn with_window(input: R, is_parameter_set: fn(u8) -> bool, window_bytes: usize) -> Self {
        Self {
            input,
            is_parameter_set,
            window: Vec::with_capacity(window_bytes),
            window_bytes,
            base: 0,
            next: 0,
            solid_end: 0,
            leading: 0,
            open: None,
            head: Vec::new(),
            first: true,
            ended: false,
        }
    }

    /// Returns the next NAL unit with its first bytes (of a parameter set, all bytes up to
    /// [`PARAMETER_SET_BYTES_MAX`]). An empty unit has an empty span.
    pub(crate) fn next_nal(&mut self) -> io::Result<Option<(Span, &[u8])>> {
        self.head.clear();
        loop {
            if let Some(at) = find_start_code(&self.window[self.next..]) {
                let code = self.next + at;
                self.pass(code);
                let closed = self.close(self.base + code as u64);
                self.next = code + START_CODE.len();
                if self.first {
                    self.first = false;
                    self.leading = self.solid_end;
                }
                let zero_before = self.base + (code as u64) > self.solid_end;
                self.solid_end = self.base + self.next as u64;
                self.open = Some(Open {
                    code: self.base + code as u64 - u64::from(zero_before),
                    start: self.solid_end,
                });
                if let Some(span) = closed {
                    return Ok(Some((span, self.head_of(span))));
                }
            } else if self.ended {
                self.pass(self.window.len());
                self.next = self.window.len();
                let end = self.base + self.window.len() as u64;
                let closed = self.close(end);
                return Ok(closed.map(|span| (span, self.head_of(span))));
            } else {
                self.refill()?;
            }
        }
    }

    /// Returns the length of the bytes before the first start code, up to the last one that is
    /// not zero.
    pub(crate) fn leading_bytes(&self) -> u64 {
        self.leading
    }

    /// Returns the number of bytes read; this is the length of the file once there are no more
    /// NAL units.
    pub(crate) fn read_bytes(&self) -> u64 {
        self.base + self.window.len() as u64
    }

    fn head_of(&self, span: Span) -> &[u8] {
        let length = usize::try_from(span.end - span.start).unwrap_or(usize::MAX);
        &self.head[..self.head.len().min(length)]
    }

    fn close(&mut self, limit: u64) -> Option<Span> {
        let Open { code, start } = self.open.take()?;
        let end = self.solid_end.clamp(start, limit);
        Some(Span { code, start, end })
    }

    /// Notes the window's bytes up to `end`, which hold no start code.
    fn pass(&mut self, end: usize) {
        let bytes = &self.window[self.next..end];
        let solid = trim_zeros(bytes).len();
        if solid > 0 {
            self.solid_end = self.base + (self.next + solid) as u64;
        }
        if self.open.is_some() {
            let header = self.head.first().or(bytes.first());
            let cap = match header.copied().is_some_and(self.is_parameter_set) {
                true => PARAMETER_SET_BYTES_MAX,
                false => HEAD_BYTES,
            };
            let room = cap.saturating_sub(self.head.len()).min(bytes.len());
            self.head.extend_from_slice(&bytes[..room]);
        }
        self.next = end;
    }

    /// Drops the bytes that were searched, and reads more. Two bytes remain, since a start code
    /// may cross the border.
    fn refill(&mut self) -> io::Result<()> {
        let keep = self.window.len().saturating_sub(START_CODE.len() - 1);
        self.pass(keep.max(self.next));
        self.window.drain(..self.next);
        self.base += self.next as u64;
        self.next = 0;
        let have = self.window.len();
        self.window.resize(self.window_bytes, 0);
        let read = loop {
            match self.input.read(&mut self.window[have..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result,
            }
        };
        self.window
            .truncate(have + read.as_ref().map_or(0, |read| *read));
        self.ended = read? == 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Hands out at most `step` bytes a read, so that start codes lie across borders.
    struct Slow<'a> {
        bytes: &'a [u8],
        step: usize,
    }

    impl Read for Slow<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let step = self.step.min(out.len());
            (&mut self.bytes).take(step as u64).read(out)
        }
    }

    fn scan(bytes: &[u8], step: usize) -> Vec<(Span, Vec<u8>)> {
        let slow = Slow { bytes, step };
        let mut scanner = Scanner::with_window(slow, |first| first & 0x1f == nal_type::SPS, 16);
        let mut found = Vec::new();
        while let Some((span, head)) = scanner.next_nal().expect("memory can be read") {
            found.push((span, head.to_vec()));
        }
        found
    }

    #[test]
    fn short_and_long_start_codes_and_trailing_zeros() {
        let bytes = b"\0\0\0\x01\x67a\0\0\x01\x68b\0\0\0\0\x01\x65cd\0\0\0";
        assert_eq!(
            nals(bytes).collect::<Vec<_>>(),
            [b"\x67a".as_slice(), b"\x68b", b"\x65cd"]
        );
        let spans: Vec<_> = scan(bytes, 1).into_iter().map(|(span, _)| span).collect();
        let span = |code, start, end| Span { code, start, end };
        assert_eq!(spans, [span(0, 4, 6), span(6, 9, 11), span(12, 16, 19)]);
    }

    #[test]
    fn emulation_prevention_is_left_alone() {
        let bytes = b"\0\0\x01\x65\0\0\x03\x01\0\0\x03\0\0\x03\x02";
        assert_eq!(nals(bytes).collect::<Vec<_>>(), [&bytes[3..]]);
    }

    #[test]
    fn nothing_comes_of_nothing() {
        for bytes in [
            b"".as_slice(),
            b"\0",
            b"\0\0",
            b"\0\0\x01",
            b"\0\0\0\x01",
            b"abc",
        ] {
            assert_eq!(nals(bytes).count(), 0, "{bytes:?}");
        }
        assert_eq!(scan(b"\0\0\0\x01", 1).len(), 1);
        assert_eq!(nals(b"\0\0\x01\0\0\x01\x09").collect::<Vec<_>>(), [b"\x09"]);
    }

    #[test]
    fn a_head_is_bounded_and_a_parameter_set_whole() {
        let mut bytes = b"\0\0\x01\x65".to_vec();
        bytes.extend([0xff; 100_000]);
        bytes.extend(b"\0\0\x01\x67");
        bytes.extend([0xee; 1000]);
        let found = scan(&bytes, 7);
        assert_eq!(found[0].1.len(), HEAD_BYTES);
        assert_eq!(found[1].1.len(), 1001);
        assert_eq!(found[1].0.end, bytes.len() as u64);
    }

    proptest! {
        #[test]
        fn scanner_and_iterator_agree(
            bytes in prop::collection::vec(prop::sample::select(vec![0u8, 0, 0, 1, 1, 3, 0x65]), 0..200),
            step in 1usize..9,
        ) {
            let scanned: Vec<Vec<u8>> = scan(&bytes, step)
                .into_iter()
                .inspect(|(span, head)| {
                    let range = span.start as usize..span.end as usize;
                    assert_eq!(&bytes[range.clone()][..head.len()], &head[..]);
                    assert_eq!(head.len(), range.len().min(HEAD_BYTES));
                })
                .map(|(span, _)| bytes[span.start as usize..span.end as usize].to_vec())
                .filter(|nal| !nal.is_empty())
                .collect();
            let cut: Vec<Vec<u8>> = nals(&bytes).map(<[u8]>::to_vec).collect();
            prop_assert_eq!(scanned, cut);
        }

        #[test]
        fn what_is_joined_comes_apart_again(
            units in prop::collection::vec(prop::collection::vec(1u8..=255, 1..300), 0..6),
            long in any::<bool>(),
            zeros in 0usize..4,
        ) {
            let mut bytes = Vec::new();
            for unit in &units {
                bytes.extend(if long { [0, 0, 0, 1].as_slice() } else { &START_CODE });
                bytes.extend(unit);
                bytes.extend(std::iter::repeat_n(0, zeros));
            }
            prop_assert_eq!(nals(&bytes).map(<[u8]>::to_vec).collect::<Vec<_>>(), units);
        }
    }
}
