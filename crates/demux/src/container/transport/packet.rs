//! One packet of a transport stream (ISO/IEC 13818-1 §2.4.3): its fields, and how they are
//! rewritten.

use crate::system_clock::stamp::{self, CLOCK_MODULUS, CLOCK_PER_STAMP, STAMP_BYTES};

/// Length of a packet in bytes.
pub(super) const PACKET_BYTES: usize = 188;

/// First byte of every packet.
pub(super) const SYNC: u8 = 0x47;

/// Packet identifier of the program association table.
pub(super) const PAT_PID: u16 = 0;

const HEADER_BYTES: usize = 4;

const DISCONTINUITY: u8 = 0x80;
const RANDOM_ACCESS: u8 = 0x40;
const HAS_CLOCK: u8 = 0x10;

/// Offset of the clock reference, behind length and flags of the adaptation field.
const CLOCK_AT: usize = HEADER_BYTES + 2;
const CLOCK_BYTES: usize = 6;

/// A packet with all of its 188 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Packet(pub(super) [u8; PACKET_BYTES]);

impl Packet {
    pub(super) fn pid(&self) -> u16 {
        u16::from_be_bytes([self.0[1] & 0x1f, self.0[2]])
    }

    /// Returns whether a PES packet or a section begins in the packet
    /// (`payload_unit_start_indicator`).
    pub(super) fn begins_unit(&self) -> bool {
        self.0[1] & 0x40 != 0
    }

    pub(super) fn counter(&self) -> u8 {
        self.0[3] & 0x0f
    }

    pub(super) fn set_counter(&mut self, counter: u8) {
        self.0[3] = self.0[3] & 0xf0 | counter & 0x0f;
    }

    pub(super) fn has_payload(&self) -> bool {
        self.0[3] & 0x10 != 0
    }

    pub(super) fn is_scrambled(&self) -> bool {
        self.0[3] & 0xc0 != 0
    }

    fn adaptation_bytes(&self) -> usize {
        match self.0[3] & 0x20 {
            0 => 0,
            _ => usize::from(self.0[HEADER_BYTES]),
        }
    }

    /// Returns the flags of the adaptation field; 0 without one.
    fn flags(&self) -> u8 {
        match self.adaptation_bytes() {
            0 => 0,
            _ => self.0[HEADER_BYTES + 1],
        }
    }

    /// Returns whether a decoder can start with what begins here (`random_access_indicator`).
    pub(super) fn allows_access(&self) -> bool {
        self.flags() & RANDOM_ACCESS != 0
    }

    /// Returns whether clock or counter do not continue those before
    /// (`discontinuity_indicator`).
    pub(super) fn is_discontinuous(&self) -> bool {
        self.flags() & DISCONTINUITY != 0
    }

    pub(super) fn clear_discontinuity(&mut self) {
        if self.adaptation_bytes() > 0 {
            self.0[HEADER_BYTES + 1] &= !DISCONTINUITY;
        }
    }

    fn has_clock(&self) -> bool {
        self.flags() & HAS_CLOCK != 0 && self.adaptation_bytes() > CLOCK_BYTES
    }

    /// Returns the program clock reference, in ticks of 27 MHz.
    pub(super) fn clock(&self) -> Option<i64> {
        if !self.has_clock() {
            return None;
        }
        let [a, b, c, d, e, f]: [u8; CLOCK_BYTES] =
            self.0[CLOCK_AT..CLOCK_AT + CLOCK_BYTES].try_into().ok()?;
        let base = i64::from(u32::from_be_bytes([a, b, c, d])) << 1 | i64::from(e >> 7);
        let extension = i64::from(e & 1) << 8 | i64::from(f);
        Some(base * CLOCK_PER_STAMP + extension)
    }

    /// Adds `ticks` to the clock reference, if there is one. The sum wraps.
    pub(super) fn shift_clock(&mut self, ticks: i64) {
        let Some(clock) = self.clock() else {
            return;
        };
        let clock = clock.wrapping_add(ticks).rem_euclid(CLOCK_MODULUS);
        let (base, extension) = (clock / CLOCK_PER_STAMP, clock % CLOCK_PER_STAMP);
        let field = &mut self.0[CLOCK_AT..CLOCK_AT + CLOCK_BYTES];
        field[..4].copy_from_slice(&((base >> 1) as u32).to_be_bytes());
        field[4] = ((base & 1) << 7) as u8 | field[4] & 0x7e | (extension >> 8) as u8;
        field[5] = (extension & 0xff) as u8;
    }

    /// Returns where the payload begins in the packet.
    pub(super) fn payload_at(&self) -> usize {
        let adaptation = match self.0[3] & 0x20 {
            0 => 0,
            _ => 1 + self.adaptation_bytes(),
        };
        (HEADER_BYTES + adaptation).min(PACKET_BYTES)
    }

