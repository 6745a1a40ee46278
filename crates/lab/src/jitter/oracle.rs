//! A bound for all jitter buffers: an oracle that knows all delays, and may stretch only as much
//! as others.

use super::{Contender, Moment, Outcome, Stream};

/// Finds the least waiting and concealing by dynamic programming over playout delays.
///
/// From packet to packet, the delay changes by at most `stretch` of an interval at no cost. It
/// grows by more through a stall, which is concealed; or a late packet is left out, which is
/// concealed as well.
#[derive(Clone, Copy, Debug)]
pub struct Oracle {
    /// Share of the time that may be left out or played twice, 0–1.
    pub stretch: f64,
}

/// Cost of a concealed millisecond, in milliseconds of waiting of one packet. It is low enough
/// that the oracle conceals no more than the other buffers.
const CONCEALED_COST: f64 = 60.0;

/// Most steps of delay that are distinguished; [`CHUNK`] is the number of packets that are solved
/// at a time.
const STATES_MAX: usize = 2_000;
const CHUNK: usize = 10_000;

/// Approximate size of a step of delay.
const STEP_MS: f64 = 0.5;

impl Contender for Oracle {
    fn name(&self) -> String {
        format!("oracle, stretch {}%", self.stretch * 100.0)
    }

    fn play(&self, stream: &Stream<'_>) -> Outcome {
        let interval = stream.interval.as_secs_f64() * 1e3;
        let slew = (self.stretch * interval).max(1e-3);
        let steps = (slew / STEP_MS).ceil().min(20.0) as usize;
        let step = slew / steps as f64;
        let delays: Vec<Option<f64>> = stream.delays_ms().collect();
        let least = delays.iter().flatten().copied().fold(f64::MAX, f64::min);
        let most = delays.iter().flatten().copied().fold(least, f64::max);
        let states = (((most - least) / step).ceil() as usize + 1).min(STATES_MAX);
        let plan = Plan {
            step,
            steps,
            states,
            skip_cost: CONCEALED_COST * interval,
        };
        let mut outcome = Outcome::new(stream);
        let (mut concealed, mut stretched) = (0.0, 0.0);
        let mut state = None;
        for (index, chunk) in delays.chunks(CHUNK).enumerate() {
            // Delay that each packet needs, in steps above the least.
            let needs: Vec<Option<usize>> = chunk
                .iter()
                .map(|delay| delay.map(|it| ((it - least) / step).ceil() as usize))
                .collect();
            for (place, choice) in plan.best(&needs, state).into_iter().enumerate() {
                let packet = index * CHUNK + place;
                let delay = least + choice.state as f64 * step;
                let from = state.replace(choice.state).unwrap_or(choice.state);
                let moved = from.abs_diff(choice.state) as f64 * step;
                match choice.is_stalled {
                    true => concealed += moved,
                    false => stretched += moved,
                }
                match delays[packet] {
                    Some(taken) if choice.is_played => outcome.moments.push(Moment {
                        at_s: (stream.sent_ms(packet) + delay) / 1e3,
                        wait_ms: delay - taken,
                    }),
                    Some(_) => {
                        outcome.late += 1;
                        concealed += interval;
                    }
                    None => concealed += interval,
                }
            }
        }
        let played = delays.len() as f64 * interval;
        outcome.concealed_ratio = concealed / played;
        outcome.stretched_ratio = stretched / played;
        outcome
    }
}

struct Plan {
    step: f64,
    /// Number of steps that stretching during one packet may change.
    steps: usize,
    states: usize,
    skip_cost: f64,
}

#[derive(Clone, Copy)]
struct Choice {
    state: usize,
    is_stalled: bool,
    is_played: bool,
}

impl Plan {
    /// The best delays for `needs`, beginning near `from`.
    fn best(&self, needs: &[Option<usize>], from: Option<usize>) -> Vec<Choice> {
        let begin = |state: usize| match from {
            Some(from) if from != state => f64::INFINITY,
            _ => 0.0,
        };
        let mut cost: Vec<f64> = (0..self.states).map(begin).collect();
        let mut came = Vec::with_capacity(needs.len());
        for need in needs {
            let (next, from) = self.advance(&cost, *need);
            cost = next;
            came.push(from);
        }
        let cheapest = (0..self.states).min_by(|a, b| cost[*a].total_cmp(&cost[*b]));
        let mut state = cheapest.unwrap_or(0);
        let mut choices = Vec::with_capacity(needs.len());
        for (need, came) in needs.iter().zip(&came).rev() {
            let from = usize::from(came[state]);
            choices.push(Choice {
                state,
                is_stalled: state > from + self.steps,
                is_played: need.is_some_and(|need| need <= state),
            });
            state = from;
        }
        choices.reverse();
        choices
    }

    /// Least cost of each delay after a packet, and the delay before it.
    fn advance(&self, cost: &[f64], need: Option<usize>) -> (Vec<f64>, Vec<u16>) {
        let mut next = Vec::with_capacity(self.states);
        let mut came = Vec::with_capacity(self.states);
        // The cheapest lower delay to stall from; the cost grows with the distance.
        let mut stall = (f64::INFINITY, 0);
        let stall_step = CONCEALED_COST * self.step;
        for state in 0..self.states {
            let low = state.saturating_sub(self.steps);
            let high = (state + self.steps).min(self.states - 1);
            let mut best = stall;
            for (from, cost) in (low..).zip(&cost[low..=high]) {
                if *cost < best.0 {
                    best = (*cost, from);
                }
            }
            stall.0 += stall_step;
            // This delay becomes a candidate for the next one up, which is one step further away.
            if let Some(from) = state.checked_sub(self.steps) {
                let dear = cost[from] + stall_step * (self.steps + 1) as f64;
                if dear < stall.0 {
                    stall = (dear, from);
                }
            }
            let here = match need {
                Some(need) if need <= state => (state - need) as f64 * self.step,
                Some(_) => self.skip_cost,
                None => 0.0,
            };
            next.push(best.0 + here);
            came.push(best.1 as u16);
        }
        (next, came)
    }
}
