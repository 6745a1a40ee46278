//! Splits a stream into the pictures of MPEG-1 and MPEG-2 video (ISO/IEC 11172-2 §2.4, 13818-2
//! §6.2).

use std::collections::VecDeque;

use glassline_media::annexb::find_start_code;

use crate::FrameRate;
use crate::system_clock::stamp::CLOCK_RATE;

/// Longest picture with its headers, in bytes. The largest buffer of any level is 6 MB.
pub(super) const PICTURE_BYTES_MAX: usize = 16 << 20;

/// Most packets with parts of one picture: a thousand times what a real picture needs.
const PICTURE_PACKETS_MAX: usize = 1 << 16;

const PICTURE: u8 = 0x00;
const SLICE_FIRST: u8 = 0x01;
const SLICE_LAST: u8 = 0xaf;
const SEQUENCE: u8 = 0xb3;
const EXTENSION: u8 = 0xb5;
const SEQUENCE_END: u8 = 0xb7;
const GROUP: u8 = 0xb8;

/// Coding type of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Intra,
    Predicted,
    Bidirectional,
}

/// Fields of a sequence header and its extension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sequence {
    pub(super) width: u32,
    pub(super) height: u32,
    /// Frame rate as numerator and denominator.
    pub(super) rate: (u32, u32),
    /// Both headers as they are in the stream.
    pub(super) bytes: Vec<u8>,
}

impl Sequence {
    /// Returns the duration of a frame in ticks of 27 MHz.
    pub(super) fn frame(&self) -> i64 {
        let (numerator, denominator) = self.rate;
        CLOCK_RATE * i64::from(denominator) / i64::from(numerator)
    }

    pub(super) fn frame_rate(&self) -> Option<FrameRate> {
        FrameRate::new(self.rate.0.into(), self.rate.1.into())
    }
}

/// A picture with the headers before it.
#[derive(Debug)]
pub(super) struct Picture {
    pub(super) bytes: Vec<u8>,
    /// Location of the first byte.
    pub(super) origin: Origin,
    pub(super) stamps: Option<Stamps>,
    pub(super) kind: Kind,
    /// Temporal reference: the picture's position in output order since the group header.
    pub(super) temporal: i64,
    /// Whether the picture is one field of a frame.
    pub(super) field: bool,
    /// Whether the picture is presented for three field periods.
    pub(super) repeats: bool,
    pub(super) has_sequence: bool,
    /// Whether the group is closed, so that it can be decoded without earlier pictures; `None`
    /// if no group header precedes the picture.
    pub(super) group: Option<bool>,
}

/// Time stamps on the track's time, in ticks of 27 MHz.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamps {
    pub(super) presented: i64,
    pub(super) decoded: Option<i64>,
    /// Whether the stamps are the first since the clock jumped.
    pub(super) joins: bool,
}

/// Where reading must begin, and the bytes of pictures to skip from there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) offset: u64,
    pub(super) skip: u32,
}

/// Properties that hold from a position in the stream on.
#[derive(Clone, Copy, Debug)]
struct Mark {
    position: u64,
    /// Offset at which reading must begin, and the position of the first byte found there.
    offset: u64,
    begins: u64,
    stamps: Option<Stamps>,
}

/// Splits the bytes of one stream into pictures.
#[derive(Default)]
pub(super) struct Pictures {
    bytes: Vec<u8>,
    /// Position of the first byte of `bytes` in the stream.
    base: u64,
    /// Offset at which the search for start codes continues.
    scanned: usize,
    /// Whether a picture began in `bytes`.
    open: bool,
    marks: VecDeque<Mark>,
    /// Offset of the current pack, and the position of the first byte found there.
    pack: (u64, u64),
    /// Number of bytes that are still to be skipped.
    skip: usize,
    sequence: Option<Sequence>,
}

impl Pictures {
    /// Begins at `origin`, with the sequence header that holds there.
    pub(super) fn begin(origin: Origin, sequence: Option<Sequence>) -> Self {
        Self {
            skip: origin.skip as usize,
            sequence,
            ..Self::default()
        }
    }

