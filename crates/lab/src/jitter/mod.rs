//! Jitter buffers side by side on the same delays, in virtual time.
//!
//! ```text
//! Delays (a trace, or a family and a seed) ─► Stream ─┬► Ours: the real buffer
//!                                                     ├► NetEq: a model of its control logic
//!                                                     ├► Fixed: one delay, known beforehand
//!                                                     └► Oracle: knows what will come
//!           Report ◄─ Comparison ◄─ Outcome ◄────┘  waits, concealed, stretched
//! ```
//!
//! A packet's wait runs from its arrival until its first sample leaves. NetEq's model
//! counts until the packet is decoded, in ticks of 10 ms, as NetEq does itself and as
//! the study did that it is compared with: in its favour.

use std::time::Duration;

use glassline_sim::Delays;
pub use glassline_voice::jitter::Pace;

mod comparison;
mod fixed;
mod heard;
mod neteq;
mod oracle;
mod ours;
mod outcome;
pub mod report;
mod speech;

#[cfg(test)]
mod tests;

pub use comparison::{Comparison, Found};
pub use fixed::Fixed;
pub use heard::{Heard, Spoken};
pub use neteq::{NetEq, Version};
pub use oracle::Oracle;
pub use ours::Ours;
pub use outcome::{Moment, Outcome, Wait};

/// Packets on a path.
#[derive(Clone, Copy, Debug)]
pub struct Stream<'a> {
    /// What each meets.
    pub delays: &'a Delays,
    /// Between two, and how long each lasts.
    pub interval: Duration,
}

/// Who plays a stream.
pub trait Contender {
    /// What tables call it.
    fn name(&self) -> String;

    /// Plays all of it.
    fn play(&self, stream: &Stream<'_>) -> Outcome;
}

impl Stream<'_> {
    /// When each packet that comes does, since the first was sent; in that order.
    fn arrivals(&self) -> Vec<(Duration, usize)> {
        let packets = self.delays.packets().iter().enumerate();
        let mut arrivals: Vec<(Duration, usize)> = packets
            .filter_map(|(packet, delay)| Some((self.sent(packet) + (*delay)?, packet)))
            .collect();
        arrivals.sort_unstable();
        arrivals
    }

    /// When the last packet that comes does.
    fn end(&self) -> Duration {
        let last = self.arrivals().last().map_or(Duration::ZERO, |it| it.0);
        last.min(self.sent(self.delays.packets().len()))
    }

    fn delays_ms(&self) -> impl Iterator<Item = Option<f64>> + '_ {
        let packets = self.delays.packets().iter();
        packets.map(|delay| delay.map(|it| it.as_secs_f64() * 1e3))
    }

    fn sent_ms(&self, packet: usize) -> f64 {
        self.sent(packet).as_secs_f64() * 1e3
    }

    fn sent(&self, packet: usize) -> Duration {
        self.interval * u32::try_from(packet).expect("a trace is bounded")
    }
}
