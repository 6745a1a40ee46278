//! Splits Motion JPEG into pictures: a pipe of JPEG files, or a body of
//! `multipart/x-mixed-replace` as cameras answer over HTTP.
//!
//! ```text
//! --myboundary␍␊Content-Type: image/jpeg␍␊Content-Length: 24611␍␊␍␊ FF D8 … FF D9 ␍␊--myboundary …
//! └───────────── passed over, whatever it says ─────────────────┘ └─ a picture ─┘
//! ```
//!
//! A picture is found by its own markers. Boundaries of cameras differ from the announced ones, lengths
//! are wrong or missing, and both are between pictures: nothing there is read, so that nothing there can
//! be wrong. A picture is handed out with its last byte.
//!
//! Sources: ITU-T T.81 annex B (segments and markers), RFC 2046 §5.1 (multipart).

use std::collections::VecDeque;

use bytes::Bytes;

/// Most bytes of one picture.
const FRAME_BYTES_MAX: usize = 16 << 20;

/// Most bytes in a row that belong to no picture.
const BETWEEN_BYTES_MAX: usize = 1 << 20;

/// Most bytes behind a picture without an end that are searched for the boundary behind the picture.
const BOUNDARY_BYTES_MAX: usize = 1024;

const START: [u8; 3] = [0xff, SOI, 0xff];

const SOI: u8 = 0xd8;
const EOI: u8 = 0xd9;
const SOS: u8 = 0xda;
/// Markers without a segment: of restarts, and one for temporary use.
const RESTARTS: std::ops::RangeInclusive<u8> = 0xd0..=0xd7;
const TEMPORARY: u8 = 0x01;

/// Finds the pictures in bytes that are pushed as they arrive.
#[derive(Debug, Default)]
pub struct MotionJpeg {
    /// Bytes from the beginning of a picture on, or of what may become one.
    bytes: Vec<u8>,
    place: Cursor,
    /// Bytes since the last picture that belong to none.
    between: usize,
    /// Pictures that were given up, because their bytes are no JPEG.
    damaged: u64,
    frames: VecDeque<Bytes>,
}

/// The place that reading has reached within `bytes`.
#[derive(Clone, Copy, Debug, Default)]
enum Cursor {
    /// No picture has begun.
    #[default]
    Between,
    /// A marker is expected at this offset.
    Marker(usize),
    /// Entropy-coded data, whose first byte that was not looked at is here.
    Scan(usize),
}

/// The reason why bytes are no Motion JPEG.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MotionJpegError {
    /// Nothing that arrives is a picture.
    #[error("no JPEG picture begins in {} KiB", BETWEEN_BYTES_MAX >> 10)]
    NoFrame,
    /// A picture has no end.
    #[error("a JPEG picture has more than {} MiB", FRAME_BYTES_MAX >> 20)]
    Endless,
}

