//! A session that plays what was recorded.

use std::sync::Arc;

use glassline_hub::Stream;
use glassline_ingest::library::{Play, PrivateReading};
use glassline_runtime::ConnectionPermit;

/// The recordings that a viewer's session plays, alone.
#[derive(Debug)]
pub(crate) struct PastSession {
    /// Name of the recorded stream.
    name: String,
    reading: PrivateReading,
    _place: ConnectionPermit,
}

impl PastSession {
    /// Creates the recordings of the stream `name`, which `reading` plays.
    pub(crate) const fn new(
        name: String,
        reading: PrivateReading,
        place: ConnectionPermit,
    ) -> Self {
        Self {
            name,
            reading,
            _place: place,
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn stream(&self) -> &Arc<Stream> {
        self.reading.stream()
    }

    /// Goes to another instant, or changes the speed.
    pub(crate) fn play(&self, play: Play) {
        self.reading.play(play);
    }

    /// Stops at the present frame.
    pub(crate) fn pause(&self) {
        self.reading.pause();
    }

    /// Goes to the live stream.
    pub(crate) fn follow(&self, live: Arc<Stream>) {
        self.reading.follow(live);
    }
}
