use glassline_media::annexb::LONG_START_CODE;

use super::{is_idr, nal, nal_type};

/// One complete coded picture with the NAL units that belong to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessUnit {
    /// RTP timestamp of the unit, as on the wire.
    pub timestamp: u32,
    /// Extended sequence number of the first packet.
    pub first_sequence: u64,
    /// Extended sequence number of the last packet.
    pub last_sequence: u64,
    /// True if the unit has a slice of an IDR picture.
    pub keyframe: bool,
    /// True if something was lost between the unit delivered before and this one. References of
    /// this unit may be missing until the next keyframe.
    pub after_loss: bool,
    /// The unit in Annex B form: each NAL unit behind a start code of four bytes.
    pub data: Vec<u8>,
    /// For each NAL unit, the offset in `data` behind it.
    ends: Vec<u32>,
}

impl AccessUnit {
    pub(super) fn begin(timestamp: u32, sequence: u64) -> Self {
        Self {
            timestamp,
            first_sequence: sequence,
            last_sequence: sequence,
            keyframe: false,
            after_loss: false,
            data: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// Iterates over the NAL units in order, without start codes.
    pub fn nals(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).filter_map(|(start, &end)| {
            self.data
                .get(start as usize + LONG_START_CODE.len()..end as usize)
        })
    }

    /// Returns the first NAL unit of type `kind`, such as [`nal::SPS`].
    pub fn find(&self, kind: u8) -> Option<&[u8]> {
        self.nals()
            .find(|unit| unit.first().is_some_and(|&first| nal_type(first) == kind))
    }

    /// Returns whether the unit has both parameter sets that a decoder needs to start.
    pub fn has_parameter_sets(&self) -> bool {
        self.find(nal::SPS).is_some() && self.find(nal::PPS).is_some()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub(super) fn begin_nal(&mut self) {
        self.data.extend_from_slice(&LONG_START_CODE);
    }

    pub(super) fn extend(&mut self, bytes: &[u8]) {
        self.data.extend_from_slice(bytes);
    }

    pub(super) fn end_nal(&mut self) {
        let start = self.ends.last().map_or(0, |&end| end as usize) + LONG_START_CODE.len();
        self.keyframe |= self.data.get(start..).is_some_and(is_idr);
        // The depacketizer bounds a unit far below 4 GiB.
        self.ends.push(self.data.len() as u32);
    }

    pub(super) fn push_nal(&mut self, unit: &[u8]) {
        self.begin_nal();
        self.extend(unit);
        self.end_nal();
    }
}
