//! Whether what a session sends is under congestion control.

use std::time::Instant;

use glassline_congestion::Algorithm;

use super::congestion_control::CongestionControl;
use super::standby::Standby;
use super::{SenderIndex, Session};

/// The time from which congestion control is in effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlStart {
    /// From the first packet on.
    AtOnce,
    /// From the second sign within 2 s that a tenth of what is sent is lost here and there, by NACKs, or by
    /// receiver reports where the peer sends no NACKs. Until then, packets have no transport-wide numbers,
    /// and no feedback is read.
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

impl Session {
    pub(super) fn standby_on_nack(&mut self, now: Instant, sender: SenderIndex, lost: &[u64]) {
        let Congestion::Awaited(standby) = &mut self.congestion else {
            return;
        };
        let sent = self.senders.iter().map(|it| it.counts().packets).sum();
        if standby.on_nack(now, sender, lost, sent) {
            let algorithm = standby.algorithm;
            self.enable_congestion_control(algorithm, now);
        }
    }

    pub(super) fn standby_on_report(&mut self, now: Instant, fraction_lost: u8) {
        if let Congestion::Awaited(standby) = &mut self.congestion
            && standby.on_report(now, fraction_lost)
        {
            let algorithm = standby.algorithm;
            self.enable_congestion_control(algorithm, now);
        }
    }
}
