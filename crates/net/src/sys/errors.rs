//! Classifies the kernel's errors.

use std::io;

/// Whether an error may be the network's answer to an earlier datagram.
pub(crate) fn may_be_of_another(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::ECONNREFUSED
                | libc::EHOSTUNREACH
                | libc::ENETUNREACH
                | libc::EHOSTDOWN
                | libc::ENONET
                | libc::EACCES
                | libc::EPERM
                | libc::EMSGSIZE
                | libc::EPROTO
                | libc::ENOPROTOOPT
                | libc::EOPNOTSUPP
        )
    )
}

/// Whether the interface's queue is full.
pub(crate) fn is_no_buffers(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENOBUFS)
}

/// Whether the datagram is too large.
pub(crate) fn is_too_large(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EMSGSIZE)
}

/// Whether the kernel may have refused this message only for its segments.
pub(crate) fn is_offload_refused(error: &io::Error) -> bool {
    is_offload_absent(error)
        || matches!(
            error.raw_os_error(),
            Some(libc::EINVAL | libc::EMSGSIZE | libc::EOPNOTSUPP)
        )
}

/// Whether the interface of this route does not support segments at all.
pub(crate) fn is_offload_absent(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EIO)
}
