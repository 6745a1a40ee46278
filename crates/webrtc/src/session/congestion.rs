//! Whether what a session sends is under congestion control.

use std::time::Instant;

use glassline_congestion::Algorithm;

use super::congestion_control::CongestionControl;
use super::standby::Standby;

/// The time from which congestion control is in effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlStart {
    /// From the first packet on.
    AtOnce,
    /// From the second report within 2 s that a tenth of what is sent is lost. Until then, packets have
    /// no transport-wide numbers, and no feedback is read.
    WhenCongested,
}

/// The congestion control that a session gets, and its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlPlan {
    /// Algorithm of the congestion control.
    pub algorithm: Algorithm,
    /// The time from which congestion control is in effect.
    pub start: ControlStart,
}

/// Congestion control of one session.
#[derive(Debug)]
pub(super) enum Congestion {
    /// Nothing bounds what is sent.
    Free,
    /// The first signs of congestion begin it.
    Awaited(Box<Standby>),
    /// Feedback bounds what is sent.
    Controlled(Box<CongestionControl>),
}

impl Congestion {
    pub(super) fn begin(algorithm: Algorithm, now: Instant) -> Self {
        Self::Controlled(Box::new(CongestionControl::new(algorithm, now)))
    }

    #[inline]
    pub(super) const fn control(&self) -> Option<&CongestionControl> {
        match self {
            Self::Controlled(control) => Some(control),
            Self::Free | Self::Awaited(_) => None,
        }
    }

    #[inline]
    pub(super) const fn control_mut(&mut self) -> Option<&mut CongestionControl> {
        match self {
            Self::Controlled(control) => Some(control),
            Self::Free | Self::Awaited(_) => None,
        }
    }
}
