//! Uncompressed frames as FFmpeg (`-f yuv4mpegpipe`) and GStreamer (`y4menc`) pipe them: one
//! line that describes the stream, then a line and the planes of each frame.
//!
//! ```text
//! YUV4MPEG2 W640 H360 F30:1 Ip A1:1 C420jpeg␊
//! FRAME␊ Y … U … V …   FRAME␊ Y … U … V …
//! ```
//!
//! Only 8-bit 4:2:0 is accepted, which encoders for the web expect; the sending program
//! converts at less cost. Nothing is allocated before the header's size is checked, and never
//! more than one frame.
//!
//! Source: yuv4mpeg(5) of the mjpegtools; `XCOLORRANGE` as FFmpeg writes it.

use crate::FrameRate;

/// Most pixels of a side: the limit of H.264 level 5.2 and of the encoder.
const SIDE_PIXELS_MAX: u32 = 3840;

/// Most pixels of one frame: 3840 × 2160.
const PIXELS_MAX: u32 = 3840 * 2160;

/// Longest first line in bytes; real ones have fewer than 200.
const HEADER_BYTES_MAX: usize = 1024;

/// Longest line before a frame, in bytes.
const FRAME_LINE_BYTES_MAX: usize = 256;

const MAGIC: &str = "YUV4MPEG2";
const FRAME: &str = "FRAME";

/// Format of the frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Width in pixels. It is even: the last column of an odd frame is dropped.
    pub width: u32,
    /// Height in pixels. It is even: the last row of an odd frame is dropped.
    pub height: u32,
    /// Frames per second; `None` if the sender does not know.
    pub rate: Option<FrameRate>,
    /// Whether luma uses 0–255 and not 16–235.
    pub full_range: bool,
}

/// Parses the stream as its bytes arrive, and hands out frames.
#[derive(Debug)]
pub struct Parser {
    layout: Option<Layout>,
    line: Vec<u8>,
    /// Planes of the frame that is being read, at their full length.
    planes: Vec<u8>,
    filled: usize,
    in_frame: bool,
    /// Bytes of the stream so far, and those before the current line.
    offset: u64,
    line_at: u64,
}

/// Layout of the planes in the stream.
#[derive(Clone, Copy, Debug)]
struct Layout {
    header: Header,
    /// Width in the stream, which may be odd.
    width: usize,
    height: usize,
}

impl Layout {
    fn chroma(self) -> (usize, usize) {
        (self.width.div_ceil(2), self.height.div_ceil(2))
    }

    fn bytes(self) -> usize {
        let (width, height) = self.chroma();
        self.width * self.height + 2 * width * height
    }
}

/// The planes of one frame. Rows may be longer than the frame is wide, so use the strides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Luma, `height` rows of `stride` bytes.
    pub y: &'a [u8],
    /// Blue difference, half as many rows of `chroma_stride` bytes.
    pub u: &'a [u8],
    /// Red difference, with the layout of `u`.
    pub v: &'a [u8],
    /// Bytes from one row of `y` to the next.
    pub stride: usize,
    /// Bytes from one row of `u` and `v` to the next.
    pub chroma_stride: usize,
}

impl Default for Parser {
    fn default() -> Self {
        Self::new()
    }
}

impl Parser {
    /// Creates a parser for the start of a stream.
    pub const fn new() -> Self {
        Self {
            layout: None,
            line: Vec::new(),
            planes: Vec::new(),
            filled: 0,
            in_frame: false,
            offset: 0,
            line_at: 0,
        }
    }

    /// Returns the format of the frames, once the first line is read.
    pub fn header(&self) -> Option<Header> {
        self.layout.map(|layout| layout.header)
    }

    /// Parses bytes up to the end of a frame. Returns the number of bytes that were parsed. If
    /// this is fewer than given, [`Parser::frame`] has a frame, or the header is known.
    ///
    /// # Errors
    /// The stream is damaged, or its format is not accepted. It has then ended.
    pub fn push(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        if self.is_whole() {
            self.in_frame = false;
        }
        let taken = match self.in_frame {
            true => self.fill(bytes),
            false => self.push_line(bytes)?,
        };
        self.offset += taken as u64;
        Ok(taken)
    }

