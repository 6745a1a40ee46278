//! Cameras among the sources, as they may be dialled.

use glassline_hub::StreamName;
use glassline_ingest::{CameraSource, Input, Reach};

use super::StoredSources;

impl StoredSources {
    /// Returns the addresses that callers of the API may name now.
    pub(crate) fn reach(&self) -> Reach {
        Reach::Within(self.permitted.get().addresses())
    }

    /// Returns the camera that the stream `name` comes from, if it comes from one. A camera that was
    /// named over the API is where callers may name one.
    pub(crate) fn camera(&self, name: &StreamName) -> Option<CameraSource> {
        if let Some(input) = self.configured().get(name) {
            return input.camera().cloned();
        }
        let keys = self.stored.lock().get(name)?.keys.clone();
        let Ok(Input::Camera(mut camera)) = keys.input() else {
            return None;
        };
        camera.reach = self.reach();
        Some(camera)
    }
}
