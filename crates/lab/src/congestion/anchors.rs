//! Whether virtual time tells the truth: the same links in virtual time and over the
//! sockets of this machine.

use std::fmt::Write as _;
use std::time::Duration;

use glassline_sim::{Population, Sample};
use serde::{Deserialize, Serialize};

use super::session::{Arm, Measured, RelayError, Scenario, Sessions};

/// The links of `anchors` that are compared: one of each kind that is steady. Those with
/// a schedule or a second competitor's queue differ from themselves by more than what is
/// looked for.
pub const LINKS: [&str; 6] = [
    "clean",
    "second-of-queue",
    "five-seconds-of-queue",
    "random-loss",
    "policed",
    "shared",
];

/// By how much goodput may differ.
const GOODPUT_TOLERANCE: f64 = 0.05;

/// By how much the mean round trip of the transport may differ, and what comes on top:
/// threads wake late, and the kernel is passed four times each way.
const RTT_TOLERANCE: f64 = 0.1;
const RTT_TOLERANCE_MS: f64 = 2.0;

/// One link both ways.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Agreement {
    /// Its name.
    pub link: String,
    /// The arm's.
    pub arm: String,
    /// In virtual time.
    pub simulated: Measured,
    /// Over sockets.
    pub relayed: Measured,
}

impl Agreement {
    /// Runs `arm` over the link called `link` of `population` for `duration`, in virtual
    /// time and then over sockets; `None` if there is no such link.
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
        let drawn = population.session_of(Sample::Tuning(1), stratum, 0);
        let drawn = drawn.expect("the stratum is the population's");
        let scenario = Scenario::from(&drawn);
        Ok(Some(Self {
            link: link.to_owned(),
            arm: arm.name.clone(),
            simulated: sessions.run(&scenario, arm, drawn.seed, duration),
            relayed: sessions.relay(&scenario, arm, drawn.seed, duration)?,
        }))
    }

    /// Goodput over sockets ÷ goodput in virtual time.
    pub fn goodput_ratio(&self) -> f64 {
        self.relayed.goodput_mbps / self.simulated.goodput_mbps.max(1e-9)
    }

    /// How much longer the transport's mean round trip is over sockets.
    pub fn rtt_excess_ms(&self) -> f64 {
        self.relayed.transport_rtt_ms.mean - self.simulated.transport_rtt_ms.mean
    }

    /// Within 5 % of goodput, and 10 % and 2 ms of the round trip.
    pub fn holds(&self) -> bool {
        let allowed = RTT_TOLERANCE * self.simulated.transport_rtt_ms.mean + RTT_TOLERANCE_MS;
        (self.goodput_ratio() - 1.0).abs() <= GOODPUT_TOLERANCE
            && self.rtt_excess_ms().abs() <= allowed
    }
}

/// A line of the comparison for people, below a heading if it is the first.
pub fn table(first: bool, it: &Agreement) -> String {
    let mut text = String::new();
    if first {
        let _ = writeln!(
            text,
            "{:<22} {:<17} {:>19} {:>25}",
            "link", "arm", "goodput, Mbit/s", "transport round trip, ms"
        );
    }
    let (simulated, relayed) = (&it.simulated, &it.relayed);
    let verdict = if it.holds() { "" } else { "  differs" };
    let _ = writeln!(
        text,
        "{:<22} {:<17} {:>8.3} → {:>8.3} {:>11.1} → {:>11.1}{verdict}",
        it.link,
        it.arm,
        simulated.goodput_mbps,
        relayed.goodput_mbps,
        simulated.transport_rtt_ms.mean,
        relayed.transport_rtt_ms.mean,
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

    /// Loosely: a machine that runs tests is busy, and threads wake when they can.
    #[test]
    fn sockets_carry_about_what_virtual_time_says() {
        let (sessions, population) = (Sessions::new(), anchors());
        for link in ["clean", "second-of-queue"] {
            let arm = Arm::new(Algorithm::Copa);
            let duration = Duration::from_secs(4);
            let found = Agreement::measure(&sessions, &population, link, &arm, duration);
            let found = found.expect("sockets on loopback").expect("an anchor");
            let (simulated, relayed) = (&found.simulated, &found.relayed);
            assert_eq!(relayed.broken, None, "{found:#?}");
            assert!((0.3..3.0).contains(&found.goodput_ratio()), "{found:#?}");
            // Never sooner than the link allows.
            let least = if link == "clean" { 20.0 } else { 40.0 };
            assert!(relayed.transport_rtt_ms.p50 >= least, "{found:#?}");
            assert!(simulated.transport_rtt_ms.p50 >= least, "{found:#?}");
            assert!(relayed.pings_answered > 0, "{found:#?}");
        }
    }

    #[test]
    fn a_difference_of_six_percent_or_fifteen_is_told() {
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
            simulated: measured(2.0, 50.0),
            relayed,
        };
        assert!(agreement(measured(2.09, 56.9)).holds());
        assert!(!agreement(measured(2.12, 50.0)).holds());
        assert!(!agreement(measured(2.0, 57.5)).holds());
        let text = table(true, &agreement(measured(2.12, 50.0)));
        assert!(text.contains("differs"), "{text}");
    }
}
