//! Makes publishers out of offers to send media (WHIP).

use std::sync::Arc;
use std::time::Instant;

use glassline_cluster_member::ClaimRefusal;
use glassline_hub::{CreateError, PublishError, State, Stream, StreamName};
use glassline_ingest::NameClaim;
use glassline_ingest::whip::Contribution;
use glassline_messages::{Messages, Publication, Side};
use glassline_rtp::receive::TrackPipeline;
use glassline_webrtc::{OpusOptions, Session};

use super::endings::EndReason;
use super::negotiator::{AnsweredOffer, Negotiator};
use super::offer::{Offer, OfferError};
use super::peer::{Publisher, Role};

/// The reason why an offer to publish makes no session.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PublishOfferError {
    /// The offer makes no session.
    #[error(transparent)]
    Offer(#[from] OfferError),
    /// The stream has another publisher.
    #[error("'{0}' has a publisher already")]
    Taken(StreamName),
    /// A camera or file of this server has the name.
    #[error(transparent)]
    Configured(PublishError),
    /// The cluster gives the stream to no publisher of this server.
    #[error(transparent)]
    NotClaimed(#[from] ClaimRefusal),
    /// The stream cannot be made; holds the reason.
    #[error("{0}")]
    NoStream(String),
}

impl Negotiator {
    /// Makes a publisher of the stream `name`. With `takes_over`, the present publisher of the
    /// stream is replaced. Needs a tokio runtime.
    ///
    /// # Errors
    /// Returns the [`PublishOfferError`] to answer with.
    pub(crate) async fn publish_media(
        &self,
        name: StreamName,
        offer: Offer<'_>,
        takes_over: bool,
    ) -> Result<AnsweredOffer, PublishOfferError> {
        let taken = || PublishOfferError::Taken(name.clone());
        let configured = self.hub.check_client(&name);
        configured.map_err(PublishOfferError::Configured)?;
        let is_live = || {
            let present = self.hub.stream(name.as_str());
            present.is_some_and(|it| matches!(it.state(), State::Live { .. }))
        };
        let holder = self.reservations.holder(&name, Instant::now());
        let cluster = self.directory().filter(|it| it.member().is_some());
        let is_held = match holder {
            Some((_, is_silent)) => !is_silent,
            // What the hub has may be another server's, and the cluster knows that.
            None if cluster.is_some() => false,
            None => is_live(),
        };
        if is_held && !takes_over {
            return Err(taken());
        }
        let full = |error: CreateError| PublishOfferError::NoStream(error.to_string());
        self.hub.lookup(&name).map_err(full)?;
        let data = self.settings.defaults.get().data;
        let config = data.map(|policy| Messages::config(true, &policy.bounds));
        let opus = OpusOptions::default();
        let accepted = self.negotiate(offer, opus, |config_of| {
            let config = config_of(config);
            let (sdp, now) = (offer.sdp, Instant::now());
            Session::accept_publication(config, sdp, TrackPipeline::REPAIR_MAX, now)
        })?;
        // A silent holder of this server makes way.
        let may_replace = takes_over || holder.is_some();
        let claim = match cluster {
            Some(cluster) => cluster.claim(&name, may_replace).await?,
            None => None,
        };
        // Without a claim of its own, the publisher stands in for a source of this server that is away.
        if cluster.is_some() && claim.is_none() && is_live() && !may_replace {
            return Err(taken());
        }
        // The old publisher goes once the new one's offer is known to be good.
        if let Some(record) = holder.and_then(|(holder, _)| self.shared.registry.by_id(&holder)) {
            self.shared
                .registry
                .note_ending(&record.id, EndReason::Replaced, accepted.now);
            // A session that ended meanwhile is as good as left.
            let _ = self.leave(&record).await;
        }
        let id = self.draw_session_id();
        let reservation =
            self.reservations
                .reserve(name.clone(), id.clone(), takes_over, accepted.now);
        let mut reservation = reservation.map_err(|_| taken())?;
        reservation.set_claim(claim.map(|claim| Box::new(claim) as Box<dyn NameClaim>));
        let hub = Arc::clone(&self.hub);
        let stream = hub.admit(name).map_err(full)?;
        let (session, now) = (&accepted.session, accepted.now);
        let contribution = Contribution::new(session, hub, reservation, takes_over, now);
        let contribution = contribution.map_err(|error| {
            PublishOfferError::NoStream(format!("the offer cannot be received: {error}"))
        })?;
        let data = self.data_beside(&stream, Side::Publisher);
        let data = data.filter(|_| session.channels().is_some());
        let broker = data
            .as_ref()
            .map(|it| self.shared.messages.brokers.of(&it.name));
        let publication = broker
            .as_ref()
            .map(|broker| Publication::new(Arc::clone(broker), id.clone()));
        let messages = data.zip(broker).map(|(data, broker)| {
            let (side, may_send) = (data.side, data.may_send);
            Messages::new(id.clone(), side, may_send, broker, data.bounds, now)
        });
        let role =
            |_: &Session, _: &Stream| Role::Publisher(Publisher::new(contribution, publication));
        Ok(self.keep(accepted, id, stream, role, messages))
    }
}
