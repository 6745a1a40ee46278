//! Dialling ends: WHEP viewers of any server.
//!
//! [`whep`] signals; [`viewers`] connects, receives and counts. A shell around
//! the sans-IO session: it owns the sockets, the threads and the clocks. Does
//! not decode; the tests and the load generator need to know what arrived, not
//! what it looks like.

#![expect(
    clippy::disallowed_methods,
    reason = "a shell: it reads the clocks and draws the randomness for the cores"
)]

pub mod relay;
#[cfg(test)]
mod test_http;
pub mod trust;
pub mod viewers;
pub mod whep;
