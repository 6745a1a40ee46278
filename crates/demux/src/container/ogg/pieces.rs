use std::io::BufReader;

use crate::Data;
use crate::container::Fetch;
use crate::container::indexed_track::{Entry, UNIT_BYTES_MAX};
use crate::container::ogg::page::Pages;
use crate::error::{Fault, Reason, Warnings};

/// Reads packets by the page on which they begin and their number on that page.
pub(super) struct Pieces {
    pages: Pages<BufReader<Box<dyn Data>>>,
}

impl Pieces {
    pub(super) fn new(input: BufReader<Box<dyn Data>>) -> Self {
        Self {
            pages: Pages::new(input),
        }
    }
}

impl Fetch for Pieces {
    fn fetch(&mut self, entry: &Entry) -> Result<Vec<u8>, Fault> {
        // The warnings were given when the file was opened.
        let mut warnings = Warnings::default();
        let shrunk = || Fault::at(entry.offset, Reason::Shrunk);
        if self
            .pages
            .page()
            .is_none_or(|page| page.offset != entry.offset)
        {
            self.pages.seek(entry.offset)?;
            self.pages.next_page(&mut warnings)?;
        }
        let page = self.pages.page().ok_or_else(shrunk)?;
        let serial = page.serial;
        let piece = page.pieces().nth(entry.length());
        let (piece, mut ends) = piece.ok_or_else(shrunk)?;
        let mut packet = piece.to_vec();
        while !ends && packet.len() <= UNIT_BYTES_MAX as usize {
            let page = self.pages.next_page(&mut warnings)?.ok_or_else(shrunk)?;
            if page.serial == serial {
                let (piece, last) = page.pieces().next().ok_or_else(shrunk)?;
                packet.extend_from_slice(piece);
                ends = last;
            }
        }
        Ok(packet)
    }

    fn fork(&self) -> Box<dyn Fetch> {
        let data = self.pages.get_ref().get_ref().fork();
        Box::new(Self::new(BufReader::new(data)))
    }
}
