//! The stream's timeline, as one reading after the other fills it.

use std::time::{Duration, Instant};

use glassline_hub::{PublishError, Publisher};
use glassline_media::{MediaTime, MediaUnit};

/// Between the newest of what was played and the oldest of what is played next.
const STEP: Duration = Duration::from_millis(1);

/// The stream's timeline as far as this reading filled it.
#[derive(Debug)]
pub(super) struct ReadingTimeline {
    /// When its zero was due.
    epoch: Option<Instant>,
    /// The end of what was published.
    pub(super) end: MediaTime,
    /// What the hub adds to our times.
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

    /// When `time` is due if everything is sent as fast as it is shown. So a client
    /// that wants it sent faster sees one steady clock in the reports all the same.
    pub(super) fn instant(&self, time: MediaTime, now: Instant) -> Instant {
        let epoch = self.epoch.unwrap_or(now);
        let distance = Duration::from_nanos(time.nanos().unsigned_abs());
        if time < MediaTime::ZERO {
            epoch.checked_sub(distance).unwrap_or(epoch)
        } else {
            epoch + distance
        }
    }

    /// Where on it something can begin `now` that is shown from `reach` earlier on.
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
        burst: MediaUnit,
        now: Instant,
    ) -> Result<(), PublishError> {
        let (track, time) = (burst.track, burst.time);
        let burst = publisher.push(burst, now)?;
        self.offset_ns = burst.time.nanos() - time.nanos();
        self.next_packets[track] = burst.first_packet + burst.packet_count() as u64;
        Ok(())
    }

    /// As the hub has placed it.
    pub(super) fn placed(&self, time: MediaTime) -> MediaTime {
        MediaTime::from_nanos(time.nanos().saturating_add(self.offset_ns))
    }
}
