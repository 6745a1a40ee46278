//! The publication of what arrives: every layer, and the base layer.

use std::time::{Duration, Instant, UNIX_EPOCH};

use glassline_hub::{PublishError, Publisher, SourceNote};
use glassline_media::{LayerIndex, MediaUnit, NtpTime, Stage, TrackIndex, TrackLayer};
use glassline_runtime::calendar;
use glassline_webrtc::Session;

use super::keyframes::KeyframeRequests;
use super::reception::Reception;
use super::{Contribution, WhipCounters};
use crate::publishing::{Ended, go_live, take_over};

/// Longest plausible time from capture to arrival; a larger value means that the clocks do not
/// agree.
const UPLINK_MAX: Duration = Duration::from_secs(60);

impl Contribution {
    /// Returns the requests for keyframes of the layer that the base layer follows.
    pub(super) fn keyframes_of_base(&self) -> Option<&KeyframeRequests> {
        self.keyframes
            .get(self.reception.simulcast.followed().unwrap_or(0))
    }

    /// Looks for another best layer, and lets the session describe the one that the base layer follows.
    pub(super) fn choose_layer(&mut self, session: &mut Session, now: Instant) {
        let simulcast = &mut self.reception.simulcast;
        if let Some(next) = simulcast.choose(now) {
            if let Some(keyframes) = self.keyframes.get_mut(next) {
                keyframes.want();
            }
            self.prefer_best();
        }
        let Reception {
            simulcast, feeds, ..
        } = &self.reception;
        let followed = simulcast.followed().filter(|it| simulcast.has(*it));
        if let Some(feed) = followed.and_then(|it| feeds.get(it)) {
            let receiver = &session.receivers()[feed.receiver.0];
            if receiver.selected() != feed.layer {
                session.select_layer(feed.receiver, feed.layer);
            }
        }
    }

    /// Tells the hub which layer is the best that is alive.
    pub(super) fn prefer_best(&self) {
        if let Some((publisher, layer)) = self.publisher.as_ref().zip(self.reception.best()) {
            let track = TrackIndex(0);
            publisher.prefer(TrackLayer { track, layer });
        }
    }

    /// Makes media units of the access units of all feeds.
    pub(super) fn assemble(&mut self) {
        let Reception {
            feeds,
            simulcast,
            pauses,
            units,
            timed,
            ..
        } = &mut self.reception;
        for unit in timed.drain(..) {
            let index = unit.track.get();
            if !feeds.get(index).is_some_and(|feed| feed.is_video) {
                units.push(unit, &mut self.media_units);
                continue;
            }
            let is_needed = unit.after_loss || simulcast.has(index) && !simulcast.has_begun(index);
            if is_needed
                && !unit.keyframe
                && !pauses.is_paused(index)
                && let Some(keyframes) = self.keyframes.get_mut(index)
            {
                keyframes.want();
            }
            units.push(unit, &mut self.media_units);
        }
    }

    /// Publishes the media units that are complete.
    ///
    /// # Errors
    /// Returns the reason to disconnect the publisher.
    pub(super) fn publish(&mut self, now: Instant) -> Result<(), Ended> {
        if self.reception.units.take_redescribed().is_some() {
            self.describe()?;
        }
        self.take_wishes();
        let mut media_units = std::mem::take(&mut self.media_units);
        let published = media_units
            .drain(..)
            .try_for_each(|unit| self.publish_unit(unit, now));
        self.media_units = media_units;
        published
    }

    pub(super) fn describe(&mut self) -> Result<(), Ended> {
        if let Some(publisher) = &mut self.publisher {
            publisher.describe(&self.reception.tracks())?;
        }
        Ok(())
    }

    /// Publishes a unit of the feed that `unit.track` names.
    fn publish_unit(&mut self, mut unit: MediaUnit, now: Instant) -> Result<(), Ended> {
        let index = unit.track.get();
        let Some(feed) = self.reception.feeds.get(index) else {
            return Ok(());
        };
        let is_video = feed.is_video;
        unit.track = feed.track;
        if is_video && self.reception.pauses.is_paused(index) {
            // The frame was on its way when the layer was paused.
            return Ok(());
        }
        let has_video = self.reception.feeds[0].is_video;
        let begins = !has_video || is_video && unit.track == TrackIndex(0) && unit.keyframe;
        // Nobody can watch before the first keyframe.
        if self.publisher.is_none() && !begins {
            return Ok(());
        }
        if is_video
            && unit.keyframe
            && let Some(keyframes) = self.keyframes.get_mut(index)
        {
            // The keyframe answers a pending request.
            keyframes.answered(now);
        }
        let (origin, is_first) = (unit.stamps.origin, unit.track == TrackIndex(0));
        if !self.reception.simulcast.has(index) {
            self.publisher(now)?.push(unit, now)?;
        } else if self.reception.simulcast.admits(index, &unit, now) {
            self.publish_layer(index, unit, now)?;
        }
        if is_first {
            self.note_capture(index, origin, now);
        }
        Ok(())
    }

