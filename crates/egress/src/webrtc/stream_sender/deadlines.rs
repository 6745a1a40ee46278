//! The times at which something may leave next.

use std::time::Instant;

use glassline_media::Kind;
use glassline_webrtc::Session;

use super::{PADDING_INTERVAL, StreamSender, packet_bytes};
use crate::webrtc::track_sender::TrackSender;

impl StreamSender {
    /// Returns when the next packet of a frame, or the next repair, may leave, if one waits.
    #[inline]
    pub fn deadline(&self, session: &mut Session, now: Instant) -> Option<Instant> {
        let media = self.media_deadline(session, now);
        let padding = self.is_probing().then(|| now + PADDING_INTERVAL);
        let fec = self.fec_bytes();
        let fec = fec.and_then(|bytes| session.budget_at(bytes, now));
        let others = [padding, self.repairs.copy_at(), fec];
        media.into_iter().chain(others.into_iter().flatten()).min()
    }

    #[inline]
    fn media_deadline(&self, session: &mut Session, now: Instant) -> Option<Instant> {
        let repair = self.repairs.timed();
        let repair = repair.filter(|it| session.may_repair(it.bytes()));
        let Some(repair) = repair else {
            return self.video_deadline(session, now);
        };
        if !session.has_congestion_control() {
            return self.spread_at(repair.bytes(), now).or(Some(now));
        }
        let at = session.repair_at(repair.bytes(), now);
        match self.repairs.are_next(|_| true) {
            true => at,
            false => at
                .into_iter()
                .chain(self.video_deadline(session, now))
                .min(),
        }
    }

    #[inline]
    fn video_deadline(&self, session: &mut Session, now: Instant) -> Option<Instant> {
        let mut video_frames = self
            .tracks
            .iter()
            .filter(|track_sender| track_sender.kind() == Kind::Video)
            .filter_map(TrackSender::front);
        let queued = video_frames.next()?;
        let bytes = packet_bytes(&queued.unit, queued.sent);
        if session.has_congestion_control() {
            let rest = || {
                let left = queued.sent..queued.unit.packet_count();
                left.map(|it| packet_bytes(&queued.unit, it)).sum()
            };
            session.frame_at(bytes, rest, now)
        } else {
            self.spread_at(bytes, now)
        }
    }

    /// Returns when a packet of `bytes` may leave without congestion control, from `now` on; `None`
    /// before the first one.
    #[inline]
    fn spread_at(&self, bytes: u64, now: Instant) -> Option<Instant> {
        let spread = self.pacer.deadline();
        let due = self.ramp.as_ref().map(|ramp| ramp.due(bytes));
        spread.max(due).map(|at| at.max(now))
    }
}
