//! Repairs that leave ahead of losses: FEC packets of the video, and copies in the audio.

use std::time::{Duration, Instant};

use glassline_media::Kind;
use glassline_webrtc::{SenderIndex, Session};

use super::{SendCounters, StreamSender};
use crate::webrtc::outbox::{Batch, Sink};
use crate::webrtc::protection::{
    Groups, Protection, ProtectionChoice, Reception, ReportWindow, is_far, is_full,
};
use crate::webrtc::track_sender::TrackSender;

/// The report of a viewer on how it receives one track (RFC 3550 §6.4.1).
#[derive(Clone, Copy, Debug)]
pub struct ReceptionReport {
    /// Index of the track's sender in the session.
    pub sender: SenderIndex,
    /// Number of packets lost since the start; duplicates can make it negative.
    pub cumulative_lost: i32,
    /// Round-trip time, if the report allows to compute it.
    pub round_trip: Option<Duration>,
}

impl StreamSender {
    /// Takes a report of the viewer, by which repairs leave ahead of losses or not.
    pub fn on_reception(&mut self, report: ReceptionReport, session: &mut Session, now: Instant) {
        let Some(round_trip) = report.round_trip else {
            return;
        };
        // The video tells more than the audio, which has fewer packets.
        let decides = |kind| self.tracks.iter().find(|it| it.kind() == kind);
        let decides = decides(Kind::Video).or(decides(Kind::Audio));
        if decides.is_none_or(|it| it.sender != report.sender) {
            return;
        }
        if self.protection.is_none() && self.delivery.is_protected && is_far(round_trip) {
            self.protection = self.begin_to_protect(session);
        }
        let is_full = self.is_path_full(session, now);
        let sent = session.senders()[report.sender.0].counts().packets;
        let Some(protection) = &mut self.protection else {
            return;
        };
        let window = &mut protection.window;
        if let Some((lost, round_trip)) = window.take(sent, report.cumulative_lost, round_trip, now)
        {
            let reception = Reception {
                lost,
                round_trip,
                is_full,
            };
            protection.choice.decide(reception, now);
            self.protect(session);
        }
    }

    /// Returns the state of the protection of a viewer that can take any.
    #[cold]
    fn begin_to_protect(&self, session: &Session) -> Option<Box<Protection>> {
        let of = |it: &TrackSender| &session.senders()[it.sender.0];
        let protected = self.tracks.iter().find(|it| of(it).fec().is_some());
        let groups = protected.map(|it| Groups::new(it.sender, of(it).ssrc));
        let takes_copies = |it: &TrackSender| of(it).red_payload_type.is_some();
        if groups.is_none() && !self.tracks.iter().any(takes_copies) {
            return None;
        }
        Some(Box::new(Protection {
            choice: ProtectionChoice::default(),
            window: ReportWindow::default(),
            groups,
        }))
    }

    /// Does what is chosen.
    fn protect(&mut self, session: &mut Session) {
        let Some(protection) = &mut self.protection else {
            return;
        };
        if let Some(groups) = &mut protection.groups {
            groups.set_percent(protection.choice.percent());
        }
        let copies = protection.choice.copies();
        for track in &mut self.tracks {
            let least = usize::from(session.senders()[track.sender.0].prefers_red);
            track.set_copies(copies.max(least), session);
        }
    }

    /// Returns whether the path has no room beside the media, or not even for all of it.
    fn is_path_full(&self, session: &Session, now: Instant) -> bool {
        let waited = self.tracks.iter().map(|it| it.front_waited(now)).max();
        let is_held_back = self.adaptive.as_ref().is_some_and(|it| it.is_held_back());
        is_held_back || is_full(session.path_signs(now), waited.unwrap_or_default())
    }

    /// Ends protection if the latest transport feedback says that the path is full.
    pub(super) fn yield_protection(&mut self, session: &Session, now: Instant) {
        if self.is_protected() && self.is_path_full(session, now) {
            self.end_protection(now);
        }
    }

    #[inline]
    pub(super) fn is_protected(&self) -> bool {
        let is_on = |it: &Protection| it.choice.percent() > 0;
        self.protection.as_deref().is_some_and(is_on)
    }

    /// Ends protection, which takes the place of media.
    #[cold]
    pub(super) fn end_protection(&mut self, now: Instant) {
        if let Some(protection) = &mut self.protection {
            protection.choice.yield_to_media(now);
            if let Some(groups) = &mut protection.groups {
                groups.set_percent(0);
            }
        }
    }

    /// Returns the size of the repairs that leave ahead of losses, in percent of the video; `None` if
    /// none do.
    pub fn fec_percent(&self) -> Option<u32> {
        let groups = self.protection.as_ref()?.groups.as_ref()?;
        Some(groups.percent()).filter(|percent| *percent > 0)
    }

    /// Returns the size of the FEC packet that leaves next in bytes; `None` if none waits.
    #[inline]
    pub(super) fn fec_bytes(&self) -> Option<u64> {
        self.protection.as_ref()?.groups.as_ref()?.next_bytes()
    }

    /// Seals the FEC packets that may leave at `now`, behind the media.
    #[cold]
    pub(super) fn send_fec<S: Sink>(
        &mut self,
        session: &mut Session,
        batch: &mut Batch<'_, S>,
        now: Instant,
        counters: &SendCounters,
    ) {
        let groups = self.protection.as_mut().and_then(|it| it.groups.as_mut());
        let Some(groups) = groups else {
            return;
        };
        groups.drop_overdue(now);
        let mut count = 0;
        while let Some(bytes) = groups.next_bytes()
            && session.budget(now).is_none_or(|budget| bytes <= budget)
            && let Some((payload, timestamp)) = groups.pop()
        {
            let sender = groups.sender();
            batch.push(|out| {
                let sealed = session.seal_fec(sender, timestamp, &payload, now, out);
                sealed.unwrap_or(0)
            });
            counters.fec_packets.add(1);
            counters.fec_bytes.add(bytes);
            if let Some(ramp) = &mut self.ramp {
                ramp.sent(bytes, now);
            }
            count += 1;
        }
        if count > 0 && !self.is_controlled {
            self.pacer.sent_beside(count, now);
        }
    }
}
