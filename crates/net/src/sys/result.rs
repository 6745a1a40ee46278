//! Results of system calls.

use std::io;

/// Converts a negative result to the error that the system reports.
pub(super) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

/// Converts a result that is not negative.
pub(super) fn usize_of(value: libc::c_int) -> usize {
    usize::try_from(value).unwrap_or(0)
}