    /// Returns the frame that the last bytes completed.
    pub fn frame(&self) -> Option<Frame<'_>> {
        let layout = self.layout.filter(|_| self.is_whole())?;
        let (chroma_width, chroma_height) = layout.chroma();
        let (y, chroma) = self.planes.split_at(layout.width * layout.height);
        let (u, v) = chroma.split_at(chroma_width * chroma_height);
        let rows = layout.header.height as usize;
        Some(Frame {
            y: &y[..rows * layout.width],
            u: &u[..rows / 2 * chroma_width],
            v: &v[..rows / 2 * chroma_width],
            stride: layout.width,
            chroma_stride: chroma_width,
        })
    }

    /// Returns whether the stream may end here: not within a line or a frame.
    pub fn is_between_frames(&self) -> bool {
        self.layout.is_some() && self.line.is_empty() && (!self.in_frame || self.is_whole())
    }

    fn is_whole(&self) -> bool {
        self.in_frame && self.filled == self.planes.len()
    }

    fn fill(&mut self, bytes: &[u8]) -> usize {
        let room = &mut self.planes[self.filled..];
        let taken = bytes.len().min(room.len());
        room[..taken].copy_from_slice(&bytes[..taken]);
        self.filled += taken;
        taken
    }

    fn push_line(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        let limit = match self.layout {
            None => HEADER_BYTES_MAX,
            Some(_) => FRAME_LINE_BYTES_MAX,
        };
        let end = bytes.iter().position(|&byte| byte == b'\n');
        let part = &bytes[..end.unwrap_or(bytes.len())];
        if self.line.is_empty() {
            self.line_at = self.offset;
        }
        if self.line.len() + part.len() > limit {
            return Err(self.unexpected());
        }
        self.line.extend_from_slice(part);
        let expected = if self.layout.is_none() { MAGIC } else { FRAME };
        let so_far = self.line.len().min(expected.len());
        if self.line[..so_far] != expected.as_bytes()[..so_far] {
            return Err(self.unexpected());
        }
        let Some(end) = end else {
            return Ok(bytes.len());
        };
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line);
        let mut words = line.split(' ');
        if words.next() != Some(expected) {
            return Err(self.unexpected());
        }
        match self.layout {
            None => self.layout = Some(parse_header(words)?),
            Some(layout) => {
                self.planes.resize(layout.bytes(), 0);
                self.filled = 0;
                self.in_frame = true;
            }
        }
        Ok(end + 1)
    }

    fn unexpected(&self) -> Error {
        let expected = if self.layout.is_none() { MAGIC } else { FRAME };
        Error::Line {
            expected,
            offset: self.line_at,
        }
    }
}

fn parse_header<'a>(words: impl Iterator<Item = &'a str>) -> Result<Layout, Error> {
    let (mut width, mut height, mut rate, mut full_range) = (None, None, None, false);
    for word in words.filter(|word| !word.is_empty()) {
        let mut rest = word.chars();
        let tag = rest.next().unwrap_or_default();
        let value = rest.as_str();
        match tag {
            'W' => width = side(value),
            'H' => height = side(value),
            'F' => rate = parse_rate(value),
            'C' if !matches!(value, "420" | "420jpeg" | "420mpeg2" | "420paldv") => {
                return Err(Error::Sampling(value.chars().take(32).collect()));
            }
            'I' if !matches!(value, "p" | "?" | "") => {
                return Err(Error::Interlaced);
            }
            'X' if value.eq_ignore_ascii_case("COLORRANGE=FULL") => full_range = true,
            _ => {}
        }
    }
    let (Some(width), Some(height)) = (width, height) else {
        return Err(Error::Size);
    };
    if width * height > PIXELS_MAX {
        return Err(Error::Size);
    }
    Ok(Layout {
        header: Header {
            width: width & !1,
            height: height & !1,
            rate,
            full_range,
        },
        width: width as usize,
        height: height as usize,
    })
}

/// Least pixels of a side: one macroblock.
const SIDE_PIXELS_MIN: u32 = 16;

fn side(text: &str) -> Option<u32> {
    let pixels = text.parse().ok()?;
    (SIDE_PIXELS_MIN..=SIDE_PIXELS_MAX)
        .contains(&pixels)
        .then_some(pixels)
}

/// Parses `30000:1001`; `None` for `0:0`, which is an unknown rate.
fn parse_rate(text: &str) -> Option<FrameRate> {
    let (numerator, denominator) = text.split_once(':')?;
    FrameRate::new(numerator.parse().ok()?, denominator.parse().ok()?)
}

