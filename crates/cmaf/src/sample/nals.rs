//! Access units of H.264 and H.265 with lengths in place of start codes (ISO/IEC 14496-15 §5.3.2).

use glassline_media::annexb::{START_CODE, find_start_code, trim_zeros};

/// Bytes that a sample may have more than its access unit: lengths have four bytes, start codes
/// three or four.
pub(super) const ROOM_BYTES: usize = 64;

/// Bytes of a length.
const LENGTH_BYTES: usize = 4;

/// Most parameter sets of a sample entry; more are not in it, and stay in the samples.
const SETS_MAX: usize = 64;

/// Longest parameter set in bytes.
const SET_BYTES_MAX: usize = 4096;

/// The types of NAL units of one codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NalKinds {
    /// ITU-T H.264 table 7-1.
    H264,
    /// ITU-T H.265 table 7-1.
    H265,
}

impl NalKinds {
    fn of(self, nal: &[u8]) -> u8 {
        let header = nal.first().copied().unwrap_or(0);
        match self {
            Self::H264 => header & 0x1f,
            Self::H265 => header >> 1 & 0x3f,
        }
    }

    /// Types of the parameter sets that a decoder needs.
    const fn sets(self) -> &'static [u8] {
        match self {
            Self::H264 => &[7, 8],
            Self::H265 => &[32, 33, 34],
        }
    }

    const fn delimiter(self) -> u8 {
        match self {
            Self::H264 => 9,
            Self::H265 => 35,
        }
    }
}

/// The parameter sets of a sample entry, as NAL units without start codes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ParameterSets {
    kinds: NalKinds,
    sets: Vec<Vec<u8>>,
}

impl ParameterSets {
    /// Creates an empty list for one codec.
    pub(crate) const fn new(kinds: NalKinds) -> Self {
        Self {
            kinds,
            sets: Vec::new(),
        }
    }

    /// Adds `nal` if it is a parameter set that is not in the list.
    pub(crate) fn add(&mut self, nal: &[u8]) {
        let is_set = self.kinds.sets().contains(&self.kinds.of(nal)) && !nal.is_empty();
        let has_room = self.sets.len() < SETS_MAX && nal.len() <= SET_BYTES_MAX;
        if is_set && has_room && !self.has(nal) {
            self.sets.push(nal.to_vec());
        }
    }

    /// Returns whether there is a set of each kind that a decoder needs.
    pub(crate) fn is_complete(&self) -> bool {
        let mut kinds = self.kinds.sets().iter();
        kinds.all(|kind| !self.of_kind(*kind).is_empty())
    }

    /// Returns the sets of the NAL unit type `kind`, in their order.
    pub(crate) fn of_kind(&self, kind: u8) -> Vec<&[u8]> {
        let sets = self.sets.iter().map(Vec::as_slice);
        sets.filter(|set| self.kinds.of(set) == kind).collect()
    }

    /// Returns whether all sets of `other` are in the list.
    pub(crate) fn include(&self, other: &Self) -> bool {
        self.kinds == other.kinds && other.sets.iter().all(|set| self.has(set))
    }

    fn has(&self, nal: &[u8]) -> bool {
        self.sets.iter().any(|set| set == nal)
    }

    /// Returns whether samples go without `nal`.
    fn leave_out(&self, nal: &[u8]) -> bool {
        let kind = self.kinds.of(nal);
        kind == self.kinds.delimiter() || self.kinds.sets().contains(&kind) && self.has(nal)
    }
}

/// Appends the sample of an access unit in Annex B form that comes in pieces.
pub(super) fn append<'a>(
    pieces: impl Iterator<Item = &'a [u8]>,
    sets: &ParameterSets,
    out: &mut Vec<u8>,
) {
    let start = out.len();
    out.extend_from_slice(&[0; LENGTH_BYTES]);
    let mut sample = Sample {
        out,
        sets,
        nal: start,
        has_begun: false,
    };
    pieces.for_each(|piece| sample.push(piece));
    sample.end_nal();
}

/// A sample under construction.
struct Sample<'a> {
    out: &'a mut Vec<u8>,
    sets: &'a ParameterSets,
    /// Offset of the length of the current NAL unit.
    nal: usize,
    /// Whether a start code was found: bytes before the first one are no NAL unit.
    has_begun: bool,
}

