//! Compares the simulation with reality: the same links in virtual time and over the sockets of
//! this machine.
//!
//! One session of either proves little. The study's encoder has states that hold, and which one a
//! session reaches may hang on a tenth of a millisecond by which a thread wakes. So a run over sockets
//! is held against many sessions of virtual time, of other luck and other lateness.

use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::time::Duration;

use glassline_sim::{Population, Sample};
use serde::{Deserialize, Serialize};

use super::session::{Arm, Measured, RelayError, Scenario, Sessions};

/// Links of the population `anchors` that are compared: one of each kind with steady conditions.
/// Links with a schedule or with a second competitor's queue vary by more than the tolerance from
/// run to run.
pub const LINKS: [&str; 6] = [
    "clean",
    "second-of-queue",
    "five-seconds-of-queue",
    "random-loss",
    "policed",
    "shared",
];

/// Largest relative difference of goodput.
const GOODPUT_TOLERANCE: f64 = 0.05;

/// Largest relative difference of the transport's mean round trip; [`RTT_TOLERANCE_MS`] is added,
/// because threads wake late and each round trip passes the kernel eight times.
const RTT_TOLERANCE: f64 = 0.1;
const RTT_TOLERANCE_MS: f64 = 2.0;

/// Longest time by which the ends of virtual sessions wake late. Threads wake within 0.1 ms on an idle
/// machine, and within 1 ms on a busy one.
const LATE: [Duration; 3] = [
    Duration::ZERO,
    Duration::from_micros(100),
    Duration::from_millis(1),
];

/// Number of virtual sessions of each lateness.
const SESSIONS: u64 = 12;

/// Results of one link in virtual time and over sockets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Agreement {
    /// Name of the link.
    pub link: String,
    /// Name of the arm.
    pub arm: String,
    /// Figures in virtual time, of 12 sessions of each lateness.
    pub simulated: Vec<Measured>,
    /// Figures that were measured over real sockets.
    pub relayed: Measured,
}

impl Agreement {
    /// Runs `arm` over the link called `link` of `population` for `duration`, in 36 sessions of
    /// virtual time and then over sockets; `None` if there is no such link.
    ///
    /// # Errors
    ///
    /// When the operating system refuses sockets.
    pub fn measure(
        sessions: &Sessions,
        population: &Population,
        link: &str,
        arm: &Arm,
        duration: Duration,
    ) -> Result<Option<Self>, RelayError> {
        let mut strata = population.strata();
        let Some(stratum) = strata.position(|stratum| stratum.name == link) else {
            return Ok(None);
        };
        let draw = |rank| {
            let drawn = population.session_of(Sample::Tuning(1), stratum, rank);
            drawn.expect("the stratum is the population's")
        };
        let first = draw(0);
        let scenario = Scenario::from(&first);
        let simulated = LATE.into_iter().flat_map(|late| {
            let sessions = sessions.clone().waking_late(late);
            (0..SESSIONS).map(move |rank| {
                let drawn = draw(rank);
                sessions.run(&Scenario::from(&drawn), arm, drawn.seed, duration)
            })
        });
        Ok(Some(Self {
            link: link.to_owned(),
            arm: arm.name.clone(),
            simulated: simulated.collect(),
            relayed: sessions.relay(&scenario, arm, first.seed, duration)?,
        }))
    }

    /// Least and largest value of a figure in virtual time.
    fn range(&self, figure: impl Fn(&Measured) -> f64) -> RangeInclusive<f64> {
        let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in self.simulated.iter().map(figure) {
            (least, most) = (least.min(value), most.max(value));
        }
        least..=most
    }

    /// Least and largest goodput in virtual time, in Mbit/s.
    pub fn goodput_mbps(&self) -> RangeInclusive<f64> {
        self.range(|it| it.goodput_mbps)
    }

    /// Least and largest mean round trip of the transport in virtual time, in ms.
    pub fn rtt_ms(&self) -> RangeInclusive<f64> {
        self.range(|it| it.transport_rtt_ms.mean)
    }