/// The reason why raw frames are not accepted, and what to pipe instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A line does not begin as it must, or does not end.
    #[error("no {expected} at byte {offset}; is this y4m (ffmpeg … -f yuv4mpegpipe -)?")]
    Line {
        /// Text that the line should begin with.
        expected: &'static str,
        /// Offset of the line in the stream.
        offset: u64,
    },
    /// Width or height is missing or out of range.
    #[error(
        "the y4m header has no size from {SIDE_PIXELS_MIN} x {SIDE_PIXELS_MIN} to 3840 x 2160 \
         (ffmpeg: -vf scale=1920:-2)"
    )]
    Size,
    /// The sampling is not 8-bit 4:2:0.
    #[error("y4m with sampling C{0}; only 8-bit 4:2:0 is accepted (ffmpeg: -pix_fmt yuv420p)")]
    Sampling(String),
    /// The video is interlaced.
    #[error("interlaced y4m; only progressive frames are accepted (ffmpeg: -vf yadif)")]
    Interlaced,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stream(header: &str, frames: usize, bytes: usize) -> Vec<u8> {
        let mut out = format!("YUV4MPEG2 {header}\n").into_bytes();
        for number in 0..frames {
            out.extend(b"FRAME\n");
            out.extend((0..bytes).map(|at| (at * 7 + number) as u8));
        }
        out
    }

    /// Every frame's first and last byte of each plane, pushed in such steps.
    fn read(bytes: &[u8], step: usize) -> Result<Vec<[u8; 6]>, Error> {
        let mut parser = Parser::new();
        let mut found = Vec::new();
        for mut chunk in bytes.chunks(step) {
            while !chunk.is_empty() {
                let taken = parser.push(chunk)?;
                chunk = &chunk[taken..];
                if taken > 0
                    && let Some(frame) = parser.frame()
                {
                    let ends = |plane: &[u8]| [plane[0], plane[plane.len() - 1]];
                    let planes = [frame.y, frame.u, frame.v].map(ends);
                    found.push(planes.concat().try_into().expect("six"));
                }
            }
        }
        assert!(parser.is_between_frames());
        Ok(found)
    }

    fn header_of(text: &str) -> Result<Header, Error> {
        let mut parser = Parser::new();
        parser.push(format!("YUV4MPEG2 {text}\n").as_bytes())?;
        Ok(parser.header().expect("a whole line"))
    }

    #[test]
    fn what_ffmpeg_writes_is_understood() {
        let header =
            header_of("W640 H360 F30000:1001 Ip A1:1 C420jpeg XYSCSS=420JPEG XCOLORRANGE=LIMITED");
        let expected = Header {
            width: 640,
            height: 360,
            rate: FrameRate::from_decimal(29.97),
            full_range: false,
        };
        assert_eq!(header, Ok(expected));
        let full = header_of("W16 H16 F0:0 C420 XCOLORRANGE=FULL").expect("a header");
        assert_eq!((full.rate, full.full_range), (None, true));
    }

    #[test]
    fn frames_come_out_whatever_the_pieces() {
        let bytes = stream("W32 H16 F25:1", 3, 32 * 16 * 3 / 2);
        let whole = read(&bytes, usize::MAX).expect("frames");
        assert_eq!(whole.len(), 3);
        for step in [1, 7, 100, 769] {
            assert_eq!(read(&bytes, step).as_ref(), Ok(&whole), "{step}");
        }
    }

    #[test]
    fn of_odd_frames_the_last_row_and_column_are_left_out() {
        let bytes = stream("W17 H19 F25:1", 2, 17 * 19 + 2 * 9 * 10);
        let mut parser = Parser::new();
        let mut rest = bytes.as_slice();
        while parser.frame().is_none() {
            let taken = parser.push(rest).expect("a frame");
            rest = &rest[taken..];
        }
        let header = parser.header().expect("a header");
        assert_eq!((header.width, header.height), (16, 18));
        let frame = parser.frame().expect("a frame");
        assert_eq!((frame.stride, frame.chroma_stride), (17, 9));
        assert_eq!((frame.y.len(), frame.u.len()), (17 * 18, 9 * 9));
        assert_eq!(read(&bytes, 64).map(|frames| frames.len()), Ok(2));
    }

    #[test]
    fn what_cannot_be_taken_is_named_with_the_remedy() {
        let refused = |text: &str| header_of(text).expect_err("refused").to_string();
        assert!(refused("W640 H360 C422").contains("-pix_fmt yuv420p"));
        assert!(refused("W640 H360 C420p10").contains("C420p10"));
        assert!(refused("W640 H360 It").contains("yadif"));
        for size in [
            "W640",
            "W0 H0",
            "W99999 H1",
            "W3840 H3840",
            "W-1 H20",
            "W8 H8",
        ] {
            assert!(refused(size).contains("3840 x 2160"), "{size}");
        }
        let other = Parser::new().push(b"RIFF").expect_err("no y4m");
        assert!(
            other.to_string().contains("no YUV4MPEG2 at byte 0"),
            "{other}"
        );
    }

    #[test]
    fn a_lost_frame_line_is_found_where_it_should_be() {
        let mut bytes = stream("W16 H16 F25:1", 1, 16 * 16 * 3 / 2);
        let at = bytes.len() as u64;
        bytes.extend(b"FRANE\n");
        let error = read(&bytes, 50).expect_err("damage");
        let line = Error::Line {
            expected: "FRAME",
            offset: at,
        };
        assert_eq!(error, line);
    }

    #[test]
    fn a_line_without_end_is_refused_early() {
        let mut endless = b"YUV4MPEG2 X".to_vec();
        endless.resize(2000, b'x');
        assert!(Parser::new().push(&endless).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_end_in_frames_or_an_error(
            bytes in prop::collection::vec(any::<u8>(), 0..300),
            header in "(W[0-9]{1,5} |H[0-9]{1,5} |F[0-9:]{1,9} |C[a-z0-9]{0,8} ){0,5}",
            step in 1usize..50,
        ) {
            let mut stream = format!("YUV4MPEG2 {header}\nFRAME\n").into_bytes();
            stream.extend(bytes);
            let mut parser = Parser::new();
            'all: for mut chunk in stream.chunks(step) {
                while !chunk.is_empty() {
                    match parser.push(chunk) {
                        Ok(taken) => chunk = &chunk[taken..],
                        Err(error) => {
                            prop_assert!(!error.to_string().is_empty());
                            break 'all;
                        }
                    }
                }
            }
        }
    }
}
