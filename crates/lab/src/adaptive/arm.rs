//! The senders that are compared.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// Sender that decides the rate and the layer of a viewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Arm {
    /// Our server with its default settings.
    Ours,
    /// Our server without congestion control: always the best layer.
    Plain,
    /// A server that estimates and probes as libwebrtc does, by its controller in Rust (crate `goog_cc`).
    Gcc,
    /// Our server without congestion control, and a choice that knows the path: always the best layer
    /// that fits.
    Oracle,
}

impl Arm {
    /// All arms, in the order of tables.
    pub const ALL: [Self; 4] = [Self::Ours, Self::Plain, Self::Gcc, Self::Oracle];

    /// Returns the arm's name on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Plain => "none",
            Self::Gcc => "gcc",
            Self::Oracle => "oracle",
        }
    }
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The name of an arm is unknown; the user's mistake.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown arm '{0}'; choose among {known}", known = Arm::ALL.map(Arm::as_str).join(", "))]
pub struct UnknownArm(String);

impl FromStr for Arm {
    type Err = UnknownArm;

    fn from_str(name: &str) -> Result<Self, UnknownArm> {
        let found = Self::ALL.into_iter().find(|arm| arm.as_str() == name);
        found.ok_or_else(|| UnknownArm(name.to_owned()))
    }
}
