//! Pace: when changing the delay is worth what it does to speech.
//!
//! A move of the delay costs speech quality while somebody speaks, and next to nothing in a
//! pause (figures: `docs/benchmarks/speech.md`). A longer move costs more, and the audio that is
//! concealed when a packet comes late costs as much as two or three pitch periods. So a buffer
//! that protects speech takes what it will need in the pause before, rises only when a usual
//! jump of the path would no longer fit, by as little as helps, and falls in the next pause.

use std::str::FromStr;

use thiserror::Error;

/// How readily a buffer changes its delay while somebody speaks.
///
/// A buffer that follows its path sooner waits less, and distorts speech more (figures:
/// `docs/benchmarks/speech.md`). On a calm path all paces behave alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, derive_more::Display)]
#[display("{}", self.name())]
pub enum Pace {
    /// Follows the path at once: the least delay.
    Swift,
    /// Waits for more than the last delays in pauses. While somebody speaks, raises the delay
    /// when it must and by little, and lowers it from far above the target only.
    #[default]
    Even,
    /// Waits for the highest delay of several seconds, and lowers the delay in pauses only.
    Steady,
}

impl Pace {
    /// All paces, the swiftest first.
    pub const ALL: [Self; 3] = [Self::Swift, Self::Even, Self::Steady];

    /// Name in options: `swift`, `even` or `steady`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Swift => "swift",
            Self::Even => "even",
            Self::Steady => "steady",
        }
    }

    /// Parameters of this pace.
    pub(super) const fn parameters(self) -> PaceParameters {
        match self {
            Self::Swift => SWIFT,
            Self::Even => EVEN,
            Self::Steady => STEADY,
        }
    }
}

/// Error: a name that is no [`Pace`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("'{0}' is none of swift, even, steady")]
pub struct UnknownPace(String);

impl FromStr for Pace {
    type Err = UnknownPace;

    fn from_str(name: &str) -> Result<Self, UnknownPace> {
        let known = Self::ALL.into_iter().find(|it| it.name() == name);
        known.ok_or_else(|| UnknownPace(name.to_owned()))
    }
}

/// Parameters of a [`Pace`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PaceParameters {
    /// Window over which the highest delay counts, in ms.
    pub(super) recent_ms: f64,
    /// How the correlation of delays is judged.
    pub(super) follows: Follows,
    /// The quantity that the margin is in proportion to.
    pub(super) height: Height,
    /// When the delay rises while somebody speaks.
    pub(super) rise: Rise,
    /// Length of quiet after which the delay changes freely, in ms; gaps between the phonemes
    /// of a word are shorter.
    pub(super) quiet_ms: f64,
    /// When the delay counts as too long while somebody speaks. `None`: from a part of the
    /// target on, and then corrected a little at a time.
    pub(super) excess: Option<Excess>,
    /// Share of the time that may be removed while somebody speaks.
    pub(super) shorten_share: f64,
    /// Share of the time that may be repeated while somebody speaks.
    pub(super) lengthen_share: f64,
}

/// Correlation of delays from which the next delay is predicted by the last ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Follows {
    /// Distance of the two delays that are compared, in ms; at least neighbors.
    pub(super) apart_ms: f64,
    /// Correlation at and below which delays scatter: one delay does not predict the next.
    pub(super) scatters: f64,
    /// Correlation at and above which delays swing: the last delays predict the next.
    pub(super) swings: f64,
}

/// When the delay rises while somebody speaks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rise {
    /// The part of the margin that must be left; the delay begins to rise when less is left.
    pub(super) below: Reserve,
    /// Part of the rest of the margin, beyond [`Self::below`], at which the rise ends.
    pub(super) until: f64,
}

/// The part of the margin that must be left, so that the delay may stay as it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Reserve {
    /// This part of the margin.
    Part(f64),
    /// As much as one delay seldom exceeds the one before, and this part of the margin at
    /// most.
    Jump(f64),
}

/// The quantity that the margin is in proportion to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Height {
    /// Part of the level, which is the highest recent delay above the floor.
    pub(super) level: f64,
    /// Part of the spread of the last seconds.
    pub(super) spread: f64,
}

/// Height of a margin that follows the level: a path at its floor seldom jumps far.
const FOLLOWING: Height = Height {
    level: 0.85,
    spread: 0.15,
};

/// When the delay falls all the way to the target while somebody speaks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Excess {
    /// Distance above the target from which the delay falls, in ms; [`Self::usual`] is added.
    pub(super) ms: f64,
    /// Part of the target's usual height above the floor that is added to [`Self::ms`].
    pub(super) usual: f64,
    /// Accumulated excess from which the delay falls as well, in ms times seconds. Giving up
    /// what one rents once the rent has reached the price is never twice as expensive as
    /// knowing the future (Karlin et al., Algorithmica 1988).
    pub(super) spent: f64,
}

/// [`Pace::Swift`].
const SWIFT: PaceParameters = PaceParameters {
    recent_ms: 120.0,
    follows: Follows {
        apart_ms: 0.0,
        scatters: 0.4,
        swings: 0.7,
    },
    height: FOLLOWING,
    rise: Rise {
        below: Reserve::Part(1.0),
        until: 0.0,
    },
    quiet_ms: 0.0,
    excess: None,
    shorten_share: 0.10,
    lengthen_share: 0.25,
};

/// [`Pace::Even`]: until the next pause, the path may do what it did in the last seconds.
const EVEN: PaceParameters = PaceParameters {
    recent_ms: 120.0,
    follows: Follows {
        apart_ms: 0.0,
        scatters: 0.4,
        swings: 0.7,
    },
    height: Height {
        level: 0.3,
        spread: 0.9,
    },
    rise: Rise {
        below: Reserve::Jump(0.8),
        until: 0.15,
    },
    quiet_ms: 150.0,
    excess: Some(Excess {
        ms: 10.0,
        usual: 2.0,
        spent: 150.0,
    }),
    shorten_share: 0.50,
    lengthen_share: 0.50,
};

/// [`Pace::Steady`].
const STEADY: PaceParameters = PaceParameters {
    recent_ms: 1_500.0,
    follows: Follows {
        apart_ms: 60.0,
        scatters: 0.5,
        swings: 1.0,
    },
    height: FOLLOWING,
    rise: Rise {
        below: Reserve::Part(0.3),
        until: 5.0 / 7.0,
    },
    quiet_ms: 150.0,
    excess: Some(Excess {
        ms: 200.0,
        usual: 1.0,
        spent: 500.0,
    }),
    shorten_share: 0.50,
    lengthen_share: 0.50,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paces_have_names_and_every_name_a_pace() {
        for (pace, name) in Pace::ALL.into_iter().zip(["swift", "even", "steady"]) {
            assert_eq!((pace.name(), pace.to_string().as_str()), (name, name));
            assert_eq!(name.parse(), Ok(pace));
        }
        let error = "hasty".parse::<Pace>().expect_err("there is none");
        assert_eq!(error.to_string(), "'hasty' is none of swift, even, steady");
    }
}
