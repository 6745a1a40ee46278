//! Rebuilds lost packets.

use std::collections::{BTreeMap, VecDeque};

use glassline_media::Ssrc;

use super::header::{Coverage, InvalidFlexFec, RECOVERY_BYTES};
use crate::HEADER_BYTES;

/// Packets of the media that are kept: more than the largest mask spans, and as many as in libwebrtc.
const MEDIA_MAX: usize = 192;

/// FEC packets that are kept because more than one of their packets is missing.
const REPAIRS_MAX: usize = 48;

/// Sequence numbers after which a FEC packet is dropped.
const AGE_MAX: u16 = 1 << 10;

/// Longest packet that is kept or rebuilt in bytes.
const PACKET_BYTES_MAX: usize = 1500;

/// Rebuilds lost packets of one SSRC. It keeps 192 packets of the media and 48 FEC packets, each of
/// at most 1500 bytes.
#[derive(Debug)]
pub struct Decoder {
    ssrc: Ssrc,
    /// Packets that arrived or were rebuilt, by sequence number.
    media: BTreeMap<u16, Vec<u8>>,
    /// Their sequence numbers, in the order in which they came.
    order: VecDeque<u16>,
    repairs: VecDeque<Repair>,
    rebuilt: VecDeque<Vec<u8>>,
}

/// A FEC packet.
#[derive(Debug)]
struct Repair {
    coverage: Coverage,
    recovery: [u8; RECOVERY_BYTES],
    body: Vec<u8>,
}

impl Decoder {
    /// Creates a decoder for packets of `ssrc`.
    pub const fn new(ssrc: Ssrc) -> Self {
        Self {
            ssrc,
            media: BTreeMap::new(),
            order: VecDeque::new(),
            repairs: VecDeque::new(),
            rebuilt: VecDeque::new(),
        }
    }

    /// Takes a packet of the media that arrived: header, with zeros in place of what is not protected,
    /// and body. Packets that are too short or too long are ignored.
    pub fn on_media(&mut self, packet: &[u8]) {
        if (HEADER_BYTES..=PACKET_BYTES_MAX).contains(&packet.len()) {
            let sequence = u16::from_be_bytes([packet[2], packet[3]]);
            if self.keep(sequence, packet.to_vec()) {
                self.follow(sequence);
            }
        }
    }

    /// Takes the payload of a FEC packet.
    ///
    /// # Errors
    /// [`InvalidFlexFec`] if the payload is not one of this stream's, or malformed.
    pub fn on_repair(&mut self, payload: &[u8]) -> Result<(), InvalidFlexFec> {
        let (coverage, header_bytes) = Coverage::read(payload, self.ssrc)?;
        let recovery = payload.first_chunk().copied();
        let body = payload.get(header_bytes..).unwrap_or_default();
        if body.len() > PACKET_BYTES_MAX {
            return Ok(());
        }
        if self.repairs.len() == REPAIRS_MAX {
            self.repairs.pop_front();
        }
        self.repairs.push_back(Repair {
            coverage,
            recovery: recovery.unwrap_or_default(),
            body: body.to_vec(),
        });
        let mut fresh = Vec::new();
        if self.use_up(self.repairs.len() - 1, &mut fresh) {
            fresh.into_iter().for_each(|it| self.follow(it));
        }
        Ok(())
    }

    /// Returns the next packet that was rebuilt: header and body. What is not protected is zero.
    pub fn poll(&mut self) -> Option<Vec<u8>> {
        self.rebuilt.pop_front()
    }

    /// Keeps a packet; returns whether it is new.
    fn keep(&mut self, sequence: u16, packet: Vec<u8>) -> bool {
        if self.media.contains_key(&sequence) {
            return false;
        }
        self.media.insert(sequence, packet);
        self.order.push_back(sequence);
        if self.order.len() > MEDIA_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.media.remove(&oldest);
        }
        // Sequence numbers come again; what is protected is near.
        let is_past =
            |it: &Repair| (AGE_MAX..1 << 15).contains(&sequence.wrapping_sub(it.coverage.base));
        while self.repairs.front().is_some_and(is_past) {
            self.repairs.pop_front();
        }
        true
    }

    /// Rebuilds what the packet `fresh` makes possible, and what follows from that.
    fn follow(&mut self, fresh: u16) {
        let mut fresh = vec![fresh];
        while let Some(sequence) = fresh.pop() {
            let mut place = 0;
            while let Some(repair) = self.repairs.get(place) {
                let is_left = !repair.coverage.has(sequence) || !self.use_up(place, &mut fresh);
                place += usize::from(is_left);
            }
        }
    }

    /// Drops a FEC packet of which at most one packet is missing, and rebuilds that one. Returns whether
    /// it did.
    fn use_up(&mut self, place: usize, fresh: &mut Vec<u16>) -> bool {
        let Some(repair) = self.repairs.get(place) else {
            return false;
        };
        let protected = repair.coverage.sequences();
        let mut missing = protected.filter(|it| !self.media.contains_key(it));
        let (first, second) = (missing.next(), missing.next());
        if second.is_some() {
            return false;
        }
        let packet = first.and_then(|it| Some((it, self.rebuilt_of(repair, it)?)));
        self.repairs.remove(place);
        if let Some((sequence, packet)) = packet {
            self.keep(sequence, packet.clone());
            fresh.push(sequence);
            if self.rebuilt.len() < MEDIA_MAX {
                self.rebuilt.push_back(packet);
            }
        }
        true
    }

    /// Returns the packet that alone is missing of those that `repair` protects; `None` if its length
    /// contradicts the FEC packet.
    fn rebuilt_of(&self, repair: &Repair, missing: u16) -> Option<Vec<u8>> {
        let mut recovery = repair.recovery;
        let mut packet = vec![0; HEADER_BYTES];
        packet.extend_from_slice(&repair.body);
        let others = repair.coverage.sequences().filter(|it| *it != missing);
        for other in others.filter_map(|it| self.media.get(&it)) {
            let bytes = other.len() - HEADER_BYTES;
            let [a, b] = u16::try_from(bytes).unwrap_or(u16::MAX).to_be_bytes();
            let fields = [
                other[0] & 0x3f,
                other[1],
                a,
                b,
                other[4],
                other[5],
                other[6],
                other[7],
            ];
            for (recovery, field) in recovery.iter_mut().zip(fields) {
                *recovery ^= field;
            }
            if packet.len() < other.len() {
                return None;
            }
            for (byte, other) in packet[HEADER_BYTES..]
                .iter_mut()
                .zip(&other[HEADER_BYTES..])
            {
                *byte ^= other;
            }
        }
        let bytes = usize::from(u16::from_be_bytes([recovery[2], recovery[3]]));
        if bytes > repair.body.len() {
            return None;
        }
        packet.truncate(HEADER_BYTES + bytes);
        packet[0] = 0x80 | (recovery[0] & 0x3f);
        packet[1] = recovery[1];
        packet[2..4].copy_from_slice(&missing.to_be_bytes());
        packet[4..8].copy_from_slice(&recovery[4..]);
        packet[8..12].copy_from_slice(&self.ssrc.0.to_be_bytes());
        Some(packet)
    }
}
