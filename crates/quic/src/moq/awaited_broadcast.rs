//! A broadcast that is announced before its tracks are known.

use std::task::Poll;

use moq_net::{broadcast, kio, origin, track};

use super::catalog;
use super::ended::Ended;
use super::origin::Origin;

/// Priority of the catalog, which is sent before all media.
const CATALOG_PRIORITY: u8 = 100;

/// A broadcast without tracks. Its readers wait for the catalog. It ends when this value is dropped.
#[derive(derive_more::Debug)]
#[debug("AwaitedBroadcast {{ name: {name:?}, .. }}")]
pub struct AwaitedBroadcast {
    pub(super) name: String,
    pub(super) producer: broadcast::Producer,
    pub(super) catalog: track::Producer,
    pub(super) origin: Origin,
}

impl Origin {
    /// Announces a broadcast under `name` whose tracks are not known yet, so that somebody may ask
    /// for it: a source that comes on demand can be fetched for its first reader.
    ///
    /// # Errors
    /// [`Ended`] if the name is invalid, or these broadcasts have ended.
    pub fn announce(&self, name: &str) -> Result<AwaitedBroadcast, Ended> {
        let awaited = AwaitedBroadcast::new(self, name)?;
        let announced = awaited.producer.announce(origin::Route::default());
        announced.map_err(Ended::of)?;
        Ok(awaited)
    }
}

impl AwaitedBroadcast {
    /// Makes a broadcast that nobody can find yet.
    pub(super) fn new(origin: &Origin, name: &str) -> Result<Self, Ended> {
        let producer = origin.producer.create_broadcast(name).map_err(Ended::of)?;
        let info = track::Info::default().with_priority(CATALOG_PRIORITY);
        let catalog = producer.create_track(catalog::TRACK, info);
        Ok(Self {
            name: name.to_owned(),
            catalog: catalog.map_err(Ended::of)?,
            producer,
            origin: origin.clone(),
        })
    }

    /// Waits until somebody reads the catalog.
    pub async fn reader_joined(&self) {
        kio::wait(|waiter| match self.catalog.demand().poll_used(waiter) {
            Poll::Ready(_) => Poll::Ready(()),
            Poll::Pending => Poll::Pending,
        })
        .await;
    }

    /// Waits until nobody reads the catalog.
    pub async fn readers_left(&self) {
        kio::wait(|waiter| match self.catalog.poll_unused(waiter) {
            Poll::Ready(_) => Poll::Ready(()),
            Poll::Pending => Poll::Pending,
        })
        .await;
    }

    /// Ends the broadcast: its readers learn that no tracks come.
    pub fn finish(self) {
        let _ = self.catalog.finish();
        self.producer.close();
    }
}
