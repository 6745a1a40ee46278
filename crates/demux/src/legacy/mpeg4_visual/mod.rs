//! A file of MPEG-4 visual without a container (ISO/IEC 14496-2), read one picture at a time by
//! an index, each with the headers before it.

mod headers;
mod index;
mod timeline;

use std::sync::Arc;

use bytes::Bytes;
use glassline_media::{Track, TrackIndex};

use crate::error::{Fault, Warnings};
use crate::length::Length;
use crate::reader::{Reader, Unit};
use crate::window::read_unit;
use crate::{Data, FrameRate};

use headers::Kind;
use index::{Index, Indexer};

/// A reader of the pictures of a file, in decoding order.
pub(crate) struct Mpeg4Visual {
    data: Box<dyn Data>,
    index: Arc<Index>,
    tracks: [Track; 1],
    next: usize,
    /// The last reference picture that was handed out.
    anchor: Option<usize>,
    /// Pictures before this tick are dropped: they refer to a picture before the start of
    /// reading.
    from: i64,
}

impl Mpeg4Visual {
    /// Reads the file once and indexes its pictures.
    pub(crate) fn open(mut data: Box<dyn Data>, warnings: &mut Warnings) -> Result<Self, Fault> {
        let mut index = Indexer::new(warnings).run(&mut data)?;
        let configs = std::mem::take(&mut index.places);
        let configs = configs.iter().map(|&(offset, bytes)| {
            let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
            read_unit(&mut data, offset, bytes)
        });
        index.found.configs = configs.collect::<Result<_, _>>()?;
        let index = index.found;
        Ok(Self {
            data,
            tracks: [index.track()],
            index: Arc::new(index),
            next: 0,
            anchor: None,
            from: i64::MIN,
        })
    }
}

impl Reader for Mpeg4Visual {
    fn tracks(&self) -> &[Track] {
        &self.tracks
    }

    fn length(&self) -> Length {
        Length::from_ticks(self.index.length, self.index.layer.resolution.into())
    }

    fn frame_rate(&self) -> Option<FrameRate> {
        let ticks = u64::try_from(self.index.steady?).ok()?;
        FrameRate::new(self.index.layer.resolution.into(), ticks)
    }

    fn next_unit(&mut self) -> Result<Option<Unit>, Fault> {
        let index = &self.index;
        let place = loop {
            match index.entries.get(self.next) {
                Some(entry) if entry.time < self.from => self.next += 1,
                Some(_) => break self.next,
                None => return Ok(None),
            }
        };
        let entry = index.entries[place];
        let length = usize::try_from(entry.length).unwrap_or(usize::MAX);
        let mut data = read_unit(&mut self.data, entry.offset, length)?;
        if let Some(config) = usize::from(entry.config).checked_sub(1) {
            data.splice(..0, index.configs[config].iter().copied());
        }
        let end = index.end_of(place, self.anchor);
        let decode = index.decode_time(place, self.anchor);
        let end_ns = index.nanos(end);
        let unit = Unit {
            track: TrackIndex(0),
            start_ns: index.nanos(entry.time),
            end_ns,
            busy_ns: end_ns,
            decode_ns: index.nanos(decode),
            keyframe: entry.kind == Kind::Intra,
            data: Bytes::from(data),
        };
        if entry.kind != Kind::Bidirectional {
            self.anchor = Some(place);
        }
        self.next += 1;
        Ok(Some(unit))
    }

    fn seek(&mut self, to_ns: i64) -> Result<(), Fault> {
        let index = &self.index;
        let found = index.keyframes_until(to_ns).last();
        self.next = found.map_or(0, |&place| place as usize);
        self.from = index.entries.get(self.next).map_or(0, |entry| entry.time);
        // Only the time of this picture is used, at which the keyframe is decoded.
        let mut before = index.entries[..self.next].iter();
        self.anchor = before.rposition(|entry| entry.kind != Kind::Bidirectional);
        Ok(())
    }

    fn keyframe_at_or_before(&self, at_ns: i64) -> Option<i64> {
        let found = self.index.keyframes_until(at_ns).last();
        found.map(|&place| self.index.start_ns(place))
    }

    fn keyframe_after(&self, at_ns: i64) -> Option<i64> {
        let before = self.index.keyframes_until(at_ns).len();
        let next = self.index.keyframes.get(before);
        next.map(|&place| self.index.start_ns(place))
    }

    fn fork(&self) -> Box<dyn Reader> {
        Box::new(Self {
            data: self.data.fork(),
            index: Arc::clone(&self.index),
            tracks: self.tracks.clone(),
            next: 0,
            anchor: None,
            from: i64::MIN,
        })
    }
}
