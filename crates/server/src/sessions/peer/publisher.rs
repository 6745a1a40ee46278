//! The role of a peer that publishes a stream, perhaps with messages next to it.

use std::time::Instant;

use glassline_hub::PublishError;
use glassline_ingest::whip::{Arrivals, Contribution, Shortfall};
use glassline_ingest::{Ended, WhipCounters};
use glassline_messages::Publication;
use glassline_rtp::Packet;
use glassline_webrtc::Session;

use super::packet_place::PacketPlace;
use crate::sessions::endings::EndReason;

/// The state that only a publisher needs: its media, and the right to publish messages.
#[derive(Debug)]
pub(crate) struct Publisher {
    contribution: Box<Contribution>,
    publication: Option<Publication>,
    /// The reason why the publisher was disconnected; `None` if it was not.
    ended: Option<Box<str>>,
}

impl Publisher {
    /// Creates the role. Messages are published through `publication`, if there are any.
    pub(crate) fn new(contribution: Contribution, publication: Option<Publication>) -> Self {
        Self {
            contribution: Box::new(contribution),
            publication,
            ended: None,
        }
    }

    /// Begins to publish, because the session has keys now.
    pub(super) fn start(&mut self, now: Instant) {
        self.contribution.start(now);
        if let Some(publication) = &self.publication {
            publication.begin(now);
        }
    }

    /// Takes a media packet.
    pub(super) fn on_packet(
        &mut self,
        session: &Session,
        place: PacketPlace,
        packet: &Packet<'_>,
        now: Instant,
        counters: &WhipCounters,
    ) {
        let source = (place.receiver, place.layer);
        self.contribution
            .take(session, source, packet, now, counters);
    }

    /// Publishes what is complete. Returns the reason to disconnect the publisher, if there is one.
    pub(super) fn serve(
        &mut self,
        session: &mut Session,
        now: Instant,
        counters: &WhipCounters,
    ) -> Option<EndReason> {
        let ended = self.contribution.serve(session, now, counters).err()?;
        tracing::warn!(stream = %self.contribution.name(), %ended, "publisher disconnected");
        self.contribution.leave(ended.to_string());
        self.ended = Some(ended.to_string().into());
        Some(match ended {
            Ended::Silent { .. } | Ended::NoKeyframe { .. } | Ended::FramesTooLarge { .. } => {
                EndReason::NoMedia
            }
            Ended::Publish(PublishError::Replaced { .. }) => EndReason::Replaced,
            Ended::Publish(PublishError::Deleted { .. }) => EndReason::Deleted,
            Ended::Publish(_) | Ended::Create(_) => EndReason::NotPublished,
        })
    }

    /// Returns what arrived so far.
    pub(super) fn arrivals(&self, session: &Session, now: Instant) -> Arrivals {
        self.contribution.arrivals(session, now)
    }

    /// Returns why the publisher was disconnected; `None` if it was not.
    pub(super) fn ended(&self) -> Option<&str> {
        self.ended.as_deref()
    }

    /// Returns why the stream never went live, and what to change; `None` if it did.
    pub(super) fn shortfall(&self, session: &Session, now: Instant) -> Option<Shortfall> {
        self.contribution.shortfall(session, now)
    }

    /// Notes that the session is over, for the reason `detail`.
    pub(super) fn leave(&mut self, detail: String) {
        self.contribution.leave(detail);
    }

    /// Returns when [`serve`](Self::serve) must be called.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.contribution.deadline()
    }
}
