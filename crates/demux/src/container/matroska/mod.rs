//! Matroska and WebM files (RFC 9559), which are trees of EBML elements (RFC 8794).
//!
//! This project has its own parser because an index needs the location of each frame in the
//! file, because errors name the byte, and because every length must be checked against the
//! file's own before it is used. The parser reads the file once and enters segments and
//! clusters without using their sizes, so unknown sizes do no harm. Cues are not needed, since
//! every block is seen. Behind a damaged place reading goes on at the next cluster.

mod block;
mod ebml;
mod tracks;

use crate::Data;
use crate::container::growing::Growing;
use crate::container::indexed_track::{IndexedTrackBuilder, Sample};
use crate::container::{Container, InOnePiece, Primed};
use crate::error::{Fault, Reason, WarningReason, Warnings};
use crate::window::Window;
use block::Block;
use ebml::{Element, id};
use tracks::PlayedTracks;

/// Most bytes of the description of all tracks; real ones have a few thousand.
const DESCRIPTION_BYTES_MAX: u64 = 16 << 20;

/// Bytes that are searched for a cluster at once.
const SEARCH_BYTES: usize = 16 * 1024;

/// Nanoseconds per tick, unless the file states another scale.
const SCALE_NS: u64 = 1_000_000;

/// Reads and indexes a file.
pub(crate) fn open(data: Box<dyn Data>, warnings: &mut Warnings) -> Result<Container, Fault> {
    let mut reading = Reading::new(Window::new(data)?);
    while reading.advance()? {}
    reading.finish(warnings)
}

/// The state of reading a file or a pipe.
pub(crate) struct Reading {
    window: Window,
    warnings: Warnings,
    /// Offset of the next element.
    at: u64,
    /// Nanoseconds of one tick (`TimestampScale`).
    scale_ns: u64,
    tracks: Option<PlayedTracks>,
    /// Time of the current cluster, in ticks.
    cluster: u64,
    /// Offset at which the segment ends according to its size.
    segment_end: Option<u64>,
    end: u64,
    /// Number of bytes that were skipped because of damage, and where the first ones are.
    skipped: u64,
    first_skipped: u64,
}

impl Growing for Reading {
    fn advance(&mut self) -> Result<bool, Fault> {
        let at = self.at;
        if at >= self.window.file_bytes() {
            return Ok(false);
        }
        match self.step(at) {
            Ok(Some(next)) => self.at = next,
            Ok(None) => return Ok(false),
            Err(fault) => match self.resume(&fault, at)? {
                Some(cluster) => self.at = cluster,
                None => return self.stop_at(fault).map(|()| false),
            },
        }
        Ok(true)
    }

    fn position(&self) -> u64 {
        self.at
    }

    fn window(&mut self) -> &mut Window {
        &mut self.window
    }

    fn builders(&mut self) -> Vec<&mut IndexedTrackBuilder> {
        let tracks = self.tracks.iter_mut().flat_map(PlayedTracks::iter_mut);
        tracks.map(|track| &mut track.builder).collect()
    }

    fn has_all_tracks(&self) -> bool {
        self.tracks.is_some()
    }

    fn states_decoding_times(&self) -> bool {
        false
    }

    fn take_warnings(&mut self) -> Warnings {
        self.warn_of_skipped();
        std::mem::take(&mut self.warnings)
    }

    fn into_window(self) -> Window {
        self.window
    }
}

impl Reading {
    pub(crate) fn new(window: Window) -> Self {
        Self {
            window,
            warnings: Warnings::default(),
            at: 0,
            scale_ns: SCALE_NS,
            tracks: None,
            cluster: 0,
            segment_end: None,
            end: 0,
            skipped: 0,
            first_skipped: 0,
        }
    }

