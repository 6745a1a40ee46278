//! How many bytes may be sent, if congestion control is enabled.

use std::time::Instant;

use glassline_congestion::{Algorithm, PathSigns};
use glassline_media::{Bitrate, Kind};

use super::congestion::{Congestion, ControlPlan, ControlStart};
use super::congestion_control::{CongestionControl, PathReport};
use super::standby::Standby;
use super::{Sender, Session};

impl Session {
    /// Enables congestion control of everything that is sent, by the peer's transport-wide
    /// feedback: [`budget`](Self::budget) then limits what may be sent. Returns false, without
    /// effect, if the peer agreed to transport-wide feedback for no track, or not for all video:
    /// feedback about audio alone says little of a path that carries video, too.
    pub fn enable_congestion_control(&mut self, algorithm: Algorithm, now: Instant) -> bool {
        let is_possible = self.may_control_congestion();
        if is_possible {
            self.congestion = Congestion::begin(algorithm, now);
            self.senders.iter_mut().for_each(Sender::number);
        }
        is_possible
    }

    /// Plans congestion control, which begins when the plan says. Returns false, without effect, where
    /// [`enable_congestion_control`](Self::enable_congestion_control) would.
    pub fn plan_congestion_control(&mut self, plan: ControlPlan, now: Instant) -> bool {
        match plan.start {
            ControlStart::AtOnce => self.enable_congestion_control(plan.algorithm, now),
            ControlStart::WhenCongested => {
                let is_possible = self.may_control_congestion();
                if is_possible {
                    let standby = Standby::new(plan.algorithm, now);
                    self.congestion = Congestion::Awaited(Box::new(standby));
                }
                is_possible
            }
        }
    }

    /// Begins the congestion control that is planned, without waiting for signs of congestion. Returns
    /// whether congestion control is in effect.
    pub fn begin_congestion_control(&mut self, now: Instant) -> bool {
        if let Congestion::Awaited(standby) = &self.congestion {
            let algorithm = standby.algorithm;
            self.enable_congestion_control(algorithm, now);
        }
        self.has_congestion_control()
    }

    fn may_control_congestion(&self) -> bool {
        let is_unreported =
            |sender: &Sender| sender.codec.kind() == Kind::Video && !sender.may_number();
        let senders = &self.senders;
        !senders.iter().any(is_unreported) && senders.iter().any(Sender::may_number)
    }

    /// Returns whether congestion control is in effect.
    #[inline]
    pub const fn has_congestion_control(&self) -> bool {
        self.congestion.control().is_some()
    }

    /// Returns the number of bytes that may be sent at `now`; `None` without congestion
    /// control. Packets that are sent without asking are counted all the same.
    #[inline]
    pub fn budget(&mut self, now: Instant) -> Option<u64> {
        Some(self.congestion.control_mut()?.budget(now))
    }

    /// Returns the instant at which `bytes` may be sent, unless feedback allows it earlier.
    /// `None` without congestion control, or if it depends on feedback alone.
    pub fn budget_at(&mut self, bytes: u64, now: Instant) -> Option<Instant> {
        self.congestion.control_mut()?.budget_at(now, bytes)
    }

    /// Returns the instant at which the next packets of a frame may be sent, as
    /// [`budget_at`](Self::budget_at) does. `next`: bytes of the next one. `rest` returns the
    /// bytes of all that are left, and is asked only where packets wait for each other.
    pub fn frame_at(
        &mut self,
        next: u64,
        rest: impl FnOnce() -> u64,
        now: Instant,
    ) -> Option<Instant> {
        self.congestion.control_mut()?.frame_at(now, next, rest)
    }

    /// Returns the number of bytes that may be sent again at `now` in place of lost ones; `None`
    /// without congestion control. Lost packets are no longer on the path, so what is in flight does
    /// not matter once a rate is known.
    pub fn repair_budget(&mut self, now: Instant) -> Option<u64> {
        Some(self.congestion.control_mut()?.repair_budget(now))
    }

    /// Returns whether `bytes` to be sent again wait for the pacing rate alone. Where as much was sent again as
    /// arrived, they wait for feedback. True without congestion control.
    pub fn may_repair(&self, bytes: u64) -> bool {
        let control = self.congestion.control();
        control.is_none_or(|it| it.may_repair(bytes))
    }

    /// Returns the instant at which `bytes` may be sent again, as [`budget_at`](Self::budget_at)
    /// does for new ones.
    pub fn repair_at(&mut self, bytes: u64, now: Instant) -> Option<Instant> {
        self.congestion.control_mut()?.repair_at(now, bytes)
    }

    /// States that there is nothing more to send although the budget is not used up. Rates
    /// measured meanwhile are limited by the application and not by the path.
    #[inline]
    pub fn set_app_limited(&mut self) {
        if let Some(congestion) = self.congestion.control_mut() {
            congestion.on_app_limited();
        }
    }

    /// States that the path has carried `rate` without a queue and without losses, as a probe found.
    pub fn prove_rate(&mut self, rate: Bitrate, now: Instant) {
        if let Some(control) = self.congestion.control_mut() {
            control.on_proven(rate, now);
        }
    }

    /// Returns the signs of what the path carries; `None` without congestion control or recent feedback.
    pub fn path_signs(&self, now: Instant) -> Option<PathSigns> {
        self.congestion.control()?.signs(now)
    }

    /// Returns the share of packets that the path loses whatever is sent, 0 to 1; 0 where that is not known.
    pub fn loss_floor(&self) -> f64 {
        let control = self.congestion.control();
        control.map_or(0.0, CongestionControl::loss_floor)
    }

    /// Returns the number of bytes with a transport-wide number that were sent so far; 0 without
    /// congestion control.
    pub fn numbered_bytes(&self) -> u64 {
        let control = self.congestion.control();
        control.map_or(0, CongestionControl::sent_bytes)
    }

    /// Returns the transport-wide number of the next packet.
    pub const fn next_transport_number(&self) -> u64 {
        self.transport_sequence
    }

    /// Returns the congestion controller's view of the path; `None` without congestion control.
    pub fn path_report(&self) -> Option<PathReport> {
        Some(self.congestion.control()?.report())
    }
}