    pub(super) fn sequence(&self) -> Option<&Sequence> {
        self.sequence.as_ref()
    }

    /// Notes that bytes from here on are found by a reader that begins at `offset`.
    pub(super) fn enter_pack(&mut self, offset: u64) {
        self.pack = (offset, self.end());
    }

    fn end(&self) -> u64 {
        self.base + self.bytes.len() as u64
    }

    /// Adds the next bytes. `stamps`: times of the first picture that begins in them.
    pub(super) fn push(&mut self, bytes: &[u8], stamps: Option<Stamps>) {
        let skipped = self.skip.min(bytes.len());
        self.skip -= skipped;
        if skipped > 0 && self.bytes.is_empty() {
            // The position is relative to the whole pack.
            self.base += skipped as u64;
        }
        // If part of a packet is skipped, its first picture may be skipped, too.
        let stamps = stamps.filter(|_| skipped == 0);
        let (offset, begins) = self.pack;
        self.marks.push_back(Mark {
            position: self.end(),
            offset,
            begins,
            stamps,
        });
        self.bytes.extend_from_slice(&bytes[skipped..]);
    }

    /// Adds `by` to the stamps of all pictures that are not complete yet.
    pub(super) fn shift_stamps(&mut self, by: i64) {
        let stamps = self
            .marks
            .iter_mut()
            .filter_map(|mark| mark.stamps.as_mut());
        for stamps in stamps {
            stamps.presented += by;
            stamps.decoded = stamps.decoded.map(|decoded| decoded + by);
        }
    }

    /// Returns whether more bytes are stored than any picture has.
    pub(super) fn is_overfull(&self) -> bool {
        self.bytes.len() > PICTURE_BYTES_MAX || self.marks.len() > PICTURE_PACKETS_MAX
    }

    /// Returns the next complete picture; with `last`, the remaining bytes count as complete.
    pub(super) fn next(&mut self, last: bool) -> Option<Picture> {
        while let Some(at) = find_start_code(&self.bytes[self.scanned..]) {
            let at = self.scanned + at;
            let Some(&code) = self.bytes.get(at + 3) else {
                break;
            };
            self.scanned = at + 3;
            let end = match code {
                PICTURE | SEQUENCE | GROUP if self.open => at,
                SEQUENCE_END => at + 4,
                PICTURE => {
                    self.open = true;
                    continue;
                }
                _ => continue,
            };
            let picture = self.cut(end);
            if code == PICTURE {
                self.open = true;
                self.scanned = 4;
            }
            if picture.is_some() {
                return picture;
            }
        }
        // The last bytes may begin a start code.
        self.scanned = self.scanned.max(self.bytes.len().saturating_sub(3));
        let left = last && !self.bytes.is_empty();
        left.then(|| self.cut(self.bytes.len())).flatten()
    }

    fn cut(&mut self, end: usize) -> Option<Picture> {
        let rest = self.bytes.split_off(end);
        let bytes = std::mem::replace(&mut self.bytes, rest);
        let position = self.base;
        self.base += end as u64;
        self.scanned = 0;
        self.open = false;
        let picture = self.read(bytes, position);
        while self
            .marks
            .get(1)
            .is_some_and(|next| next.position <= self.base)
        {
            self.marks.pop_front();
        }
        picture
    }

    /// Parses the headers; `None` without a picture that can be decoded.
    fn read(&mut self, bytes: Vec<u8>, position: u64) -> Option<Picture> {
        let mut headers = Headers::default();
        let mut at = 0;
        while let Some(found) = find_start_code(&bytes[at..]) {
            let code_at = at + found;
            at = code_at + 4;
            let Some((&code, fields)) = bytes[code_at + 3..].split_first() else {
                break;
            };
            if (SLICE_FIRST..=SLICE_LAST).contains(&code) {
                break;
            }
            headers.take(code, fields, code_at);
        }
        if let Some(sequence) = headers.sequence(&bytes) {
            self.sequence = Some(sequence);
        }
        let (kind, temporal, picture_at) = headers.picture?;
        self.sequence.as_ref()?;
        let stamps = self.take_stamps(position + picture_at as u64);
        let mark = self.mark_of(position)?;
        Some(Picture {
            origin: Origin {
                offset: mark.offset,
                skip: u32::try_from(position.saturating_sub(mark.begins)).unwrap_or(u32::MAX),
            },
            bytes,
            stamps,
            kind,
            temporal,
            field: headers.field,
            repeats: headers.repeats,
            has_sequence: headers.sequence_at.is_some(),
            group: headers.group,
        })
    }

