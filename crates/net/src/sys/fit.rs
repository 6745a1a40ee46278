//! Numbers whose types differ among C libraries.

use std::fmt::Debug;

/// Converts a small number between the types that C libraries give it: glibc has `size_t` for the
/// lengths of a `msghdr`, as Linux does, and musl `int` or `socklen_t`, as POSIX does.
#[inline]
pub(super) fn fit<Given, Wanted>(value: Given) -> Wanted
where
    Wanted: TryFrom<Given, Error: Debug>,
{
    // Lengths are those of one call's buffers, and flags have few bits.
    Wanted::try_from(value).expect("every C library's type has room for it")
}
