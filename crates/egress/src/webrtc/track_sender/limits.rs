//! Limits on what a viewer is sent that is behind, or that moves to another layer.

use std::time::Duration;

use glassline_media::LayerIndex;

/// Limits on how far a viewer may be behind.
#[derive(Clone, Copy, Debug)]
pub(in crate::webrtc) struct SendLimits {
    /// Time that a unit may wait before the viewer skips to the next keyframe.
    pub(super) wait: Duration,
    /// Longest such time where keyframes are far apart and come on no request: a quarter of the time between
    /// them. `None` for the time above.
    pub(super) wait_sparse: Option<Duration>,
    /// Longest time that a keyframe may take on its way, which does not count as time that it or the
    /// units behind it wait, until none waits.
    pub(super) keyframe: Duration,
    /// Time beyond `wait` for which frames leave late while the viewer waits for the next keyframe: a late
    /// frame is newer than the one that stands.
    pub(super) late: Duration,
    /// Time that a unit may wait before frames are left out to which no other refers; `None` where none are.
    pub(super) leave_out: Option<Duration>,
    /// Most bytes since the last keyframe that a new viewer is sent, unless keyframes are
    /// [far apart](FAR_APART_NS).
    pub(super) catch_up_bytes: usize,
}

/// Time that a unit waits before others are left out: a frame and a half of 30 a second.
const LEAVE_OUT: Duration = Duration::from_millis(50);

/// Most bytes since the last keyframe that any new viewer is sent.
pub(super) const CATCH_UP_BYTES_MAX: usize = 8 << 20;

/// Time since the last keyframe in ns from which on a new viewer waits longer for the next keyframe than
/// for all frames since the last one.
pub(super) const FAR_APART_NS: i64 = 5_000_000_000;

impl SendLimits {
    /// Limits for a session without congestion control, where only the socket and the spreading of
    /// keyframes hold packets back.
    pub(in crate::webrtc) const UNPACED: Self = Self {
        wait: Duration::from_millis(200),
        wait_sparse: None,
        keyframe: Duration::ZERO,
        late: Duration::ZERO,
        leave_out: Some(LEAVE_OUT),
        catch_up_bytes: CATCH_UP_BYTES_MAX,
    };

    /// Limits for a session with congestion control, where a keyframe takes the time that the path
    /// needs for it: five times an average frame's bytes take 170 ms where the stream just fits. The
    /// frames behind it wait as long, and that time does not count. The frames since the last keyframe
    /// must arrive before live ones do. A viewer that skips stands until the next keyframe, so that four
    /// seconds from one to the next and a wait of one second show as many frames as two and half a second.
    pub(in crate::webrtc) const PACED: Self = Self {
        wait: Duration::from_millis(500),
        wait_sparse: Some(Duration::from_millis(2_500)),
        keyframe: Duration::from_secs(2),
        late: Duration::from_secs(5),
        leave_out: Some(LEAVE_OUT),
        catch_up_bytes: 512 << 10,
    };

    /// Returns these limits with frames left out, or not.
    pub(super) fn leaving_out(self, is_left_out: bool) -> Self {
        Self {
            leave_out: is_left_out.then_some(LEAVE_OUT),
            ..self
        }
    }

    /// Returns these limits with a wait of `lag`, if that is set.
    pub(in crate::webrtc) fn waiting(self, lag: Option<Duration>) -> Self {
        Self {
            wait: lag.unwrap_or(self.wait),
            wait_sparse: self.wait_sparse.filter(|_| lag.is_none()),
            ..self
        }
    }
}

/// Most bytes since the last keyframe of another layer that a viewer is sent when it moves there, so that
/// a path that just carries the stream is not overrun.
const SWITCH_BYTES_MAX: usize = 256 << 10;

/// A move to another layer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LayerMove {
    /// The layer to which the viewer moves.
    pub(crate) layer: LayerIndex,
    /// Most bytes since the layer's keyframe that the viewer is sent when it moves.
    pub(crate) catch_up_bytes: usize,
    /// Whether the units of the present layer that wait are dropped, because the path carries too little
    /// for them.
    pub(crate) drops_waiting: bool,
    /// Whether a viewer that has got nothing yet waits for the layer, and gets nothing else meanwhile.
    pub(crate) is_awaited: bool,
}

impl LayerMove {
    /// Returns the move to `layer` of a viewer whose path has room.
    pub(crate) const fn to(layer: LayerIndex) -> Self {
        Self {
            layer,
            catch_up_bytes: SWITCH_BYTES_MAX,
            drops_waiting: false,
            is_awaited: true,
        }
    }
}
