//! The layer that a reader names in its URL: `moq://HOST/cam?layer=sub`.
//!
//! The session reads a collection of its own, which has this one stream in that one layer. A stream that
//! the session names so is one that somebody watches.

use std::sync::Arc;
use std::time::Duration;

use glassline_egress::moq;
use glassline_hub::{LayerWish, Stream};
use glassline_ingest::LayerStreams;
use glassline_quic::moq::{Origin, Role, SessionRequest};
use glassline_rooms as rooms;
use glassline_runtime::{await_tracks, may_come};
use tokio::task::JoinSet;

use super::SessionContext;
use super::access::Rights;

/// Pause after which a stream whose offer ended is offered again.
const PAUSE: Duration = Duration::from_secs(1);

/// One layer of a stream, offered to one session for as long as this is held.
#[derive(Debug)]
pub(super) struct OfferedLayer {
    pub(super) origin: Origin,
    _task: JoinSet<()>,
}

impl OfferedLayer {
    /// Offers the layer that `request` names, if it names one. Waits for the tracks of a source that comes
    /// on demand.
    ///
    /// # Errors
    /// Returns in words why the session gets no stream.
    pub(super) async fn of(
        request: &SessionRequest,
        rights: &Rights,
        context: &SessionContext,
    ) -> Result<Option<Self>, String> {
        let mut pairs = url::form_urlencoded::parse(request.query().as_bytes());
        let named = pairs.find(|(key, _)| key == "layer");
        let Some((_, text)) = named.filter(|_| request.role() != Role::Publisher) else {
            return Ok(None);
        };
        let wish = text
            .parse::<LayerWish>()
            .map_err(|error| error.to_string())?;
        let name = request.path();
        let may_read = rights.may_read(&context.users, name) && !rooms::is_voice(name);
        let stream = context.hub.stream(name).filter(|_| may_read);
        let stream = stream.ok_or_else(|| {
            format!("this server has no stream '{name}', whose layers it could send")
        })?;
        if may_come(&stream) {
            drop(await_tracks(&stream).await);
        }
        let layers = Arc::clone(&context.layers);
        layers
            .of(&stream, &wish)
            .map_err(|error| error.to_string())?;
        let origin = Origin::with_deadline(moq::DEADLINE);
        let mut task = JoinSet::new();
        task.spawn(offer(stream, wish, layers, origin.clone(), context.clone()));
        Ok(Some(Self {
            origin,
            _task: task,
        }))
    }
}

/// Offers a layer of `stream` until the stream is deleted.
async fn offer(
    stream: Arc<Stream>,
    wish: LayerWish,
    layers: Arc<LayerStreams>,
    origin: Origin,
    context: SessionContext,
) {
    while !stream.is_deleted() {
        if let Ok(of_layer) = layers.of(&stream, &wish) {
            let (hub, services) = (Arc::clone(&context.hub), context.offering.clone());
            moq::offer_alone(of_layer, hub, origin.clone(), services).await;
        }
        tokio::time::sleep(PAUSE).await;
    }
}
