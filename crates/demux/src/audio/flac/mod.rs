//! FLAC files (RFC 9639), which are decoded: RTP has no payload format for FLAC in use, so the audio
//! becomes L16.
//!
//! ```text
//!  fLaC │ STREAMINFO │ other metadata │ frame │ frame │ …
//! ```
//!
//! A frame does not state its length. It ends where the next header begins, which has a checksum and
//! the number of the next sample. A frame whose own checksum is wrong is played as silence.

mod bits;
mod contained;
mod frame;

use std::ops::Range;
use std::sync::Arc;

use glassline_media::{Codec, MediaTime, PAYLOAD_BYTES_MAX, Track};

use crate::Data;
use crate::error::{Fault, Reason, WarningReason, Warnings};
use crate::length::Length;
use crate::reader::{Reader, Unit};
use crate::window::{Window, read_unit};
pub(crate) use contained::ContainedFlac;
use frame::{HEADER_BYTES_MAX, Header, StreamInfo};

/// Units per second: 20 ms each, or less.
const UNITS_PER_SECOND: u32 = 50;

/// Most frames of a file: 18 days of most encoders. Their index takes 400 MB.
const FRAMES_MAX: usize = 1 << 24;

/// Longest frame in bytes: 65,536 samples of 8 channels of 32 bits, and their headers.
const FRAME_BYTES_MAX: u64 = (1 << 21) + 64;

/// Most searches for frames, each of the whole file.
const SEARCHES_MAX: u64 = 8;

/// Most blocks of metadata; real files have a dozen.
const METADATA_MAX: usize = 4096;

/// Bytes that are searched for a frame at once.
const SEARCH_BYTES: usize = 16 * 1024;

/// A reader of the audio of a FLAC file.
pub(crate) struct Flac {
    data: Box<dyn Data>,
    index: Arc<Index>,
    tracks: [Track; 1],
    /// Samples of each channel before the next unit, gaps not counted.
    next: u64,
    /// Number of the frame that is decoded, and its samples.
    decoded: Option<(usize, Vec<u8>)>,
}

struct Index {
    info: StreamInfo,
    frames: Vec<Entry>,
    samples: u64,
}

/// A frame in the file.
#[derive(Clone, Copy, Debug)]
struct Entry {
    offset: u64,
    length: u32,
    samples: u32,
    /// Samples of the frames before.
    before: u64,
}

impl Flac {
    /// Reads the file's header, and finds all frames. `range`: the file without tags.
    pub(crate) fn open(
        mut window: Window,
        range: Range<u64>,
        warnings: &mut Warnings,
    ) -> Result<Self, Fault> {
        let (info, first) = metadata(&mut window, range.start)?;
        let index = Index::build(info, &mut window, first..range.end, warnings)?;
        Ok(Self {
            data: window.into_data(),
            tracks: [Track::audio(Codec::L16, info.channels).with_clock_rate(info.rate)],
            index: Arc::new(index),
            next: 0,
            decoded: None,
        })
    }

    /// Returns the frame that has this sample.
    fn frame_of(&self, sample: u64) -> Option<usize> {
        let before = |entry: &Entry| entry.before <= sample;
        let place = self.index.frames.partition_point(before).checked_sub(1)?;
        let entry = self.index.frames[place];
        (sample < entry.before + u64::from(entry.samples)).then_some(place)
    }

    /// Returns the samples of a frame.
    fn decode(&mut self, place: usize) -> Result<&[u8], Fault> {
        let known = self.decoded.take().filter(|(known, _)| *known == place);
        let samples = match known {
            Some((_, samples)) => samples,
            None => {
                let entry = self.index.frames[place];
                let bytes = read_unit(self.data.as_mut(), entry.offset, entry.length as usize)?;
                let info = &self.index.info;
                let silence = || vec![0; entry.samples as usize * 2 * usize::from(info.channels)];
                frame::decode(&bytes, info).unwrap_or_else(silence)
            }
        };
        let (_, samples) = self.decoded.insert((place, samples));
        Ok(samples)
    }
}

impl Reader for Flac {
    fn tracks(&self) -> &[Track] {
        &self.tracks
    }

    fn length(&self) -> Length {
        let samples = i64::try_from(self.index.samples).unwrap_or(i64::MAX);
        Length::from_ticks(samples, self.index.info.rate)
    }

    fn next_unit(&mut self) -> Result<Option<Unit>, Fault> {
        let Some(place) = self.frame_of(self.next) else {
            return Ok(None);
        };
        let (info, entry) = (self.index.info, self.index.frames[place]);
        let block = 2 * usize::from(info.channels);
        let inside = usize::try_from(self.next - entry.before).unwrap_or(0);
        let count = info.unit_samples().min(entry.samples as usize - inside);
        let samples = self.decode(place)?;
        let data = samples
            .get(inside * block..(inside + count) * block)
            .map(<[u8]>::to_vec);
        let start_ns = info.time_ns(self.next);
        self.next += count as u64;
        let end_ns = info.time_ns(self.next);
        // A frame whose header says another number of samples than when the file was indexed has
        // changed since.
        let data = data.ok_or_else(|| Fault::at(entry.offset, Reason::Shrunk))?;
        Ok(Some(Unit::in_turn(start_ns..end_ns, true, data)))
    }

    fn seek(&mut self, to_ns: i64) -> Result<(), Fault> {
        let sample = MediaTime::from_nanos(to_ns.max(0)).ticks(self.index.info.rate);
        let sample = u64::try_from(sample).unwrap_or(0);
        let unit = self.index.info.unit_samples() as u64;
        self.next = (sample - sample % unit).min(self.index.samples);
        Ok(())
    }

