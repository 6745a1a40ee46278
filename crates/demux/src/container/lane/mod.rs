//! One track of a container: where its units lie and when they are due.

mod builder;
mod clock;
mod units;

pub(crate) use builder::{LaneBuilder, Sample};
pub(crate) use units::{Entry, Lane, UNIT_BYTES_MAX};
