//! Compares the simulation with reality: the same links in virtual time and over the sockets of
//! this machine.

use std::fmt::Write as _;
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

/// Results of one link in virtual time and over sockets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Agreement {
    /// Name of the link.
    pub link: String,
    /// Name of the arm.
    pub arm: String,
    /// Figures in virtual time.
    pub simulated: Measured,
    /// Figures that were measured over real sockets.
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

    /// Goodput over sockets divided by goodput in virtual time.
    pub fn goodput_ratio(&self) -> f64 {
        self.relayed.goodput_mbps / self.simulated.goodput_mbps.max(1e-9)
    }

    /// Mean round trip of the transport over sockets less that in virtual time, in ms.
    pub fn rtt_excess_ms(&self) -> f64 {
        self.relayed.transport_rtt_ms.mean - self.simulated.transport_rtt_ms.mean
    }

    /// Whether both agree: goodput within 5 %, round trips within 10 % and 2 ms.
    pub fn holds(&self) -> bool {
        let allowed = RTT_TOLERANCE * self.simulated.transport_rtt_ms.mean + RTT_TOLERANCE_MS;
        (self.goodput_ratio() - 1.0).abs() <= GOODPUT_TOLERANCE
            && self.rtt_excess_ms().abs() <= allowed
    }
}

/// One line of the comparison, below a heading if it is the first.
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

    /// Compared loosely, because a machine that runs tests is busy, so that threads wake late.
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
            // Round trips are never shorter than the link allows.
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
