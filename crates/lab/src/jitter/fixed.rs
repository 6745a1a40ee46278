//! The simplest jitter buffer: one delay, chosen with knowledge of the whole trace.

use super::{Contender, Moment, Outcome, Stream};
use crate::statistics::quantile;

/// One delay for all packets: the least at which at most `late_share` of them are late. It is
/// read from the whole trace, so no live buffer can have it; an adaptive buffer should beat it.
#[derive(Clone, Copy, Debug)]
pub struct Fixed {
    /// Share of the arriving packets that may be late, 0–1.
    pub late_share: f64,
}

impl Contender for Fixed {
    fn name(&self) -> String {
        "fixed".to_owned()
    }

    fn play(&self, stream: &Stream<'_>) -> Outcome {
        let delays: Vec<f64> = stream.delays_ms().flatten().collect();
        let delay = quantile(&delays, 1.0 - self.late_share).unwrap_or(0.0);
        let mut outcome = Outcome::new(stream);
        for (packet, taken) in stream.delays_ms().enumerate() {
            match taken {
                Some(taken) if taken <= delay => outcome.moments.push(Moment {
                    at_s: (stream.sent_ms(packet) + delay) / 1e3,
                    wait_ms: delay - taken,
                }),
                Some(_) => outcome.late += 1,
                None => {}
            }
        }
        let packets = stream.delays.packets().len();
        outcome.concealed_ratio = 1.0 - outcome.moments.len() as f64 / packets as f64;
        outcome
    }
}
