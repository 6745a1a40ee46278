//! When moving the delay is worth what it does to speech.
//!
//! A pitch period more or less is hardly heard; what hurts is how often the delay moves,
//! far less by how much: PESQ takes 0.9 of 4.6 for one period each second, and no more
//! for four of them at once each other second. So a buffer that cares for speech stays
//! where it is while somebody speaks, moves far when it has to, at once, and makes up
//! for it while nobody does.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// How willingly a buffer moves its delay while somebody speaks.
///
/// The sooner it follows its path the less it waits, and the less like what was said
/// speech becomes (figures: `docs/benchmarks/speech.md`). On a calm path all are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Pace {
    /// Follows the path at once: the least waiting.
    Swift,
    /// Up when it must, down in pauses or from far above.
    #[default]
    Even,
    /// Waits for the highest delay of seconds, and comes down in pauses only.
    Steady,
}

impl Pace {
    /// All of them, the swiftest first.
    pub const ALL: [Self; 3] = [Self::Swift, Self::Even, Self::Steady];

    /// As in options: `swift`, `even` or `steady`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Swift => "swift",
            Self::Even => "even",
            Self::Steady => "steady",
        }
    }

    pub(super) const fn law(self) -> Law {
        match self {
            Self::Swift => Law {
                recent_ms: 120.0,
                follows: Follows {
                    apart_ms: 0.0,
                    scatters: 0.4,
                    swings: 0.7,
                },
                rise: Rise {
                    below: 1.0,
                    until: 1.0,
                },
                quiet_ms: 0.0,
                excess: None,
                shorten_share: 0.10,
                lengthen_share: 0.25,
            },
            Self::Even => Law {
                recent_ms: 120.0,
                follows: Follows {
                    apart_ms: 0.0,
                    scatters: 0.4,
                    swings: 0.7,
                },
                rise: Rise {
                    below: 0.5,
                    until: 1.0,
                },
                quiet_ms: 150.0,
                excess: Some(Excess {
                    ms: 10.0,
                    usual: 1.0,
                    spent: 150.0,
                }),
                shorten_share: 0.50,
                lengthen_share: 0.50,
            },
            Self::Steady => Law {
                recent_ms: 1_500.0,
                follows: Follows {
                    apart_ms: 60.0,
                    scatters: 0.5,
                    swings: 1.0,
                },
                rise: Rise {
                    below: 0.3,
                    until: 0.8,
                },
                quiet_ms: 150.0,
                excess: Some(Excess {
                    ms: 200.0,
                    usual: 1.0,
                    spent: 500.0,
                }),
                shorten_share: 0.50,
                lengthen_share: 0.50,
            },
        }
    }
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is no [`Pace`]'s.
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

/// What a [`Pace`] is in figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Law {
    /// The highest delay of so long counts, in ms.
    pub(super) recent_ms: f64,
    /// How the correlation of delays is judged.
    pub(super) follows: Follows,
    /// When the delay rises while somebody speaks.
    pub(super) rise: Rise,
    /// It is quiet for so long before the delay moves freely, in ms: gaps between the
    /// phonemes of a word are shorter.
    pub(super) quiet_ms: f64,
    /// From where on it is too long while somebody speaks; `None`: from a part of what
    /// is waited for on, and then a little at a time.
    pub(super) excess: Option<Excess>,
    /// Of the time, what may be left out while somebody speaks.
    pub(super) shorten_share: f64,
    /// Of the time, what may be played twice while somebody speaks.
    pub(super) lengthen_share: f64,
}

/// Which correlation of delays says that the next one follows from the last ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Follows {
    /// How far apart two delays are that are compared, in ms; neighbours at least.
    pub(super) apart_ms: f64,
    /// At this correlation and below delays scatter: none says anything of the next.
    pub(super) scatters: f64,
    /// At this correlation and above delays swing: the last ones tell all of the next.
    pub(super) swings: f64,
}

/// How much of the margin makes the delay rise, each a part of the whole margin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rise {
    /// The delay begins to rise when less than this part is left.
    pub(super) below: f64,
    /// The rise ends when this part is there.
    pub(super) until: f64,
}

/// When the delay falls all the way to the target while somebody speaks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Excess {
    /// It is above the target by these ms,
    pub(super) ms: f64,
    /// and by this part of what the target usually is above the floor;
    pub(super) usual: f64,
    /// or what it was above has come to so many ms times seconds. To leave what one
    /// rents once the rent has reached the price is never twice as dear as knowing the
    /// future (Karlin et al., Algorithmica 1988).
    pub(super) spent: f64,
}
