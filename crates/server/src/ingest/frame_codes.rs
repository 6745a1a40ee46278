use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

/// What a source burns into its frames, so that a viewer can tell when the
/// one on the screen was captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameCode {
    /// Frames per second.
    pub fps: u32,
    /// Numbers run from 0 to here, excluded, then begin again.
    pub frames: u32,
    /// When number 0 was captured, in some round; others follow by `fps`.
    pub epoch: Instant,
}

/// The frame codes of the streams that have one. Clones share one map.
#[derive(Clone, Debug, Default)]
pub struct FrameCodes(Arc<RwLock<HashMap<String, FrameCode>>>);

impl FrameCodes {
    /// The code in the frames of stream `name`; `None` if it has none.
    pub fn get(&self, name: &str) -> Option<FrameCode> {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(name)
            .copied()
    }

    pub(super) fn set(&self, name: &str, code: FrameCode) {
        self.0
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name.to_owned(), code);
    }

    pub(super) fn remove(&self, name: &str) {
        self.0
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(name);
    }
}
