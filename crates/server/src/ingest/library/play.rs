//! How a file is to be played.

use std::time::Duration;

/// How a file is to be played.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Play {
    /// From where in the file; frames begin with the keyframe before. `None`: on
    /// from where it stands.
    pub from: Option<Duration>,
    /// To where; playing backwards, down to where.
    pub until: Option<Duration>,
    /// Seconds of the file presented in one (RFC 2326 §12.34): from 2 on keyframes
    /// only, below 0 keyframes backwards. Audio is left out unless it is 1. Files
    /// without video are always played at 1.
    pub scale: f64,
    /// How much faster than presented it is sent (RFC 2326 §12.35).
    pub speed: f64,
    /// Ends with the file instead of starting over; the stream is
    /// [`State::Ended`](glassline_hub::State::Ended) then.
    pub once: bool,
}

impl Default for Play {
    fn default() -> Self {
        Self {
            from: None,
            until: None,
            scale: 1.0,
            speed: 1.0,
            once: true,
        }
    }
}