impl MotionJpeg {
    /// Takes the next bytes.
    ///
    /// # Errors
    /// Returns [`MotionJpegError`] if the bytes are something else. The stream has then ended.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), MotionJpegError> {
        self.bytes.extend_from_slice(bytes);
        while self.advance() {}
        match self.place {
            Cursor::Between if self.between > BETWEEN_BYTES_MAX => Err(MotionJpegError::NoFrame),
            Cursor::Marker(_) | Cursor::Scan(_) if self.bytes.len() > FRAME_BYTES_MAX => {
                Err(MotionJpegError::Endless)
            }
            _ => Ok(()),
        }
    }

    /// Returns the next whole picture; poll until `None`.
    pub fn next_frame(&mut self) -> Option<Bytes> {
        self.frames.pop_front()
    }

    /// Returns whether no picture has begun to arrive.
    pub const fn is_between(&self) -> bool {
        matches!(self.place, Cursor::Between)
    }

    /// Returns the number of pictures so far that broke off.
    pub const fn damaged(&self) -> u64 {
        self.damaged
    }

    /// Goes on to the next place. Returns false if more bytes are needed.
    fn advance(&mut self) -> bool {
        match self.place {
            Cursor::Between => self.find_start(),
            Cursor::Marker(at) => self.pass_segment(at),
            Cursor::Scan(from) => self.pass_scan(from),
        }
    }

    fn find_start(&mut self) -> bool {
        let found = self.bytes.windows(START.len()).position(|it| it == START);
        // The last two bytes may begin a picture.
        let passed = found.unwrap_or_else(|| self.bytes.len().saturating_sub(START.len() - 1));
        self.bytes.drain(..passed);
        self.between += passed;
        if found.is_some() {
            self.place = Cursor::Marker(2);
        }
        found.is_some()
    }

    /// Passes the marker at `at`, with the segment behind it.
    fn pass_segment(&mut self, at: usize) -> bool {
        let Some(rest) = self.bytes.get(at..) else {
            return false;
        };
        // Any number of fill bytes may stand before a marker.
        let fill = rest.iter().take_while(|byte| **byte == 0xff).count();
        let Some(marker) = rest.get(fill).copied() else {
            return false;
        };
        let behind = at + fill + 1;
        match marker {
            _ if fill == 0 => self.give_up(at),
            EOI => self.end(behind),
            TEMPORARY => self.place = Cursor::Marker(behind),
            // The picture broke off, and another one begins.
            SOI | 0 => self.give_up(at),
            _ if RESTARTS.contains(&marker) => self.give_up(at),
            _ => {
                let Some(length) = self.bytes.get(behind..behind + 2) else {
                    return false;
                };
                let length = usize::from(u16::from_be_bytes([length[0], length[1]]));
                let end = behind + length;
                if length < 2 {
                    self.give_up(at);
                } else if self.bytes.len() < end {
                    return false;
                } else if marker == SOS {
                    self.place = Cursor::Scan(end);
                } else {
                    self.place = Cursor::Marker(end);
                }
            }
        }
        true
    }

    /// Passes entropy-coded data, in which only stuffed zeros and restarts follow a byte of ones.
    fn pass_scan(&mut self, from: usize) -> bool {
        let mut at = from;
        while let Some(found) = self.bytes[at..].iter().position(|byte| *byte == 0xff) {
            at += found;
            let Some(marker) = self.bytes.get(at + 1).copied() else {
                break;
            };
            match marker {
                0 => at += 2,
                0xff => at += 1,
                SOI => {
                    self.end_without_marker(at);
                    return true;
                }
                _ if RESTARTS.contains(&marker) => at += 2,
                _ => {
                    self.place = Cursor::Marker(at);
                    return true;
                }
            }
        }
        let is_cut = self.bytes.last() == Some(&0xff);
        self.place = Cursor::Scan(match is_cut {
            true => self.bytes.len() - 1,
            false => self.bytes.len(),
        });
        false
    }

    /// Hands out the picture, which ends before `end`.
    fn end(&mut self, end: usize) {
        let rest = self.bytes.split_off(end);
        let frame = std::mem::replace(&mut self.bytes, rest);
        self.frames.push_back(frame.into());
        self.place = Cursor::Between;
        self.between = 0;
    }

    /// Hands out a picture behind which another one begins at `next`, without an end of the first: some
    /// cameras leave it out. What lies between both may be the boundary of a multipart body.
    fn end_without_marker(&mut self, next: usize) {
        let rest = self.bytes.split_off(next);
        let mut frame = std::mem::replace(&mut self.bytes, rest);
        let searched = frame.len().saturating_sub(BOUNDARY_BYTES_MAX);
        let mut lines = frame[searched..].windows(4);
        if let Some(boundary) = lines.position(|it| it == b"\r\n--") {
            frame.truncate(searched + boundary);
        }
        frame.extend([0xff, EOI]);
        self.frames.push_back(frame.into());
        self.place = Cursor::Between;
        self.between = 0;
    }

    /// Forgets the picture up to `at`, whose bytes are no JPEG.
    fn give_up(&mut self, at: usize) {
        self.damaged += 1;
        // The beginning of a picture that was looked at already must not be found again.
        let passed = at.max(1);
        self.bytes.drain(..passed);
        self.between += passed;
        self.place = Cursor::Between;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A picture with a comment that looks like a picture, a restart and stuffed zeros.
    fn frame(number: u8) -> Vec<u8> {
        let comment = [0xff, 0xfe, 0, 8, 0xff, SOI, 0xff, EOI, number, 0];
        let scan = [0xff, SOS, 0, 4, 1, 2, 7, 0xff, 0, 9, 0xff, 0xd0, number, 8];
        [&[0xff, SOI][..], &comment, &scan, &[0xff, EOI]].concat()
    }

    fn frames(body: &[u8]) -> Vec<Vec<u8>> {
        frames_of([body]).expect("Motion JPEG")
    }

    fn frames_of<'a>(
        pieces: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Vec<Vec<u8>>, MotionJpegError> {
        let mut found = Vec::new();
        let mut splitter = MotionJpeg::default();
        for piece in pieces {
            splitter.push(piece)?;
            found.extend(std::iter::from_fn(|| splitter.next_frame()).map(|it| it.to_vec()));
        }
        Ok(found)
    }

    #[test]
    fn frames_are_found_whatever_stands_between_them() {
        let all = [frame(1), frame(2), frame(3)];
        let between: [&[u8]; 6] = [
            b"--b\r\nContent-Type: image/jpeg\r\nContent-Length: 36\r\n\r\n",
            b"\r\n--b\r\nContent-Type: image/jpeg\r\n\r\n",
            b"\r\n----b\r\ncontent-length: 99999\r\n\r\n",
            b"\n--other\nContent-Type:image/jpeg\n\n",
            b"",
            b"\xff\xff\x00\xff\xd8\x00",
        ];
        for before in between {
            let body = all.iter().flat_map(|it| [before, it].concat());
            assert_eq!(frames(&body.collect::<Vec<_>>()), all, "{before:?}");
        }
    }

    #[test]
    fn a_frame_is_there_with_its_last_byte_and_not_before() {
        let whole = frame(5);
        let mut splitter = MotionJpeg::default();
        splitter.push(&whole[..whole.len() - 1]).expect("a picture");
        assert_eq!(splitter.next_frame(), None);
        splitter.push(&whole[whole.len() - 1..]).expect("a picture");
        assert_eq!(splitter.next_frame().as_deref(), Some(&whole[..]));
    }

    #[test]
    fn a_frame_without_an_end_ends_before_the_boundary() {
        let whole = frame(1);
        let open = &whole[..whole.len() - 2];
        let body = [open, b"\r\n--b\r\nContent-Type: image/jpeg\r\n\r\n", &whole].concat();
        assert_eq!(frames(&body), [&whole[..], &whole]);
    }

    #[test]
    fn a_frame_that_breaks_off_is_counted_and_the_next_one_found() {
        let whole = frame(1);
        let mut splitter = MotionJpeg::default();
        splitter.push(&whole[..8]).expect("a beginning");
        splitter.push(&[0; 40]).expect("damage");
        splitter.push(&whole).expect("a picture");
        assert_eq!(splitter.next_frame().as_deref(), Some(&whole[..]));
        assert_eq!(splitter.damaged(), 1);
    }

    #[test]
    fn something_else_is_refused_within_bounds() {
        let text = vec![b'<'; BETWEEN_BYTES_MAX + 8];
        let refused = frames_of([&*text]).expect_err("a page");
        assert_eq!(refused, MotionJpegError::NoFrame);
        let mut endless = frame(1);
        endless.truncate(endless.len() - 2);
        endless.resize(FRAME_BYTES_MAX + 8, 7);
        let refused = frames_of([&*endless]).expect_err("no end");
        assert_eq!(refused, MotionJpegError::Endless);
    }

    proptest! {
        #[test]
        fn it_makes_no_difference_how_the_bytes_are_cut(
            numbers in prop::collection::vec(0u8..200, 1..5),
            junk in prop::collection::vec(any::<u8>(), 0..60),
            sizes in prop::collection::vec(1usize..40, 1..9),
        ) {
            let body = numbers.iter().flat_map(|number| [junk.clone(), frame(*number)].concat());
            let body: Vec<u8> = body.collect();
            let mut rest = &body[..];
            let mut sizes = sizes.into_iter().cycle();
            let pieces = std::iter::from_fn(|| {
                let size = sizes.next()?.min(rest.len());
                let (piece, behind) = rest.split_at(size);
                rest = behind;
                (!piece.is_empty()).then_some(piece)
            });
            prop_assert_eq!(frames_of(pieces), frames_of([&*body]));
        }

        #[test]
        fn boundaries_of_text_hide_no_frame(
            numbers in prop::collection::vec(0u8..200, 1..5),
            boundary in "[ -~\r\n]{0,80}",
        ) {
            let all: Vec<_> = numbers.iter().map(|number| frame(*number)).collect();
            let body = all.iter().flat_map(|it| [boundary.as_bytes(), it].concat());
            prop_assert_eq!(frames(&body.collect::<Vec<_>>()), all);
        }

        #[test]
        fn hostile_bytes_end_in_frames_that_begin_and_end_as_such(
            bytes in prop::collection::vec(prop_oneof![Just(0xff), Just(SOI), Just(EOI), Just(SOS), Just(0), any::<u8>()], 0..400),
        ) {
            for found in frames(&bytes) {
                prop_assert!(found.starts_with(&START[..2]) && found.ends_with(&[0xff, EOI]));
            }
        }
    }
}
