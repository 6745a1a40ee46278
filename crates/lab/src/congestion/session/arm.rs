//! What runs an upload.

use std::fmt;
use std::sync::Arc;

use glassline_congestion::adaptation::Rule;
use glassline_congestion::{Algorithm, Controller};
use glassline_quic::CongestionControl;

use super::scenario::Delivery;

/// What is compared: a controller, and how the encoder and the queue follow it.
#[derive(Clone)]
pub struct Arm {
    /// Its name in reports.
    pub name: String,
    /// Makes a controller for datagrams of so many bytes.
    pub controller: Arc<dyn Fn(u64) -> Box<dyn Controller> + Send + Sync>,
    /// How the encoder follows the path.
    pub rule: Rule,
    /// How media is sent.
    pub delivery: Delivery,
}

impl Arm {
    /// A controller by name, with the study's encoder and queue.
    pub fn new(algorithm: Algorithm) -> Self {
        Self::with(algorithm.as_str(), move |mtu| algorithm.start(mtu))
    }

    /// Any controller, with the study's encoder and queue.
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

    /// The same under another name and with an encoder that follows the controller.
    #[must_use]
    pub fn coupled(mut self) -> Self {
        self.name.push_str("-coupled");
        self.rule = Rule::Coupled;
        self
    }

    /// The same, sent another way.
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
