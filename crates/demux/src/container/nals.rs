//! H.264 and H.265 in containers: NAL units with lengths instead of start codes, and parameter
//! sets apart from the frames (ISO/IEC 14496-15).

use glassline_media::Track;

use crate::elementary::annexb::nals;
use crate::elementary::h264::parameter_sets::{ParameterSets, is_common_format};
use crate::error::{Fault, Reason, WarningReason, Warnings};
use crate::parameters;
use crate::window::Window;

/// Most NAL units of a frame that are examined.
const NALS_MAX: usize = 4096;

/// Bytes of a frame with start codes that are searched for its first slice.
const SCAN_BYTES_MAX: usize = 16 * 1024;

/// Most bytes of parameter sets of one kind; real ones have fewer than a thousand.
const SETS_BYTES_MAX: usize = 1 << 20;

/// Format of NAL units with lengths, and the track's parameter sets.
pub(crate) struct Nals {
    pub(crate) h265: bool,
    /// Bytes of a length: 1, 2 or 4; 0 for start codes.
    pub(crate) length_bytes: usize,
    /// Parameter sets with start codes (Annex B).
    pub(crate) sets: Vec<u8>,
}

/// Types of NAL units in a frame.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NalTypes {
    pub(crate) keyframe: bool,
    pub(crate) has_sets: bool,
}

impl Nals {
    /// Reads the headers of a frame's NAL units.
    pub(crate) fn walk(
        &self,
        window: &mut Window,
        offset: u64,
        length: u32,
    ) -> Result<NalTypes, Fault> {
        let end = offset + u64::from(length);
        let (mut at, mut kinds) = (offset, 0u64);
        for _ in 0..NALS_MAX {
            if at >= end {
                break;
            }
            let head = window.peek(at, self.length_bytes + 1)?;
            let size = head.get(..self.length_bytes).map(number);
            let next = size.map(|size| at + (self.length_bytes + size) as u64);
            let Some(next) = next.filter(|&next| next <= end) else {
                let reason = "a NAL unit is longer than the frame that it is in";
                return Err(Fault::at(at, Reason::Damaged(reason)));
            };
            if size > Some(0) {
                let header = head.get(self.length_bytes).copied().unwrap_or_default();
                kinds |= 1 << self.kind(header);
            }
            at = next;
        }
        let has = |kind: u32| kinds >> kind & 1 == 1;
        Ok(match self.h265 {
            // Types of intra random access point pictures, and of the three parameter sets
            // (H.265 table 7-1).
            true => NalTypes {
                keyframe: (16..=21).any(has),
                has_sets: (32..=34).all(has),
            },
            false => NalTypes {
                keyframe: has(5),
                has_sets: has(7) && has(8),
            },
        })
    }

    /// Creates the format of H.264 with start codes, as AVI stores it, without parameter sets.
    pub(crate) fn with_start_codes() -> Self {
        Self {
            h265: false,
            length_bytes: 0,
            sets: Vec::new(),
        }
    }

    /// Reads the types of the NAL units with start codes up to the first slice.
    pub(crate) fn scan(
        &self,
        window: &mut Window,
        offset: u64,
        length: u32,
    ) -> Result<NalTypes, Fault> {
        let bytes = window.peek(offset, SCAN_BYTES_MAX.min(length as usize))?;
        let mut types = NalTypes::default();
        let mut sets = [false; 2];
        for nal in nals(bytes) {
            match nal.first().map(|&header| self.kind(header)) {
                Some(7) => sets[0] = true,
                Some(8) => sets[1] = true,
                Some(kind @ (1..=5)) => {
                    types.keyframe = kind == 5;
                    break;
                }
                _ => {}
            }
        }
        types.has_sets = sets == [true; 2];
        Ok(types)
    }

    fn kind(&self, header: u8) -> u8 {
        match self.h265 {
            true => header >> 1 & 0x3f,
            false => header & 0x1f,
        }
    }

