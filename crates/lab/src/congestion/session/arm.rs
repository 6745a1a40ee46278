//! An arm of a comparison: the controller of an upload, and what surrounds it.

use std::sync::Arc;
use std::time::Instant;

use glassline_congestion::adaptation::Rule;
use glassline_congestion::{Algorithm, Controller};
use glassline_quic::CongestionControl;

use super::scenario::{Delivery, Scenario};
use crate::congestion::oracle::{Foresight, Oracle};

/// Makes a controller for datagrams of the given size in bytes, on a path that is going to be
/// as the foresight says. Only the oracle looks at the latter.
pub type Start = dyn Fn(u64, &Foresight) -> Box<dyn Controller> + Send + Sync;

/// An arm: a controller, and how the encoder and the sending queue follow it.
#[derive(Clone, derive_more::Debug)]
#[debug("Arm {{ name: {name:?}, rule: {rule:?}, delivery: {delivery:?}, .. }}")]
pub struct Arm {
    /// Its name in reports.
    pub name: String,
    /// Makes its controller.
    pub controller: Arc<Start>,
    /// Rule by which the encoder's bitrate follows the path.
    pub rule: Rule,
    /// Order in which media is sent, and what may be dropped.
    pub delivery: Delivery,
}

impl Arm {
    /// An arm of the controller `algorithm`, with the study's encoder and queue.
    pub fn new(algorithm: Algorithm) -> Self {
        Self::with(algorithm.as_str(), move |mtu| algorithm.start(mtu))
    }

    /// An arm of any controller, with the study's encoder and queue.
    pub fn with(
        name: impl Into<String>,
        controller: impl Fn(u64) -> Box<dyn Controller> + Send + Sync + 'static,
    ) -> Self {
        Self::foreseeing(name, move |mtu, _| controller(mtu))
    }

    /// An arm that knows the link's rate and delay of all times, and keeps the link just full, as
    /// a bound for the queue and the use of it. See [`Oracle`].
    pub fn oracle() -> Self {
        Self::foreseeing("oracle", |mtu, foresight| {
            Box::new(Oracle::new(foresight.clone(), mtu))
        })
    }

    fn foreseeing(
        name: impl Into<String>,
        controller: impl Fn(u64, &Foresight) -> Box<dyn Controller> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            controller: Arc::new(controller),
            rule: Rule::Study,
            delivery: Delivery::InOrder,
        }
    }

    /// Renames the arm, and lets its encoder follow the controller.
    #[must_use]
    pub fn coupled(mut self) -> Self {
        self.name.push_str("-coupled");
        self.rule = Rule::Coupled;
        self
    }

    /// Sets how the arm's media is sent.
    #[must_use]
    pub const fn delivered(mut self, delivery: Delivery) -> Self {
        self.delivery = delivery;
        self
    }

    /// Congestion control of an upload in `scenario` that begins at `start`.
    pub(in crate::congestion) fn congestion_control(
        &self,
        scenario: &Scenario,
        start: Instant,
    ) -> CongestionControl {
        let controller = Arc::clone(&self.controller);
        let foresight = Foresight::new(scenario, start);
        CongestionControl::with(move |mtu| controller(mtu, &foresight))
    }
}
