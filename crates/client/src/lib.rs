//! Dialling ends: WHEP viewers.

#![expect(
    clippy::disallowed_methods,
    reason = "a shell: it reads the clocks and draws the randomness for the cores"
)]

pub mod whep;