    /// Reads the element at `at`. Returns where the next one begins; `None` at the end of what is
    /// played.
    fn step(&mut self, at: u64) -> Result<Option<u64>, Fault> {
        self.end = at;
        let Some(element) = self.element(at)? else {
            return Ok(None);
        };
        if element.id == id::EBML && at > 0 {
            let reason = WarningReason::OtherStream("a second file behind the first");
            self.warnings.add(Some(at), reason);
            return Ok(None);
        }
        if matches!(element.id, id::SEGMENT | id::CLUSTER) {
            if element.id == id::SEGMENT {
                self.segment_end = element.end();
            }
            return Ok(Some(element.body));
        }
        let Some(end) = element.end() else {
            let reason = "an element other than segment or cluster has no size";
            return Err(Fault::at(at, Reason::Damaged(reason)));
        };
        if end > self.window.file_bytes() {
            // A recording that was cut off has no cluster behind its last element.
            if self.tracks.is_some() && self.next_cluster(at)?.is_some() {
                let reason = "an element is longer than the file";
                return Err(Fault::at(at, Reason::Damaged(reason)));
            }
            self.truncated(at)?;
            return Ok(None);
        }
        if self.tracks.is_some() && !id::KNOWN.contains(&element.id) {
            self.check_unknown(at, end)?;
        }
        self.take(&element, end)?;
        Ok(Some(end))
    }

    /// Checks an element of unknown meaning, which may be damage: a known one follows it, or the
    /// end of the file.
    fn check_unknown(&mut self, at: u64, end: u64) -> Result<(), Fault> {
        let head = self.window.peek(end, Element::HEAD_BYTES_MAX)?;
        let follows = Element::parse(head, end).is_some_and(|next| id::KNOWN.contains(&next.id));
        match head.is_empty() || follows {
            true => Ok(()),
            false => {
                let reason = "no Matroska element begins here";
                Err(Fault::at(at, Reason::Damaged(reason)))
            }
        }
    }

    /// Returns where reading goes on behind damage at `at`; `None` if that is nowhere, or `fault` is
    /// no damage of the media.
    fn resume(&mut self, fault: &Fault, at: u64) -> Result<Option<u64>, Fault> {
        if self.tracks.is_none() || !matches!(fault.reason, Reason::Damaged(_)) {
            return Ok(None);
        }
        let next = self.next_cluster(at)?;
        if let Some(next) = next {
            self.skip(at, next);
        }
        Ok(next)
    }

    /// Ends reading at damage behind which no cluster follows: what was found before is played.
    fn stop_at(&mut self, fault: Fault) -> Result<(), Fault> {
        let has_media = self.tracks.as_ref().is_some_and(PlayedTracks::has_units);
        if !has_media || !matches!(fault.reason, Reason::Damaged(_)) {
            return Err(fault);
        }
        self.skip(self.end, self.window.file_bytes());
        Ok(())
    }

    fn skip(&mut self, from: u64, to: u64) {
        if self.skipped == 0 {
            self.first_skipped = from;
        }
        self.skipped += to - from;
    }

    /// Returns the offset of the first cluster behind `at` that begins with a known element.
    fn next_cluster(&mut self, at: u64) -> Result<Option<u64>, Fault> {
        let mut at = at + 1;
        loop {
            let bytes = self.window.peek(at, SEARCH_BYTES)?;
            if bytes.len() < 4 {
                return Ok(None);
            }
            let places = bytes.windows(4).enumerate();
            let name = id::CLUSTER.to_be_bytes();
            let places = places.filter(|(_, four)| *four == name);
            let places: Vec<u64> = places.map(|(place, _)| at + place as u64).collect();
            let read = bytes.len() as u64;
            for place in places {
                let head = self.window.peek(place, Element::HEAD_BYTES_MAX)?;
                let Some(cluster) = Element::parse(head, place) else {
                    continue;
                };
                let head = self.window.peek(cluster.body, Element::HEAD_BYTES_MAX)?;
                let first = Element::parse(head, cluster.body);
                if first.is_some_and(|first| id::KNOWN.contains(&first.id)) {
                    return Ok(Some(place));
                }
            }
            // A name may lie across the end of what was searched.
            at += read - 3;
        }
    }

    /// Returns the element that begins at `at`; `None` if the file ends within its header.
    fn element(&mut self, at: u64) -> Result<Option<Element>, Fault> {
        let head = self.window.peek(at, Element::HEAD_BYTES_MAX)?;
        let cut = head.len() < Element::HEAD_BYTES_MAX;
        match Element::parse(head, at) {
            Some(element) => Ok(Some(element)),
            None if cut && Element::may_continue(head) => {
                self.truncated(at)?;
                Ok(None)
            }
            None => {
                let reason = "no Matroska element begins here";
                Err(Fault::at(at, Reason::Damaged(reason)))
            }
        }
    }

