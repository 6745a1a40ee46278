//! Where the bytes of an elementary stream lie in the file.

use std::collections::VecDeque;

use super::stamps::Stamps;

/// Bits of a place that say where in its packet a byte is.
const WITHIN_BITS: u32 = 8;

/// The location of a byte: the offset of its packet in the file, and its offset in the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ByteLocation {
    pub(super) packet: u64,
    pub(super) within: usize,
}

impl ByteLocation {
    /// Returns the place as one number.
    pub(super) fn code(self) -> u64 {
        self.packet << WITHIN_BITS | self.within as u64
    }

    /// Returns the place that [`code`](Self::code) returned.
    pub(super) fn of(code: u64) -> Self {
        Self {
            packet: code >> WITHIN_BITS,
            within: (code & ((1 << WITHIN_BITS) - 1)) as usize,
        }
    }
}

/// Places and stamps of the bytes that have not become units yet.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// Positions in the elementary stream, and the places of these bytes.
    places: VecDeque<(u64, ByteLocation)>,
    /// Positions at which PES packets begin, and their stamps.
    stamps: VecDeque<(u64, Option<Stamps>)>,
    /// Number of bytes of the stream so far.
    pub(super) end: u64,
}

impl Places {
    /// Adds bytes of the stream.
    pub(super) fn push(
        &mut self,
        place: ByteLocation,
        bytes: usize,
        begins: bool,
        stamps: Option<Stamps>,
    ) {
        if begins {
            self.stamps.push_back((self.end, stamps));
        }
        if bytes > 0 {
            self.places.push_back((self.end, place));
        }
        self.end += bytes as u64;
    }

    /// Returns the place of the byte at this position; `None` if it was freed.
    pub(super) fn of(&self, position: u64) -> Option<ByteLocation> {
        let behind = self.places.partition_point(|(from, _)| *from <= position);
        let (from, place) = self.places.get(behind.checked_sub(1)?)?;
        Some(ByteLocation {
            packet: place.packet,
            within: place.within + usize::try_from(position - from).ok()?,
        })
    }

    /// Takes the stamps of the PES packet in which this position lies; `None` if it has none, or a
    /// unit took them already.
    pub(super) fn take_stamps(&mut self, position: u64) -> Option<Stamps> {
        let behind = self.stamps.partition_point(|(from, _)| *from <= position);
        self.stamps.get_mut(behind.checked_sub(1)?)?.1.take()
    }

    /// Frees what lies before this position.
    pub(super) fn release(&mut self, position: u64) {
        let is_over = |next: Option<&u64>| next.is_some_and(|&from| from <= position);
        while is_over(self.places.get(1).map(|(from, _)| from)) {
            self.places.pop_front();
        }
        while is_over(self.stamps.get(1).map(|(from, _)| from)) {
            self.stamps.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_found_where_they_lie() {
        let place = |packet, within| ByteLocation { packet, within };
        let mut places = Places::default();
        let stamps = Stamps {
            presented: 2,
            decoded: 1,
        };
        places.push(place(188, 20), 168, true, Some(stamps));
        places.push(place(564, 4), 184, false, None);
        assert_eq!(places.of(0), Some(place(188, 20)));
        assert_eq!(places.of(168), Some(place(564, 4)));
        assert_eq!(places.of(170), Some(place(564, 6)));
        assert_eq!(places.take_stamps(3), Some(stamps));
        assert_eq!(places.take_stamps(3), None, "once");
        places.release(168);
        assert_eq!(places.of(167), None);
        assert_eq!(places.of(200), Some(place(564, 36)));
        let far = place(1 << 40, 187);
        assert_eq!(ByteLocation::of(far.code()), far);
    }
}
