//! Reads the packets of a file in order, and searches for them where the file is damaged.

use std::io::{self, Read as _, Seek as _, SeekFrom};

use super::packet::{PACKET_BYTES, Packet, SYNC};
use crate::Data;

/// Layout of packets in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Bytes from one packet to the next.
    pub(super) stride: usize,
    /// Bytes of each packet before its sync byte.
    lead: usize,
}

/// Known layouts: bare packets; packets of Blu-ray and camcorders with their arrival time in
/// front; broadcast packets with a Reed-Solomon code behind.
const LAYOUTS: [Layout; 3] = [
    Layout {
        stride: 188,
        lead: 0,
    },
    Layout {
        stride: 192,
        lead: 4,
    },
    Layout {
        stride: 204,
        lead: 0,
    },
];

/// Packets in a row that must have sync bytes before a layout is accepted.
pub(super) const RUN: usize = 4;

/// Most bytes before the first packet, or between two packets, that are searched.
pub(super) const SEARCH_BYTES_MAX: u64 = 1 << 20;

const WINDOW_BYTES: usize = 64 * 1024;

impl Layout {
    /// Returns the number of bytes of each packet before its sync byte.
    pub(super) const fn lead(self) -> usize {
        self.lead
    }

    /// Returns whether packets lie at the start of `bytes`: as many as fit, up to [`RUN`].
    pub(super) fn fits(self, bytes: &[u8]) -> bool {
        let mut syncs = (0..RUN).map(|number| bytes.get(number * self.stride + self.lead));
        bytes.len() > self.lead && syncs.all(|sync| sync.is_none_or(|&byte| byte == SYNC))
    }

    /// Returns whether `bytes` begin with a packet, by its sync byte.
    pub(super) fn begins(self, bytes: &[u8]) -> bool {
        bytes.get(self.lead) == Some(&SYNC)
    }
}

/// Finds the layout of packets in `start`, the first bytes of a file, and the offset of the
/// first packet. `start` should hold several packets.
pub(super) fn layout(start: &[u8]) -> Option<(usize, Layout)> {
    let believable = |at: usize, layout: Layout| {
        let rest = &start[at..];
        let packets = (rest.len() / layout.stride).min(RUN);
        // A file of a single packet is valid, too.
        let enough = packets == RUN || at == 0 && packets > 0;
        enough && layout.fits(rest)
    };
    (0..start.len()).find_map(|at| {
        let mut layouts = LAYOUTS.into_iter();
        layouts
            .find(|layout| believable(at, *layout))
            .map(|layout| (at, layout))
    })
}

/// Reads packets in order through a window.
pub(super) struct Packets {
    data: Box<dyn Data>,
    layout: Layout,
    window: Vec<u8>,
    /// Offset of the window's first byte in the file.
    base: u64,
    /// Offset of the next packet in the window.
    next: usize,
    /// Whether the file has no bytes behind the window.
    ended: bool,
    /// Offset and number of bytes that were skipped since the last call of `skipped`.
    skipped: Option<(u64, u64)>,
}

impl Packets {
    pub(super) fn new(data: Box<dyn Data>, layout: Layout) -> Self {
        Self {
            data,
            layout,
            window: Vec::new(),
            base: 0,
            next: 0,
            ended: false,
            skipped: None,
        }
    }

    pub(super) fn fork(&self) -> Self {
        Self::new(self.data.fork(), self.layout)
    }

    /// Continues at the byte `offset`.
    pub(super) fn go_to(&mut self, offset: u64) -> io::Result<()> {
        self.skipped = None;
        let place = offset.checked_sub(self.base);
        let place = place.and_then(|place| usize::try_from(place).ok());
        if let Some(place) = place.filter(|&place| place <= self.window.len()) {
            self.next = place;
            return Ok(());
        }
        self.window.clear();
        self.next = 0;
        self.base = offset;
        self.ended = false;
        self.data.seek(SeekFrom::Start(offset)).map(|_| ())
    }

