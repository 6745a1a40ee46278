//! The times at which a frame passed each stage of the server.

use std::time::{Duration, Instant};

use glassline_media::{Relay, Stage};

/// The times of one frame on its way through the server to one viewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameStamps {
    /// RTP timestamp of the frame, as the viewer knows it.
    pub timestamp: u32,
    /// Time at which the frame's accounted delay begins.
    pub origin: Instant,
    /// Time at which the hub published the frame.
    pub published: Instant,
    /// The part of the time before `published` that the frame was under way between servers; `None`
    /// for a frame that was not pulled from another one.
    pub relay: Option<Relay>,
    /// Time at which the shard read the frame from the hub.
    pub read_at: Instant,
    /// Time at which the pacer released the frame's last packets.
    pub paced: Instant,
    /// Time at which the kernel had the frame's last packet.
    pub sent: Instant,
}

impl FrameStamps {
    /// Returns the stages up to the kernel, and how long each took. Their delays add up to the time
    /// from `origin` to `sent`.
    pub fn stages(&self) -> impl Iterator<Item = (Stage, Duration)> + use<> {
        let before = self.published.saturating_duration_since(self.origin);
        let relay = self.relay.map(|relay| relay.delay.min(before));
        let ingest = before.saturating_sub(relay.unwrap_or_default());
        let (hub, pace, send) = (
            self.read_at.saturating_duration_since(self.published),
            self.paced.saturating_duration_since(self.read_at),
            self.sent.saturating_duration_since(self.paced),
        );
        let stages = [
            (Stage::Ingest, Some(ingest)),
            (Stage::Relay, relay),
            (Stage::Hub, Some(hub)),
            (Stage::Pace, Some(pace)),
            (Stage::Send, Some(send)),
        ];
        let known = |(stage, delay): (Stage, Option<Duration>)| Some((stage, delay?));
        stages.into_iter().filter_map(known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stages_of_a_pulled_frame_add_up_and_others_have_no_relay() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut stamps = FrameStamps {
            timestamp: 1,
            origin: start,
            published: at(11),
            relay: None,
            read_at: at(12),
            paced: at(15),
            sent: at(19),
        };
        let of = |stamps: &FrameStamps| stamps.stages().collect::<Vec<_>>();
        assert!(of(&stamps).iter().all(|(stage, _)| *stage != Stage::Relay));
        for (relay_ms, seen) in [(4, 4), (0, 0), (90, 11)] {
            stamps.relay = Some(Relay {
                delay: Duration::from_millis(relay_ms),
                error: Duration::ZERO,
            });
            let stages = of(&stamps);
            assert_eq!(stages[1], (Stage::Relay, Duration::from_millis(seen)));
            let sum: Duration = stages.iter().map(|(_, delay)| *delay).sum();
            assert_eq!(sum, Duration::from_millis(19), "{relay_ms}");
        }
    }
}
