//! Reads frames of one track of video, pushed in pieces of any length.

use super::{FILE_ID, MAIN, MARK, STREAM, SYNCPOINT, TICKS, flag};

/// Longest header in bytes. FFmpeg's have a few hundred.
const HEADER_BYTES_MAX: usize = 64 << 10;

/// Longest prefix of a frame: its code and numbers.
const PREFIX_BYTES_MAX: usize = 128;

/// The reason why bytes are no NUT with one track of video: the decoder is broken or another program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken(pub(crate) &'static str);

/// A reader of frames from the bytes that a program writes.
#[derive(Debug)]
pub(crate) struct Reader {
    /// Bytes that were pushed and not taken yet, from `start` on.
    bytes: Vec<u8>,
    start: usize,
    /// Longest frame in bytes that is taken.
    frame_bytes_max: usize,
    is_begun: bool,
    codes: Vec<FrameCode>,
    /// Numerators and denominators.
    time_bases: Vec<(u64, u64)>,
    /// Lengths of the bytes that frames may leave out; the first is none.
    elided: Vec<usize>,
    stream: Option<StreamHeader>,
    /// Time of the latest frame, in units of the stream's time base.
    latest: i64,
}

/// The meaning of a first byte for its frame.
#[derive(Clone, Copy, Debug)]
struct FrameCode {
    flags: u64,
    time_delta: i64,
    size_multiplier: u64,
    size_lsb: u64,
    reserved: u64,
    header: usize,
}

#[derive(Clone, Copy, Debug)]
struct StreamHeader {
    time_base: usize,
    time_bits: u32,
    width: usize,
    height: usize,
}

/// A frame within the bytes of its reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    pub(crate) ticks: u64,
    pub(crate) data: &'a [u8],
    pub(crate) width: usize,
    pub(crate) height: usize,
}

/// The beginning of a frame.
struct Prefix {
    len: usize,
    time: i64,
    size: usize,
}

impl Reader {
    /// Creates a reader that refuses frames of more than `frame_bytes_max`.
    pub(crate) fn new(frame_bytes_max: usize) -> Self {
        Self {
            bytes: Vec::new(),
            start: 0,
            frame_bytes_max,
            is_begun: false,
            codes: Vec::new(),
            time_bases: Vec::new(),
            elided: vec![0],
            stream: None,
            latest: 0,
        }
    }

