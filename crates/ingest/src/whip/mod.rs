//! Publishes the media of a WebRTC publisher (WHIP, RFC 9725).
//!
//! ```text
//! packets, opened ─► TrackPipeline: order ─► UnitAssembler ─► Units ─► Simulcast ─► Publisher ─► hub
//!                                                             │ every layer, and the base layer │
//! PLI ◄── Session ◄── KeyframeRequests ◄─ damage ◄────────────┘ ◄──── keyframes wanted ─────────┘
//! ```
//!
//! The session opens packets, requests lost ones and reports; it belongs to the peer, which hands it
//! over with every call. Each simulcast layer has its own way up to the hub. The best of them that is
//! alive is the base layer of the video, too. A layer that nobody needs is paused, if the publisher listens
//! to such orders ([`LayerOrdersListener`]).
//!
//! A publisher may send in any codec of the answer. The first packet tells which one; all state that
//! depends on it is a [`Reception`], which is made anew when the codec is another one.

mod arrivals;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod keyframes;
mod layer_orders;
mod pausing;
mod publication;
mod reception;
mod reservations;
mod shortfall;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_hub::{Hub, PublishError, Publisher, State, StreamName};
use glassline_media::{MediaUnit, TrackIndex};
use glassline_rtp::Packet;
use glassline_rtp::payload::UnsupportedFormat;
use glassline_runtime::{Counter, TokenBucket};
use glassline_webrtc::{LayerIndex, Receiver, ReceiverIndex, Session};

use super::oversized::OversizedFrames;
use super::publishing::{Ended, KEYFRAME};

pub use arrivals::{Arrivals, ArrivedLine};
use keyframes::KeyframeRequests;
pub use layer_orders::{LayerOrder, LayerOrdersListener};
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
    /// One for each feed of video.
    keyframes: Vec<KeyframeRequests>,
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
    /// Whether the log has said that a dependency descriptor cannot be read.
    warned: bool,
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
        let reception = Reception::new(session, Receiver::likely_payload_type, now)?;
        let video = reception.feeds.iter().filter(|it| it.is_video);
        let keyframes = video.map(|_| KeyframeRequests::default()).collect();
        reservation.orders().replace(reception.orders());
        Ok(Self {
            hub,
            reservation,
            takes_over,
            reception,
            keyframes,
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
            warned: false,
        })
    }

    /// Returns what arrived so far.
    pub fn arrivals(&self, session: &Session, now: Instant) -> Arrivals {
        Arrivals {
            connected_s: now.saturating_duration_since(self.began).as_secs_f64(),
            lines: session.receivers().iter().map(ArrivedLine::of).collect(),
            packets_requested: session.nacked(),
            keyframes_requested: self.keyframes_requested,
            keyframes_on_request: self.keyframes_of_base().and_then(|it| it.is_heeded(now)),
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
                self.reservation.orders().replace(self.reception.orders());
                self.media_units.clear();
                // Dropped, it leaves the stream down until the first keyframe.
                self.publisher = None;
                self.began = now;
                self.keyframes.iter_mut().for_each(KeyframeRequests::want);
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
        self.choose_layer(session, now);
        self.assemble();
        self.publish(now)?;
        self.pause_layers(now)?;
        let dropped = self.reception.assembler.take_oversized();
        let (name, publisher) = (self.reservation.name(), self.publisher.as_ref());
        self.oversized.note(dropped, name, publisher, now);
        self.warn_of_descriptors();
        self.request_keyframes(session, now, counters);
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
        let requests = self.keyframes.iter().filter_map(KeyframeRequests::deadline);
        let packets = self.reception.packets.deadline();
        let pauses = self.pauses_deadline();
        let due = requests.chain(packets).chain(pauses);
        due.chain([self.check_at]).min()
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

    /// Says in the log that a dependency descriptor cannot be read. The frames are published all the same.
    fn warn_of_descriptors(&mut self) {
        if self.warned {
            return;
        }
        if let Some(fault) = self.reception.assembler.take_descriptor_fault() {
            self.warned = true;
            tracing::warn!(stream = %self.reservation.name(), %fault, "the publisher's dependency descriptors are faulty: viewers with little room may get all frames or none");
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
