//! HyStart++ (RFC 9406): leaving slow start when round trips grow.

use std::time::{Duration, Instant};

/// Least growth of a round trip that counts (§4.2, `MIN_RTT_THRESH`).
const GROWTH_MIN: Duration = Duration::from_millis(4);
/// Growth that always counts (`MAX_RTT_THRESH`).
const GROWTH_MAX: Duration = Duration::from_millis(16);
/// Share of the round trip that counts in between (`MIN_RTT_DIVISOR`).
const GROWTH_DIVISOR: u32 = 8;
/// Samples of a round before it is judged (`N_RTT_SAMPLE`).
const SAMPLES_MIN: u32 = 8;
/// Conservative slow start grows slower by this (`CSS_GROWTH_DIVISOR`).
const CONSERVATIVE_DIVISOR: u64 = 4;
/// Rounds of conservative slow start before it is over (`CSS_ROUNDS`).
const CONSERVATIVE_ROUNDS: u32 = 5;

/// The rounds of one slow start.
#[derive(Clone, Debug, Default)]
pub(crate) struct HyStart {
    /// The round ends with the first acknowledgement of what left after this.
    round_began: Option<Instant>,
    least: Option<Duration>,
    least_before: Option<Duration>,
    samples: u32,
    conservative: Option<Conservative>,
}

#[derive(Clone, Copy, Debug)]
struct Conservative {
    /// The least round trip when it began; below that it was a false alarm.
    baseline: Duration,
    rounds: u32,
}

/// What slow start should do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Advice {
    /// Grow by what was acknowledged, divided by this.
    Grow { divisor: u64 },
    /// Leave slow start.
    Leave,
}

impl HyStart {
    /// An acknowledgement at `now` of a packet sent at `sent`, with its round trip.
    pub(crate) fn on_ack(&mut self, now: Instant, sent: Instant, rtt: Duration) -> Advice {
        if self.round_began.is_none_or(|began| sent >= began) {
            self.round_began = Some(now);
            self.least_before = self.least.take();
            self.samples = 0;
            if let Some(conservative) = &mut self.conservative {
                conservative.rounds += 1;
                if conservative.rounds > CONSERVATIVE_ROUNDS {
                    return Advice::Leave;
                }
            }
        }
        self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
        self.samples += 1;
        if self.samples >= SAMPLES_MIN {
            self.judge();
        }
        Advice::Grow {
            divisor: match self.conservative {
                Some(_) => CONSERVATIVE_DIVISOR,
                None => 1,
            },
        }
    }

    fn judge(&mut self) {
        let (Some(least), Some(before)) = (self.least, self.least_before) else {
            return;
        };
        match self.conservative {
            Some(conservative) if least < conservative.baseline => self.conservative = None,
            Some(_) => {}
            None => {
                let growth = (before / GROWTH_DIVISOR).clamp(GROWTH_MIN, GROWTH_MAX);
                if least >= before + growth {
                    self.conservative = Some(Conservative {
                        baseline: least,
                        rounds: 0,
                    });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs rounds of ten acknowledgements, each with the round trip given in
    /// milliseconds; what the last one advised.
    fn rounds(rtts: &[u64]) -> Advice {
        let mut hystart = HyStart::default();
        let mut sent = Instant::now();
        let mut advice = Advice::Grow { divisor: 1 };
        for rtt in rtts {
            let rtt = Duration::from_millis(*rtt);
            for packet in 0..10 {
                let now = sent + rtt + Duration::from_micros(packet);
                advice = hystart.on_ack(now, sent + Duration::from_micros(packet), rtt);
                if advice == Advice::Leave {
                    return advice;
                }
            }
            sent += rtt + Duration::from_micros(1);
        }
        advice
    }

    #[test]
    fn steady_round_trips_grow_on() {
        assert_eq!(rounds(&[40; 12]), Advice::Grow { divisor: 1 });
        assert_eq!(rounds(&[40, 42, 44]), Advice::Grow { divisor: 1 });
    }

    #[test]
    fn a_queue_makes_it_careful_and_then_ends_it() {
        assert_eq!(rounds(&[40, 46]), Advice::Grow { divisor: 4 });
        assert_eq!(rounds(&[40, 46, 46, 46, 46]), Advice::Grow { divisor: 4 });
        assert_eq!(rounds(&[40, 46, 46, 46, 46, 46, 46, 46]), Advice::Leave);
    }

    #[test]
    fn a_false_alarm_is_forgotten() {
        assert_eq!(rounds(&[40, 46, 40]), Advice::Grow { divisor: 1 });
    }
}