    fn is_delimiter(&self, header: u8) -> bool {
        self.kind(header) == if self.h265 { 35 } else { 9 }
    }

    /// Returns the NAL units in `bytes`, which [`walk`](Self::walk) has checked.
    fn units<'a>(&self, bytes: &'a [u8]) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let length_bytes = self.length_bytes;
        let mut rest = bytes;
        std::iter::from_fn(move || {
            let (length, after) = rest.split_at_checked(length_bytes)?;
            let (unit, after) = after.split_at_checked(number(length))?;
            rest = after;
            Some(unit)
        })
        .filter(|unit| !unit.is_empty())
    }

    /// Converts a frame to start codes. If the frame is `bare`, the parameter sets come first,
    /// but behind an access unit delimiter, which must be the first NAL unit (H.264 clause
    /// 7.4.1.2.3).
    pub(crate) fn annexb(&self, bytes: Vec<u8>, bare: bool) -> Vec<u8> {
        let sets = if bare { self.sets.as_slice() } else { &[] };
        if self.length_bytes == 0 {
            return match sets {
                [] => bytes,
                sets => self.with_sets(&bytes, sets),
            };
        }
        if sets.is_empty() && self.length_bytes == 4 {
            return in_place(bytes);
        }
        let mut out = Vec::with_capacity(bytes.len() + sets.len() + 64);
        let mut sets = Some(sets);
        for unit in self.units(&bytes) {
            if !self.is_delimiter(unit[0]) {
                out.extend_from_slice(sets.take().unwrap_or_default());
            }
            push_nal(&mut out, unit);
        }
        out
    }

    /// Converts the first bytes of a frame to start codes, with the parameter sets of the container
    /// before them. The last NAL unit may be cut.
    pub(crate) fn annexb_start(&self, bytes: &[u8]) -> Vec<u8> {
        let mut out = self.sets.clone();
        let mut rest = bytes;
        while let Some((length, after)) = rest.split_at_checked(self.length_bytes)
            && !after.is_empty()
        {
            let (unit, after) = after.split_at(number(length).min(after.len()));
            push_nal(&mut out, unit);
            rest = after;
        }
        out
    }

    fn with_sets(&self, bytes: &[u8], sets: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len() + sets.len() + 64);
        let mut sets = Some(sets);
        for unit in nals(bytes).filter(|unit| !unit.is_empty()) {
            if !self.is_delimiter(unit[0]) {
                out.extend_from_slice(sets.take().unwrap_or_default());
            }
            push_nal(&mut out, unit);
        }
        out
    }

    /// Reads the parameter sets of a keyframe, for a container whose header has none.
    pub(crate) fn learn_sets(
        &mut self,
        track: &mut Track,
        window: &mut Window,
        offset: u64,
        length: u32,
    ) -> Result<(), Fault> {
        let bytes = window.load(offset, length as usize)?;
        let mut lists = ParameterLists::default();
        let mut add = |unit: &[u8]| {
            if let Some(&header) = unit.first() {
                lists.add(self.kind(header), unit, self.h265);
            }
        };
        match self.length_bytes {
            0 => nals(&bytes).for_each(&mut add),
            _ => self.units(&bytes).for_each(&mut add),
        }
        lists.fill(self, track);
        Ok(())
    }
}

/// Overwrites lengths of four bytes with start codes.
fn in_place(mut bytes: Vec<u8>) -> Vec<u8> {
    let mut at = 0;
    while let Some(length) = bytes.get_mut(at..at + 4) {
        let size = number(length);
        length.copy_from_slice(&START_CODE);
        at = at.saturating_add(4).saturating_add(size);
    }
    bytes
}

const START_CODE: [u8; 4] = [0, 0, 0, 1];

/// Appends a NAL unit with a start code.
pub(crate) fn push_nal(out: &mut Vec<u8>, nal: &[u8]) {
    out.extend_from_slice(&START_CODE);
    out.extend_from_slice(nal);
}

