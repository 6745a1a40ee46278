//! QUIC with this project's congestion control.
//!
//! ```text
//! noq ─ packets sent, acked, lost ─► ControllerAdapter ─► congestion::Flow ─► Controller
//!     ◄─ window, pacing rate ───────┘    └─► CongestionMonitor ─► bitrate adaptation,
//!                                                                 metrics, the lab
//! ```
//!
//! A connection is configured with a [`CongestionControl`]; other threads watch it through a
//! [`CongestionMonitor`]. The same `noq-proto` runs over sockets and in virtual time.
//!
//! [`moq`] is Media over QUIC on sockets: a [`moq::Server`] that receives and sends broadcasts,
//! and [`moq::connect`] for clients that publish or read them.

mod address_validation;
mod congestion;
mod dial_error;
mod endpoint;
mod identity;
pub mod moq;

#[cfg(any(test, fuzzing))]
pub use address_validation::first_packet;
pub use address_validation::{AddressValidationCounters, NewcomerRates};
pub use congestion::{CongestionControl, CongestionMonitor, CongestionStats};
pub use dial_error::DialError;
pub use endpoint::{ClientEndpoint, ListenError};
pub use glassline_trust::{Fingerprint, FingerprintError, Trust};
pub use identity::{Identity, IdentityError, SelfSigned};
