//! QUIC under our congestion control.
//!
//! ```text
//! noq connection ── packets sent, acked, lost ──► Steered ──► congestion::Flow ──► Controller
//!                ◄─ window, pacing rate ────────┘    └─────► Observed ──► bitrate adaptation,
//!                                                                         metrics, the lab
//! ```
//!
//! [`Steering`] is what a connection is configured with; [`Observed`] is what everybody
//! else sees of it. The same `noq-proto` runs over sockets and in virtual time.

//!
//! [`moq`] is Media over QUIC on sockets: a [`moq::Server`] that takes and gives
//! broadcasts, [`moq::connect`] for those who publish to one or read from it.

mod endpoint;
mod identity;
pub mod moq;
mod steer;
mod trust;

pub use endpoint::{DialError, Dialler, ListenError};
pub use identity::{Fingerprint, Identity, IdentityError, NoFingerprint};
pub use steer::{Observation, Observed, Steering};
pub use trust::{Trust, TrustError};