/// Reads a big-endian integer of up to four bytes.
fn number(bytes: &[u8]) -> usize {
    let value = bytes
        .iter()
        .fold(0u32, |value, &byte| value << 8 | u32::from(byte));
    value as usize
}

/// The parameter sets of H.264 or H.265 by kind: video, sequence, picture.
#[derive(Default)]
pub(crate) struct ParameterLists([Vec<Vec<u8>>; 3]);

impl ParameterLists {
    /// Adds a NAL unit of type `kind`, if it is a parameter set.
    pub(crate) fn add(&mut self, kind: u8, nal: &[u8], h265: bool) {
        let place = match (kind, h265) {
            (32, true) => 0,
            (33, true) | (7, false) => 1,
            (34, true) | (8, false) => 2,
            _ => return,
        };
        let held: usize = self.0[place].iter().map(Vec::len).sum();
        if !nal.is_empty() && held + nal.len() <= SETS_BYTES_MAX {
            self.0[place].push(nal.to_vec());
        }
    }

    /// Parses the parameter sets of H.264: sets the true frame size of `track`, and warns of
    /// formats that most browsers cannot show.
    pub(crate) fn check(
        &self,
        track: &mut Track,
        at: u64,
        warnings: &mut Warnings,
    ) -> Result<(), Reason> {
        let [_, sequences, frames] = &self.0;
        let mut sets = ParameterSets::default();
        for set in sequences.iter().chain(frames) {
            sets.put(set)?;
        }
        let Some((sequence, _)) = (0..=255).find_map(|id| sets.of_picture(id)) else {
            return Ok(());
        };
        if let Ok((width, height)) = sequence.pixel_dimensions() {
            (track.video.width, track.video.height) = (width, height);
        }
        if !is_common_format(sequence) {
            warnings.add(Some(at), WarningReason::FrameFormat);
        }
        Ok(())
    }

    /// Copies the parameter sets to `nals`, which inserts them before keyframes, and to
    /// `track`, which describes them in SDP.
    pub(crate) fn fill(&self, nals: &mut Nals, track: &mut Track) {
        let [video, sequence, frame] = &self.0;
        let whole = !sequence.is_empty() && !frame.is_empty();
        if !whole || (nals.h265 && video.is_empty()) {
            return;
        }
        nals.sets.clear();
        for set in video.iter().chain(sequence).chain(frame) {
            push_nal(&mut nals.sets, set);
        }
        track.video.sps.clone_from(&sequence[0]);
        track.video.pps.clone_from(&frame[0]);
        if nals.h265 {
            track.format_parameters = parameters::h265(
                video.iter().map(Vec::as_slice),
                sequence.iter().map(Vec::as_slice),
                frame.iter().map(Vec::as_slice),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_become_start_codes() {
        let nals = |length_bytes, sets: &[u8]| Nals {
            h265: false,
            length_bytes,
            sets: sets.to_vec(),
        };
        let four = b"\0\0\0\x02\x65a\0\0\0\0\0\0\0\x01\x06".to_vec();
        assert_eq!(
            nals(4, b"").annexb(four.clone(), true),
            b"\0\0\0\x01\x65a\0\0\0\x01\0\0\0\x01\x06"
        );
        assert_eq!(
            nals(4, b"sets").annexb(four, true),
            b"sets\0\0\0\x01\x65a\0\0\0\x01\x06"
        );
        assert_eq!(
            nals(2, b"sets").annexb(b"\0\x02\x09x\0\x01\x65".to_vec(), true),
            b"\0\0\0\x01\x09xsets\0\0\0\x01\x65"
        );
        assert_eq!(
            nals(1, b"sets").annexb(b"\x01\x41".to_vec(), false),
            b"\0\0\0\x01\x41"
        );
    }
}
