use std::time::Duration;

/// The place in a recording that a unit was read from, for players that ask for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedPlace {
    /// Wall-clock time at which the frame is presented in the recording, since 1970-01-01 UTC.
    pub wall_clock: Duration,
    /// Whether the frame is not the one behind that which was sent before: the player has sought, or frames
    /// are left out, or missing.
    pub is_discontinuous: bool,
    /// Whether frames are missing behind this one in the recording.
    pub ends_section: bool,
    /// Whether nothing is played behind this frame.
    pub is_last: bool,
}
