//! Who may do what: users, tokens and certificates, the requests that ask other servers about
//! them, and the record of changes.
//!
//! ```text
//!  request ─► auth: credential → role → streams        tls: certificates from files, ACME or our own authority
//!               └► outbound: HTTP to webhooks and keys    audit: changes that operators made
//! ```

// This crate is outside the sans-IO cores: tokens and certificates end by the clock.
#![expect(
    clippy::disallowed_methods,
    reason = "the shell reads the clock and draws chance for the cores"
)]

pub mod audit;
pub mod auth;
#[cfg(any(test, fuzzing))]
pub mod fuzzing {
    //! Drivers of fuzz targets that need what no caller of this crate may do.

    pub use crate::auth::fuzz_answer as rights_answer;
    pub use crate::auth::fuzz_token as token;
}
pub mod outbound;
pub mod tls;
