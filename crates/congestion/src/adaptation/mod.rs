//! Bitrate adaptation of a live encoder: how much it may make, decided twice a
//! second from what the path took of what it made before.
//!
//! ```text
//! encoder ──made──► send queue ──written──► transport ──acknowledged──►
//!    ▲              └───────────── backlog ─────────────┘
//!    └── target ── Adaptation ◄── backlog, written, deliverable rate
//! ```
//!
//! Two rules. [`Rule::Study`] only sees the backlog, as the application of the
//! study of live uploads did (the controller below it is a black box there);
//! [`Rule::Coupled`] asks the controller what the path carries, and keeps below it.

mod coupling;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use glassline_media::Bitrate;

use coupling::Coupling;

/// Between two decisions (the study tells of no period; twice a second is what our
/// calibration on its CUBIC figures used, and mobile encoders follow that).
pub const PERIOD: Duration = Duration::from_millis(500);

/// Which way the bitrate follows the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// By the backlog alone, against a knee.
    Study,
    /// By the controller's deliverable rate, less what drains the backlog.
    Coupled,
}

impl Rule {
    /// Every one.
    pub const ALL: [Self; 2] = [Self::Study, Self::Coupled];

    /// Its name on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Study => "study",
            Self::Coupled => "coupled",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Rule {
    type Err = UnknownRule;

    fn from_str(name: &str) -> Result<Self, UnknownRule> {
        let found = Self::ALL.into_iter().find(|rule| rule.as_str() == name);
        found.ok_or_else(|| UnknownRule(name.to_owned()))
    }
}

/// No rule is called that. The user's fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownRule(String);

impl fmt::Display for UnknownRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = Rule::ALL.map(Rule::as_str).join(", ");
        let name = &self.0;
        write!(f, "no bitrate rule is called '{name}': there are {known}")
    }
}

impl std::error::Error for UnknownRule {}

/// The bounds of an encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Never below this, whatever the path.
    pub min: Bitrate,
    /// Never above this; raised to `min` if that is larger.
    pub max: Bitrate,
    /// How much unacknowledged media [`Rule::Study`] takes for a good path: it grows
    /// below half of it, cuts above it, and cuts hard above twice. Not used by
    /// [`Rule::Coupled`].
    pub knee: Duration,
    /// Where to start.
    pub start: Bitrate,
}

impl Default for Config {
    /// The study's encoder: at most 3 Mbit/s. Its floor and knee are not told; 500
    /// kbit/s and 3 s brought the sketch of this laboratory closest to the study's
    /// CUBIC figures, and `study2019` sets its own.
    fn default() -> Self {
        Self {
            min: Bitrate::from_bps(500_000),
            max: Bitrate::from_bps(3_000_000),
            knee: Duration::from_secs(3),
            start: Bitrate::from_bps(1_000_000),
        }
    }
}

/// What an encoder's sender knows at a decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signals {
    /// Made by the encoder and not acknowledged yet: waiting here or on its way.
    /// What was dropped on purpose counts no longer.
    pub backlog_bytes: u64,
    /// Media that the transport has taken since the stream began; repeats not
    /// counted.
    pub written_bytes_total: u64,
    /// [`Flow::deliverable_rate`](crate::Flow::deliverable_rate).
    pub deliverable: Option<Bitrate>,
    /// [`Flow::is_app_limited`](crate::Flow::is_app_limited): the deliverable rate
    /// is a lower bound, since the encoder left some of the path unused.
    pub app_limited: bool,
}

/// The bitrate that an encoder should aim at.
#[derive(Clone, Debug)]
pub struct Adaptation {
    rule: Rule,
    config: Config,
    /// Bits a second.
    target: f64,
    decided: Option<Decided>,
    throughput: Throughput,
    coupling: Coupling,
}

/// The latest decision, from which the next period is counted.
#[derive(Clone, Copy, Debug)]
struct Decided {
    at: Instant,
    written: u64,
}

/// What the transport took lately, in bits a second.
#[derive(Clone, Copy, Debug, Default)]
struct Throughput(Option<f64>);

impl Adaptation {
    /// An encoder that starts at `config.start`.
    #[expect(clippy::cast_precision_loss, reason = "rates stay far below 2^52")]
    pub fn new(rule: Rule, config: Config) -> Self {
        let config = Config {
            max: config.max.max(config.min),
            ..config
        };
        Self {
            rule,
            config,
            target: config.start.clamp(config.min, config.max).bps() as f64,
            decided: None,
            throughput: Throughput::default(),
            coupling: Coupling::new(),
        }
    }

    /// What to aim at from `now` on, within the bounds.
    ///
    /// Call it at least twice a second, or with every frame: it decides once a
    /// [`PERIOD`] and only looks in between, so that the burst of a keyframe is not
    /// taken for a queue. The first call starts the clock.
    #[expect(
        clippy::cast_precision_loss,
        reason = "bytes and rates stay far below 2^52"
    )]
    pub fn decide(&mut self, now: Instant, signals: Signals) -> Bitrate {
        let backlog = signals.backlog_bytes as f64 * 8.0 / self.target.max(1.0);
        self.coupling.observe(backlog, signals.app_limited, now);
        let written = signals.written_bytes_total;
        let decided = *self.decided.get_or_insert(Decided { at: now, written });
        let elapsed = now.saturating_duration_since(decided.at);
        if elapsed < PERIOD {
            return self.target();
        }
        self.decided = Some(Decided { at: now, written });
        let taken = written.saturating_sub(decided.written) as f64 * 8.0;
        self.throughput.record(taken / elapsed.as_secs_f64());
        let target = match self.rule {
            Rule::Study => self.follow_backlog(backlog),
            Rule::Coupled => self.coupling.follow(self.target, signals.deliverable, now),
        };
        let (min, max) = (self.config.min.bps(), self.config.max.bps());
        self.target = target.clamp(min as f64, max as f64);
        self.target()
    }

    /// The latest decision.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between the bounds, which are rates"
    )]
    pub fn target(&self) -> Bitrate {
        Bitrate::from_bps(self.target as u64)
    }

    /// How it follows the path.
    pub const fn rule(&self) -> Rule {
        self.rule
    }

    /// The study's rule; `backlog` in seconds of media.
    ///
    /// The study says that the application changes the bitrate by goodput and queue
    /// size and nothing more; the steps are those of the sketch with which its
    /// relative figures came out (research of this project, section 4).
    fn follow_backlog(&self, backlog: f64) -> f64 {
        let knee = self.config.knee.as_secs_f64();
        let taken = self.throughput.0.unwrap_or(self.target);
        if backlog > 2.0 * knee {
            (self.target * CUT_HARD).min(taken * CUT_HARD)
        } else if backlog > knee {
            self.target.min(taken * CUT)
        } else if backlog < knee / 2.0 {
            self.target * GROWTH
        } else {
            self.target
        }
    }
}

/// Above twice the knee: so much less than before, and than what is taken, so that
/// the backlog shrinks.
const CUT_HARD: f64 = 0.85;
/// Above the knee: a little less than what is taken.
const CUT: f64 = 0.95;
/// Below half the knee: doubles in 9 s.
const GROWTH: f64 = 1.04;

impl Throughput {
    /// Smoothed over about three periods, so that one keyframe does not lead.
    fn record(&mut self, bits_per_second: f64) {
        const WEIGHT: f64 = 0.3;
        self.0 = Some(match self.0 {
            None => bits_per_second,
            Some(before) => before * (1.0 - WEIGHT) + bits_per_second * WEIGHT,
        });
    }
}