    /// Whether reality is within what virtual time shows: goodput within 5 % of the range, the mean
    /// round trip within 10 % and 2 ms.
    pub fn holds(&self) -> bool {
        let (goodput, rtt) = (self.goodput_mbps(), self.rtt_ms());
        let (slower, faster) = (1.0 - GOODPUT_TOLERANCE, 1.0 + GOODPUT_TOLERANCE);
        let shortest = rtt.start() * (1.0 - RTT_TOLERANCE) - RTT_TOLERANCE_MS;
        let longest = rtt.end() * (1.0 + RTT_TOLERANCE) + RTT_TOLERANCE_MS;
        (goodput.start() * slower..=goodput.end() * faster).contains(&self.relayed.goodput_mbps)
            && (shortest..=longest).contains(&self.relayed.transport_rtt_ms.mean)
    }
}

/// One line of the comparison, below a heading if it is the first.
pub fn table(first: bool, it: &Agreement) -> String {
    let mut text = String::new();
    if first {
        let _ = writeln!(
            text,
            "{:<22} {:<17} {:>22} {:>27}",
            "link", "arm", "goodput, Mbit/s", "transport round trip, ms"
        );
    }
    let verdict = if it.holds() { "" } else { "  differs" };
    let (goodput, rtt) = (it.goodput_mbps(), it.rtt_ms());
    let _ = writeln!(
        text,
        "{:<22} {:<17} {:>5.2} to {:>5.2} → {:>5.2} {:>8.1} to {:>6.1} → {:>6.1}{verdict}",
        it.link,
        it.arm,
        goodput.start(),
        goodput.end(),
        it.relayed.goodput_mbps,
        rtt.start(),
        rtt.end(),
        it.relayed.transport_rtt_ms.mean,
    );
    text
}

#[cfg(test)]
mod tests {
    use glassline_congestion::Algorithm;

    use super::*;
    use crate::congestion::populations::built_in;

    fn anchors() -> Population {
        Population::parse(built_in("anchors").expect("built in")).expect("a population")
    }

    #[test]
    fn every_link_that_is_compared_is_an_anchor() {
        let population = anchors();
        for link in LINKS {
            assert!(population.strata().any(|it| it.name == link), "{link}");
        }
    }

    /// Compared loosely, because a machine that runs tests is busy, so that threads wake late.
    #[test]
    fn sockets_carry_about_what_virtual_time_says() {
        let (sessions, population) = (Sessions::new(), anchors());
        for link in ["clean", "second-of-queue"] {
            let arm = Arm::new(Algorithm::Copa);
            let duration = Duration::from_secs(4);
            let found = Agreement::measure(&sessions, &population, link, &arm, duration);
            let found = found.expect("sockets on loopback").expect("an anchor");
            let relayed = &found.relayed;
            assert_eq!(relayed.broken, None, "{found:#?}");
            let (least, most) = found.goodput_mbps().into_inner();
            let about = least * 0.3..=most * 3.0;
            assert!(about.contains(&relayed.goodput_mbps), "{found:#?}");
            // Round trips are never shorter than the link allows.
            let least = if link == "clean" { 20.0 } else { 40.0 };
            assert!(relayed.transport_rtt_ms.p50 >= least, "{found:#?}");
            let mut simulated = found.simulated.iter();
            assert!(
                simulated.all(|it| it.transport_rtt_ms.p50 >= least),
                "{found:#?}"
            );
            assert!(relayed.pings_answered > 0, "{found:#?}");
        }
    }

    #[test]
    fn what_is_beyond_the_sessions_of_virtual_time_is_told() {
        let measured = |goodput_mbps, mean| Measured {
            goodput_mbps,
            transport_rtt_ms: super::super::session::Spread {
                mean,
                ..Default::default()
            },
            ..Measured::default()
        };
        let agreement = |relayed| Agreement {
            link: "clean".into(),
            arm: "copa".into(),
            simulated: vec![measured(2.0, 50.0), measured(1.0, 80.0)],
            relayed,
        };
        for within in [(2.09, 50.0), (0.96, 50.0), (1.5, 89.0), (1.5, 44.0)] {
            assert!(
                agreement(measured(within.0, within.1)).holds(),
                "{within:?}"
            );
        }
        for beyond in [(2.12, 50.0), (0.94, 50.0), (1.5, 91.0), (1.5, 42.0)] {
            assert!(
                !agreement(measured(beyond.0, beyond.1)).holds(),
                "{beyond:?}"
            );
        }
        let text = table(true, &agreement(measured(2.12, 50.0)));
        assert!(text.contains(" 1.00 to  2.00 →  2.12"), "{text}");
        assert!(text.contains("differs"), "{text}");
    }
}
