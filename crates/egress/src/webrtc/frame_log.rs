//! Records when each recent frame passed each stage for one viewer.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use glassline_media::Relay;

use glassline_latency::FrameStamps;

/// Frames kept for a viewer that reports once a second: enough even at 120 frames/s.
const FRAMES_MAX: usize = 256;

/// Frames kept before the first report: two seconds at 30 frames/s.
const FRAMES_UNREPORTED: usize = 64;

/// The recent frames of one viewer, oldest first.
///
/// Most viewers never report about frames, so the log is short until the first report. An entry is
/// small because one is written for every viewer and frame.
#[derive(Debug)]
pub(super) struct FrameLog {
    epoch: Instant,
    frames: VecDeque<FrameRecord>,
    capacity: usize,
    /// Place behind the frame that was found last: a report has frames in their order.
    next: usize,
}

/// The stamps of a frame: its origin in nanoseconds since the epoch, and the microseconds from each
/// stamp to the next.
#[derive(Clone, Copy, Debug)]
struct FrameRecord {
    origin_ns: i64,
    timestamp: u32,
    /// From the origin to publication, reading, the pacer's release and the kernel.
    steps_us: [u32; 4],
    /// Time under way between servers, and its error, if the stream is pulled from one.
    relay_us: Option<[u32; 2]>,
}

impl FrameLog {
    /// Creates an empty log; `epoch` is any instant near the first frames.
    pub(super) fn new(epoch: Instant) -> Self {
        Self {
            epoch,
            frames: VecDeque::new(),
            capacity: FRAMES_UNREPORTED,
            next: 0,
        }
    }

    /// Adds the stamps of one frame, and forgets the oldest ones if there is no room.
    pub(super) fn push(&mut self, frame: FrameStamps) {
        while self.frames.len() >= self.capacity {
            self.frames.pop_front();
            self.next = self.next.saturating_sub(1);
        }
        let nanos = |span: Duration| i64::try_from(span.as_nanos()).unwrap_or(i64::MAX);
        let origin_ns = match frame.origin.checked_duration_since(self.epoch) {
            Some(after) => nanos(after),
            None => -nanos(self.epoch - frame.origin),
        };
        self.frames.push_back(FrameRecord {
            origin_ns,
            timestamp: frame.timestamp,
            steps_us: [
                frame.published.saturating_duration_since(frame.origin),
                frame.read_at.saturating_duration_since(frame.published),
                frame.paced.saturating_duration_since(frame.read_at),
                frame.sent.saturating_duration_since(frame.paced),
            ]
            .map(micros),
            relay_us: frame.relay.map(|it| [it.delay, it.error].map(micros)),
        });
    }

    /// Returns the newest frame with this RTP timestamp, because timestamps repeat after 13 hours.
    /// From the first call on, the log keeps more frames.
    pub(super) fn find(&mut self, timestamp: u32) -> Option<FrameStamps> {
        self.capacity = FRAMES_MAX;
        let entry = self.record(timestamp)?;
        let span = Duration::from_nanos(entry.origin_ns.unsigned_abs());
        let origin = if entry.origin_ns < 0 {
            self.epoch.checked_sub(span)?
        } else {
            self.epoch + span
        };
        let after = |from: Instant, micros: u32| from + Duration::from_micros(micros.into());
        let [ingest, hub, pace, send] = entry.steps_us;
        let span = |us: u32| Duration::from_micros(us.into());
        let relay = entry.relay_us.map(|[delay, error]| Relay {
            delay: span(delay),
            error: span(error),
        });
        let published = after(origin, ingest);
        let read_at = after(published, hub);
        let paced = after(read_at, pace);
        Some(FrameStamps {
            timestamp,
            origin,
            published,
            relay,
            read_at,
            paced,
            sent: after(paced, send),
        })
    }

    /// Returns the newest record with this RTP timestamp.
    fn record(&mut self, timestamp: u32) -> Option<FrameRecord> {
        let is_it = |frame: &FrameRecord| frame.timestamp == timestamp;
        let is_next = self.frames.get(self.next).is_some_and(is_it);
        // Two frames of one timestamp are neighbours.
        let is_newest = !self.frames.get(self.next + 1).is_some_and(is_it);
        let place = match is_next && is_newest {
            true => self.next,
            false => self.frames.iter().rposition(is_it)?,
        };
        self.next = place + 1;
        self.frames.get(place).copied()
    }
}

fn micros(delay: Duration) -> u32 {
    u32::try_from(delay.as_micros()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_found_by_timestamp_and_bounded() {
        let start = Instant::now();
        let mut log = FrameLog::new(start + Duration::from_secs(1));
        for frame in 0..1000u32 {
            if frame == 500 {
                assert_eq!(log.frames.len(), FRAMES_UNREPORTED);
                assert!(log.find(499 * 3000).is_some(), "a viewer reports");
            }
            let origin = start + Duration::from_millis(33) * frame;
            let at = |ms| origin + Duration::from_millis(ms);
            log.push(FrameStamps {
                timestamp: frame * 3000,
                origin,
                published: at(1),
                relay: None,
                read_at: at(3),
                paced: at(6),
                sent: at(10),
            });
        }
        assert_eq!(log.frames.len(), FRAMES_MAX);
        assert_eq!(log.find(0), None);
        // In their order, with gaps, and backwards.
        let reported = (744..1000)
            .chain((744..1000).step_by(3))
            .chain((744..1000).rev());
        for frame in reported {
            let found = log.find(frame * 3000).map(|it| it.timestamp);
            assert_eq!(found, Some(frame * 3000));
        }
        let stages = log.find(999 * 3000).expect("the newest").stages();
        let ms: Vec<u128> = stages.map(|(_, delay)| delay.as_millis()).collect();
        assert_eq!(ms, [1, 2, 3, 4]);
    }
}
