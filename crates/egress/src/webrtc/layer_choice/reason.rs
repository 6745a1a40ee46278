//! Why a viewer gets its layer.

use std::fmt;

use glassline_media::Bitrate;

/// The reason why a viewer gets its layer and no other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// No better layer is alive.
    Best,
    /// The viewer asked for this layer.
    Pinned,
    /// A larger picture would not be seen in an element of this height.
    Element(u32),
    /// The path carries too little for the best layer.
    Narrow {
        /// Rate that the path carries.
        carried: Bitrate,
        /// Rate that the best layer needs.
        needed: Bitrate,
    },
    /// The path has held a probe for this layer, and better ones are not proven yet.
    Held(Bitrate),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Best => f.write_str("the best layer that is alive"),
            Self::Pinned => f.write_str("the viewer chose this layer"),
            Self::Element(height) => {
                write!(f, "the viewer shows a picture of {height} lines")
            }
            Self::Narrow { carried, needed } => {
                let (carried, needed) = (carried.mbps(), needed.mbps());
                write!(f, "the path carries {carried:.1} of {needed:.1} Mbit/s")
            }
            Self::Held(rate) => write!(f, "the path has held {:.1} Mbit/s", rate.mbps()),
        }
    }
}
