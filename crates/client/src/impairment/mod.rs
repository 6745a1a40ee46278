//! A simulated network between two ends, in user space: simulated links over UDP sockets.
//!
//! ```text
//! client ◄─ socket ─► near ─► up: Link ──► far ◄─ socket ─► server
//!                       └◄─ down: Link ◄──┘
//! ```
//!
//! It needs no privilege. It differs from a real network in that a thread wakes a little
//! late, and that datagrams pass the kernel twice as often.

mod delay_queue;
mod direction;
mod proxy;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use glassline_media::Bitrate;
use glassline_sim::{Capacity, Conditions, Family, Loss};

pub use proxy::ImpairmentProxy;

/// Conditions of the path between the ends, the same in each direction.
#[derive(Clone, Debug, PartialEq)]
pub struct Impairment {
    /// One-way delay added to each datagram.
    pub delay: Duration,
    /// Largest additional delay, drawn anew for every 10 ms.
    pub jitter: Duration,
    /// Additional delay that varies as voice calls' packets were measured to; 20 ms on
    /// average.
    pub family: Option<Family>,
    /// Probability that a datagram is lost, 0..=1.
    pub loss: f64,
    /// Capacity in bits per second; `None` is unlimited.
    pub rate: Option<u64>,
    /// Time that the bottleneck's full queue takes to empty; `None` means one round trip, at
    /// least 10 ms.
    pub queue: Option<Duration>,
    /// Probability that a datagram is held back so that others overtake it, 0..=1.
    pub reorder: f64,
    /// Seed of losses, jitter and reordering.
    pub seed: u64,
}

impl Default for Impairment {
    fn default() -> Self {
        Self {
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            family: None,
            loss: 0.0,
            rate: None,
            queue: None,
            reorder: 0.0,
            seed: 1,
        }
    }
}

/// Longest time that is accepted.
const DELAY_MAX: Duration = Duration::from_secs(10);
/// Shortest queue, unless one is given.
const QUEUE_MIN: Duration = Duration::from_millis(10);

impl FromStr for Impairment {
    type Err = String;

    /// Parses `delay=10ms loss=1% rate=1gbit jitter=2ms queue=20ms reorder=0.1% seed=7`,
    /// separated by blanks or commas. `rtt=20ms` is twice a delay, `jitter=ar98` a family of
    /// delays.
    ///
    /// # Errors
    /// Names the value that is wrong, and what would be right.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut found = Self::default();
        let words = text.split([' ', ',']).filter(|word| !word.is_empty());
        for word in words {
            let (name, value) = word
                .split_once('=')
                .ok_or_else(|| format!("{word:?} is not NAME=VALUE, such as delay=10ms"))?;
            let wrong = |what: &str| format!("{name}={value}: give {what}");
            match name {
                "delay" => found.delay = time(value).ok_or_else(|| wrong("a time, as 10ms"))?,
                "rtt" => found.delay = time(value).ok_or_else(|| wrong("a time, as 20ms"))? / 2,
                "jitter" => match value.parse() {
                    Ok(family) => found.family = Some(family),
                    Err(_) => {
                        found.jitter = time(value)
                            .ok_or_else(|| wrong("a time, as 2ms, or a family, as ar98"))?;
                    }
                },
                "queue" => {
                    found.queue = Some(time(value).ok_or_else(|| wrong("a time, as 20ms"))?);
                }
                "loss" => found.loss = share(value).ok_or_else(|| wrong("a share, as 1%"))?,
                "reorder" => found.reorder = share(value).ok_or_else(|| wrong("a share, as 1%"))?,
                "rate" => {
                    found.rate = Some(rate(value).ok_or_else(|| wrong("a rate, as 1gbit"))?);
                }
                "seed" => found.seed = value.parse().map_err(|_| wrong("a number"))?,
                _ => {
                    return Err(format!(
                        "{name:?} is none of delay, rtt, jitter, loss, rate, queue, reorder, seed"
                    ));
                }
            }
        }
        Ok(found)
    }
}

