//! Catches a panic, so that the thread goes on.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Error of work that panicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it panicked; the log has the place in the code")]
pub struct Panicked;

/// Calls `work` and catches its panic, whose message and place the panic hook has printed.
///
/// # Errors
/// Returns [`Panicked`]. The state that `work` changed may then be half changed: the caller must
/// discard it.
pub fn catch<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_payload| Panicked)
}
