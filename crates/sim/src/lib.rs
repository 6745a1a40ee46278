//! Virtual time and seeded networks, so that a protocol's whole life runs in
//! milliseconds, the same way each time.
//!
//! ```text
//!          ┌────────────── Path ──────────────┐
//! end A ──►│ queue ─ rate ─ loss ─ delay      │──► end B      all of it at
//!       ◄──│      delay ─ loss ─ rate ─ queue │◄──            Clock::now()
//!          └──────────────────────────────────┘
//! ```
//!
//! A test puts its protocol cores behind [`Node`], joins them with a [`Network`], and
//! [`Simulation`] runs them from one event to the next. Every decision follows from a seed,
//! which messages name: the same seed gives the same [`Trace`]. A [`Link`] takes its capacity
//! from a rate or from a [`Schedule`]. [`Delays`] are a path reduced to what it did to each
//! packet. A [`ByteStream`] is what TCP makes of a path. The crate knows no protocol.

#![cfg_attr(
    test,
    expect(
        clippy::disallowed_methods,
        reason = "a test may anchor virtual time anywhere"
    )
)]

mod byte_stream;
mod case;
mod clock;
mod delays;
mod link;
mod network;
mod path;
mod population;
mod schedule;
mod trace;

pub use glassline_random::Rng;

pub use byte_stream::{ByteStream, StreamConditions};
pub use case::Case;
pub use clock::Clock;
pub use delays::{Delays, DelaysError, Family, UnknownFamily};
pub use link::{Arrival, Capacity, Conditions, Counts, Link, Loss, Policer, SendOutcome};
pub use network::{Datagram, Limits, Misrouted, Network, Node, Simulation, Traced};
pub use path::{End, Path};
pub use population::{
    Application, Competitor, Knobs, Population, PopulationError, Sample, Scenario, Stratum,
};
pub use schedule::{Fading, Schedule, ScheduleError, State};
pub use trace::Trace;
