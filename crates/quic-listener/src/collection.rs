//! The collections of streams that sessions read.
//!
//! ```text
//! hub ─► egress::moq::run ─► Origin ─► sessions that read
//!              └ a panic here, or in the Origin's task ─► a new Origin; sessions that read the old
//!                one are closed, and come back
//! ```

use std::future::Future;
use std::sync::Arc;

use glassline_hub::Hub;
use glassline_quic::moq::Origin;
use glassline_runtime::{Part, Supervisor, spawn_kept};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use glassline_egress::moq;

/// A collection of streams, under the name of the task that keeps it.
#[derive(Debug)]
pub(super) struct Collection {
    name: &'static str,
    has: fn(&str) -> bool,
    origin: watch::Sender<Origin>,
}

impl Collection {
    /// Creates the collection of the streams for whose name `has` returns true, and the task that
    /// offers them. Must be called within tokio.
    pub(super) fn start(
        name: &'static str,
        has: fn(&str) -> bool,
        hub: &Arc<Hub>,
        services: &moq::Services,
        supervisor: &Arc<Supervisor>,
        stopped: &watch::Receiver<bool>,
    ) -> (Arc<Self>, JoinHandle<()>) {
        let (origin, driver) = Origin::driven(moq::DEADLINE);
        let collection = Arc::new(Self {
            name,
            has,
            origin: watch::Sender::new(origin),
        });
        let (kept, hub, services) = (Arc::clone(&collection), Arc::clone(hub), services.clone());
        let stop = stopped.clone();
        let mut first = Some(driver);
        let make = move || {
            let driver = first.take();
            Arc::clone(&kept).offer(driver, Arc::clone(&hub), services.clone(), stop.clone())
        };
        let task = spawn_kept(supervisor, Part::Quic.task(name), stopped, make);
        (collection, task)
    }

    /// Returns the present origin, and a receiver that tells when it is replaced.
    pub(super) fn origin(&self) -> (Origin, watch::Receiver<Origin>) {
        let receiver = self.origin.subscribe();
        let origin = receiver.borrow().clone();
        (origin, receiver)
    }

    /// Offers the streams until the server stops. `driver` is the task of the present origin; if
    /// there is none any more, another origin takes its place.
    async fn offer<D>(
        self: Arc<Self>,
        driver: Option<D>,
        hub: Arc<Hub>,
        services: moq::Services,
        stopped: watch::Receiver<bool>,
    ) where
        D: Future<Output = ()> + Send + 'static,
    {
        // The origin's task is aborted when this set is dropped.
        let mut driving = JoinSet::new();
        match driver {
            Some(driver) => driving.spawn(driver),
            None => {
                let (origin, driver) = Origin::driven(moq::DEADLINE);
                self.origin.send_replace(origin);
                driving.spawn(driver)
            }
        };
        let offer = moq::Offer {
            origin: self.origin.borrow().clone(),
            has: self.has,
        };
        tokio::select! {
            () = moq::run(hub, offer, services, stopped) => {}
            ended = driving.join_next() => {
                if let Some(Err(error)) = ended && error.is_panic() {
                    std::panic::resume_unwind(error.into_panic());
                }
                tracing::error!(task = self.name, "the streams cannot be offered over QUIC any more");
            }
        }
    }
}

/// Waits until the origin that a session reads is replaced. Waits forever if the session reads none.
pub(super) async fn replaced(collection: &mut Option<watch::Receiver<Origin>>) {
    if let Some(origin) = collection
        && origin.changed().await.is_ok()
    {
        return;
    }
    std::future::pending::<()>().await;
}
