//! Publishes the media of a WebRTC publisher (WHIP, RFC 9725).
//!
//! ```text
//! packets, opened ─► TrackPipeline: order ─► UnitAssembler ─► Simulcast ─► Units ─► Publisher ─► hub
//!                                                             one layer            keyframe wanted │
//! PLI ◄── Session ◄── KeyframeRequests ◄─ damage ◄───────────────┘ ◄───────────────────────────────┘
//! ```
//!
//! The session opens packets, requests lost ones and reports; it belongs to the peer, which hands it
//! over with every call. Each simulcast layer has its own way up to its units. One layer, the best
//! that arrives, becomes the video of the stream.
//!
//! A publisher may send in any codec of the answer. The first packet tells which one; all state that
//! depends on it is a [`Reception`], which is made anew when the codec is another one.

mod arrivals;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod keyframes;
mod reception;
mod reservations;
mod shortfall;
mod simulcast;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

use glassline_hub::{Hub, PublishError, Publisher, SourceNote, State, StreamName};
use glassline_media::{MediaUnit, NtpTime, Stage, TrackIndex};
use glassline_rtp::Packet;
use glassline_rtp::payload::UnsupportedFormat;
use glassline_runtime::{Counter, TokenBucket, calendar};
use glassline_webrtc::{LayerIndex, Receiver, ReceiverIndex, Session};

use super::oversized::OversizedFrames;
use super::publishing::{Ended, KEYFRAME, go_live, take_over};

pub use arrivals::{Arrivals, ArrivedLine};
use keyframes::KeyframeRequests;
use reception::Reception;
pub use reservations::{Reservation, Reservations};
pub use shortfall::Shortfall;

/// Time without packets after which a publisher counts as gone, although its connection is kept.
const SILENCE: Duration = Duration::from_secs(40);

/// Interval of the periodic checks.
const CHECK: Duration = Duration::from_secs(1);

/// Most changes of codecs a second, and at once: a publisher begins with one for each line.
const CODEC_CHANGES_PER_S: f64 = 1.0;
const CODEC_CHANGES_AT_ONCE: f64 = 4.0;

/// Longest plausible time from capture to arrival; a larger value means that the clocks do not
/// agree.
const UPLINK_MAX: Duration = Duration::from_secs(60);

/// One shard's counts of packets from publishers and feedback to them.
#[derive(Debug, Default)]
pub struct WhipCounters {
    /// Media packets of publishers.
    pub packets: Counter,
    /// Packets of publishers that were requested again because they were lost.
    pub requested: Counter,
    /// Packets of publishers that came after they were given up, or twice.
    pub late: Counter,
    /// Keyframe requests sent to publishers.
    pub keyframe_requests: Counter,
}

/// The media of one publisher, from its offer on.
#[derive(Debug)]
pub struct Contribution {
    hub: Arc<Hub>,
    reservation: Reservation,
    /// Whether another publisher of the stream is replaced.
    takes_over: bool,
    reception: Reception,
    keyframes: KeyframeRequests,
    oversized: OversizedFrames,
    /// Media units on their way; kept for the capacity.
    media_units: Vec<MediaUnit>,
    publisher: Option<Publisher>,
    /// Whether the stream has ever been live by this publisher.
    was_live: bool,
    /// How often the publisher may change its codecs.
    codec_changes: TokenBucket,
    began: Instant,
    last_received: Instant,
    check_at: Instant,
    /// Number of packets that the session had requested at the last count.
    requested: u64,
    keyframes_requested: u64,
}

impl Contribution {
    /// Prepares to publish what `session` receives as the stream of `reservation`. With `takes_over`,
    /// the present publisher of the stream is replaced when the first keyframe is there.
    ///
    /// # Errors
    /// Returns [`UnsupportedFormat`] if a payload format that was agreed on is not supported.
    pub fn new(
        session: &Session,
        hub: Arc<Hub>,
        reservation: Reservation,
        takes_over: bool,
        now: Instant,
    ) -> Result<Self, UnsupportedFormat> {
        Ok(Self {
            hub,
            reservation,
            takes_over,
            reception: Reception::new(session, Receiver::likely_payload_type, now)?,
            keyframes: KeyframeRequests::default(),
            oversized: OversizedFrames::default(),
            media_units: Vec::new(),
            publisher: None,
            was_live: false,
            codec_changes: TokenBucket::new(CODEC_CHANGES_PER_S, CODEC_CHANGES_AT_ONCE),
            began: now,
            last_received: now,
            check_at: now + CHECK,
            requested: 0,
            keyframes_requested: 0,
        })
    }

    /// Returns what arrived so far.
    pub fn arrivals(&self, session: &Session, now: Instant) -> Arrivals {
        Arrivals {
            connected_s: now.saturating_duration_since(self.began).as_secs_f64(),
            lines: session.receivers().iter().map(ArrivedLine::of).collect(),
            packets_requested: session.nacked(),
            keyframes_requested: self.keyframes_requested,
            keyframes_on_request: self.keyframes.is_heeded(now),
        }
    }

