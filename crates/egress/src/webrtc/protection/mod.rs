//! Protection ahead of losses, where the round trip makes every retransmission late: FEC packets for
//! the video, and copies in the audio.
//!
//! ```text
//! receiver reports ─► ProtectionChoice: how much ─┬► Groups: FEC packets of the video's packets
//! signs of the path ─► nothing, at once ──────────┴► Redundancy: copies of the audio before
//! ```
//!
//! Sequence numbers are a viewer's own, and so is parity over them: it is made for each viewer that
//! needs it, and others have no state here.

mod choice;
mod groups;
mod window;

use std::time::Duration;

use glassline_congestion::PathSigns;
use glassline_webrtc::SenderIndex;

pub(crate) use choice::{ProtectionChoice, Reception, is_far};
pub(super) use groups::{Groups, Packet};
pub(crate) use window::ReportWindow;

/// Queue from which on FEC packets would only add to the load.
const QUEUE_MAX: Duration = Duration::from_millis(30);

/// Time that a frame waits in the server from which on the path has no room for more.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// The protection of one viewer.
#[derive(Debug)]
pub(super) struct Protection {
    pub(super) choice: ProtectionChoice,
    pub(super) window: ReportWindow,
    /// Parity of the video; `None` if the viewer does not decode it.
    pub(super) groups: Option<Groups>,
}

impl Protection {
    /// Returns what makes the FEC packets of a sender, if it is to make any.
    #[inline]
    pub(super) fn groups_of(&mut self, sender: SenderIndex) -> Option<&mut Groups> {
        let groups = self.groups.as_mut();
        groups.filter(|it| it.percent() > 0 && it.sender() == sender)
    }
}

/// Returns whether a path is full: with `waited`, the time that the front frame has waited.
pub(super) fn is_full(signs: Option<PathSigns>, waited: Duration) -> bool {
    signs.is_some_and(|it| it.standing >= QUEUE_MAX) || waited >= WAIT_MAX
}