impl Sample<'_> {
    fn push(&mut self, piece: &[u8]) {
        let mut rest = piece;
        // A start code may be divided between two pieces.
        let after = match (&self.out[self.nal + LENGTH_BYTES..], piece) {
            ([.., 0, 0], [1, after @ ..]) | ([.., 0], [0, 1, after @ ..]) => Some(after),
            _ => None,
        };
        if let Some(after) = after {
            self.begin_nal();
            rest = after;
        }
        while let Some(at) = find_start_code(rest) {
            self.out.extend_from_slice(&rest[..at]);
            self.begin_nal();
            rest = &rest[at + START_CODE.len()..];
        }
        self.out.extend_from_slice(rest);
    }

    /// Ends the current NAL unit and begins the next one.
    fn begin_nal(&mut self) {
        self.end_nal();
        self.has_begun = true;
        self.nal = self.out.len();
        self.out.extend_from_slice(&[0; LENGTH_BYTES]);
    }

    /// Writes the length of the current NAL unit, or removes a unit that the sample goes without.
    fn end_nal(&mut self) {
        let body = self.nal + LENGTH_BYTES;
        let nal = trim_zeros(&self.out[body..]);
        let length = nal.len();
        if !self.has_begun || nal.is_empty() || self.sets.leave_out(nal) {
            self.out.truncate(self.nal);
            return;
        }
        self.out.truncate(body + length);
        let length = u32::try_from(length).expect("a unit stays far below 4 GiB");
        self.out[self.nal..body].copy_from_slice(&length.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sets() -> ParameterSets {
        let mut sets = ParameterSets::new(NalKinds::H264);
        for nal in [&[0x67, 1][..], &[0x68, 2], &[0x65, 3], &[]] {
            sets.add(nal);
        }
        sets
    }

    #[test]
    fn delimiters_and_known_sets_go_and_other_sets_stay() {
        assert!(sets().is_complete());
        let unit = [
            9, 0, 0, 0, 1, 0x09, 0x10, 0, 0, 0, 1, 0x67, 1, 0, 0, 1, 0x68, 2, 0, 0, 1, 0x68, 9, 0,
            0, 0, 1, 0x65, 7, 7, 0,
        ];
        let expected = [0, 0, 0, 2, 0x68, 9, 0, 0, 0, 3, 0x65, 7, 7];
        for cut in 0..unit.len() {
            let mut out = vec![1, 2];
            let (left, right) = unit.split_at(cut);
            append([left, right].into_iter(), &sets(), &mut out);
            assert_eq!(out[2..], expected, "cut at {cut}");
        }
    }

    #[test]
    fn sets_of_a_later_keyframe_are_included_or_not() {
        let mut fewer = ParameterSets::new(NalKinds::H264);
        fewer.add(&[0x67, 1]);
        assert!(sets().include(&fewer) && !fewer.include(&sets()));
        assert!(!sets().include(&ParameterSets::new(NalKinds::H265)));
    }

    proptest! {
        #[test]
        fn any_units_in_any_pieces_come_back(
            nals in prop::collection::vec(prop::collection::vec(1u8..=255, 1..20), 1..6),
            long in prop::collection::vec(any::<bool>(), 6),
            cuts in prop::collection::vec(0usize..200, 0..8),
        ) {
            let none = ParameterSets::new(NalKinds::H264);
            let mut unit = Vec::new();
            for (nal, long) in nals.iter().zip(&long) {
                unit.extend_from_slice(if *long { &[0, 0, 0, 1] } else { &[0, 0, 1] });
                unit.extend_from_slice(nal);
            }
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % unit.len()).collect();
            cuts.extend([0, unit.len()]);
            cuts.sort_unstable();
            let mut out = Vec::new();
            append(cuts.windows(2).map(|it| &unit[it[0]..it[1]]), &none, &mut out);
            let kept = nals.iter().filter(|nal| nal[0] & 0x1f != 9);
            let expected: Vec<u8> = kept
                .flat_map(|nal| [&(nal.len() as u32).to_be_bytes()[..], nal].concat())
                .collect();
            prop_assert_eq!(out, expected);
        }
    }
}
