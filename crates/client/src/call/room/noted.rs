//! What is noted of the others in a room, for whoever keeps accounts of their stages.

use super::{Ssrc, far};

/// What is noted of one of the others in a room.
#[derive(Clone, Debug, PartialEq)]
pub enum Noted {
    /// It is here.
    Came {
        /// Which.
        id: String,
        /// By people.
        called: String,
    },
    /// It is here no more.
    Left {
        /// Which.
        id: String,
    },
    /// It is heard under this number, besides those before.
    Voice {
        /// Which.
        id: String,
        /// Its number here.
        voice: Ssrc,
    },
    /// It has told something of its stages.
    Told {
        /// Which.
        id: String,
        /// What, by our clock.
        told: far::Told,
    },
    /// So it stood with its stamps when it was last heard.
    Far {
        /// Which.
        id: String,
        /// `None` where there was no channel for them.
        report: Option<far::Report>,
    },
}