    /// Begins to wait for media, because the session has keys now.
    pub fn start(&mut self, now: Instant) {
        self.began = now;
        self.last_received = now;
        self.reservation.heard(now);
        self.check_at = now + CHECK;
    }

    /// Takes an authentic packet of the session's receiver and layer `place`.
    pub fn take(
        &mut self,
        session: &Session,
        place: (ReceiverIndex, LayerIndex),
        packet: &Packet<'_>,
        now: Instant,
        counters: &WhipCounters,
    ) {
        counters.packets.add(1);
        self.last_received = now;
        self.reservation.heard(now);
        if self.reception.is_in_another_codec(session, place.0, packet) {
            // Packets that alternate between codecs must not make everything anew each time.
            if !self.codec_changes.take(now) {
                counters.late.add(1);
                return;
            }
            self.change_codec(session, place.0, packet.header.payload_type, now);
        }
        let captures = self.reservation.captures();
        self.reception.take(session, place, packet, captures, now);
    }

    /// Goes on with the codec of another payload type of a receiver. What was published ends, and
    /// begins anew with the next keyframe.
    fn change_codec(
        &mut self,
        session: &Session,
        receiver: ReceiverIndex,
        payload_type: u8,
        now: Instant,
    ) {
        let changed = session.receivers().get(receiver.0).map(|it| it.mid.clone());
        let present = |it: &Receiver| {
            if changed.as_ref() == Some(&it.mid) {
                return payload_type;
            }
            self.reception.payload_type_of(session, it)
        };
        match Reception::new(session, present, now) {
            Ok(reception) => {
                self.reception = reception;
                self.media_units.clear();
                // Dropped, it leaves the stream down until the first keyframe.
                self.publisher = None;
                self.began = now;
                self.keyframes.want();
            }
            Err(error) => {
                tracing::warn!(stream = %self.reservation.name(), %error, "codec not taken");
            }
        }
    }

    /// Publishes the units that are complete, and requests keyframes through `session`.
    ///
    /// # Errors
    /// Returns the reason to disconnect the publisher.
    pub fn serve(
        &mut self,
        session: &mut Session,
        now: Instant,
        counters: &WhipCounters,
    ) -> Result<(), Ended> {
        self.reception.expire(now);
        self.select_layer(session, now);
        self.assemble();
        self.publish(now)?;
        let dropped = self.reception.assembler.take_oversized();
        let (name, publisher) = (self.reservation.name(), self.publisher.as_ref());
        self.oversized.note(dropped, name, publisher, now);
        self.request_keyframe(session, now, counters);
        if now >= self.check_at {
            self.check_at = now + CHECK;
            self.reservation.captures().expire(now);
            self.count(session, counters);
            self.check(now)?;
        }
        Ok(())
    }

    /// Returns when [`serve`](Self::serve) must be called, if no packet arrives before.
    pub fn deadline(&self) -> Option<Instant> {
        let due = [self.reception.packets.deadline(), self.keyframes.deadline()];
        due.into_iter().flatten().chain([self.check_at]).min()
    }

    /// Ends the publication and leaves the stream in a state that says why.
    pub fn leave(&mut self, detail: String) {
        if let Some(publisher) = self.publisher.take() {
            publisher.finish(State::Down { detail });
        }
    }

    /// Returns why the stream never went live, and what to change; `None` if it did.
    pub fn shortfall(&self, session: &Session, now: Instant) -> Option<Shortfall> {
        let arrived = session.receivers().iter().map(|it| it.totals().received);
        let waited = now.saturating_duration_since(self.began);
        let unnegotiated = session.connection_report().unnegotiated_packets;
        (!self.was_live).then(|| Shortfall::of(arrived.sum(), unnegotiated, waited))
    }

    /// Returns the name of the stream that is published.
    pub fn name(&self) -> &StreamName {
        self.reservation.name()
    }

    /// Lets the session request what the simulcast layer needs that viewers get, or are to get.
    fn select_layer(&mut self, session: &mut Session, now: Instant) {
        let Reception {
            simulcast, feeds, ..
        } = &mut self.reception;
        if simulcast.choose(now) {
            self.keyframes.want();
        }
        if let Some(feed) = simulcast.wanted().and_then(|it| feeds.get(it)) {
            let receiver = &session.receivers()[feed.receiver.0];
            if receiver.selected() != feed.layer {
                session.select_layer(feed.receiver, feed.layer);
            }
        }
    }

