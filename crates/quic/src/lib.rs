//! QUIC with this project's congestion control.
//!
//! ```text
//! noq connection ── packets sent, acked, lost ──► Steered ──► congestion::Flow ──► Controller
//!                ◄─ window, pacing rate ────────┘    └─────► Observed ──► bitrate adaptation,
//!                                                                         metrics, the lab
//! ```
//!
//! A connection is configured with a [`Steering`]; other threads watch its congestion control
//! through [`Observed`]. The same `noq-proto` runs over sockets and in virtual time.
//!
//! [`moq`] is Media over QUIC on sockets: a [`moq::Server`] that receives and sends broadcasts,
//! and [`moq::connect`] for clients that publish or read them.

mod endpoint;
mod identity;
pub mod moq;
mod steer;
mod trust;

pub use endpoint::{DialError, Dialler, ListenError};
pub use identity::{Fingerprint, Identity, IdentityError, NoFingerprint};
pub use steer::{Observation, Observed, Steering};
pub use trust::{Trust, TrustError};
