//! The timeline of a stream that several playbacks fill one after the other.

use std::time::{Duration, Instant};

use glassline_hub::{PublishError, Publisher};
use glassline_media::{MediaTime, MediaUnit};

/// Shortest distance between the end of one playback and the beginning of the next.
const STEP: Duration = Duration::from_millis(1);

/// The timeline of a reading's stream.
#[derive(Debug)]
pub(super) struct ReadingTimeline {
    /// Time at which media time zero was due.
    epoch: Option<Instant>,
    /// End of the media published so far.
    pub(super) end: MediaTime,
    /// Nanoseconds that the hub adds to the times of this timeline.
    offset_ns: i64,
    /// For each track the number of its next packet.
    pub(super) next_packets: Vec<u64>,
}

impl ReadingTimeline {
    pub(super) fn new(tracks: usize) -> Self {
        Self {
            epoch: None,
            end: MediaTime::ZERO,
            offset_ns: 0,
            next_packets: vec![0; tracks],
        }
    }

    /// Returns when `time` is due if everything is sent as fast as it is shown. A client that wants
    /// it sent faster thus sees one steady clock in the sender reports.
    pub(super) fn instant(&self, time: MediaTime, now: Instant) -> Instant {
        let epoch = self.epoch.unwrap_or(now);
        let distance = Duration::from_nanos(time.nanos().unsigned_abs());
        if time < MediaTime::ZERO {
            epoch.checked_sub(distance).unwrap_or(epoch)
        } else {
            epoch + distance
        }
    }

    /// Returns the time at which media can begin `now` whose first shown frame is `reach` earlier.
    pub(super) fn begin(&mut self, reach: Duration, now: Instant) -> MediaTime {
        let Some(epoch) = self.epoch else {
            self.epoch = Some(now);
            return MediaTime::ZERO;
        };
        let wall = MediaTime::ZERO + now.saturating_duration_since(epoch);
        wall.max(self.end + STEP + reach)
    }

    pub(super) fn push(
        &mut self,
        publisher: &mut Publisher,
        media_unit: MediaUnit,
        now: Instant,
    ) -> Result<(), PublishError> {
        let (track, time) = (media_unit.track, media_unit.time);
        // Nothing stands in for a file.
        if let Some(media_unit) = publisher.push(media_unit, now)? {
            self.offset_ns = media_unit.time.nanos() - time.nanos();
            self.next_packets[track] = media_unit.first_packet + media_unit.packet_count() as u64;
        }
        Ok(())
    }

    /// Returns the time as the hub has placed it.
    pub(super) fn placed(&self, time: MediaTime) -> MediaTime {
        MediaTime::from_nanos(time.nanos().saturating_add(self.offset_ns))
    }
}
