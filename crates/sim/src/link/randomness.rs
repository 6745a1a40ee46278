//! Random decisions that belong to points in time: the same seed, time slot and place
//! within the slot give the same number, whatever was drawn before.

use super::{Loss, MILLISECOND, Nanos};
use glassline_random::{mix, unit};

/// Time for which the jitter stays constant: radio schedulers change their decisions after
/// some milliseconds, and a delay drawn for each datagram would, with order kept, only be
/// the largest of the last few.
const JITTER_SLOT: Nanos = 10 * MILLISECOND;

/// The random decisions of one link.
#[derive(Clone, Debug)]
pub(super) struct Randomness {
    /// Seed of all decisions.
    seed: u64,
    /// Millisecond in which the last datagram left the queue.
    slot: u64,
    /// Datagrams that have left in that millisecond.
    in_slot: u64,
    /// State of bursty loss.
    loss_chain: LossChain,
}

/// Kind of a decision; each kind has its own sequence of numbers.
#[derive(Clone, Copy)]
enum Decision {
    /// Whether a datagram is lost.
    Loss = 1,
    /// Whether a datagram is held back.
    Reorder,
    /// How much jitter there is.
    Jitter,
    /// How long a state of bursty loss lasts.
    LossChain,
}

/// State of a Gilbert–Elliott chain.
#[derive(Clone, Debug, Default)]
struct LossChain {
    /// Whether the chain is in its bad state.
    bad: bool,
    /// First time slot of the next state; `None` until the chain begins.
    until: Option<u64>,
    /// Number of states so far.
    states: u64,
}

impl Randomness {
    /// Returns the decisions that follow from `seed`.
    pub(super) fn new(seed: u64) -> Self {
        Self {
            seed,
            slot: 0,
            in_slot: 0,
            loss_chain: LossChain::default(),
        }
    }

    /// Proceeds to the datagram that leaves the queue at `departure`, which must not go
    /// back.
    pub(super) fn next_datagram(&mut self, departure: Nanos) {
        let slot = departure / MILLISECOND;
        if slot != self.slot {
            self.slot = slot;
            self.in_slot = 0;
        }
        self.in_slot += 1;
    }

    /// Decides whether the datagram is lost.
    pub(super) fn lost(&mut self, loss: Loss) -> bool {
        let probability = match loss {
            Loss::None => return false,
            Loss::Random(probability) => probability,
            Loss::GilbertElliott {
                to_bad,
                to_good,
                good,
                bad,
            } => {
                if self.is_bad(to_bad, to_good) {
                    bad
                } else {
                    good
                }
            }
        };
        self.draw_for_datagram(Decision::Loss) < probability
    }

    /// Decides whether the datagram is held back, with `probability`.
    pub(super) fn held_back(&self, probability: f64) -> bool {
        probability > 0.0 && self.draw_for_datagram(Decision::Reorder) < probability
    }

    /// Returns the share of the jitter that applies at `departure`, 0..1.
    pub(super) fn jitter(&self, departure: Nanos) -> f64 {
        self.number(Decision::Jitter, departure / JITTER_SLOT, 0)
    }

    /// Restarts the chain in its good state with the next datagram, because its
    /// probabilities have changed.
    pub(super) fn restart_loss_chain(&mut self) {
        self.loss_chain.until = Some(self.slot);
        self.loss_chain.bad = true;
    }

    /// Steps the chain to the present slot; returns whether it is in its bad state.
    fn is_bad(&mut self, to_bad: f64, to_good: f64) -> bool {
        // The chain begins at the end of a bad state, so that it starts good.
        let mut until = self.loss_chain.until.unwrap_or_else(|| {
            self.loss_chain.bad = true;
            0
        });
        while self.slot >= until {
            self.loss_chain.bad = !self.loss_chain.bad;
            let leave = if self.loss_chain.bad { to_good } else { to_bad };
            let drawn = self.number(Decision::LossChain, self.loss_chain.states, 0);
            self.loss_chain.states += 1;
            until = until.saturating_add(sojourn(leave, drawn));
        }
        self.loss_chain.until = Some(until);
        self.loss_chain.bad
    }

    /// Draws a number for the present datagram.
    fn draw_for_datagram(&self, decision: Decision) -> f64 {
        self.number(decision, self.slot, self.in_slot)
    }

    /// Draws a number in 0..1 for a place in a time slot.
    fn number(&self, decision: Decision, slot: u64, place: u64) -> f64 {
        let key = mix(self.seed ^ mix((place << 8) | decision as u64));
        unit(mix(key ^ slot.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }
}

/// Returns the time slots until a state is left that is left with probability `leave` in
/// each, from an even `drawn` in 0..1: the quantile of the geometric distribution.
fn sojourn(leave: f64, drawn: f64) -> u64 {
    if leave <= 0.0 {
        return u64::MAX;
    }
    if leave >= 1.0 {
        return 1;
    }
    let slots = (1.0 - drawn).ln() / (1.0 - leave).ln();
    // A cast saturates, and neither logarithm is positive.
    let whole = slots as u64;
    whole.saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_last_as_long_as_a_coin_keeps_falling() {
        // Half of the states last one slot, a quarter two.
        let lengths = [0.0, 0.49, 0.51, 0.74, 0.76].map(|drawn| sojourn(0.5, drawn));
        assert_eq!(lengths, [1, 1, 2, 2, 3]);
        assert_eq!(sojourn(1.0, 0.9), 1);
        assert_eq!(sojourn(0.0, 0.0), u64::MAX);
    }
}
