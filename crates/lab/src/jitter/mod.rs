//! Jitter buffers compared on the same delays, in virtual time.
//!
//! ```text
//! Delays (a trace, or a family and a seed) ─► Stream ─┬► Ours: the real buffer
//!                                                     ├► NetEq: a model of its control logic
//!                                                     ├► Fixed: one delay, known beforehand
//!                                                     └► Oracle: knows all future delays
//!           Report ◄─ Comparison ◄─ Outcome ◄────┘  waits, concealed, stretched
//! ```
//!
//! A packet's wait lasts from its arrival until its first sample is played. For the model of
//! NetEq, the wait ends when the packet is decoded, in ticks of 10 ms, as NetEq itself counts and
//! as the study did that the model is compared with. That favors NetEq.

use std::time::Duration;

use glassline_sim::Delays;
pub use glassline_voice::jitter::Pace;

mod comparison;
mod fixed;
mod neteq;
mod oracle;
mod ours;
mod outcome;
pub mod quality;
pub mod report;
mod speech;
mod speech_run;

#[cfg(test)]
mod tests;

pub use comparison::{Comparison, ComparisonResult};
pub use fixed::Fixed;
pub use neteq::{NetEq, Version};
pub use oracle::Oracle;
pub use ours::Ours;
pub use outcome::{Moment, Outcome, Wait};
pub use speech_run::{EncodedSpeech, PlayedSpeech};

/// Packets with the delays of a path.
#[derive(Clone, Copy, Debug)]
pub struct Stream<'a> {
    /// Delay or loss of each packet.
    pub delays: &'a Delays,
    /// Time between two packets, which is also the duration of the audio in each.
    pub interval: Duration,
}

/// A jitter buffer that takes part in a comparison.
pub trait Contender {
    /// Returns the buffer's name in tables.
    fn name(&self) -> String;

    /// Plays the whole stream.
    fn play(&self, stream: &Stream<'_>) -> Outcome;
}

impl Stream<'_> {
    /// Arrival time and index of each packet that arrives, since the first one was sent, in order
    /// of arrival.
    fn arrivals(&self) -> Vec<(Duration, usize)> {
        let packets = self.delays.packets().iter().enumerate();
        let mut arrivals: Vec<(Duration, usize)> = packets
            .filter_map(|(packet, delay)| Some((self.sent(packet) + (*delay)?, packet)))
            .collect();
        arrivals.sort_unstable();
        arrivals
    }

    /// Arrival time of the last packet, since the first one was sent.
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
