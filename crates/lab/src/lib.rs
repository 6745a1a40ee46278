//! The laboratory: loads any server with viewers and says what each cost, and
//! which side was the bottleneck.

#![expect(
    clippy::disallowed_methods,
    reason = "a laboratory measures real time"
)]
