/// Frames in a row with right markers after which a source is trusted again: one or two seconds.
const RIGHT_FRAMES: u32 = 32;
/// Most frames that are demanded of a source whose markers are wrong again and again.
const RIGHT_FRAMES_MAX: u32 = 1 << 14;

/// How far a source's markers end its frames.
///
/// A marker ends a frame at once, so that no frame waits for the next. Sources that mark each NAL unit,
/// or each packet, are known by what comes behind a marker, and their frames end where the next one
/// begins. The first marker of most of them is on a parameter set, where no frame can end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Markers {
    trust: Trust,
    /// Frames with right markers that a source has to send to be trusted again.
    required: u32,
}

#[derive(Clone, Copy, Debug)]
enum Trust {
    /// No marker has been followed by another frame yet.
    Unproven,
    Proven,
    /// Markers are not heeded; the number of frames in a row whose marker was right.
    Refused(u32),
}

/// The markers of a frame that did not end at one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FrameMarkers {
    /// Whether the latest packet had a marker.
    last: bool,
    /// Whether an earlier packet had one.
    early: bool,
}

impl FrameMarkers {
    pub(super) const fn push(&mut self, marker: bool) {
        self.early |= self.last;
        self.last = marker;
    }
}

impl Default for Markers {
    fn default() -> Self {
        Self {
            trust: Trust::Unproven,
            required: RIGHT_FRAMES,
        }
    }
}

impl Markers {
    /// Returns whether a marker ends a frame.
    pub(super) const fn end_frames(&self) -> bool {
        !matches!(self.trust, Trust::Refused(_))
    }

    /// Notes that another frame followed the marker of one.
    pub(super) const fn was_right(&mut self) {
        if matches!(self.trust, Trust::Unproven) {
            self.trust = Trust::Proven;
        }
    }

    /// Notes that a marker was within a frame.
    pub(super) fn was_wrong(&mut self) {
        if self.end_frames() && matches!(self.trust, Trust::Proven) {
            self.required = (self.required * 2).min(RIGHT_FRAMES_MAX);
        }
        self.trust = Trust::Refused(0);
    }

    /// Notes a marker in front of a picture. It does no harm, and some cameras send it with parameter
    /// sets though all else is right. So it counts only while nothing else is known.
    pub(super) fn was_ahead(&mut self) {
        if matches!(self.trust, Trust::Unproven) {
            self.was_wrong();
        }
    }

    /// Notes that a frame with these markers ended where the next one begins.
    pub(super) const fn ended(&mut self, frame: FrameMarkers) {
        let Trust::Refused(right) = &mut self.trust else {
            return;
        };
        match frame {
            FrameMarkers { early: true, .. } => *right = 0,
            FrameMarkers { last: true, .. } => *right += 1,
            // A frame without a marker would not have ended at a wrong place.
            _ => {}
        }
        if *right >= self.required {
            self.trust = Trust::Proven;
        }
    }
}