    /// Takes the next bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.start);
        self.start = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next frame; `None` if its end was not pushed yet.
    ///
    /// # Errors
    /// Returns [`Broken`]; nothing can be read any more.
    pub(crate) fn next(&mut self) -> Result<Option<Frame<'_>>, Broken> {
        loop {
            let rest = &self.bytes[self.start..];
            if !self.is_begun {
                let known = rest.len().min(FILE_ID.len());
                if rest[..known] != FILE_ID[..known] {
                    return Err(Broken("its output does not begin as NUT"));
                }
                if known < FILE_ID.len() {
                    return Ok(None);
                }
                (self.is_begun, self.start) = (true, self.start + known);
                continue;
            }
            if rest.first() == Some(&MARK) {
                if !self.header()? {
                    return Ok(None);
                }
                continue;
            }
            let Some(prefix) = self.prefix()? else {
                return Ok(None);
            };
            if prefix.size > self.frame_bytes_max {
                return Err(Broken("a picture is longer than its size allows"));
            }
            let end = self.start + prefix.len + prefix.size;
            if self.bytes.len() < end {
                return Ok(None);
            }
            let header = self.stream.ok_or(NO_HEADER)?;
            let (num, den) = self.time_bases[header.time_base];
            self.latest = prefix.time;
            let data = self.start + prefix.len..end;
            self.start = end;
            let nominator = i128::from(prefix.time) * i128::from(num) * i128::from(TICKS);
            let ticks = (nominator + i128::from(den) / 2) / i128::from(den);
            return Ok(Some(Frame {
                ticks: u64::try_from(ticks).unwrap_or(0),
                data: &self.bytes[data],
                width: header.width,
                height: header.height,
            }));
        }
    }

    /// Returns width and height of the pictures in pixels; `None` before the header.
    pub(crate) fn size(&self) -> Option<(usize, usize)> {
        self.stream.map(|it| (it.width, it.height))
    }

    /// Takes a header. Returns false if its end was not pushed yet.
    fn header(&mut self) -> Result<bool, Broken> {
        let rest = &self.bytes[self.start..];
        let mut cursor = Cursor::new(rest);
        let Some(startcode) = cursor.take::<8>() else {
            return Ok(false);
        };
        let Some(len) = cursor.number() else {
            return Ok(false);
        };
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        if !(4..=HEADER_BYTES_MAX).contains(&len) {
            return Err(Broken("a header has an impossible length"));
        }
        // A long header has a checksum of its beginning.
        let begin = cursor.at + if len > 4_096 { 4 } else { 0 };
        let Some(content) = rest.get(begin..begin + len) else {
            return Ok(false);
        };
        let content = content[..len - 4].to_vec();
        self.start += begin + len;
        let mut cursor = Cursor::new(&content);
        let read = match u64::from_be_bytes(startcode) {
            MAIN => self.main(&mut cursor),
            STREAM => self.stream(&mut cursor),
            SYNCPOINT => self.syncpoint(&mut cursor),
            // Names, an index: of no use here.
            _ => Some(()),
        };
        read.ok_or(Broken("a header breaks off"))?;
        Ok(true)
    }

    fn main(&mut self, cursor: &mut Cursor<'_>) -> Option<()> {
        if cursor.number()? > 3 {
            // The minor version.
            cursor.number()?;
        }
        let streams = cursor.number()?;
        let _distance = cursor.number()?;
        let bases = cursor.number()?;
        self.time_bases.clear();
        for _ in 0..bases {
            let base = (cursor.number()?, cursor.number()?.max(1));
            self.time_bases.push(base);
        }
        let mut code = FrameCode {
            flags: flag::INVALID,
            time_delta: 0,
            size_multiplier: 1,
            size_lsb: 0,
            reserved: 0,
            header: 0,
        };
        self.codes = vec![code; 256];
        let mut place = 0;
        while place < 256 {
            code.flags = cursor.number()?;
            let fields = cursor.number()?;
            let mut field = |number: u64| match fields > number {
                true => cursor.number().map(Some),
                false => Some(None),
            };
            if let Some(delta) = field(0)? {
                code.time_delta = signed(delta);
            }
            code.size_multiplier = field(1)?.unwrap_or(code.size_multiplier);
            let _stream = field(2)?;
            let first = field(3)?.unwrap_or(0);
            code.reserved = field(4)?.unwrap_or(0);
            let rest = code.size_multiplier.saturating_sub(first);
            let count = field(5)?.unwrap_or(rest);
            let _match = field(6)?;
            code.header = usize::try_from(field(7)?.unwrap_or(code.header as u64)).ok()?;
            for more in 8..fields.max(8) {
                field(more)?;
            }
            if count == 0 || streams == 0 {
                return None;
            }
            let mut done = 0;
            while done < count && place < 256 {
                if place != usize::from(MARK) {
                    code.size_lsb = first + done;
                    self.codes[place] = code;
                    done += 1;
                }
                place += 1;
            }
            if place == usize::from(MARK) {
                place += 1;
            }
        }
        self.elided = vec![0];
        for _ in 0..cursor.number().unwrap_or(0) {
            let len = usize::try_from(cursor.number()?).ok()?;
            cursor.skip(len)?;
            self.elided.push(len);
        }
        Some(())
    }

    fn stream(&mut self, cursor: &mut Cursor<'_>) -> Option<()> {
        let (_id, _class) = (cursor.number()?, cursor.number()?);
        let name = cursor.number()?;
        cursor.skip(usize::try_from(name).ok()?)?;
        let time_base = usize::try_from(cursor.number()?).ok()?;
        let time_bits = u32::try_from(cursor.number()?).ok()?;
        let (_gap, _delay, _flags) = (cursor.number()?, cursor.number()?, cursor.number()?);
        let own = cursor.number()?;
        cursor.skip(usize::try_from(own).ok()?)?;
        let mut size = || usize::try_from(cursor.number()?).ok();
        let (width, height) = (size()?, size()?);
        if time_base >= self.time_bases.len() || time_bits > 16 {
            return None;
        }
        self.stream = Some(StreamHeader {
            time_base,
            time_bits,
            width,
            height,
        });
        Some(())
    }

    fn syncpoint(&mut self, cursor: &mut Cursor<'_>) -> Option<()> {
        let (coded, bases) = (cursor.number()?, self.time_bases.len() as u64);
        let (num, den) = *self
            .time_bases
            .get(usize::try_from(coded % bases.max(1)).ok()?)?;
        let stream = self.stream?;
        let (own_num, own_den) = self.time_bases[stream.time_base];
        let time = u128::from(coded / bases) * u128::from(num) * u128::from(own_den)
            / (u128::from(den) * u128::from(own_num.max(1)));
        self.latest = i64::try_from(time).ok()?;
        Some(())
    }

    /// Reads the beginning of a frame; `None` if its end was not pushed yet.
    fn prefix(&self) -> Result<Option<Prefix>, Broken> {
        let rest = &self.bytes[self.start..];
        let mut cursor = Cursor::new(&rest[..rest.len().min(PREFIX_BYTES_MAX)]);
        let Some([code]) = cursor.take::<1>() else {
            return Ok(None);
        };
        let code = *self.codes.get(usize::from(code)).ok_or(NO_HEADER)?;
        let stream = self.stream.ok_or(NO_HEADER)?;
        if code.flags & flag::INVALID != 0 {
            return Err(Broken("a frame has an unknown code"));
        }
        match self.numbers(code, stream, &mut cursor) {
            Some((_, _, true)) => Err(Broken("a frame has side data")),
            Some((time, size, false)) => Ok(Some(Prefix {
                len: cursor.at,
                time,
                size,
            })),
            None if rest.len() >= PREFIX_BYTES_MAX => Err(Broken("a frame has no end")),
            None => Ok(None),
        }
    }

    /// Reads the numbers of a frame: time, length, and whether there is side data.
    fn numbers(
        &self,
        code: FrameCode,
        stream: StreamHeader,
        cursor: &mut Cursor<'_>,
    ) -> Option<(i64, usize, bool)> {
        let mut flags = code.flags;
        if flags & flag::CODED != 0 {
            flags ^= cursor.number()?;
        }
        if flags & flag::STREAM_ID != 0 {
            cursor.number()?;
        }
        let time = match flags & flag::CODED_TIME != 0 {
            true => {
                let coded = i64::try_from(cursor.number()?).unwrap_or(i64::MAX);
                let window = 1 << stream.time_bits;
                match coded < window {
                    true => nearest(coded, self.latest, window),
                    false => coded - window,
                }
            }
            false => self.latest.saturating_add(code.time_delta),
        };
        let mut size = code.size_lsb;
        if flags & flag::SIZE_MSB != 0 {
            size = size.saturating_add(code.size_multiplier.saturating_mul(cursor.number()?));
        }
        if flags & flag::MATCH_TIME != 0 {
            cursor.number()?;
        }
        let header = match flags & flag::HEADER != 0 {
            true => usize::try_from(cursor.number()?).unwrap_or(usize::MAX),
            false => code.header,
        };
        let reserved = match flags & flag::RESERVED != 0 {
            true => cursor.number()?,
            false => code.reserved,
        };
        for _ in 0..reserved {
            cursor.number()?;
        }
        if flags & flag::CHECKSUM != 0 {
            cursor.take::<4>()?;
        }
        let elided = match size > 4_096 {
            true => 0,
            false => self.elided.get(header).copied().unwrap_or(0),
        };
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        // Pictures leave no bytes out; were there any, the frame would be shorter than its picture.
        let has_side_data = flags & flag::SIDE_DATA != 0;
        Some((time, size.saturating_sub(elided), has_side_data))
    }
}

const NO_HEADER: Broken = Broken("a frame comes before its header");

/// Returns the time whose lowest bits are `bits`, the nearest to `latest`.
fn nearest(bits: i64, latest: i64, window: i64) -> i64 {
    let least = latest - (window / 2 - 1);
    least + (bits - least).rem_euclid(window)
}

/// Returns a signed number as it is coded: the lowest bit is the sign.
fn signed(coded: u64) -> i64 {
    let coded = i64::try_from(coded).unwrap_or(i64::MAX - 1) + 1;
    match coded & 1 {
        1 => -(coded >> 1),
        _ => coded >> 1,
    }
}

/// A place in bytes.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let taken = self.bytes.get(self.at..self.at + N)?.try_into().ok()?;
        self.at += N;
        Some(taken)
    }

    fn skip(&mut self, len: usize) -> Option<()> {
        let end = self.at.checked_add(len)?;
        self.at = (end <= self.bytes.len()).then_some(end)?;
        Some(())
    }

    /// Reads a number in groups of seven bits; `None` if it breaks off, or has more than 64 bits.
    fn number(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        loop {
            let [byte] = self.take::<1>()?;
            value = value.checked_mul(128)? | u64::from(byte & 0x7f);
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
    }
}
