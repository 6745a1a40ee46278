//! The index of a file of MPEG-4 visual, built in one pass: location and time of each picture.

use std::ops::Range;

use glassline_media::annexb::START_CODE;
use glassline_media::{Codec, MediaTime, Track, VideoParameters};

use super::headers::{self, Kind, Layer, Picture, code};
use super::timeline::{PictureTime, Timeline};
use crate::elementary::annexb::{Scanner, Span};
use crate::error::{Fault, Reason, WarningReason, Warnings};
use crate::{Data, parameters};

/// Longest picture with its headers, in bytes.
const UNIT_BYTES_MAX: u64 = 16 << 20;

/// Most pictures of one file: 3 days at 30 per second. Their index takes 192 MB.
const UNITS_MAX: usize = 1 << 23;

/// Longest headers that a decoder needs first, in bytes. Real ones have fewer than 100.
const CONFIG_BYTES_MAX: u64 = 4096;

/// Most different headers of one file.
const CONFIGS_MAX: usize = 256;

/// Most bytes before the first start code.
const LEADING_BYTES_MAX: u64 = 1 << 20;

const EXPECTED: &str = "an MPEG-4 visual file";

pub(super) struct Index {
    pub(super) entries: Vec<Entry>,
    /// Positions of the keyframes among the entries.
    pub(super) keyframes: Vec<u32>,
    pub(super) configs: Vec<Vec<u8>>,
    pub(super) layer: Layer,
    /// Length of one pass, in ticks.
    pub(super) length: i64,
    /// Ticks of each picture, if all last equally long.
    pub(super) steady: Option<i64>,
    pub(super) reordered: bool,
}

/// Location and time of a picture, in 24 bytes.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) offset: u64,
    /// Presentation time since the start, in ticks.
    pub(super) time: i64,
    pub(super) length: u32,
    /// Index of the headers to insert before the picture, plus one; 0 for none.
    pub(super) config: u16,
    pub(super) kind: Kind,
}

impl Index {
    pub(super) fn nanos(&self, ticks: i64) -> i64 {
        MediaTime::from_ticks(ticks, self.layer.resolution.into()).nanos()
    }

    pub(super) fn start_ns(&self, place: u32) -> i64 {
        self.nanos(self.entries[place as usize].time)
    }

    /// Returns the keyframes that are presented at `at_ns` or before.
    pub(super) fn keyframes_until(&self, at_ns: i64) -> &[u32] {
        let early = |place: &u32| self.start_ns(*place) <= at_ns;
        &self.keyframes[..self.keyframes.partition_point(early)]
    }

    /// Returns when the presentation of the picture at `place` ends. `anchor`: the last
    /// reference picture before it.
    pub(super) fn end_of(&self, place: usize, anchor: Option<usize>) -> i64 {
        let is_between = |entry: &Entry| entry.kind == Kind::Bidirectional;
        let after = &self.entries[place + 1..];
        let following = if is_between(&self.entries[place]) {
            // B-pictures between two reference pictures are presented in decoding order, then
            // the second reference picture.
            let next = after.first().filter(|entry| is_between(entry));
            next.or(anchor.map(|anchor| &self.entries[anchor]))
        } else {
            // The pictures between this one and the next reference picture come first.
            let next = after.iter().position(|entry| !is_between(entry));
            next.map(|next| match after.get(next + 1) {
                Some(between) if is_between(between) => between,
                _ => &after[next],
            })
        };
        following.map_or(self.length, |entry| entry.time)
    }

    /// Returns when the picture at `place` is decoded: a reference picture is decoded at the
    /// presentation time of the reference picture before it.
    pub(super) fn decode_time(&self, place: usize, anchor: Option<usize>) -> i64 {
        let entry = &self.entries[place];
        if !self.reordered || entry.kind == Kind::Bidirectional {
            return entry.time;
        }
        match anchor {
            Some(anchor) => self.entries[anchor].time,
            None => entry.time - self.steady.unwrap_or(1),
        }
    }

    pub(super) fn track(&self) -> Track {
        let video = VideoParameters {
            width: self.layer.width,
            height: self.layer.height,
            reordered: self.reordered,
            ..VideoParameters::default()
        };
        let config = self.configs.first().map_or(&[][..], Vec::as_slice);
        let track = Track::new(Codec::Mpeg4Visual);
        let track = track.with_format_parameters(parameters::mpeg4_visual(config));
        Track { video, ..track }
    }
}

/// Result of the pass through the file.
pub(super) struct Indexed {
    pub(super) found: Index,
    /// Offset and length in bytes of each header, which must still be read.
    pub(super) places: Vec<(u64, u64)>,
}

