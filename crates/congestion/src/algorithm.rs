//! The congestion controllers by name.

use std::fmt;
use std::str::FromStr;

use crate::bbr::{self, Bbr};
use crate::controller::Controller;
use crate::copa::{self, Copa};
use crate::cubic::Cubic;
use crate::glide::{self, Glide};
use crate::loss_tolerant::LossTolerantBbr;
use crate::reno::Rfc9260Reno;

/// The congestion controllers, by the name that the command line uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// CUBIC (RFC 9438) with HyStart++ (RFC 9406).
    Cubic,
    /// BBR's first version (draft-cardwell-iccrg-bbr-congestion-control-00).
    Bbr,
    /// BBR as the study of live uploads ran it: mvfst's of November 2019, which
    /// overestimates the bandwidth.
    BbrStudy,
    /// BBR's first version with Linux's long-term model of policers.
    BbrLongTerm,
    /// BBR that ignores losses below 2 % of a round, and yields like CUBIC where losses
    /// meet a standing queue. The default of SCTP's data channels.
    BbrLossTolerant,
    /// Copa as the study of live uploads ran it, delta 0.04.
    Copa,
    /// Copa with the paper's competitive mode (Arun and Balakrishnan, NSDI 2018).
    CopaCompetitive,
    /// Our own controller: Copa's delay target, a policer model, a random-loss floor, and a
    /// competitive mode.
    Glide,
    /// The congestion control of SCTP's standard: Reno's, counted in bytes (RFC 9260 §7.2).
    Rfc9260Reno,
}

impl Algorithm {
    /// All controllers, as error texts list them.
    pub const ALL: [Self; 9] = [
        Self::Cubic,
        Self::Bbr,
        Self::BbrStudy,
        Self::BbrLongTerm,
        Self::BbrLossTolerant,
        Self::Copa,
        Self::CopaCompetitive,
        Self::Glide,
        Self::Rfc9260Reno,
    ];

    /// Returns the controller's name on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
            Self::BbrStudy => "bbr-study",
            Self::BbrLongTerm => "bbr-lt",
            Self::BbrLossTolerant => "bbr-loss-tolerant",
            Self::Copa => "copa",
            Self::CopaCompetitive => "copa-competitive",
            Self::Glide => "glide",
            Self::Rfc9260Reno => "rfc9260-reno",
        }
    }

    /// Returns a new controller. `mtu`: size of datagrams, in bytes.
    pub fn start(self, mtu: u64) -> Box<dyn Controller> {
        match self {
            Self::Cubic => Box::new(Cubic::new(mtu)),
            Self::Bbr => Box::new(Bbr::new(bbr::Config::default(), mtu)),
            Self::BbrStudy => Box::new(Bbr::new(bbr::Config::study(), mtu)),
            Self::BbrLongTerm => Box::new(Bbr::new(bbr::Config::long_term(), mtu)),
            Self::BbrLossTolerant => Box::new(LossTolerantBbr::new(mtu)),
            Self::Copa => Box::new(Copa::new(copa::Config::default(), mtu)),
            Self::CopaCompetitive => Box::new(Copa::new(copa::Config::competitive(), mtu)),
            Self::Glide => Box::new(Glide::new(glide::Config::default(), mtu)),
            Self::Rfc9260Reno => Box::new(Rfc9260Reno::new(mtu)),
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    fn from_str(name: &str) -> Result<Self, UnknownAlgorithm> {
        let found = Self::ALL.into_iter().find(|known| known.as_str() == name);
        found.ok_or_else(|| UnknownAlgorithm(name.to_owned()))
    }
}

/// The name of a controller is unknown; the user's mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownAlgorithm(String);

impl fmt::Display for UnknownAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = Algorithm::ALL.map(Algorithm::as_str).join(", ");
        write!(
            f,
            "unknown congestion control '{}'; choose one of {known}",
            self.0
        )
    }
}

impl std::error::Error for UnknownAlgorithm {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_controller_is_found_by_its_name_and_no_other() {
        for algorithm in Algorithm::ALL {
            assert_eq!(algorithm.to_string().parse(), Ok(algorithm));
        }
        let unknown = "vegas"
            .parse::<Algorithm>()
            .expect_err("no such controller");
        let text = unknown.to_string();
        assert!(text.contains("'vegas'") && text.contains("glide"), "{text}");
    }
}
