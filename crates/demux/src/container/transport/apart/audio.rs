//! Audio in a transport stream: frames that state their own length.

use bytes::Bytes;
use glassline_media::MediaTime;

use super::places::Places;
use super::stamps::STAMP_RATE;
use super::units::FoundUnit;
use crate::audio::frames::{FrameHeader, StreamFormat, Syntax};
use crate::container::coding::{Coding, Described, Timing};

/// Most bytes that wait for the rest of a frame; the longest frame has 8 KiB.
const PENDING_BYTES_MAX: usize = 64 * 1024;

/// Finds the frames of one stream.
pub(super) struct AudioStream {
    syntax: Box<dyn Syntax + Send + Sync>,
    places: Places,
    /// Bytes that belong to no unit yet, and the position of the first in the stream.
    bytes: Vec<u8>,
    base: u64,
    format: Option<StreamFormat>,
    /// Time at which the next frame begins, and the samples since the last stamp.
    anchor: Option<(i64, i64)>,
    /// Whether the last frame ended at the next one.
    in_step: bool,
    has_ended: bool,
    /// Whether bytes were lost since the frame before.
    lost: bool,
    /// Number of bytes that belong to no frame.
    pub(super) skipped: u64,
}

impl AudioStream {
    pub(super) fn new(syntax: Box<dyn Syntax + Send + Sync>) -> Self {
        Self {
            syntax,
            places: Places::default(),
            bytes: Vec::new(),
            base: 0,
            format: None,
            anchor: None,
            in_step: false,
            has_ended: false,
            lost: false,
            skipped: 0,
        }
    }

    /// Returns the places of the bytes, to which those of the next part are added first.
    pub(super) fn places(&mut self) -> &mut Places {
        &mut self.places
    }

    /// Adds the next bytes, or ends the stream if there are none.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.has_ended = bytes.is_empty();
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() > PENDING_BYTES_MAX {
            self.skip(self.bytes.len() - PENDING_BYTES_MAX);
        }
    }

    /// Notes that bytes were lost here.
    pub(super) fn lose(&mut self) {
        self.base += self.bytes.len() as u64;
        self.bytes.clear();
        self.in_step = false;
        self.lost = true;
    }

    /// Returns the next complete frame.
    pub(super) fn next_unit(&mut self) -> Option<FoundUnit> {
        loop {
            let (at, frame) = self.find()?;
            self.skip(at);
            let (begin, end) = (usize::from(frame.header_bytes), usize::from(frame.bytes));
            let position = self.base + begin as u64;
            let stamps = self.places.take_stamps(self.base);
            let place = self.places.of(position);
            let data = Bytes::copy_from_slice(&self.bytes[begin..end]);
            self.bytes.drain(..end);
            self.base += end as u64;
            self.places.release(self.base);
            self.in_step = true;
            let format = *self.format.get_or_insert(frame.format);
            let start = self.start(stamps.map(|it| it.presented), &format);
            let Some(place) = place.filter(|_| end > begin) else {
                continue;
            };
            return Some(FoundUnit {
                place: place.code(),
                length: (end - begin) as u64,
                presented: start,
                decoded: start,
                samples: Some(format.samples),
                keyframe: true,
                after_loss: std::mem::take(&mut self.lost),
                bare: false,
                data,
            });
        }
    }

    /// Returns when the next frame begins, and counts it.
    fn start(&mut self, stated: Option<i64>, format: &StreamFormat) -> i64 {
        let ticks = |samples: i64| {
            MediaTime::from_ticks(samples, format.rate.max(1)).ticks(STAMP_RATE as u32)
        };
        let (anchor, samples) = match (stated, self.anchor) {
            (Some(stamp), _) => (stamp, 0),
            (None, Some(counted)) => counted,
            (None, None) => (0, 0),
        };
        self.anchor = Some((anchor, samples + i64::from(format.samples)));
        anchor + ticks(samples)
    }

    fn skip(&mut self, count: usize) {
        if count == 0 {
            return;
        }
        self.bytes.drain(..count);
        self.base += count as u64;
        self.skipped += count as u64;
        self.in_step = false;
    }

    /// Returns the first whole frame that waits, and how many bytes lie before it. Bytes in which
    /// none begins are skipped.
    fn find(&mut self) -> Option<(usize, FrameHeader)> {
        let head_bytes = self.syntax.head_bytes();
        let fits = |it: &FrameHeader| self.format.is_none_or(|format| format.fits(&it.format));
        let frame_at = |at: usize| self.syntax.frame(self.bytes.get(at..)?).filter(fits);
        let mut at = 0;
        let found = loop {
            if self.bytes.len() - at < head_bytes && !(self.has_ended && at < self.bytes.len()) {
                break None;
            }
            let Some(frame) = frame_at(at) else {
                at += 1;
                continue;
            };
            let end = at + usize::from(frame.bytes);
            if end > self.bytes.len() {
                // The rest of a frame may have been lost.
                if self.has_ended {
                    at += 1;
                    continue;
                }
                break None;
            }
            // Bytes that look like a header by chance have no header behind their frame.
            let is_sure = at == 0 && self.in_step || self.has_ended && end == self.bytes.len();
            if !is_sure {
                if self.bytes.len() - end < head_bytes && !self.has_ended {
                    break None;
                }
                if frame_at(end).is_none() {
                    at += 1;
                    continue;
                }
            }
            break Some(frame);
        };
        if found.is_none() {
            self.skip(at);
        }
        found.map(|frame| (at, frame))
    }

    /// Describes the track; `None` before its first frame.
    pub(super) fn describe(&self) -> Option<Described> {
        let format = self.format?;
        Some(Described {
            track: self.syntax.track(&format),
            coding: Coding::Plain(Vec::new()),
            sample_rate: format.rate,
            timing: Timing::Fixed(format.samples),
        })
    }
}
