//! Detects whether the frames of a live stream are reordered: presented in another order than
//! decoded.
//!
//! A file is read first, so its order is known. Of a live stream only the parameter sets and
//! the frames so far are known:
//!
//! | the sequence parameter set says | taken for reordered |
//! |---|---|
//! | no frame is sent ahead (`max_num_reorder_frames`, `sps_max_num_reorder_pics` 0) | no |
//! | some may be | yes, until 250 frames came without |
//! | nothing (many cameras) | no |
//!
//! In the last two cases the stream counts as reordered as soon as a frame is presented before
//! an earlier one, until 250 frames came without another such frame: an encoder may make B-frames for
//! a moment only. Most encoders that say "some" send B-frames; a few copy the number from a
//! table, and their viewers wait ten seconds longer.
//!
//! [`DecodeTimes`] derives from the number of frames sent ahead when a frame is decoded.
//!
//! Sources: ITU-T H.264 8.2.1 and E.2.1, ITU-T H.265 8.3.1 and 7.4.3.2.1.

mod decode_times;

use glassline_media::Codec;

use crate::elementary::annexb::{self, PARAMETER_SET_BYTES_MAX};
use crate::elementary::grammar::{Content, Grammar};
use crate::elementary::h264::H264;
use crate::elementary::h265::H265;

pub use decode_times::DecodeTimes;

/// Frames without reordering after which a stream counts as not reordered: ten seconds at 25
/// frames per second.
const SETTLED_FRAMES: u32 = 250;

/// Detects reordering in the access units of one track.
#[derive(derive_more::Debug)]
#[debug("Reordering {{ is_reordered: {:?}, .. }}", self.is_reordered())]
pub struct Reordering {
    coding: Coding,
}

enum Coding {
    H264(Detector<H264>),
    H265(Detector<H265>),
}

impl Reordering {
    /// Creates a detector for a track of `codec`; `None` for codecs that have no B-frames, or
    /// that no browser plays.
    pub fn of(codec: Codec) -> Option<Self> {
        let coding = match codec {
            Codec::H264 => Coding::H264(Detector::default()),
            Codec::H265 => Coding::H265(Detector::default()),
            _ => return None,
        };
        Some(Self { coding })
    }

    /// Examines the next access unit (bytes of Annex B), or parameter sets that were sent
    /// outside of the stream. Damaged units have no effect.
    ///
    /// `after_loss`: whether units before this one are missing.
    pub fn push(&mut self, unit: &[u8], after_loss: bool) {
        match &mut self.coding {
            Coding::H264(detector) => detector.push(unit, after_loss),
            Coding::H265(detector) => detector.push(unit, after_loss),
        }
    }

    /// Returns how many frames may be decoded before a frame and presented behind it, as the sequence
    /// parameter set of the latest frame says; 0 if it does not say.
    pub fn depth(&self) -> u32 {
        let reorder_max = match &self.coding {
            Coding::H264(detector) => detector.reorder_max,
            Coding::H265(detector) => detector.reorder_max,
        };
        reorder_max.unwrap_or(0)
    }

    /// Returns whether frames are presented in another order than decoded, as far as it is
    /// known.
    pub fn is_reordered(&self) -> bool {
        match &self.coding {
            Coding::H264(detector) => detector.is_reordered(),
            Coding::H265(detector) => detector.is_reordered(),
        }
    }
}

#[derive(Default)]
struct Detector<G> {
    grammar: G,
    /// Number of reordered frames that the sequence parameter set of the last frame allows.
    reorder_max: Option<u32>,
    /// Number of frames since this parameter set, or since the last one that was presented before an
    /// earlier one.
    quiet: u32,
    /// Whether a frame since this parameter set was presented before an earlier one.
    seen: bool,
}

impl<G: Grammar> Detector<G> {
    fn push(&mut self, unit: &[u8], after_loss: bool) {
        if after_loss {
            self.grammar.forget_order();
        }
        let mut frame = None;
        for nal in annexb::nals(unit) {
            // No slice header is longer than this, either.
            let head = &nal[..nal.len().min(PARAMETER_SET_BYTES_MAX)];
            // A damaged parameter set is ignored.
            if let Ok(role) = self.grammar.push(head)
                && let Content::Picture(facts) = role.content
            {
                frame.get_or_insert(facts);
            }
        }
        let Some(facts) = frame else {
            return;
        };
        let reorder_max = self.grammar.reorder_max(facts.pps);
        if reorder_max != self.reorder_max {
            self.reorder_max = reorder_max;
            self.quiet = 0;
            self.seen = false;
        }
        if facts.reordered {
            self.quiet = 0;
            self.seen = true;
        } else {
            self.quiet = self.quiet.saturating_add(1);
        }
    }

    fn is_reordered(&self) -> bool {
        match self.reorder_max {
            Some(0) => false,
            Some(_) => self.quiet < SETTLED_FRAMES,
            None => self.seen && self.quiet < SETTLED_FRAMES,
        }
    }
}

#[cfg(test)]
mod tests;
