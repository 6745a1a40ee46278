//! Fetches units whose bytes lie in several packets.

use std::io;

use super::pes::Pes;
use super::places::ByteLocation;
use crate::container::Fetch;
use crate::container::indexed_track::Entry;
use crate::container::transport::packet::PACKET_BYTES;
use crate::container::transport::packets::Packets;
use crate::error::{Fault, Reason};

/// The packets of a file, read again from where a unit begins.
pub(super) struct Scattered(pub(super) Packets);

impl Fetch for Scattered {
    fn fetch(&mut self, entry: &Entry) -> Result<Vec<u8>, Fault> {
        let place = ByteLocation::of(entry.offset);
        let at = place.packet;
        let failed = |error: io::Error| Fault::at(at, Reason::Read(error));
        let shrunk = || Fault::at(at, Reason::Shrunk);
        self.0.go_to(at).map_err(failed)?;
        let taken = self.0.take().map_err(failed)?;
        let (_, first) = taken
            .filter(|(offset, _)| *offset == at)
            .ok_or_else(shrunk)?;
        let mut bytes = Vec::with_capacity(entry.length() + PACKET_BYTES);
        bytes.extend_from_slice(first.0.get(place.within..).unwrap_or_default());
        let mut pes = Pes::within(first.counter());
        while bytes.len() < entry.length() {
            let (_, packet) = self.0.take().map_err(failed)?.ok_or_else(shrunk)?;
            if packet.pid() == first.pid()
                && let Some(part) = pes.push(&packet)
            {
                bytes.extend_from_slice(part.bytes);
            }
        }
        bytes.truncate(entry.length());
        Ok(bytes)
    }

    fn fork(&self) -> Box<dyn Fetch> {
        Box::new(Self(self.0.fork()))
    }
}