    /// Makes media units of the access units of the layers that are published.
    fn assemble(&mut self) {
        let Reception {
            feeds,
            simulcast,
            units,
            timed,
            ..
        } = &mut self.reception;
        for mut unit in timed.drain(..) {
            let Some(feed) = feeds.get(unit.track.get()) else {
                continue;
            };
            if feed.is_video {
                if !simulcast.admits(&mut unit) {
                    continue;
                }
                if unit.after_loss && !unit.keyframe {
                    self.keyframes.want();
                }
            }
            unit.track = feed.track;
            units.push(unit, &mut self.media_units);
        }
    }

    fn publish(&mut self, now: Instant) -> Result<(), Ended> {
        let Reception {
            feeds,
            simulcast,
            units,
            ..
        } = &mut self.reception;
        if let Some(publisher) = &mut self.publisher
            && let Some(tracks) = units.take_redescribed()
        {
            publisher.describe(tracks)?;
        }
        let has_video = feeds.first().is_some_and(|feed| feed.is_video);
        for media_unit in self.media_units.drain(..) {
            let publisher = match &mut self.publisher {
                Some(publisher) => publisher,
                // Nobody can watch before the first keyframe.
                None if units.starts(&media_unit) => {
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
                    let (hub, described) = (&self.hub, (note, units.tracks()));
                    let publisher = match self.takes_over || self.reservation.has_claim() {
                        true => take_over::<Ended>(hub, name, described, now)?,
                        false => go_live::<Ended>(hub, (name, None), described, now)?,
                    };
                    self.was_live = true;
                    self.publisher.insert(publisher)
                }
                None => continue,
            };
            let is_first = media_unit.track == TrackIndex(0);
            if is_first && has_video && media_unit.keyframe {
                // The keyframe answers a pending request.
                self.keyframes.answered(now);
                let _ = publisher.keyframe_wanted();
            }
            let origin = media_unit.stamps.origin;
            publisher.push(media_unit, now)?;
            let feed = feeds.get_mut(simulcast.selected().unwrap_or(0));
            let captured = feed.filter(|_| is_first);
            let Some(captured) = captured.and_then(|feed| feed.take_captured(origin)) else {
                continue;
            };
            let captures = self.reservation.captures();
            if !captures.is_told() {
                if let Some(uplink) = uplink(captured, origin.elapsed()) {
                    publisher.record_stage(Stage::Uplink, uplink, now);
                }
            } else if let Some(frame) = captures.note(captured, origin) {
                for (stage, ms) in frame.stages_ms {
                    let delay = Duration::from_secs_f64(ms.max(0.0) / 1e3);
                    publisher.record_stage(stage, delay, now);
                }
            }
        }
        Ok(())
    }

    /// Requests a keyframe if one is wanted: a viewer waits for it, frames were lost, or none came
    /// yet.
    fn request_keyframe(&mut self, session: &mut Session, now: Instant, counters: &WhipCounters) {
        let Some(feed) = self.reception.feeds.first().filter(|feed| feed.is_video) else {
            return;
        };
        let is_wanted = self
            .publisher
            .as_ref()
            .is_none_or(Publisher::keyframe_wanted);
        if is_wanted {
            self.keyframes.want();
        }
        if self.keyframes.poll(now) && session.request_keyframe(feed.receiver, now) {
            counters.keyframe_requests.add(1);
            self.keyframes_requested += 1;
        }
    }

    fn count(&mut self, session: &Session, counters: &WhipCounters) {
        let requested = session.nacked();
        counters.requested.add(requested - self.requested);
        self.requested = requested;
        for index in 0..self.reception.feeds.len() {
            if let Some(pipeline) = self.reception.packets.pipeline_mut(TrackIndex(index)) {
                counters.late.add(pipeline.take_late());
            }
        }
    }

    fn check(&self, now: Instant) -> Result<(), Ended> {
        if now.saturating_duration_since(self.last_received) > SILENCE {
            return Err(Ended::Silent { time: SILENCE });
        }
        if self.publisher.is_none() && now.saturating_duration_since(self.began) > KEYFRAME {
            return Err(Ended::without_keyframe(
                self.oversized.dropped(),
                self.reception.units.lack(),
            ));
        }
        let name = self.reservation.name();
        if !self.reservation.is_current() {
            let name = name.clone();
            return Err(PublishError::Replaced { name }.into());
        }
        Ok(())
    }
}

/// Returns the time from capture to arrival, given the age `ago` of the arrival, if the publisher's
/// clock agrees with the server's.
fn uplink(captured: NtpTime, ago: Duration) -> Option<Duration> {
    let unix = calendar::now().duration_since(UNIX_EPOCH).ok()?;
    let arrived = NtpTime::from_unix(unix.checked_sub(ago)?);
    let units = arrived.0.checked_sub(captured.0)?;
    let nanos = (u128::from(units) * 1_000_000_000) >> 32;
    let uplink = Duration::from_nanos(u64::try_from(nanos).ok()?);
    (uplink <= UPLINK_MAX).then_some(uplink)
}