    fn mark_of(&self, position: u64) -> Option<Mark> {
        let before = self.marks.iter().rev();
        let mut before = before.skip_while(|mark| mark.position > position);
        before.next().or(self.marks.front()).copied()
    }

    /// Returns the stamps at `position`; they belong to the first picture that begins in their
    /// packet.
    fn take_stamps(&mut self, position: u64) -> Option<Stamps> {
        let before = self.marks.iter_mut().rev();
        let mut before = before.skip_while(|mark| mark.position > position);
        before.next()?.stamps.take()
    }
}

/// Fields of a picture's headers so far.
#[derive(Default)]
struct Headers {
    sequence_at: Option<usize>,
    /// Offset behind the sequence header and its extensions.
    sequence_end: Option<usize>,
    width: u32,
    height: u32,
    rate: Option<(u32, u32)>,
    group: Option<bool>,
    picture: Option<(Kind, i64, usize)>,
    field: bool,
    repeats: bool,
}

/// Frame rates by `frame_rate_code` (table 6-4).
const RATES: [(u32, u32); 8] = [
    (24_000, 1001),
    (24, 1),
    (25, 1),
    (30_000, 1001),
    (30, 1),
    (50, 1),
    (60_000, 1001),
    (60, 1),
];

impl Headers {
    fn take(&mut self, code: u8, fields: &[u8], at: usize) {
        if self.sequence_at.is_some() && matches!(code, GROUP | PICTURE) {
            self.sequence_end.get_or_insert(at);
        }
        match (code, fields) {
            (SEQUENCE, &[a, b, c, d, ..]) => {
                self.sequence_at = Some(at);
                self.width = u32::from(a) << 4 | u32::from(b >> 4);
                self.height = u32::from(b & 15) << 8 | u32::from(c);
                self.rate = usize::from(d & 15)
                    .checked_sub(1)
                    .and_then(|place| RATES.get(place))
                    .copied();
            }
            (EXTENSION, &[a, b, c, _, _, f, ..]) if a >> 4 == 1 => {
                let [b, c, f] = [b, c, f].map(u32::from);
                self.width |= (b & 1) << 13 | (c >> 7) << 12;
                self.height |= (c >> 5 & 3) << 12;
                let rate = self.rate.map(|(numerator, denominator)| {
                    (numerator * ((f >> 5 & 3) + 1), denominator * ((f & 31) + 1))
                });
                self.rate = rate;
            }
            (EXTENSION, &[a, _, c, d, ..]) if a >> 4 == 8 => {
                self.field = c & 3 != 3;
                self.repeats = d & 2 != 0;
            }
            (GROUP, &[_, _, _, d, ..]) => self.group = Some(d & 0x40 != 0),
            (PICTURE, &[a, b, ..]) => {
                let kind = match b >> 3 & 7 {
                    1 | 4 => Kind::Intra,
                    3 => Kind::Bidirectional,
                    _ => Kind::Predicted,
                };
                let temporal = i64::from(a) << 2 | i64::from(b >> 6);
                self.picture.get_or_insert((kind, temporal, at));
            }
            _ => {}
        }
    }

    fn sequence(&self, bytes: &[u8]) -> Option<Sequence> {
        let end = self.sequence_end.unwrap_or(bytes.len());
        let bytes = bytes.get(self.sequence_at?..end)?;
        (self.width > 0 && self.height > 0).then_some(())?;
        Some(Sequence {
            width: self.width,
            height: self.height,
            rate: self.rate?,
            bytes: bytes.to_vec(),
        })
    }
}