    /// Returns the offset of the next packet; `None` at the end. Bytes that belong to no packet
    /// are skipped, and so is an incomplete last packet.
    pub(super) fn peek(&mut self) -> io::Result<Option<u64>> {
        loop {
            let rest = &self.window[self.next.min(self.window.len())..];
            if rest.len() < RUN * self.layout.stride && !self.ended {
                self.refill()?;
                continue;
            }
            if rest.len() < self.layout.lead + PACKET_BYTES {
                if !rest.is_empty() {
                    self.skip(rest.len());
                }
                return Ok(None);
            }
            if self.layout.begins(rest) {
                return Ok(Some(self.offset()));
            }
            let last = rest.len() - self.layout.lead;
            let found = (1..last).find(|&at| self.layout.fits(&rest[at..]));
            // A candidate near the end of the window is checked when more bytes are there.
            let sure = self.window.len().saturating_sub(RUN * self.layout.stride);
            let step = found.unwrap_or(last);
            let step = match self.ended {
                true => step,
                false => step.min(sure.saturating_sub(self.next).max(1)),
            };
            self.skip(step);
        }
    }

    /// Returns the next packet and its offset.
    pub(super) fn take(&mut self) -> io::Result<Option<(u64, Packet)>> {
        let Some(offset) = self.peek()? else {
            return Ok(None);
        };
        let at = self.next + self.layout.lead;
        let bytes = self.window.get(at..at + PACKET_BYTES);
        let packet = bytes.and_then(|bytes| bytes.try_into().ok()).map(Packet);
        self.next += self.layout.stride;
        Ok(packet.map(|packet| (offset, packet)))
    }

    /// Returns the offset behind the last packet that was taken.
    pub(super) fn offset(&self) -> u64 {
        self.base + self.next as u64
    }

    /// Returns where bytes were skipped since the last call, and how many.
    pub(super) fn skipped(&mut self) -> Option<(u64, u64)> {
        self.skipped.take()
    }

    fn skip(&mut self, bytes: usize) {
        let (_, count) = self.skipped.get_or_insert((self.offset(), 0));
        *count += bytes as u64;
        self.next += bytes;
    }

    fn refill(&mut self) -> io::Result<()> {
        // The code behind the last packet may be missing.
        let passed = self.next.min(self.window.len());
        self.window.drain(..passed);
        self.base += passed as u64;
        self.next -= passed;
        let have = self.window.len();
        self.window.resize(WINDOW_BYTES, 0);
        let read = loop {
            match self.data.read(&mut self.window[have..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result,
            }
        };
        self.window
            .truncate(have + read.as_ref().map_or(0, |read| *read));
        self.ended = read? == 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn packets(layout: Layout, count: u8) -> Vec<u8> {
        let packet = |number: u8| {
            let mut bytes = vec![number; layout.stride];
            bytes[layout.lead] = SYNC;
            bytes
        };
        (1..=count).flat_map(packet).collect()
    }

    type Found = Vec<(u64, u8)>;

    fn read(bytes: &[u8]) -> (Found, Option<(u64, u64)>) {
        let (_, layout) = layout(bytes).expect("packets");
        let mut packets = Packets::new(Box::new(Cursor::new(bytes.to_vec())), layout);
        let mut found = Vec::new();
        while let Some((offset, packet)) = packets.take().expect("memory can be read") {
            found.push((offset, packet.0[100]));
        }
        (found, packets.skipped())
    }

    #[test]
    fn every_layout_is_found_and_read() {
        for layout in LAYOUTS {
            let mut bytes = b"some bytes before".to_vec();
            bytes.extend(packets(layout, 9));
            assert_eq!(super::layout(&bytes), Some((17, layout)));
            let (found, skipped) = read(&bytes);
            let stride = layout.stride as u64;
            let expected = (0..9).map(|number| (17 + stride * number, number as u8 + 1));
            assert!(found.into_iter().eq(expected), "{layout:?}");
            assert_eq!(skipped, Some((0, 17)));
        }
        assert_eq!(layout(b"nothing of the kind"), None);
        assert_eq!(layout(b""), None);
    }

    #[test]
    fn a_gap_is_passed_over_and_a_cut_packet_left_out() {
        let mut bytes = packets(LAYOUTS[0], 6);
        let more = packets(LAYOUTS[0], 6);
        bytes.extend([0x46; 50]);
        bytes.extend(&more[..6 * 188 - 1]);
        let (found, skipped) = read(&bytes);
        assert_eq!(found.len(), 11, "{found:?}");
        assert_eq!(found[6].0, 6 * 188 + 50);
        assert_eq!(skipped, Some((6 * 188, 50 + 187)));
    }
}
