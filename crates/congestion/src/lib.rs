//! Congestion control, without a transport.
//!
//! ```text
//! transport ── sent, acked, lost, spurious, marked ──► Flow ── Ack, Loss ──► Controller
//!           ◄─ window, pacing rate, deliverable rate ──┘ numbers, RTT,        Cubic, Bbr,
//!                                                        delivery rate        Copa, Glide …
//! ```
//!
//! A [`Flow`] keeps what every algorithm needs and every transport would have to count:
//! when each packet was sent, what had been delivered by then, the round trips, and the
//! delivery rate (draft-cheng-iccrg-delivery-rate-estimation-02). It reports to one
//! [`Controller`], which only decides. QUIC, SCTP and WebRTC egress differ in how they
//! number packets and learn of losses, and share the rest.
//!
//! A [`PathMeter`] measures by the same feedback what a path carries beyond what is sent, for the
//! choice among the layers of a stream.
//!
//! A sender that gets receiver reports alone keeps a [`ReportedRate`] instead of a flow.
//!
//! [`Adaptation`] turns the flow's estimate of what the path carries into the bitrate of an
//! encoder.
//!
//! Nothing here reads a clock or draws a random number: the same events give the same
//! decisions.

#![cfg_attr(
    test,
    expect(
        clippy::disallowed_methods,
        reason = "a test may anchor virtual time anywhere"
    )
)]

pub mod adaptation;
mod algorithm;
pub mod bbr;
mod controller;
pub mod copa;
mod cubic;
mod filter;
mod flow;
pub mod glide;
mod hystart;
mod in_flight;
mod loss_tolerant;
mod pacer;
mod path_meter;
mod receive_buffer;
mod reno;
mod reported;
mod rising;
mod rtt;
mod totals;
mod trend;

#[cfg(test)]
mod bottleneck;
#[cfg(test)]
mod curves;
#[cfg(test)]
mod datagrams;
#[cfg(test)]
mod live;
#[cfg(test)]
mod marks;
#[cfg(test)]
mod operations;
#[cfg(test)]
mod spurious;

pub use adaptation::Adaptation;
pub use algorithm::{Algorithm, UnknownAlgorithm};
pub use bbr::Bbr;
pub use controller::{Ack, Acked, Controller, Loss, PathModel, RateSample, SampleIntervals};
pub use copa::Copa;
pub use cubic::Cubic;
pub use flow::Flow;
pub use glide::Glide;
pub use loss_tolerant::LossTolerantBbr;
pub use pacer::Pacer;
pub use path_meter::{Passage, PathMeter, PathSigns, TRAIN_BYTES_MIN, TrainRate};
pub use reno::Rfc9260Reno;
pub use reported::{Reception, ReportedRate};
pub use rtt::RoundTrips;
pub use totals::Totals;
