//! Bitrate adaptation of a live encoder: decides the target bitrate twice a second, from
//! what the path took of what was sent before.
//!
//! ```text
//! encoder ──made──► send queue ──written──► transport ──acknowledged──►
//!    ▲              └───────────── backlog ─────────────┘
//!    └── target ── Adaptation ◄── backlog, written, deliverable rate
//! ```
//!
//! There are two rules. [`Rule::Study`] only sees the backlog, as the application of the
//! study of live uploads did (the controller below it is a black box there).
//! [`Rule::Coupled`] asks the controller what the path carries, and keeps below it.

mod coupling;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use glassline_media::Bitrate;

use coupling::Coupling;

/// Time between two decisions. The study does not say its period; twice a second is what
/// our calibration on its CUBIC figures used, and mobile encoders follow that.
pub const PERIOD: Duration = Duration::from_millis(500);

/// How the bitrate follows the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// By the backlog alone, compared with a knee.
    Study,
    /// By the controller's deliverable rate, less what drains the backlog.
    Coupled,
}

impl Rule {
    /// All rules, as error texts list them.
    pub const ALL: [Self; 2] = [Self::Study, Self::Coupled];

    /// Returns the rule's name on the command line.
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

/// The name of a rule is unknown; the user's mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownRule(String);

impl fmt::Display for UnknownRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = Rule::ALL.map(Rule::as_str).join(", ");
        let name = &self.0;
        write!(f, "unknown bitrate rule '{name}'; choose one of {known}")
    }
}

impl std::error::Error for UnknownRule {}

/// Bounds and start of an encoder's bitrate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Smallest bitrate, whatever the path.
    pub min: Bitrate,
    /// Largest bitrate; raised to `min` if that is larger.
    pub max: Bitrate,
    /// Unacknowledged media that [`Rule::Study`] accepts of a good path: it grows below
    /// half of it, cuts above it, and cuts hard above twice. Not used by [`Rule::Coupled`].
    pub knee: Duration,
    /// Bitrate at the start.
    pub start: Bitrate,
}

impl Default for Config {
    /// Returns the study's encoder: at most 3 Mbit/s. The study does not say its floor and
    /// knee; 500 kbit/s and 3 s brought this laboratory's sketch closest to the study's
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

/// The signals that the sender of an encoder's media has at a decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signals {
    /// Bytes made by the encoder and not acknowledged yet, waiting or in flight. Media that
    /// was dropped on purpose no longer counts.
    pub backlog_bytes: u64,
    /// Bytes of media that the transport has taken since the stream began, without
    /// retransmissions.
    pub written_bytes_total: u64,
    /// The rate that the path carries; see [`Flow::deliverable_rate`](crate::Flow::deliverable_rate).
    pub deliverable: Option<Bitrate>,
    /// Whether the deliverable rate is only a lower bound, because the encoder left some of
    /// the path unused; see [`Flow::is_app_limited`](crate::Flow::is_app_limited).
    pub app_limited: bool,
    /// Whether the deliverable rate is that of a policer, which drops what is faster
    /// ([`PathModel::policed`](crate::PathModel::policed)).
    pub policed: bool,
}

/// Decides the bitrate that an encoder should aim at.
///
/// ```
/// use std::time::{Duration, Instant};
///
/// use glassline_congestion::Adaptation;
/// use glassline_congestion::adaptation::{Config, Rule, Signals};
///
/// let mut now = Instant::now();
/// let mut adaptation = Adaptation::new(Rule::Study, Config::default());
/// let start = adaptation.target();
/// let mut sent = 0;
/// for _frame in 0..150 {
///     sent += adaptation.target().bps() / 8 / 30;
///     now += Duration::from_micros(33_333);
///     // Nothing waits: the path carries all of it.
///     let signals = Signals { written_bytes_total: sent, ..Signals::default() };
///     adaptation.decide(now, signals);
/// }
/// assert!(adaptation.target() > start);
/// ```
#[derive(Clone, Debug)]
pub struct Adaptation {
    rule: Rule,
    config: Config,
    /// Present target, in bit/s.
    target: f64,
    /// The latest decision; `None` before the first call.
    last_decision: Option<LastDecision>,
    /// The rate that the transport took lately.
    throughput: Throughput,
    /// State of the rule [`Rule::Coupled`].
    coupling: Coupling,
}

/// The latest decision, at which the present period began.
#[derive(Clone, Copy, Debug)]
struct LastDecision {
    /// When the decision was made.
    at: Instant,
    /// Value of `Signals::written_bytes_total` at the decision.
    written: u64,
}

/// The rate that the transport took lately, smoothed, in bit/s.
#[derive(Clone, Copy, Debug, Default)]
struct Throughput(Option<f64>);

impl Adaptation {
    /// Returns an adaptation that starts at `config.start`.
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
            last_decision: None,
            throughput: Throughput::default(),
            coupling: Coupling::new(),
        }
    }

    /// Returns the bitrate to aim at from `now` on, within the bounds.
    ///
    /// To be called at least twice a second, or with every frame. It decides once per
    /// [`PERIOD`] and only observes in between, so that the burst of a keyframe does not
    /// count as a queue. The first call starts the first period.
    #[expect(
        clippy::cast_precision_loss,
        reason = "bytes and rates stay far below 2^52"
    )]
    pub fn decide(&mut self, now: Instant, signals: Signals) -> Bitrate {
        let backlog = signals.backlog_bytes as f64 * 8.0 / self.target.max(1.0);
        self.coupling.observe(backlog, signals.app_limited, now);
        let written = signals.written_bytes_total;
        let last_decision = *self
            .last_decision
            .get_or_insert(LastDecision { at: now, written });
        let elapsed = now.saturating_duration_since(last_decision.at);
        if elapsed < PERIOD {
            return self.target();
        }
        self.last_decision = Some(LastDecision { at: now, written });
        let taken = written.saturating_sub(last_decision.written) as f64 * 8.0;
        self.throughput.record(taken / elapsed.as_secs_f64());
        let target = match self.rule {
            Rule::Study => self.follow_backlog(backlog),
            Rule::Coupled => self.coupling.follow(self.target, signals, now),
        };
        let (min, max) = (self.config.min.bps(), self.config.max.bps());
        self.target = target.clamp(min as f64, max as f64);
        self.target()
    }

    /// Returns the latest decision.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between the bounds, which are rates"
    )]
    pub fn target(&self) -> Bitrate {
        Bitrate::from_bps(self.target as u64)
    }

    /// Returns the rule that decides.
    pub const fn rule(&self) -> Rule {
        self.rule
    }

    /// Returns the next target by the study's rule, in bit/s. `backlog`: in seconds of
    /// media.
    ///
    /// The study says that the application changes the bitrate by goodput and queue size
    /// and nothing more; the steps are those of the sketch that reproduced its relative
    /// figures.
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

/// Factor above twice the knee, applied to the smaller of the target and the throughput, so
/// that the backlog shrinks.
const CUT_HARD: f64 = 0.85;
/// Factor above the knee, applied to the throughput.
const CUT: f64 = 0.95;
/// Growth per period below half the knee: doubles in 9 s.
const GROWTH: f64 = 1.04;

impl Throughput {
    /// Records the throughput of a period, smoothed over about three periods so that one
    /// keyframe does not dominate.
    fn record(&mut self, bits_per_second: f64) {
        const WEIGHT: f64 = 0.3;
        self.0 = Some(match self.0 {
            None => bits_per_second,
            Some(before) => before * (1.0 - WEIGHT) + bits_per_second * WEIGHT,
        });
    }
}