    /// Returns the payload; it is empty for a scrambled packet.
    pub(super) fn payload(&self) -> &[u8] {
        if !self.has_payload() || self.is_scrambled() {
            return &[];
        }
        &self.0[self.payload_at()..]
    }

    /// Returns the offsets of presentation and decoding time stamp of a PES packet that begins
    /// here. The header must end in the same packet.
    fn stamps_at(&self) -> [Option<usize>; 2] {
        let payload = self.payload();
        if !self.begins_unit() || !payload.starts_with(&[0, 0, 1]) || payload.len() < 9 {
            return [None; 2];
        }
        // Padding and other streams lack the optional header (§2.4.3.6).
        if matches!(
            payload[3],
            0xbc | 0xbe | 0xbf | 0xf0 | 0xf1 | 0xf2 | 0xf8 | 0xff
        ) || payload[6] & 0xc0 != 0x80
        {
            return [None; 2];
        }
        let fits = |at: usize| {
            let within = at + STAMP_BYTES <= 9 + usize::from(payload[8]);
            (within && at + STAMP_BYTES <= payload.len()).then(|| self.payload_at() + at)
        };
        match payload[7] >> 6 {
            2 => [fits(9), None],
            3 => [fits(9), fits(9 + STAMP_BYTES)],
            _ => [None; 2],
        }
    }

    fn stamp(&mut self, at: usize) -> Option<&mut [u8; STAMP_BYTES]> {
        (&mut self.0[at..at + STAMP_BYTES]).try_into().ok()
    }

    /// Returns the decoding time stamp of a PES packet that begins here, in ticks of 90 kHz.
    pub(super) fn decode_stamp(&self) -> Option<i64> {
        let [presented, decoded] = self.stamps_at();
        let at = decoded.or(presented)?;
        let bytes = self.0[at..at + STAMP_BYTES].try_into().ok()?;
        Some(stamp::read(bytes))
    }

    /// Adds `by` to the time stamps, if there are any. The sums wrap.
    pub(super) fn shift_stamps(&mut self, by: i64) {
        for at in self.stamps_at().into_iter().flatten() {
            if let Some(bytes) = self.stamp(at) {
                let stamp = stamp::read(*bytes);
                stamp::write(bytes, stamp.wrapping_add(by));
            }
        }
    }

    /// Returns the data of the elementary stream: the bytes behind a PES header that begins
    /// here, else the whole payload.
    pub(super) fn elementary(&self) -> &[u8] {
        let payload = self.payload();
        if !self.begins_unit() {
            return payload;
        }
        let header = payload.get(8).map_or(0, |&length| 9 + usize::from(length));
        payload.get(header..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_packet_is_read_and_moved(
            start in any::<[u8; 32]>(),
            ticks in -CLOCK_MODULUS..CLOCK_MODULUS,
        ) {
            let mut bytes = [0xff; PACKET_BYTES];
            bytes[..32].copy_from_slice(&start);
            let before = Packet(bytes);
            let mut packet = before.clone();
            packet.shift_clock(ticks);
            packet.shift_stamps(ticks / 300);
            let moved = before.clock().map(|clock| (clock + ticks).rem_euclid(CLOCK_MODULUS));
            // An extension of 300 or more is against the standard, and put right.
            prop_assert_eq!(packet.clock(), moved);
            prop_assert_eq!(packet.pid(), before.pid());
            prop_assert_eq!(packet.payload().len(), before.payload().len());
            packet.elementary();
        }
    }

    #[test]
    fn what_ffmpeg_writes_is_read() {
        // The first packet of frames of tests/data/clip.ts.
        let mut bytes = [0xff; PACKET_BYTES];
        let start = [
            0x47, 0x41, 0x00, 0x30, 0x07, 0x50, 0x00, 0x00, 0x7b, 0x0c, 0x7e, 0x00, 0x00, 0x00,
            0x01, 0xe0, 0x00, 0x00, 0x80, 0xc0, 0x0a, 0x31, 0x00, 0x09, 0x10, 0xa1, 0x11, 0x00,
            0x07, 0xd8, 0x61, 0x00, 0x00, 0x00, 0x01, 0x09,
        ];
        bytes[..start.len()].copy_from_slice(&start);
        let packet = Packet(bytes);
        assert_eq!(packet.pid(), 256);
        assert!(packet.begins_unit() && packet.allows_access() && !packet.is_discontinuous());
        assert_eq!(packet.clock(), Some(63_000 * 300));
        assert_eq!(packet.decode_stamp(), Some(126_000));
        assert!(packet.elementary().starts_with(&[0, 0, 0, 1, 9]));
    }
}
