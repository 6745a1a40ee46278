//! Whether the frames of a live stream come in the order in which they are shown.
//!
//! A file is read through first, and then it is known. Of a live stream there is what
//! its parameter sets say and what has come so far:
//!
//! | the sequence parameter set says | taken for reordered |
//! |---|---|
//! | no frame is sent ahead (`max_num_reorder_frames`, `sps_max_num_reorder_pics` 0) | no |
//! | some may be | yes, until 250 frames came without |
//! | nothing (many cameras) | no |
//!
//! and yes in the last two cases as soon as one comes that is shown before an earlier
//! one. Encoders that say "some" make B-frames, but for a few that copy the number from
//! a table; those who watch pay for such a mistake by ten seconds.
//!
//! Sources: ITU-T H.264 8.2.1 and E.2.1, ITU-T H.265 8.3.1 and 7.4.3.2.1.

use std::fmt;

use glassline_media::Codec;

use crate::elementary::annexb::{self, PARAMETER_SET_BYTES_MAX};
use crate::elementary::grammar::{Content, Grammar};
use crate::elementary::h264::H264;
use crate::elementary::h265::H265;

/// Ten seconds at 25 frames a second, a few groups of pictures.
const SETTLED_FRAMES: u32 = 250;

/// Follows the access units of one track.
pub struct Reordering {
    coding: Coding,
}

enum Coding {
    H264(Watch<H264>),
    H265(Watch<H265>),
}

impl Reordering {
    /// For a track of `codec`; `None` for those that are not followed, which are those
    /// that have no B-frames and those that no browser plays.
    pub fn of(codec: Codec) -> Option<Self> {
        let coding = match codec {
            Codec::H264 => Coding::H264(Watch::default()),
            Codec::H265 => Coding::H265(Watch::default()),
            _ => return None,
        };
        Some(Self { coding })
    }

    /// Takes the next access unit, Annex-B bytes, or parameter sets that came beside
    /// the stream. Units that are damaged tell nothing.
    ///
    /// `after_loss`: some are missing between the last one and this.
    pub fn push(&mut self, unit: &[u8], after_loss: bool) {
        match &mut self.coding {
            Coding::H264(watch) => watch.push(unit, after_loss),
            Coding::H265(watch) => watch.push(unit, after_loss),
        }
    }

    /// Whether frames are shown in another order than they come in, as far as it is
    /// known by now.
    pub fn is_reordered(&self) -> bool {
        match &self.coding {
            Coding::H264(watch) => watch.is_reordered(),
            Coding::H265(watch) => watch.is_reordered(),
        }
    }
}

impl fmt::Debug for Reordering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reordering")
            .field("is_reordered", &self.is_reordered())
            .finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Watch<G> {
    grammar: G,
    /// As the sequence parameter set of the last frame says.
    reorder_max: Option<u32>,
    /// Frames since it says so.
    frames: u32,
    /// One of them was shown before an earlier one.
    seen: bool,
}

impl<G: Grammar> Watch<G> {
    fn push(&mut self, unit: &[u8], after_loss: bool) {
        if after_loss {
            self.grammar.forget_order();
        }
        let mut frame = None;
        for nal in annexb::nals(unit) {
            // No slice header is longer, either.
            let head = &nal[..nal.len().min(PARAMETER_SET_BYTES_MAX)];
            // A damaged set is as good as none.
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
            self.frames = 0;
            self.seen = false;
        }
        self.frames = self.frames.saturating_add(1);
        self.seen |= facts.reordered;
    }

    fn is_reordered(&self) -> bool {
        match self.reorder_max {
            Some(0) => false,
            Some(_) if self.frames < SETTLED_FRAMES => true,
            _ => self.seen,
        }
    }
}

#[cfg(test)]
mod tests;
