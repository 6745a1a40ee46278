//! Certificates for every listener within TLS: HTTPS, RTSPS and QUIC.
//!
//! ```text
//!  files, read again when they change ─┐
//!  lan: a private authority ───────────┤
//!  acme: an authority on the internet ─┴► CertificateStore ─┬► HTTPS, RTSPS: asked at each handshake
//!                                                           └► QUIC: told of each change
//! ```
//!
//! A source fills the store, and the listeners do not know which. What cannot be renewed stays in
//! use, and the reason is kept for operators.

mod acme;
mod certificate;
mod files;
mod lan;
mod settings;
mod state_folder;
mod store;
mod validity;

pub use acme::CHALLENGE_ALPN;

pub use acme::{Acme, AcmeError, AcmeName, AcmeNameError, AcmeSource, ChallengeKind, Challenges};
pub use certificate::Certificate;
pub use files::{FilesError, PemFiles};
pub use lan::{Lan, LanError, LanNames, LanSource, RootCertificate};
pub use settings::{Tls, TlsKeys};
pub use state_folder::{StateError, state_folder};
pub use store::{CertificateStatus, CertificateStore};
pub use validity::Validity;
