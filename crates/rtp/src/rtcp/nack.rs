use glassline_media::Ssrc;

use super::{RawPacket, feedback_format, packet_type, put_u16, put_u32, write_packet};
use crate::ParseError;

/// Generic NACK: packets that a receiver misses and requests (RFC 4585 §6.2.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nack {
    /// SSRC of the receiver that requests.
    pub sender: Ssrc,
    /// SSRC whose packets are missing.
    pub media: Ssrc,
    /// The missing packets, 1 to 17 per item.
    pub items: Vec<NackItem>,
}

/// A lost packet and a bitmap of the sixteen packets behind it (PID and BLP).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NackItem {
    /// Sequence number of a lost packet (PID).
    pub first: u16,
    /// If bit *i*, counted from the lowest, is set, packet `first + i + 1` is lost as well
    /// (BLP).
    pub following: u16,
}

impl Nack {
    /// Creates a request for the packets `lost`, best in ascending order: a number more than
    /// sixteen above the first of an item begins a new item.
    pub fn new(sender: Ssrc, media: Ssrc, lost: impl IntoIterator<Item = u16>) -> Self {
        let mut items: Vec<NackItem> = Vec::new();
        for sequence in lost {
            let added = items.last_mut().is_some_and(|item| item.add(sequence));
            if !added {
                items.push(NackItem {
                    first: sequence,
                    following: 0,
                });
            }
        }
        Self {
            sender,
            media,
            items,
        }
    }

    /// Iterates over the missing sequence numbers, in the order of the items.
    pub fn lost(&self) -> Lost<'_> {
        Lost {
            items: &self.items,
            next_bit: 0,
        }
    }

    pub(super) fn parse(raw: RawPacket<'_>) -> Result<Self, ParseError> {
        raw.need("NACK", 0, 8)?;
        let items = raw.body[8..]
            .chunks_exact(4)
            .map(|item| NackItem {
                first: u16::from_be_bytes([item[0], item[1]]),
                following: u16::from_be_bytes([item[2], item[3]]),
            })
            .collect();
        Ok(Self {
            sender: raw.ssrc(0),
            media: raw.ssrc(4),
            items,
        })
    }

    /// Appends the packet to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let format = feedback_format::NACK;
        write_packet(out, format, packet_type::TRANSPORT_FEEDBACK, |out| {
            put_u32(out, self.sender.0);
            put_u32(out, self.media.0);
            for item in &self.items {
                put_u16(out, item.first);
                put_u16(out, item.following);
            }
        });
    }
}

impl NackItem {
    /// Adds a number if the bitmap covers it. Returns whether it does.
    fn add(&mut self, sequence: u16) -> bool {
        match sequence.wrapping_sub(self.first) {
            0 => true,
            distance @ 1..=16 => {
                self.following |= 1 << (distance - 1);
                true
            }
            _ => false,
        }
    }
}

/// Iterator over the sequence numbers of a [`Nack`], returned by [`Nack::lost`].
#[derive(Clone, Debug)]
pub struct Lost<'a> {
    items: &'a [NackItem],
    /// Next number of the first item: 0 for `first`, *i* for bit *i* − 1 of the bitmap.
    next_bit: u16,
}

impl Iterator for Lost<'_> {
    type Item = u16;

    fn next(&mut self) -> Option<u16> {
        loop {
            let item = self.items.first()?;
            let bit = self.next_bit;
            if bit > 16 {
                self.items = &self.items[1..];
                self.next_bit = 0;
                continue;
            }
            self.next_bit += 1;
            if bit == 0 || item.following >> (bit - 1) & 1 == 1 {
                return Some(item.first.wrapping_add(bit));
            }
        }
    }
}
