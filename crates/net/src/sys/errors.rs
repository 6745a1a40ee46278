//! What the kernel's refusals mean.

use std::io;

/// Whether an error may be the answer to a datagram sent earlier.
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

pub(crate) fn is_no_buffers(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENOBUFS)
}

pub(crate) fn is_too_large(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EMSGSIZE)
}

/// The kernel refused this message maybe for its segments only.
pub(crate) fn is_offload_refused(error: &io::Error) -> bool {
    is_offload_absent(error)
        || matches!(
            error.raw_os_error(),
            Some(libc::EINVAL | libc::EMSGSIZE | libc::EOPNOTSUPP)
        )
}

/// The interface of this route cannot do segments at all.
pub(crate) fn is_offload_absent(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EIO)
}
