//! Closes the session of a peer, for reasons of the server.

use std::time::Instant;

use glassline_hub::TrackLayout;
use glassline_media::Track;

use super::connecting::Dismissal;
use super::{Peer, Role};
use crate::sessions::counters::Counters;
use crate::sessions::endings::EndReason;

impl Peer {
    /// Closes the session for a reason that the session itself cannot know.
    pub(in crate::sessions) fn dismiss(&mut self, why: Dismissal, now: Instant) {
        self.dismissal = Some(why);
        self.session.close(now);
    }

    /// Notes why a session is dropped whose client was never heard.
    pub(in crate::sessions) fn note_dismissal(&mut self, why: Dismissal) {
        self.dismissal = Some(why);
    }

    /// Returns why the server closed the session; `None` if it did not.
    pub(in crate::sessions) fn ending(&self) -> Option<EndReason> {
        self.ending
    }

    /// Closes the session if the peer gets video with B-frames, which a browser shows in the wrong
    /// order. Returns whether it did. New viewers of the stream are refused with the same reason.
    pub(in crate::sessions) fn close_if_reordered(
        &mut self,
        tracks: &[Track],
        now: Instant,
        counters: &Counters,
    ) -> bool {
        let gets_them =
            matches!(&self.role, Role::Viewer(viewer) if viewer.sender.is_reordered(tracks));
        if gets_them {
            tracing::warn!(session = %self.id, stream = %self.stream.name(), "viewer disconnected: the video has B-frames, which browsers show in the wrong order; encode without them");
            counters.closed_reordered.add(1);
            self.ending = Some(EndReason::Reordered);
            self.session.close(now);
        }
        gets_them
    }

    /// Closes the session if the peer negotiated tracks that the stream no longer has in `layout`.
    /// Returns whether it did. The viewer may join again and negotiate the new tracks.
    pub(in crate::sessions) fn close_if_superseded(
        &mut self,
        layout: TrackLayout,
        now: Instant,
        counters: &Counters,
    ) -> bool {
        let is_old = matches!(&self.role, Role::Viewer(viewer)
            if viewer.is_superseded(layout, &self.stream.tracks()));
        if is_old && self.stream.is_deleted() {
            tracing::info!(session = %self.id, stream = %self.stream.name(), "viewer disconnected: the stream was deleted");
            counters.closed_deleted.add(1);
            self.ending = Some(EndReason::Deleted);
            self.session.close(now);
        } else if is_old {
            tracing::info!(session = %self.id, stream = %self.stream.name(), "viewer disconnected: the source changed its codecs, or its video needs no transcoding any more; the viewer may join again");
            counters.closed_tracks_changed.add(1);
            self.ending = Some(EndReason::TracksChanged);
            self.session.close(now);
        }
        is_old
    }
}
