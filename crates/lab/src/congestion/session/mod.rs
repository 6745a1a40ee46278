//! One upload: its scenario, its arm, and its figures.
//!
//! ```no_run
//! # use glassline_lab::congestion::session::{Arm, Scenario, Sessions};
//! # use glassline_congestion::Algorithm;
//! # use std::time::Duration;
//! let sessions = Sessions::new();
//! let arm = Arm::new(Algorithm::Copa);
//! let measured = sessions.run(&Scenario::default(), &arm, 1, Duration::from_secs(60));
//! println!("{:.2} Mbit/s", measured.goodput_mbps);
//! ```
//!
//! [`Sessions`] is `Sync`: several threads can run sessions of one value at a time. The same
//! scenario, arm, seed and duration give the same [`Measured`], digest included.

mod arm;
mod measured;
mod scenario;

use std::time::Duration;

use super::relay;
pub use super::relay::RelayError;
use super::upload::{Credentials, Packets};
use super::virtual_time;
pub use arm::{Arm, Start};
pub use measured::{Measured, Sample, Spread};
pub use scenario::{Change, Competitor, Delivery, Groups, HEADER_BYTES, Scenario, Source};

/// Runs sessions. Holds the key and the certificate that all sessions share.
#[derive(Clone, derive_more::Debug)]
#[debug("Sessions {{ .. }}")]
pub struct Sessions {
    credentials: Credentials,
    /// Longest time by which ends wake late, in virtual time.
    late: Duration,
}

impl Sessions {
    /// Makes the key and the certificate.
    pub fn new() -> Self {
        Self {
            credentials: Credentials::new(Packets::Sealed),
            late: Duration::ZERO,
        }
    }

    /// Lets the ends wake late in virtual time, as the threads of a machine do: for each event by a
    /// time between zero and `most`, which the session's seed decides. Ends then see at once all
    /// events that have become due meanwhile.
    #[must_use]
    pub const fn waking_late(mut self, most: Duration) -> Self {
        self.late = most;
        self
    }

    /// Turns encryption off after the handshakes, in virtual time. Figures and digest are the
    /// same as with sealed packets, for three quarters of the processor time.
    #[must_use]
    pub fn unsealed(mut self) -> Self {
        self.credentials = self.credentials.with(Packets::Open);
        self
    }

    /// Runs one session in virtual time, for `duration` from the first packet on.
    pub fn run(&self, scenario: &Scenario, arm: &Arm, seed: u64, duration: Duration) -> Measured {
        self.trace_if(scenario, arm, seed, duration, None).0
    }

    /// Runs one session in real time over sockets of this machine, through the same links; takes
    /// `duration`. The digest is 0, because no two runs are equal.
    ///
    /// # Errors
    ///
    /// The operating system refuses sockets.
    pub fn relay(
        &self,
        scenario: &Scenario,
        arm: &Arm,
        seed: u64,
        duration: Duration,
    ) -> Result<Measured, RelayError> {
        let credentials = self.credentials.with(Packets::Sealed);
        relay::run(&credentials, scenario, arm, seed, duration)
    }

    /// Runs one session in virtual time like [`run`](Self::run), and takes a [`Sample`] every
    /// `period`.
    pub fn trace(
        &self,
        scenario: &Scenario,
        arm: &Arm,
        seed: u64,
        duration: Duration,
        period: Duration,
    ) -> (Measured, Vec<Sample>) {
        self.trace_if(scenario, arm, seed, duration, Some(period))
    }

    fn trace_if(
        &self,
        scenario: &Scenario,
        arm: &Arm,
        seed: u64,
        duration: Duration,
        period: Option<Duration>,
    ) -> (Measured, Vec<Sample>) {
        let (credentials, late) = (&self.credentials, self.late);
        virtual_time::run(credentials, scenario, arm, seed, duration, period, late)
    }
}

impl Default for Sessions {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests;