    /// Publishes a unit of one of several layers, and as part of the base layer if that follows the
    /// layer.
    fn publish_layer(
        &mut self,
        index: usize,
        mut unit: MediaUnit,
        now: Instant,
    ) -> Result<(), Ended> {
        if unit.keyframe {
            self.note_arrival(index)?;
        }
        let followed = self.reception.simulcast.followed();
        let base = self.reception.simulcast.base(index, &unit);
        unit.layer = LayerIndex::of_encoding(index);
        let is_keyframe = unit.keyframe;
        let is_other = self.reception.simulcast.followed() != followed;
        if is_other && self.publisher.is_some() {
            self.describe()?;
        }
        let publisher = self.publisher(now)?;
        publisher.push(unit, now)?;
        if let Some(base) = base {
            publisher.push(base, now)?;
        }
        if is_keyframe {
            self.prefer_best();
        }
        Ok(())
    }

    /// Returns the right to publish, which begins with this call if it has not begun.
    fn publisher(&mut self, now: Instant) -> Result<&mut Publisher, Ended> {
        let publisher = match self.publisher.take() {
            Some(publisher) => publisher,
            None => self.begin(now)?,
        };
        Ok(self.publisher.insert(publisher))
    }

    fn begin(&mut self, now: Instant) -> Result<Publisher, Ended> {
        let name = self.reservation.name();
        if !self.reservation.is_current() {
            let name = name.clone();
            return Err(PublishError::Replaced { name }.into());
        }
        // What is not supported is refused with the whole offer.
        let note = SourceNote {
            protocol: "whip",
            left_out: Vec::new(),
        };
        let tracks = self.reception.tracks();
        let described = (note, &tracks[..]);
        let publisher = match self.takes_over || self.reservation.has_claim() {
            true => take_over::<Ended>(&self.hub, name, described, now)?,
            false => go_live::<Ended>(&self.hub, (name, None), described, now)?,
        };
        self.was_live = true;
        Ok(publisher)
    }

    /// Records how long the frame of a feed that arrived at `origin` took to the server.
    fn note_capture(&mut self, index: usize, origin: Instant, now: Instant) {
        let is_followed = self.reception.simulcast.followed().unwrap_or(0) == index;
        let feed = self.reception.feeds.get_mut(index);
        let captured = feed.and_then(|feed| feed.take_captured(origin));
        let (Some(captured), Some(publisher)) = (captured, &self.publisher) else {
            return;
        };
        let captures = self.reservation.captures();
        if captures.is_told() {
            let frame = captures.note(captured, origin).filter(|_| is_followed);
            for (stage, ms) in frame.into_iter().flat_map(|it| it.stages_ms) {
                let delay = Duration::from_secs_f64(ms.max(0.0) / 1e3);
                publisher.record_stage(stage, delay, now);
            }
        } else if is_followed && let Some(uplink) = uplink(captured, origin.elapsed()) {
            publisher.record_stage(Stage::Uplink, uplink, now);
        }
    }

    /// Takes the wishes of viewers for keyframes. Before anything is published, keyframes of all layers
    /// are wanted.
    fn take_wishes(&mut self) {
        let Some(publisher) = &self.publisher else {
            self.keyframes.iter_mut().for_each(KeyframeRequests::want);
            return;
        };
        let wanted = publisher.wanted_keyframes();
        if wanted.is_empty() {
            return;
        }
        let simulcast = &self.reception.simulcast;
        for (index, keyframes) in self.keyframes.iter_mut().enumerate() {
            let of_layer = simulcast.has(index) && wanted.has(LayerIndex::of_encoding(index));
            let of_base = wanted.has(LayerIndex::BASE) && simulcast.of_base().any(|it| it == index);
            if of_layer || of_base {
                keyframes.want();
            }
        }
    }

    /// Requests the keyframes that are wanted: a viewer waits for one, frames were lost, or none came
    /// yet.
    pub(super) fn request_keyframes(
        &mut self,
        session: &mut Session,
        now: Instant,
        counters: &WhipCounters,
    ) {
        self.take_wishes();
        for (feed, keyframes) in self.reception.feeds.iter().zip(&mut self.keyframes) {
            if keyframes.poll(now) && session.request_layer_keyframe(feed.receiver, feed.layer, now)
            {
                counters.keyframe_requests.add(1);
                self.keyframes_requested += 1;
            }
        }
    }
}

/// Returns the time from capture to arrival, given the age `ago` of the arrival, if the publisher's
/// clock agrees with the server's.
pub(super) fn uplink(captured: NtpTime, ago: Duration) -> Option<Duration> {
    let unix = calendar::now().duration_since(UNIX_EPOCH).ok()?;
    let arrived = NtpTime::from_unix(unix.checked_sub(ago)?);
    let units = arrived.0.checked_sub(captured.0)?;
    let nanos = (u128::from(units) * 1_000_000_000) >> 32;
    let uplink = Duration::from_nanos(u64::try_from(nanos).ok()?);
    (uplink <= UPLINK_MAX).then_some(uplink)
}