impl fmt::Display for Impairment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        write!(f, "delay={}ms", ms(self.delay))?;
        if !self.jitter.is_zero() {
            write!(f, " jitter={}ms", ms(self.jitter))?;
        }
        if let Some(family) = self.family {
            write!(f, " jitter={family}")?;
        }
        if self.loss > 0.0 {
            write!(f, " loss={}%", self.loss * 100.0)?;
        }
        if let Some(rate) = self.rate {
            write!(f, " rate={}mbit", rate as f64 / 1e6)?;
        }
        if let Some(queue) = self.queue {
            write!(f, " queue={}ms", ms(queue))?;
        }
        if self.reorder > 0.0 {
            write!(f, " reorder={}%", self.reorder * 100.0)?;
        }
        if self.seed != 1 {
            write!(f, " seed={}", self.seed)?;
        }
        Ok(())
    }
}

fn time(text: &str) -> Option<Duration> {
    let (number, worth) = [("us", 1e-6), ("ms", 1e-3), ("s", 1.0), ("", 1e-3)]
        .iter()
        .find_map(|(ending, worth)| Some((text.strip_suffix(ending)?, worth)))?;
    let seconds = number.parse::<f64>().ok()? * worth;
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|time| *time <= DELAY_MAX)
}

fn share(text: &str) -> Option<f64> {
    let percent: f64 = text.strip_suffix('%').unwrap_or(text).parse().ok()?;
    (0.0..=100.0).contains(&percent).then_some(percent / 100.0)
}

fn rate(text: &str) -> Option<u64> {
    let text = text.to_ascii_lowercase();
    let text = text.strip_suffix("/s").unwrap_or(&text);
    let text = text.strip_suffix("bit").unwrap_or(text);
    let (number, worth) = [("k", 1e3), ("m", 1e6), ("g", 1e9), ("", 1.0)]
        .iter()
        .find_map(|(ending, worth)| Some((text.strip_suffix(ending)?, worth)))?;
    let bits = number.parse::<f64>().ok()? * worth;
    (1e3..=1e12).contains(&bits).then_some(bits as u64)
}

impl Impairment {
    /// Conditions of the simulated link in each direction.
    pub fn conditions(&self) -> Conditions {
        let queue = self.queue.unwrap_or(self.delay * 2).max(QUEUE_MIN);
        let mut conditions = match self.rate {
            Some(rate) => Conditions::limited(Bitrate::from_bps(rate), self.delay, queue),
            None => Conditions {
                capacity: Capacity::Unlimited,
                ..Conditions::delayed(self.delay)
            },
        };
        if self.loss > 0.0 {
            conditions.loss = Loss::Random(self.loss);
        }
        conditions.jitter = self.jitter;
        conditions.reorder = self.reorder;
        conditions
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn impairments_are_written_as_with_netem() {
        let found: Impairment = "delay=10ms loss=1% rate=1gbit jitter=2ms"
            .parse()
            .expect("all known");
        let expected = Impairment {
            delay: Duration::from_millis(10),
            jitter: Duration::from_millis(2),
            loss: 0.01,
            rate: Some(1_000_000_000),
            ..Impairment::default()
        };
        assert_eq!(found, expected);
        assert_eq!(
            "rtt=20ms,loss=1,rate=1Gbit/s,jitter=2".parse(),
            Ok(expected)
        );
        let voice: Impairment = "delay=40ms jitter=ar98 loss=1%".parse().expect("known");
        assert_eq!(voice.family, Some(Family::Ar98));
        assert_eq!(voice.to_string(), "delay=40ms jitter=ar98 loss=1%");
        for (text, wanted) in [
            ("jitter=ar99", "as ar98"),
            ("delay", "NAME=VALUE"),
            ("delay=x", "as 10ms"),
            ("delay=20s", "as 10ms"),
            ("loss=101%", "as 1%"),
            ("rate=0", "as 1gbit"),
            ("speed=1", "none of delay"),
        ] {
            let error = text.parse::<Impairment>().expect_err(text);
            assert!(error.contains(wanted), "{error}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_again(delay_us in 0u64..1_000_000, loss in 0u32..100, seed: u64) {
            let impairment = Impairment {
                delay: Duration::from_micros(delay_us),
                loss: f64::from(loss) / 100.0,
                seed,
                ..Impairment::default()
            };
            let again: Impairment = impairment.to_string().parse().expect("our own");
            prop_assert!((again.loss - impairment.loss).abs() < 1e-9);
            prop_assert_eq!(again.seed, impairment.seed);
            let apart = again.delay.abs_diff(impairment.delay);
            prop_assert!(apart < Duration::from_micros(1));
        }

        #[test]
        fn any_text_is_taken_or_refused(text in "\\PC{0,40}") {
            let _ = text.parse::<Impairment>();
        }
    }
}
