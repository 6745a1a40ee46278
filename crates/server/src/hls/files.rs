//! The bytes of a rendition: initializations, parts, and segments, which are their parts one behind the
//! other.

use std::collections::VecDeque;

use bytes::Bytes;
use glassline_hls::Pushed;

/// Segments that are kept after they have left the playlist: clients may be about to ask for them.
const KEPT_BEHIND: u64 = 2;

/// A file as pieces that are sent one behind the other.
pub(super) type Pieces = Vec<Bytes>;

/// The files of one rendition, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Files {
    headers: VecDeque<HeaderFile>,
    segments: VecDeque<SegmentFile>,
    bytes: usize,
}

#[derive(Debug)]
struct HeaderFile {
    number: u64,
    bytes: Bytes,
}

#[derive(Debug)]
struct SegmentFile {
    number: u64,
    /// Number of the initialization.
    header: u64,
    /// Whether its only part has no name.
    undivided: bool,
    parts: Vec<PartFile>,
}

#[derive(Debug)]
struct PartFile {
    number: u64,
    bytes: Bytes,
}

impl Files {
    /// Adds the initialization of segments that begin from now on.
    pub(super) fn push_header(&mut self, number: u64, bytes: Bytes) {
        self.bytes += bytes.len();
        self.headers.push_back(HeaderFile { number, bytes });
    }

    /// Adds a part to its segment, which it may begin.
    pub(super) fn push_part(&mut self, pushed: Pushed, bytes: Bytes) {
        self.bytes += bytes.len();
        let is_of = |it: &SegmentFile| it.number == pushed.segment;
        if !self.segments.back().is_some_and(is_of) {
            self.segments.push_back(SegmentFile {
                number: pushed.segment,
                header: self.headers.back().map_or(0, |it| it.number),
                undivided: pushed.undivided,
                parts: Vec::new(),
            });
        }
        if let Some(last) = self.segments.back_mut() {
            last.parts.push(PartFile {
                number: pushed.part,
                bytes,
            });
        }
    }

    /// Drops what a playlist that begins with the segment called `first` needs no more.
    pub(super) fn trim(&mut self, first: u64) {
        while self
            .segments
            .front()
            .is_some_and(|it| it.number + KEPT_BEHIND < first)
        {
            let dropped = self.segments.pop_front();
            self.bytes -= dropped.map_or(0, |it| it.byte_count());
        }
        let needed = self.segments.front().map_or(0, |it| it.header);
        while self.headers.len() > 1 && self.headers[0].number < needed {
            let dropped = self.headers.pop_front();
            self.bytes -= dropped.map_or(0, |it| it.bytes.len());
        }
    }

    /// Returns the bytes of all files.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn header(&self, number: u64) -> Option<Pieces> {
        let found = self.headers.iter().find(|it| it.number == number)?;
        Some(vec![found.bytes.clone()])
    }

    /// Returns the whole segment called `number`; `None` if it is gone, or not complete.
    pub(super) fn segment(&self, number: u64) -> Option<Pieces> {
        let place = self.place(|it| it.number.cmp(&number))?;
        let is_complete = place + 1 < self.segments.len();
        let parts = self.segments[place].parts.iter();
        is_complete.then(|| parts.map(|it| it.bytes.clone()).collect())
    }

    /// Returns the part called `number`.
    pub(super) fn part(&self, number: u64) -> Option<Pieces> {
        let place = self.place(|it| {
            let last = it.parts.last().map_or(0, |it| it.number);
            let first = it.parts.first().map_or(0, |it| it.number);
            match number {
                _ if number < first => std::cmp::Ordering::Greater,
                _ if number > last || it.undivided => std::cmp::Ordering::Less,
                _ => std::cmp::Ordering::Equal,
            }
        })?;
        let parts = &self.segments[place].parts;
        let found = parts.binary_search_by_key(&number, |it| it.number).ok()?;
        Some(vec![parts[found].bytes.clone()])
    }

    fn place(&self, compared: impl FnMut(&SegmentFile) -> std::cmp::Ordering) -> Option<usize> {
        self.segments.binary_search_by(compared).ok()
    }
}

impl SegmentFile {
    fn byte_count(&self) -> usize {
        self.parts.iter().map(|it| it.bytes.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pushed(segment: u64, part: u64) -> Pushed {
        Pushed {
            segment,
            part,
            undivided: false,
            begins_segment: false,
        }
    }

    fn files() -> Files {
        let mut files = Files::default();
        files.push_header(1, Bytes::from_static(b"one"));
        for segment in 10..20 {
            if segment == 15 {
                files.push_header(2, Bytes::from_static(b"two"));
            }
            for part in 0..4 {
                let number = segment * 4 + part;
                let bytes = Bytes::from(format!("{number},"));
                files.push_part(pushed(segment, number), bytes);
            }
        }
        files
    }

    fn text(pieces: Option<Pieces>) -> Option<String> {
        let bytes = pieces?.concat();
        Some(String::from_utf8(bytes).expect("text"))
    }

    #[test]
    fn a_segment_is_its_parts_and_complete_once_another_begins() {
        let files = files();
        assert_eq!(text(files.part(41)).as_deref(), Some("41,"));
        assert_eq!(text(files.segment(10)).as_deref(), Some("40,41,42,43,"));
        assert_eq!(text(files.part(79)).as_deref(), Some("79,"));
        assert_eq!(text(files.segment(19)), None);
        assert_eq!(text(files.part(80)), None);
        assert_eq!(text(files.header(1)).as_deref(), Some("one"));
    }

    #[test]
    fn the_number_of_an_undivided_segment_is_that_of_the_part_behind_it() {
        let mut files = files();
        let whole = Pushed {
            undivided: true,
            ..pushed(20, 80)
        };
        files.push_part(whole, Bytes::from_static(b"long"));
        assert_eq!(text(files.part(80)), None);
        files.push_part(pushed(21, 80), Bytes::from_static(b"short"));
        assert_eq!(text(files.part(80)).as_deref(), Some("short"));
        assert_eq!(text(files.segment(20)).as_deref(), Some("long"));
        for number in 40..80 {
            assert_eq!(text(files.part(number)), Some(format!("{number},")));
        }
    }

    #[test]
    fn what_the_playlist_needs_no_more_is_dropped_a_little_later() {
        let mut files = files();
        files.trim(17);
        assert_eq!(text(files.segment(14)), None);
        assert!(files.segment(15).is_some());
        assert_eq!(text(files.header(1)), None);
        assert!(files.header(2).is_some());
        assert_eq!(files.bytes(), 5 * 4 * 3 + 3);
    }
}