    fn fork(&self) -> Box<dyn Reader> {
        Box::new(Self {
            data: self.data.fork(),
            index: Arc::clone(&self.index),
            tracks: self.tracks.clone(),
            next: 0,
            decoded: None,
        })
    }
}

impl StreamInfo {
    /// Returns the samples of each channel in one unit, which fits a packet; at least one.
    fn unit_samples(&self) -> usize {
        let fit = PAYLOAD_BYTES_MAX / (2 * usize::from(self.channels));
        fit.min((self.rate / UNITS_PER_SECOND) as usize).max(1)
    }

    fn time_ns(&self, sample: u64) -> i64 {
        let sample = i64::try_from(sample).unwrap_or(i64::MAX);
        MediaTime::from_ticks(sample, self.rate).nanos()
    }
}

/// Reads the blocks of metadata; returns the description of the stream and where the frames begin.
fn metadata(window: &mut Window, start: u64) -> Result<(StreamInfo, u64), Fault> {
    const STREAM_INFO: u8 = 0;
    let damaged = |at, what| Fault::at(at, Reason::Damaged(what));
    if window.peek(start, 4)? != b"fLaC" {
        return Err(damaged(start, "there is no FLAC header"));
    }
    let (mut at, mut info) = (start + 4, None);
    for _ in 0..METADATA_MAX {
        let &[kind, a, b, c] = window.peek(at, 4)? else {
            break;
        };
        let length = u32::from_be_bytes([0, a, b, c]);
        if kind & 0x7f == STREAM_INFO {
            info = StreamInfo::parse(window.peek(at + 4, StreamInfo::BYTES)?);
        }
        at += 4 + u64::from(length);
        if kind & 0x80 != 0 {
            break;
        }
    }
    let info = info.ok_or_else(|| damaged(start, "the description of the stream is missing"))?;
    Ok((info, at))
}

impl Index {
    fn build(
        info: StreamInfo,
        window: &mut Window,
        range: Range<u64>,
        warnings: &mut Warnings,
    ) -> Result<Self, Fault> {
        let mut index = Self {
            info,
            frames: Vec::new(),
            samples: 0,
        };
        let mut next = find(&info, window, range.clone(), &|_| true)?;
        if let Some((begin, _)) = next
            && begin > range.start
        {
            warnings.add(
                Some(range.start),
                WarningReason::Skipped(begin - range.start),
            );
        }
        // Damaged headers are searched for twice; a file of nothing else must not be read forever.
        let file_bytes = range.end.saturating_sub(range.start);
        let mut budget = file_bytes.saturating_mul(SEARCHES_MAX);
        while let Some((begin, header)) = next {
            let search_end = range.end.min(begin + FRAME_BYTES_MAX.min(budget));
            let mut search = |wanted: &dyn Fn(&Header) -> bool| {
                let found = find(&info, window, begin + 1..search_end, wanted)?;
                let searched = found.map_or(search_end, |(at, _)| at) - begin;
                budget = budget.saturating_sub(searched);
                Ok::<_, Fault>(found)
            };
            // Coded audio may look like a header, but hardly like that of the next sample. Behind
            // damage the numbers may jump.
            let expected = header.first + u64::from(header.samples);
            next = search(&|it| it.first == expected)?;
            if next.is_none() {
                next = search(&|it| it.first > expected)?;
                if let Some((at, _)) = next {
                    warnings.add(Some(begin), WarningReason::Skipped(at - begin));
                }
            }
            let end = next.map_or(search_end, |(at, _)| at);
            index.add(begin, end, header.samples)?;
        }
        match index.frames.is_empty() {
            false => Ok(index),
            true => {
                let what = "it has no frames".to_owned();
                Err(Fault::at(range.start, Reason::NothingToPlay(what)))
            }
        }
    }

    fn add(&mut self, begin: u64, end: u64, samples: u32) -> Result<(), Fault> {
        if self.frames.len() == FRAMES_MAX {
            let limit = FRAMES_MAX as u64;
            return Err(Fault::too_large(
                begin,
                "a FLAC file",
                "it",
                limit,
                "frames",
            ));
        }
        self.frames.push(Entry {
            offset: begin,
            length: u32::try_from(end - begin).unwrap_or(u32::MAX),
            samples,
            before: self.samples,
        });
        self.samples += u64::from(samples);
        Ok(())
    }
}

/// Returns the first header in `range` that is `wanted`, and where it is.
fn find(
    info: &StreamInfo,
    window: &mut Window,
    range: Range<u64>,
    wanted: &dyn Fn(&Header) -> bool,
) -> Result<Option<(u64, Header)>, Fault> {
    let mut at = range.start;
    while at < range.end {
        let left = usize::try_from(range.end - at).unwrap_or(usize::MAX);
        let bytes = window.peek(at, SEARCH_BYTES.min(left))?;
        if bytes.is_empty() {
            break;
        }
        for (place, pair) in bytes.windows(2).enumerate() {
            if let [0xff, 0xf8 | 0xf9] = pair
                && let Some(header) = Header::parse(&bytes[place..], info)
                && wanted(&header)
            {
                return Ok(Some((at + place as u64, header)));
            }
        }
        if bytes.len() <= HEADER_BYTES_MAX {
            break;
        }
        // A header may lie across the end of what was searched.
        at += (bytes.len() - HEADER_BYTES_MAX) as u64;
    }
    Ok(None)
}