/// Builds the index while the file is read.
pub(super) struct Indexer<'w> {
    warnings: &'w mut Warnings,
    entries: Vec<Entry>,
    keyframes: Vec<u32>,
    /// Headers that a decoder needs first: their first bytes, and their location.
    configs: Vec<(Vec<u8>, (u64, u64))>,
    /// The current layer, and the timeline that it began.
    layer: Option<Layer>,
    timeline: Option<Timeline>,
    unit: Pending,
    skipped: u64,
    skipped_at: u64,
    reordered: bool,
    /// Offset of a picture with an incomplete header; at the end of a file this means that the
    /// file is cut.
    doubtful: Option<u64>,
}

/// Headers whose picture has not come yet.
#[derive(Default)]
struct Pending {
    offset: Option<u64>,
    /// First bytes of the headers that a decoder needs.
    config: Vec<u8>,
    /// Location of these headers.
    config_range: Option<Range<u64>>,
    has_layer: bool,
}

impl<'w> Indexer<'w> {
    pub(super) fn new(warnings: &'w mut Warnings) -> Self {
        Self {
            warnings,
            entries: Vec::new(),
            keyframes: Vec::new(),
            configs: Vec::new(),
            layer: None,
            timeline: None,
            unit: Pending::default(),
            skipped: 0,
            skipped_at: 0,
            reordered: false,
            doubtful: None,
        }
    }

    pub(super) fn run(mut self, data: &mut dyn Data) -> Result<Indexed, Fault> {
        data.rewind().map_err(|e| Fault::at(0, Reason::Read(e)))?;
        let mut scanner = Scanner::new(data, |_| false);
        loop {
            let at = scanner.read_bytes();
            let failed = |error| Fault::at(at, Reason::Read(error));
            let Some((span, head)) = scanner.next_nal().map_err(failed)? else {
                break;
            };
            self.take(span, head)?;
            let leading = scanner.leading_bytes();
            if leading > LEADING_BYTES_MAX {
                return Err(no_start_code(LEADING_BYTES_MAX));
            }
            if leading > 0 && self.entries.is_empty() {
                self.warnings.add(Some(0), WarningReason::Skipped(leading));
            }
        }
        let searched = scanner.read_bytes();
        self.finish(searched)
    }

    /// Reads the bytes behind one start code.
    fn take(&mut self, span: Span, head: &[u8]) -> Result<(), Fault> {
        if let Some(at) = self.doubtful.take() {
            let reason = Reason::Damaged("the header of a picture is incomplete");
            return Err(Fault::at(at, reason));
        }
        // The number of the first object is zero, which the scanner takes for a zero byte
        // before the next start code.
        let (&code, fields) = head.split_first().unwrap_or((&0, &[]));
        self.unit.offset.get_or_insert(span.code);
        match code {
            code::SEQUENCE | code::VISUAL_OBJECT | 0..=code::VIDEO_OBJECT_LAST => {
                self.unit.add_config(span, head);
            }
            code::LAYER..=code::LAYER_LAST => {
                self.unit.add_config(span, head);
                self.unit.has_layer = true;
                self.begin_layer(span, fields)?;
            }
            code::GROUP => {
                if let (Some(timeline), Some(at)) =
                    (self.timeline.as_mut(), headers::group_seconds(fields))
                {
                    timeline.group(at);
                }
            }
            code::PICTURE => self.take_picture(span, fields)?,
            // User data follows the headers that it belongs to.
            _ => self.unit.extend_config(span),
        }
        Ok(())
    }

    fn begin_layer(&mut self, span: Span, fields: &[u8]) -> Result<(), Fault> {
        let at = span.start - START_CODE.len() as u64;
        let layer = Layer::parse(fields).map_err(|reason| Fault::at(at, reason))?;
        let known = *self.layer.get_or_insert(layer);
        if self.timeline.is_none() {
            self.timeline = Some(Timeline::new(&layer));
        }
        let facts = |layer: Layer| (layer.resolution, layer.width, layer.height);
        if facts(known) != facts(layer) {
            let text = |layer: Layer| {
                let (resolution, width, height) = facts(layer);
                format!("video of {width} × {height} and {resolution} ticks a second")
            };
            let (from, to) = (text(known), text(layer));
            return Err(Fault::at(at, Reason::Changes { from, to }));
        }
        Ok(())
    }

    fn take_picture(&mut self, span: Span, fields: &[u8]) -> Result<(), Fault> {
        let unit = std::mem::take(&mut self.unit);
        let offset = unit.offset.unwrap_or(span.code);
        let config = self.config_of(&unit)?;
        let (Some(layer), Some(timeline)) = (&self.layer, self.timeline.as_mut()) else {
            self.skip(offset);
            return Ok(());
        };
        let Some(picture) = Picture::parse(fields, layer) else {
            self.doubtful = Some(span.code);
            return Ok(());
        };
        if self.keyframes.is_empty() && picture.kind != Kind::Intra {
            self.skip(offset);
            return Ok(());
        }
        let time = match timeline.time_of(&picture) {
            PictureTime::Stated(time) => time,
            PictureTime::Corrected(time) => {
                self.warnings.add(Some(offset), WarningReason::TimeJump);
                time
            }
            PictureTime::Missing => {
                if picture.coded {
                    self.warnings
                        .add(Some(offset), WarningReason::FrameOutOfTime);
                }
                return Ok(());
            }
        };
        self.reordered |= picture.kind == Kind::Bidirectional;
        let keyframe = picture.kind == Kind::Intra;
        self.push(Entry {
            offset,
            time,
            length: unit_bytes(offset, span.end)?,
            config: if keyframe && !unit.has_layer {
                config
            } else {
                0
            },
            kind: picture.kind,
        })
    }

