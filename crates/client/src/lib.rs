//! Client ends of every protocol: viewers of any server, publishers, and voice calls.
//!
//! [`whep`] signals; [`viewers`] connects, receives and counts; [`publish`] sends live
//! streams; [`call`] dials, answers, joins rooms, sends and plays voices;
//! [`ways`] leads to another server of a cluster;
//! [`hls`] loads playlists; [`impairment`] puts a simulated bad path between two ends; [`probe`] asks a server one question
//! at a time. These modules are shells around the sans-IO
//! sessions: they own the sockets, the threads and the clocks. Viewers do not decode: the
//! tests and the load generator need to know what arrived, not what it looks like.

#![expect(
    clippy::disallowed_methods,
    reason = "a shell: it reads the clocks and draws the randomness for the cores"
)]

pub mod agent;
pub mod call;
pub mod hls;
pub mod http;
pub mod impairment;
pub mod probe;
pub mod publish;
pub mod relay;
#[cfg(test)]
mod test_http;
pub mod viewers;
pub mod ways;
pub mod whep;

pub use glassline_trust as trust;
