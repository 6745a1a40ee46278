//! Where the units of a session with a camera go: into a stream of their own, or into a layer of one.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use glassline_hub::{SourceNote, State, Stream};
use glassline_media::{LayerIndex, Track};
use glassline_rtp::units::TimedUnit;

use crate::lack::Lack;
use crate::live_publisher::{Destination, LivePublisher, Published};
use crate::on_demand::Supply;
use crate::publishing::HubRefusal;

/// The receiver of a session's access units.
pub(super) trait Sink: fmt::Debug + Send {
    /// Returns the tracks of the session as they are published, video first.
    fn tracks(&self) -> &[Track];

    /// Replaces the tracks, of which one is left out for the reason `why`, before anything is published.
    fn leave_out(&mut self, tracks: Vec<Track>, why: String);

    /// Publishes an access unit at `now`, if viewers can begin with it or with an earlier one.
    fn publish(&mut self, unit: TimedUnit, now: Instant) -> Published;

    /// Notes how far the camera's wall clock is ahead of the times of the session's video, in ns.
    fn note_wall_clock(&mut self, _ahead_ns: i128) {}

    /// Returns whether a keyframe is needed, as [`LivePublisher::take_keyframe_wish`] does.
    fn take_keyframe_wish(&mut self) -> bool;

    /// Returns when the first unit was published.
    fn live_since(&self) -> Option<Instant>;

    /// Notes that `frames` more frames were dropped because they are too large.
    fn note_oversized(&mut self, frames: u64, now: Instant);

    /// Returns the number of frames that were dropped because they are too large.
    fn oversized(&self) -> u64;

    /// Returns what the camera lacks, if it has sent no frame to begin with.
    fn lack(&self) -> Lack;

    /// Checks that the hub has taken all units.
    ///
    /// # Errors
    /// The reason why it refused one.
    fn refused(&mut self) -> Result<(), HubRefusal>;

    /// Ends publishing, because nobody needs it.
    fn leave(self: Box<Self>);
}

impl Sink for LivePublisher {
    fn tracks(&self) -> &[Track] {
        self.tracks()
    }

    fn leave_out(&mut self, tracks: Vec<Track>, why: String) {
        self.leave_out(tracks, why);
    }

    fn publish(&mut self, unit: TimedUnit, now: Instant) -> Published {
        self.publish(unit, LayerIndex::BASE, now)
    }

    fn take_keyframe_wish(&mut self) -> bool {
        self.take_keyframe_wish()
    }

    fn live_since(&self) -> Option<Instant> {
        self.live_since()
    }

    fn note_oversized(&mut self, frames: u64, now: Instant) {
        self.note_oversized(frames, now);
    }

    fn oversized(&self) -> u64 {
        self.oversized()
    }

    fn lack(&self) -> Lack {
        self.lack()
    }

    fn refused(&mut self) -> Result<(), HubRefusal> {
        self.refused()
    }

    fn leave(self: Box<Self>) {
        self.finish(State::Idle);
    }
}

/// The part of a stream that a connection to a camera publishes: all of it, or a layer.
pub(super) trait Share: Supply + fmt::Debug {
    /// Begins to publish `tracks` of a session, video first.
    fn begin(&self, note: SourceNote, tracks: Vec<Track>) -> Box<dyn Sink>;

    /// Returns whether a session has to have video.
    fn needs_video(&self) -> bool {
        false
    }
}

impl Share for Arc<Stream> {
    fn begin(&self, note: SourceNote, tracks: Vec<Track>) -> Box<dyn Sink> {
        let destination = Destination::Stream(Self::clone(self));
        Box::new(LivePublisher::new(destination, note, tracks))
    }
}