    /// Returns the index of the current headers, plus one. Headers in `unit` become the current
    /// ones.
    fn config_of(&mut self, unit: &Pending) -> Result<u16, Fault> {
        let same = |(bytes, _): &(Vec<u8>, _)| *bytes == unit.config;
        let range = unit.config_range.clone().filter(|_| unit.has_layer);
        if let Some(range) = range.filter(|_| !self.configs.last().is_some_and(same)) {
            let length = range.end - range.start;
            if length > CONFIG_BYTES_MAX {
                let what = "the headers before the first picture";
                return Err(too_large(range.start, what, CONFIG_BYTES_MAX, "bytes"));
            }
            if self.configs.len() == CONFIGS_MAX {
                let what = "the number of different headers";
                return Err(too_large(range.start, what, CONFIGS_MAX as u64, ""));
            }
            let config = (unit.config.clone(), (range.start, length));
            self.configs.push(config);
        }
        Ok(u16::try_from(self.configs.len()).unwrap_or(0))
    }

    fn push(&mut self, entry: Entry) -> Result<(), Fault> {
        if self.entries.len() == UNITS_MAX {
            let limit = UNITS_MAX as u64;
            return Err(too_large(entry.offset, "the file", limit, "pictures"));
        }
        if entry.kind == Kind::Intra {
            let place = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
            self.keyframes.push(place);
        }
        self.entries.push(entry);
        Ok(())
    }

    /// Counts a picture before the first one at which a decoder can start.
    fn skip(&mut self, offset: u64) {
        if self.skipped == 0 {
            self.skipped_at = offset;
        }
        self.skipped += 1;
    }

    fn finish(self, searched: u64) -> Result<Indexed, Fault> {
        if let Some(at) = self.doubtful {
            self.warnings.add(Some(at), WarningReason::TruncatedUnit);
        }
        if self.skipped > 0 {
            let reason = WarningReason::BeforeKeyframe(self.skipped);
            self.warnings.add(Some(self.skipped_at), reason);
        }
        let (Some(layer), Some(timeline)) = (self.layer, self.timeline) else {
            return Err(match self.skipped + u64::from(self.unit.offset.is_some()) {
                0 => no_start_code(searched),
                _ => Fault::whole(Reason::NoKeyframe(
                    "there is no video object layer header, so no decoder could start",
                )),
            });
        };
        if self.entries.is_empty() {
            let reason = match self.skipped {
                0 => "it holds no picture",
                _ => "no intra picture, so no decoder could start",
            };
            return Err(Fault::whole(Reason::NoKeyframe(reason)));
        }
        let (length, steady) = timeline.end();
        Ok(Indexed {
            found: Index {
                entries: self.entries,
                keyframes: self.keyframes,
                configs: Vec::new(),
                layer,
                length,
                steady,
                reordered: self.reordered,
            },
            places: self.configs.iter().map(|(_, place)| *place).collect(),
        })
    }
}

impl Pending {
    fn add_config(&mut self, span: Span, head: &[u8]) {
        // Many headers without a picture do not belong to this format.
        let room = (CONFIG_BYTES_MAX as usize).saturating_sub(self.config.len());
        let bytes = head.len().min(room);
        self.config.extend_from_slice(&head[..bytes]);
        self.config_range.get_or_insert(span.code..span.end).end = span.end;
    }

    fn extend_config(&mut self, span: Span) {
        if let Some(range) = &mut self.config_range {
            range.end = span.end;
        }
    }
}

fn unit_bytes(offset: u64, end: u64) -> Result<u32, Fault> {
    match u32::try_from(end - offset) {
        Ok(bytes) if u64::from(bytes) <= UNIT_BYTES_MAX => Ok(bytes),
        _ => Err(too_large(offset, "a picture", UNIT_BYTES_MAX, "bytes")),
    }
}

fn no_start_code(searched: u64) -> Fault {
    let expected = "MPEG-4 visual start code (00 00 01)";
    Fault::at(0, Reason::NoFrame { expected, searched })
}

fn too_large(offset: u64, what: &'static str, limit: u64, unit: &'static str) -> Fault {
    Fault::too_large(offset, EXPECTED, what, limit, unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_its_bound_and_no_more() {
        let most = UNIT_BYTES_MAX;
        assert_eq!(unit_bytes(7, 7 + most).ok().map(u64::from), Some(most));
        assert!(unit_bytes(7, 8 + most).is_err());
        assert!(unit_bytes(7, 8 + (1 << 32)).is_err());
    }
}
