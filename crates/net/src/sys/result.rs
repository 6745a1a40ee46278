//! What a system call returned.

use std::io;

pub(super) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

pub(super) fn usize_of(value: libc::c_int) -> usize {
    usize::try_from(value).unwrap_or(0)
}
