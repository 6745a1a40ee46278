//! One track of a container: the locations and times of its units.

mod builder;
mod clock;
mod codings;
mod units;

pub(crate) use builder::{IndexedTrackBuilder, Sample};
pub(crate) use units::{Entry, IndexedTrack, UNIT_BYTES_MAX};
