//! An arm of a comparison: the controller of an upload, and what surrounds it.

use std::fmt;
use std::sync::Arc;

use glassline_congestion::adaptation::Rule;
use glassline_congestion::{Algorithm, Controller};
use glassline_quic::CongestionControl;

use super::scenario::Delivery;

/// An arm: a controller, and how the encoder and the sending queue follow it.
#[derive(Clone)]
pub struct Arm {
    /// Its name in reports.
    pub name: String,
    /// Makes a controller for datagrams of the given size in bytes.
    pub controller: Arc<dyn Fn(u64) -> Box<dyn Controller> + Send + Sync>,
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

    pub(in crate::congestion) fn congestion_control(&self) -> CongestionControl {
        let controller = Arc::clone(&self.controller);
        CongestionControl::with(move |mtu| controller(mtu))
    }
}

impl fmt::Debug for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arm")
            .field("name", &self.name)
            .field("rule", &self.rule)
            .field("delivery", &self.delivery)
            .finish_non_exhaustive()
    }
}
