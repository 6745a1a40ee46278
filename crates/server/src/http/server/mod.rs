//! The connections of HTTP: accepting them, their limits and their deadlines.
//!
//! ```text
//!  Listener ─ accept ─► SourceRates ─► ConnectionTable ─► Arrivals ─► a task: [TLS ─►] connection::serve
//!             │ too fast: reset        │ full: the oldest  │ addresses   │ ObservedStream ─► hyper ─► Handlers
//!             │ no descriptor: shed    │ half-open one goes  take turns  └ Activity: what is waited for,
//!                                                                          since when
//! ```
//!
//! A client that sends nothing, or sends or reads too slowly, is closed at a deadline and holds
//! one place among many until then. When all places are taken, the oldest connection that has
//! shown no right yet makes room for a newcomer, so a flood displaces itself. The deadline for a
//! request's body is where the body is read ([`super::body`]).
//!
//! A request that waits for the server, as for a camera, has one of a few places for that ([`waits`]), so
//! that most connections can always make room; and so does one that is worked on for long.
//!
//! A port within TLS does the same: [`handshake`] stands between the table and
//! [`connection::serve`], which takes any stream of bytes. Plain ports and ports within TLS for the
//! same clients share one table.

mod accept;
mod activity;
mod arrivals;
mod connection;
mod connection_table;
mod counters;
mod ending;
mod eviction_order;
mod eviction_rank;
mod handlers;
mod handshake;
mod observed_stream;
mod waits;

pub(crate) use accept::{Listener, Options, serve};
pub(crate) use connection_table::ConnectionTable as Places;
pub(crate) use counters::{Counters, ListenerCounters};
pub(crate) use ending::Drain;
pub(crate) use handlers::{DirectHandler, Handlers, RequestClient};
pub(crate) use waits::{WaitRefusal, Waiter};

/// How a request arrived here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// The request came by plain TCP, readable on its way.
    Http,
    /// The request came within TLS.
    Https,
}
