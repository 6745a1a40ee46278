//! A viewer that goes over to another stream in its session: from the live stream to what was recorded,
//! and back.
//!
//! ```text
//! live stream  ──●──●──●
//! recordings            K──●──●──
//! viewer       ──●──●──●──K──●──●──   times and frame numbers go on, as if nothing had happened
//! ```
//!
//! Sequence numbers are the session's, and go on by themselves. What left of the stream before is not sent
//! again.

use std::time::Instant;

use glassline_hub::Stream;
use glassline_media::{Kind, MediaTime, TrackIndex, TrackLayer};
use glassline_webrtc::{SenderIndex, Session};
use smallvec::SmallVec;

use super::layers::last_offered;
use super::{
    Delivery, FrameLog, LayerRequest, MovedPayload, Pacer, Repairs, StreamSender, TrackSender,
};

/// Least distance from the last frame of one stream to the first one of the next, in ns.
const STEP_NS: i64 = 1_000_000;

impl StreamSender {
    /// Creates a sender that sends `sources`, one for each sender of the session; those without are silent.
    /// Times are moved by `shift_ns`.
    pub(super) fn of_sources(
        session: &Session,
        sources: impl Iterator<Item = Option<TrackLayer>>,
        shift_ns: i64,
        now: Instant,
    ) -> Self {
        let senders = session.senders().iter().zip(sources).enumerate();
        let tracks: SmallVec<[TrackSender; 2]> = senders
            .filter_map(|(place, (sender, source))| {
                // The low 32 bits are what an RTP timestamp is (RFC 3550 §5.1).
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "timestamps wrap"
                )]
                let shift = MediaTime::from_nanos(shift_ns).ticks(sender.clock_rate) as u32;
                Some(TrackSender::new(
                    source?,
                    SenderIndex(place),
                    sender.codec,
                    sender.clock_rate,
                    sender.timestamp_start.wrapping_add(shift),
                ))
            })
            .collect();
        Self {
            accounted: TrackIndex::default(),
            rides: [Kind::Video, Kind::Audio]
                .iter()
                .all(|kind| tracks.iter().any(|track| track.kind() == *kind)),
            tracks,
            has_started: false,
            repairs: Repairs::default(),
            moved: MovedPayload::default(),
            pacer: Pacer::default(),
            delivery: Delivery::default(),
            is_controlled: session.has_congestion_control(),
            ramp: None,
            protection: None,
            adaptive: None,
            has_padding: false,
            fixed: SmallVec::new(),
            request: LayerRequest::default(),
            log: FrameLog::new(now),
            stages: None,
            shift_ns,
        }
    }

    /// Returns the layers that stand for their tracks.
    pub fn fixed(&self) -> &[TrackLayer] {
        &self.fixed
    }

    /// Creates the sender of the stream `to` for the viewer that gets `from` by this one. `sources` has for
    /// each sender of the session the layer of `to` that it sends, and `fixed` those that stand for their
    /// tracks. Returns `None` if `to` has no unit yet.
    #[must_use]
    pub fn go_over(
        &self,
        session: &Session,
        from: &Stream,
        to: &Stream,
        sources: &[Option<TrackLayer>],
        fixed: &[TrackLayer],
        now: Instant,
    ) -> Option<Self> {
        let shift_ns = self.shift_to(from, to, sources)?;
        let mut next = Self::of_sources(session, sources.iter().copied(), shift_ns, now);
        next.accounted = to.latency_track();
        next.fixed = fixed.into();
        next.delivery = self.delivery;
        next.request = self.request;
        next.limit();
        for track in &mut next.tracks {
            let mut before = self.tracks.iter();
            let before = before.find(|it| it.sender == track.sender);
            let last = before.and_then(|it| {
                let last = last_offered(it, from)?;
                Some(it.shown_numbers(&last))
            });
            if let (Some(last), Some(first)) = (last, to.since_keyframe(track.source).first()) {
                track.count_behind(last, first);
            }
        }
        Some(next)
    }

    /// Returns the nanoseconds from times of `to` to those that the viewer counts: as much time passes as
    /// from the publication of the last frame of `from` to that of the newest of `to`, and no frame comes
    /// before the last one.
    fn shift_to(&self, from: &Stream, to: &Stream, sources: &[Option<TrackLayer>]) -> Option<i64> {
        let followed = |kind: Option<Kind>| {
            let mut tracks = self.tracks.iter();
            tracks.find_map(|it| {
                let source = sources.get(it.sender.0).copied().flatten()?;
                kind.is_none_or(|kind| it.kind() == kind)
                    .then_some((it, source))
            })
        };
        let (before, source) = followed(Some(Kind::Video)).or_else(|| followed(None))?;
        let mut past = to.since_keyframe(source);
        if past.is_empty() {
            // A layer that is still to be made has the times of its source.
            past.extend(to.since(to.beginning(source.track), 0).pop());
        }
        let (first, newest) = (TrackSender::first_shown(&past)?, past.last()?);
        let latest = self.tracks.iter().filter_map(TrackSender::latest).max();
        let (Some(latest), Some(shown)) = (latest, before.latest()) else {
            return Some(self.shift_ns);
        };
        let behind_ns = latest.nanos() + STEP_NS - first.nanos();
        let by_clock_ns = last_offered(before, from).map_or(behind_ns, |last| {
            let (earlier, later) = (last.stamps.published, newest.stamps.published);
            let passed = later.saturating_duration_since(earlier);
            (shown + passed).nanos() - newest.time.nanos()
        });
        Some(self.shift_ns + by_clock_ns.max(behind_ns))
    }
}
