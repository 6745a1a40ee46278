//! Settings for playing a file.

use std::time::Duration;

/// Settings for playing a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Play {
    /// Position in the file to begin at; video begins with the keyframe before. `None` continues at
    /// the present position.
    pub from: Option<Duration>,
    /// Position in the file to end at; it lies before `from` when playing backwards.
    pub until: Option<Duration>,
    /// Seconds of the file that are presented in one second (RFC 2326 §12.34). From 2 on only
    /// keyframes are played, below 0 only keyframes and backwards. Audio is left out unless the
    /// scale is 1. Files without video are always played at 1.
    pub scale: f64,
    /// Seconds of presentation that are sent in one second (RFC 2326 §12.35).
    pub speed: f64,
    /// Shortest distance of keyframes if they alone are played; `None` plays what the scale allows.
    pub keyframes: Option<Duration>,
    /// Whether playback ends with the file instead of starting over; the stream's state is
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
            keyframes: None,
            once: true,
        }
    }
}
