//! The bounds that a camera has to keep.

use std::time::Duration;

/// Longest time for the connection and for each response; a camera on the same continent needs a
/// tenth of it.
pub(super) const STEP: Duration = Duration::from_secs(5);

/// Longest time without a keyframe. Without keyframes no new viewer can start to watch.
pub(super) const KEYFRAME: Duration = Duration::from_secs(20);

/// Mean interval between receiver reports, the least that RFC 3550 §6.2 recommends. Cameras that need
/// reports end the session after ten seconds without any.
pub(super) const REPORTS: Duration = Duration::from_secs(5);

/// Most bytes of a message's body: a description of many tracks with all their parameters has a few
/// KiB. A camera that sends more is given up before its message is stored.
pub(super) const BODY_BYTES_MAX: usize = 1 << 20;
