use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::RwLock;

/// The timing of the numbers that a source draws into its frames, so that a viewer's page can tell
/// when the frame on the screen was captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameCode {
    /// Frame rate in frames per second.
    pub fps: u32,
    /// Count of frame numbers: they run from 0 to `frames` - 1 and then begin again.
    pub frames: u32,
    /// Time at which frame number 0 was captured in some round; the others follow by `fps`.
    pub epoch: Instant,
}

/// The frame codes of all streams that have one. Clones share one map.
#[derive(Clone, Debug, Default)]
pub struct FrameCodes(Arc<RwLock<HashMap<String, FrameCode>>>);

impl FrameCodes {
    /// Returns the frame code of the stream `name`, if it has one.
    pub fn get(&self, name: &str) -> Option<FrameCode> {
        self.0.read().get(name).copied()
    }

    /// Gives the stream `name` a frame code, or another one.
    pub fn set(&self, name: &str, code: FrameCode) {
        self.0.write().insert(name.to_owned(), code);
    }

    /// Forgets the frame code of the stream `name`.
    pub fn remove(&self, name: &str) {
        self.0.write().remove(name);
    }
}
