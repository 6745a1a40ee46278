//! Writes coded frames of one track of video.

use super::{FILE_ID, MAIN, STREAM, SYNCPOINT, TICKS, checksum, flag};

/// Bits of a time that a frame has. Frames further apart get a syncpoint, which has the whole time.
const TIME_BITS: u32 = 15;

/// Longest part of a file without a syncpoint, except that readers of pipes need none.
const DISTANCE_MAX: u64 = 65_536;

/// The flag of a file that is read once, from its beginning.
const PIPE: u64 = 2;

/// Width and height in the header. Decoders take those of the coded video.
const SIZE: u64 = 16;

/// A codec of video, by its name in NUT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Codec(pub(crate) [u8; 4]);

/// Writes frames, the headers before the first.
#[derive(Debug)]
pub(crate) struct Writer {
    codec: Codec,
    /// Time of the latest frame in ticks; `None` before the first.
    latest: Option<u64>,
}

impl Writer {
    pub(crate) const fn new(codec: Codec) -> Self {
        Self {
            codec,
            latest: None,
        }
    }

    /// Appends a frame at `ticks` to `out`.
    pub(crate) fn frame(&mut self, ticks: u64, keyframe: bool, data: &[u8], out: &mut Vec<u8>) {
        let window = 1 << TIME_BITS;
        match self.latest {
            Some(latest) if ticks.abs_diff(latest) < window / 2 - 1 => {}
            latest => {
                if latest.is_none() {
                    self.headers(out);
                }
                let mut syncpoint = Vec::new();
                number(ticks, &mut syncpoint);
                // Distance to the syncpoint before, which only a seek needs.
                number(0, &mut syncpoint);
                packet(SYNCPOINT, &syncpoint, out);
            }
        }
        self.latest = Some(ticks);
        let start = out.len();
        out.push(u8::from(!keyframe));
        number(ticks % window, out);
        number(data.len() as u64, out);
        let sum = checksum(&out[start..]);
        out.extend_from_slice(&sum.to_be_bytes());
        out.extend_from_slice(data);
    }

    fn headers(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(FILE_ID);
        let mut main = Vec::new();
        // Version and minor version, one stream, one time base.
        for value in [4, 0, 1, DISTANCE_MAX, 1, 1, TICKS] {
            number(value, &mut main);
        }
        let coded = flag::CODED_TIME | flag::SIZE_MSB | flag::CHECKSUM;
        // Flags and count of the frame codes, of which two are used.
        for (flags, count) in [(coded | flag::KEY, 1), (coded, 1), (flag::INVALID, 253)] {
            number(flags, &mut main);
            // Six fields: time, multiplier of the length, stream, length, reserved, count.
            for value in [6, 0, 1, 0, 0, 0, count] {
                number(value, &mut main);
            }
        }
        // No bytes are left out of frames.
        number(0, &mut main);
        number(PIPE, &mut main);
        packet(MAIN, &main, out);
        let mut stream = Vec::new();
        // Number 0, class 0 of video.
        stream.extend_from_slice(&[0, 0, 4]);
        stream.extend_from_slice(&self.codec.0);
        // Time base, bits of times, longest gap without checksum, frames that are reordered, flags,
        // codec's own header, size, two of the aspect ratio, colours.
        let bits = u64::from(TIME_BITS);
        for value in [0, bits, 1 << TIME_BITS, 0, 0, 0, SIZE, SIZE, 0, 0, 0] {
            number(value, &mut stream);
        }
        packet(STREAM, &stream, out);
    }
}

/// Appends a header with its start code, length and checksum.
fn packet(startcode: u64, content: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&startcode.to_be_bytes());
    number(content.len() as u64 + 4, out);
    out.extend_from_slice(content);
    out.extend_from_slice(&checksum(content).to_be_bytes());
}

/// Appends a number in groups of seven bits, the highest first.
fn number(value: u64, out: &mut Vec<u8>) {
    let groups = (64 - value.leading_zeros()).div_ceil(7).max(1);
    for group in (0..groups).rev() {
        let bits = (value >> (7 * group)) as u8 & 0x7f;
        out.push(bits | if group > 0 { 0x80 } else { 0 });
    }
}
