//! How much of what waits may leave, where congestion control is switched on.

use std::time::Instant;

use glassline_congestion::Algorithm;

use super::steering::{PathReport, Steering};
use super::{Sender, Session};

impl Session {
    /// Puts what is sent under congestion control, by what the peer's transport-wide
    /// feedback tells: [`budget`](Self::budget) then says how much may leave. False,
    /// and nothing changes, if the peer agreed to none for any track.
    pub fn steer(&mut self, algorithm: Algorithm, now: Instant) -> bool {
        let numbered = self.senders.iter().any(Sender::is_numbered);
        if numbered {
            self.steering = Some(Box::new(Steering::new(algorithm, now)));
        }
        numbered
    }

    /// What is sent is under congestion control.
    #[inline]
    pub const fn is_steered(&self) -> bool {
        self.steering.is_some()
    }

    /// Bytes that may leave at `now`; `None` if nothing bounds them. What leaves
    /// without asking counts all the same.
    #[inline]
    pub fn budget(&mut self, now: Instant) -> Option<u64> {
        Some(self.steering.as_mut()?.budget(now))
    }

    /// When `bytes` may leave, unless feedback allows them before; `None` if nothing
    /// bounds them, or only feedback can tell.
    pub fn budget_at(&mut self, bytes: u64, now: Instant) -> Option<Instant> {
        self.steering.as_mut()?.budget_at(now, bytes)
    }

    /// There is nothing more to send for now, though more might leave: rates that are
    /// measured meanwhile are not the path's.
    #[inline]
    pub fn note_idle(&mut self) {
        if let Some(steering) = &mut self.steering {
            steering.on_idle();
        }
    }

    /// How the way to the peer stands, as congestion control sees it; `None` without.
    pub fn path_report(&self) -> Option<PathReport> {
        Some(self.steering.as_ref()?.report())
    }
}
