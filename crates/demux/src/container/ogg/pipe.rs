//! Ogg from a pipe: the same streams as in files, whose packets are put together as pages arrive.

use std::collections::VecDeque;
use std::io::{BufReader, Read};

use bytes::Bytes;
use glassline_media::{Kind, Track};

use super::Reading;
use super::page::{Page, Pages};
use super::stream::Stream;
use crate::container::indexed_track::{Entry, UNIT_BYTES_MAX};
use crate::error::{Fault, Reason, Warnings};
use crate::pipe_reader::{PipeReader, PipeUnit};

/// Reads the first stream of video and the first of audio.
pub(crate) struct OggPipe {
    pages: Pages<BufReader<Box<dyn Read + Send>>>,
    reading: Reading,
    /// The pages that packets of the next page may begin on, oldest first.
    kept: VecDeque<Page>,
    kept_bytes: usize,
    warnings: Warnings,
    /// Kinds of the tracks, in the order in which they became known.
    order: Vec<Kind>,
}

impl OggPipe {
    pub(crate) fn new(pipe: Box<dyn Read + Send>) -> Self {
        Self {
            pages: Pages::new(BufReader::new(pipe)),
            reading: Reading::default(),
            kept: VecDeque::new(),
            kept_bytes: 0,
            warnings: Warnings::default(),
            order: Vec::new(),
        }
    }

    /// Forgets the pages that no unfinished packet begins on.
    fn forget_pages(&mut self) {
        let streams = self.reading.streams.iter();
        let oldest = streams.filter_map(Stream::open_since).min();
        while let Some(first) = self.kept.front() {
            let is_needed = oldest.is_some_and(|offset| offset <= first.offset);
            if is_needed && self.kept_bytes <= UNIT_BYTES_MAX as usize {
                break;
            }
            self.kept_bytes -= first.body_bytes();
            self.kept.pop_front();
        }
    }

    /// Puts the packet together that begins on a kept page.
    fn packet(&self, entry: &Entry) -> Option<Vec<u8>> {
        let mut pages = self.kept.iter().skip_while(|it| it.offset < entry.offset);
        let first = pages.next().filter(|it| it.offset == entry.offset)?;
        let (piece, mut ends) = first.pieces().nth(entry.length())?;
        let mut packet = piece.to_vec();
        let mut rest = pages.filter(|it| it.serial == first.serial);
        while !ends {
            let (piece, is_last) = rest.next()?.pieces().next()?;
            packet.extend_from_slice(piece);
            ends = is_last;
        }
        Some(packet)
    }

    /// Converts a packet of the track of this kind to a unit.
    fn unit(&self, kind: Kind, packet: Vec<u8>, entry: &Entry) -> Bytes {
        let state = match kind {
            Kind::Video => self.reading.video.as_ref(),
            _ => self.reading.audio.as_ref(),
        };
        match state {
            Some(state) => state.builder.coding().unit(packet, entry.bare()),
            None => Bytes::from(packet),
        }
    }

    fn take_units(&mut self, out: &mut VecDeque<PipeUnit>) {
        for kind in [Kind::Video, Kind::Audio] {
            let state = match kind {
                Kind::Video => &mut self.reading.video,
                _ => &mut self.reading.audio,
            };
            let Some(state) = state else {
                continue;
            };
            let units = state.builder.drain();
            if !units.is_empty() && !self.order.contains(&kind) {
                self.order.push(kind);
            }
            let Some(track) = self.order.iter().position(|it| *it == kind) else {
                continue;
            };
            for (entry, _) in units {
                let Some(packet) = self.packet(&entry) else {
                    continue;
                };
                let data = self.unit(kind, packet, &entry);
                out.push_back(PipeUnit {
                    track,
                    start_ns: entry.start_ns,
                    decode_ns: None,
                    duration_ns: (kind == Kind::Audio).then_some(entry.span_ns()),
                    keyframe: entry.keyframe() || kind == Kind::Audio,
                    after_loss: false,
                    data,
                });
            }
        }
    }
}

impl PipeReader for OggPipe {
    fn tracks(&mut self) -> Vec<Track> {
        let states = self.order.iter().filter_map(|kind| match kind {
            Kind::Video => self.reading.video.as_ref(),
            _ => self.reading.audio.as_ref(),
        });
        states.map(|state| state.builder.track.clone()).collect()
    }

    fn has_all_tracks(&self) -> bool {
        self.order.len() >= self.reading.streams.len()
    }

    fn read(&mut self, out: &mut VecDeque<PipeUnit>) -> Result<bool, Fault> {
        let page = match self.pages.next_page(&mut self.warnings) {
            Ok(Some(page)) => page.clone(),
            Ok(None) => return Ok(false),
            // The writer was stopped within a page.
            Err(fault) if matches!(fault.reason, Reason::TruncatedPage) => return Ok(false),
            Err(fault) => return Err(fault),
        };
        self.kept_bytes += page.body_bytes();
        self.kept.push_back(page);
        let page = &self.kept[self.kept.len() - 1];
        self.reading.take(page, &mut self.warnings)?;
        self.take_units(out);
        self.forget_pages();
        Ok(true)
    }

    fn take_warnings(&mut self) -> Warnings {
        let mut warnings = std::mem::take(&mut self.warnings);
        self.pages.warn(&mut warnings);
        warnings
    }
}