    /// Handles an element that is longer than the file: the file was cut off, or the element's
    /// size is wrong.
    fn truncated(&mut self, at: u64) -> Result<(), Fault> {
        let whole = self.segment_end;
        if whole.is_some_and(|end| end <= self.window.file_bytes()) {
            let reason = "an element is longer than the file";
            return Err(Fault::at(at, Reason::Damaged(reason)));
        }
        self.warnings.add(Some(at), WarningReason::Truncated);
        Ok(())
    }

    fn take(&mut self, element: &Element, end: u64) -> Result<(), Fault> {
        match element.id {
            id::INFO => {
                let body = self.description(element)?;
                for (child, body) in ebml::children(&body) {
                    if child == id::TIMESTAMP_SCALE {
                        self.scale_ns = ebml::unsigned(body).clamp(1, 1_000_000_000);
                    }
                }
            }
            id::TRACKS if self.tracks.is_none() => {
                let body = self.description(element)?;
                let tracks =
                    PlayedTracks::read(&body, element.body, self.scale_ns, &mut self.warnings)?;
                self.tracks = Some(tracks);
            }
            id::TIMESTAMP => {
                self.cluster = ebml::unsigned(self.window.peek(element.body, 8)?);
                if element.size.is_some_and(|size| size < 8) {
                    let size = usize::try_from(element.size.unwrap_or(0)).unwrap_or(8);
                    self.cluster = ebml::unsigned(self.window.peek(element.body, size)?);
                }
            }
            id::SIMPLE_BLOCK => {
                let block = Block::simple(&mut self.window, element.body, end)?;
                self.take_block(&block)?;
            }
            id::BLOCK_GROUP => {
                if let Some(block) = Block::group(&mut self.window, element.body, end)? {
                    self.take_block(&block)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Reads the body of an element of limited size into memory.
    fn description(&mut self, element: &Element) -> Result<Vec<u8>, Fault> {
        let size = element.size.unwrap_or(u64::MAX);
        if size > DESCRIPTION_BYTES_MAX {
            let (what, limit) = ("the description of the tracks", DESCRIPTION_BYTES_MAX);
            let fault = Fault::too_large(element.body, "a Matroska file", what, limit, "bytes");
            return Err(fault);
        }
        let size = usize::try_from(size).unwrap_or(0);
        self.window.load(element.body, size)
    }

    fn take_block(&mut self, block: &Block) -> Result<(), Fault> {
        let Some(tracks) = &mut self.tracks else {
            let reason = "a block comes before the description of the tracks";
            return Err(Fault::at(block.offset, Reason::Damaged(reason)));
        };
        let Some(track) = tracks.by_number(block.track) else {
            return Ok(());
        };
        let ns = |ticks: i128| {
            let ns = ticks * i128::from(self.scale_ns);
            i64::try_from(ns).unwrap_or(if ns < 0 { i64::MIN } else { i64::MAX })
        };
        let ticks = i128::from(self.cluster) + i128::from(block.relative);
        let count = i128::try_from(block.frames.len()).unwrap_or(1).max(1);
        let lasts = block.duration.map(|ticks| ns(i128::from(ticks) / count));
        let duration_ns = lasts.or(track.default_duration_ns);
        let mut start_ns = ns(ticks).saturating_sub(track.delay_ns);
        for &(offset, length) in &block.frames {
            let sample = Sample {
                offset,
                length,
                start_ns,
                decode_ns: None,
                duration_ns,
                keyframe: block.keyframe,
            };
            start_ns = track.builder.push(sample, &mut self.window)?;
        }
        track.builder.trimmed_ns = block.discarded_ns;
        Ok(())
    }

    fn warn_of_skipped(&mut self) {
        if self.skipped > 0 {
            let reason = WarningReason::Skipped(self.skipped);
            self.warnings.add(Some(self.first_skipped), reason);
        }
    }

    fn finish(mut self, warnings: &mut Warnings) -> Result<Container, Fault> {
        self.warn_of_skipped();
        warnings.append(&mut self.warnings);
        let Some(tracks) = self.tracks else {
            let reason = "the file ends before the description of its tracks";
            return Err(Fault::at(self.end, Reason::Damaged(reason)));
        };
        let mut primed = Vec::new();
        for track in tracks.into_iter() {
            let priming_ns = track.delay_ns;
            if let Some(indexed) = IndexedTrackBuilder::finish(track.builder, false, warnings) {
                primed.push(Primed {
                    indexed,
                    priming_ns,
                });
            }
        }
        Container::new(Box::new(InOnePiece(self.window.into_data())), primed)
    }
}
