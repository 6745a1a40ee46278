//! Matroska and WebM files (RFC 9559), which are trees of EBML elements (RFC 8794).
//!
//! This project has its own parser because an index needs the location of each frame in the
//! file, because errors name the byte, and because every length must be checked against the
//! file's own before it is used. The parser reads the file once and enters segments and
//! clusters without using their sizes, so unknown sizes do no harm. Cues are not needed, since
//! every block is seen.

mod block;
mod ebml;
mod tracks;

use crate::Data;
use crate::container::indexed_track::{IndexedTrackBuilder, Sample};
use crate::container::{Container, InOnePiece, Primed};
use crate::error::{Fault, Reason, WarningReason, Warnings};
use crate::window::Window;
use block::Block;
use ebml::{Element, id};
use tracks::PlayedTracks;

/// Most bytes of the description of all tracks; real ones have a few thousand.
const DESCRIPTION_BYTES_MAX: u64 = 16 << 20;

/// Nanoseconds per tick, unless the file states another scale.
const SCALE_NS: u64 = 1_000_000;

/// Reads and indexes a file.
pub(crate) fn open(data: Box<dyn Data>, warnings: &mut Warnings) -> Result<Container, Fault> {
    let mut reading = Reading {
        window: Window::new(data)?,
        warnings,
        scale_ns: SCALE_NS,
        tracks: None,
        cluster: 0,
        segment_end: None,
        end: 0,
    };
    reading.run()?;
    reading.finish()
}

struct Reading<'w> {
    window: Window,
    warnings: &'w mut Warnings,
    /// Nanoseconds of one tick (`TimestampScale`).
    scale_ns: u64,
    tracks: Option<PlayedTracks>,
    /// Time of the current cluster, in ticks.
    cluster: u64,
    /// Offset at which the segment ends according to its size.
    segment_end: Option<u64>,
    end: u64,
}

impl Reading<'_> {
    fn run(&mut self) -> Result<(), Fault> {
        let mut at = 0;
        while at < self.window.file_bytes() {
            self.end = at;
            let Some(element) = self.element(at)? else {
                break;
            };
            if element.id == id::EBML && at > 0 {
                let reason = WarningReason::OtherStream("a second file behind the first");
                self.warnings.add(Some(at), reason);
                break;
            }
            if matches!(element.id, id::SEGMENT | id::CLUSTER) {
                if element.id == id::SEGMENT {
                    self.segment_end = element.end();
                }
                at = element.body;
                continue;
            }
            let Some(end) = element.end() else {
                let reason = "an element other than segment or cluster has no size";
                return Err(Fault::at(at, Reason::Damaged(reason)));
            };
            if end > self.window.file_bytes() {
                self.truncated(at)?;
                break;
            }
            self.take(&element, end)?;
            at = end;
        }
        Ok(())
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
                let tracks = PlayedTracks::read(&body, element.body, self.scale_ns, self.warnings)?;
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

    fn finish(self) -> Result<Container, Fault> {
        let Some(tracks) = self.tracks else {
            let reason = "the file ends before the description of its tracks";
            return Err(Fault::at(self.end, Reason::Damaged(reason)));
        };
        let mut primed = Vec::new();
        for track in tracks.into_iter() {
            let priming_ns = track.delay_ns;
            if let Some(indexed) = IndexedTrackBuilder::finish(track.builder, false, self.warnings)
            {
                primed.push(Primed {
                    indexed,
                    priming_ns,
                });
            }
        }
        Container::new(Box::new(InOnePiece(self.window.into_data())), primed)
    }
}
