//! HyStart++ (RFC 9406): leaves slow start when round trips grow.

use std::time::{Duration, Instant};

/// Smallest growth of a round trip that counts (§4.2, `MIN_RTT_THRESH`).
const GROWTH_MIN: Duration = Duration::from_millis(4);
/// Growth of a round trip that always counts (`MAX_RTT_THRESH`).
const GROWTH_MAX: Duration = Duration::from_millis(16);
/// Divisor of the round trip for growth that counts in between (`MIN_RTT_DIVISOR`).
const GROWTH_DIVISOR: u32 = 8;
/// Samples of a round before its growth is tested (`N_RTT_SAMPLE`).
const SAMPLES_MIN: u32 = 8;
/// Divisor of growth in conservative slow start (`CSS_GROWTH_DIVISOR`).
const CONSERVATIVE_DIVISOR: u64 = 4;
/// Rounds of conservative slow start before slow start ends (`CSS_ROUNDS`).
const CONSERVATIVE_ROUNDS: u32 = 5;

/// State of HyStart++ in one slow start.
#[derive(Clone, Debug, Default)]
pub(crate) struct HyStart {
    /// When the round began: it ends with the first acknowledgement of a packet sent after
    /// that.
    round_began: Option<Instant>,
    /// Smallest round trip of this round.
    least: Option<Duration>,
    /// Smallest round trip of the round before.
    least_before: Option<Duration>,
    /// Round trips measured in this round.
    samples: u32,
    /// Conservative slow start, while it lasts.
    conservative: Option<Conservative>,
}

/// Conservative slow start (CSS).
#[derive(Clone, Copy, Debug)]
struct Conservative {
    /// Smallest round trip when it began; a round below that shows a false alarm.
    baseline: Duration,
    /// Number of round trips so far.
    rounds: u32,
}

/// The next step of slow start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Advice {
    /// Grow by the acknowledged bytes, divided by `divisor`.
    Grow { divisor: u64 },
    /// Leave slow start for congestion avoidance.
    Leave,
}

impl HyStart {
    /// Handles an acknowledgement at `now` of a packet sent at `sent`, with its round trip.
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

    /// Enters conservative slow start if the round trip grew, or leaves it after a false
    /// alarm.
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

    /// Runs rounds of ten acknowledgements, each with the round trip given in ms; returns
    /// the last advice.
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
