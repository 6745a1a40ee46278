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
//! A test loop hands datagrams to [`Path::send`], takes them from [`Path::poll`]
//! and lets [`Clock::advance_to_earliest`] jump to whatever comes next. Every
//! decision is drawn from an [`Rng`]: print the seed, and the same seed gives
//! the same [`Trace`]. Knows no protocol.

#![cfg_attr(
    test,
    expect(
        clippy::disallowed_methods,
        reason = "a test may anchor virtual time anywhere"
    )
)]

mod clock;
mod link;
mod path;
mod rng;
mod trace;

pub use clock::Clock;
pub use link::{Conditions, Counts, Link, Loss};
pub use path::{End, Path};
pub use rng::Rng;
pub use trace::Trace;
