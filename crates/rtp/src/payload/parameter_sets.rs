use super::h265;
use crate::h264;
use glassline_media::{Codec, Track, annexb};

/// The latest parameter sets that a decoder of H.264 or H.265 needs to start. Sources that send
/// them only now and then, or only in their session description, get them in front of every
/// keyframe.
#[derive(Debug)]
pub struct ParameterSets {
    codec: Codec,
    /// The sets in the order that a decoder needs; empty slots until each is seen.
    sets: Vec<(u8, Vec<u8>)>,
    /// Whether the track's description has the sets.
    described: bool,
}

/// Longest parameter set that is kept, in bytes; a usual set has some dozens.
const SET_BYTES_MAX: usize = 4096;

impl ParameterSets {
    /// Creates the state from the sets in the track's description; `None` for a codec without
    /// parameter sets.
    pub fn of(track: &Track) -> Option<Self> {
        let kinds: &[u8] = match track.codec {
            Codec::H264 => &[h264::nal::SPS, h264::nal::PPS],
            Codec::H265 => &[h265::nal::VPS, h265::nal::SPS, h265::nal::PPS],
            _ => return None,
        };
        let mut sets = Self {
            codec: track.codec,
            sets: kinds.iter().map(|&kind| (kind, Vec::new())).collect(),
            described: false,
        };
        match track.codec {
            Codec::H264 => {
                sets.learn(&track.video.sps);
                sets.learn(&track.video.pps);
            }
            _ => {
                for set in h265::sets_of(track) {
                    sets.learn(&set);
                }
            }
        }
        Some(sets)
    }

    /// Returns whether a decoder can start with the Annex-B `unit` now, and the unit with the sets
    /// that it lacks if it is a keyframe.
    pub fn complete(&mut self, keyframe: bool, unit: Vec<u8>) -> (bool, Vec<u8>) {
        let mut found = 0;
        for nal in annexb::nals(&unit) {
            found |= self.learn(nal);
        }
        let complete = found.count_ones() as usize == self.sets.len();
        if !keyframe || complete {
            return (keyframe, unit);
        }
        if self.sets.iter().any(|(_, set)| set.is_empty()) {
            return (false, unit);
        }
        // Sets that the unit has itself follow behind the ones added here, and are equal.
        let more: usize = self.sets.iter().map(|(_, set)| set.len() + 4).sum();
        let mut whole = Vec::with_capacity(unit.len() + more);
        for (_, set) in &self.sets {
            whole.extend_from_slice(&[0, 0, 0, 1]);
            whole.extend_from_slice(set);
        }
        whole.extend_from_slice(&unit);
        (true, whole)
    }

    /// Adds the sets to the description of `track` once all are known, unless the description has
    /// them.
    pub fn describe(&mut self, track: &mut Track) {
        if self.described || self.sets.iter().any(|(_, set)| set.is_empty()) {
            return;
        }
        self.described = true;
        match &self.sets[..] {
            [(_, sps), (_, pps)] if track.video.sps.is_empty() => {
                track.video.sps.clone_from(sps);
                track.video.pps.clone_from(pps);
            }
            [(_, vps), (_, sps), (_, pps)] => h265::describe(track, [vps, sps, pps]),
            _ => {}
        }
    }

    /// Stores the NAL unit if it is a parameter set. Returns the bit of its kind, or 0.
    fn learn(&mut self, nal: &[u8]) -> u8 {
        let Some(&first) = nal.first() else { return 0 };
        let kind = match self.codec {
            Codec::H264 => h264::nal_type(first),
            _ => h265::nal_type(first),
        };
        let Some(index) = self.sets.iter().position(|(it, _)| *it == kind) else {
            return 0;
        };
        let set = &mut self.sets[index].1;
        if nal.len() <= SET_BYTES_MAX && set != nal {
            *set = nal.to_vec();
        }
        1 << index
    }
}
