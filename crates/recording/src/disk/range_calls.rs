//! System calls for ranges of a file, which std does not have. Where the system has none, nothing is
//! done: recordings are the same, only less smooth.

pub(super) use sys::{begin_writeback, forget_cached, reserve};

#[cfg(target_os = "linux")]
mod sys {
    #![expect(
        unsafe_code,
        reason = "these system calls have no safe interface in std"
    )]

    use std::fs::File;
    use std::io;
    use std::os::fd::AsRawFd as _;

    /// Reserves space for a range, and leaves the length of the file as it is.
    pub(in super::super) fn reserve(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
        let (Some(offset), Some(bytes)) = (signed(offset), signed(bytes)) else {
            return Ok(());
        };
        // SAFETY: the descriptor is open while `file` is borrowed, and the call takes no memory of ours.
        let done = unsafe {
            libc::fallocate64(file.as_raw_fd(), libc::FALLOC_FL_KEEP_SIZE, offset, bytes)
        };
        if done == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            // A file system without reservations, such as NFS before 4.2.
            Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL) => Ok(()),
            _ => Err(error),
        }
    }

    /// Begins to write a range to the disk.
    pub(in super::super) fn begin_writeback(file: &File, offset: u64, bytes: u64) {
        let (Some(offset), Some(bytes)) = (signed(offset), signed(bytes)) else {
            return;
        };
        // An error shows again at the next sync, which counts.
        // SAFETY: the descriptor is open while `file` is borrowed, and the call takes no memory of ours.
        let _ = unsafe {
            libc::sync_file_range(file.as_raw_fd(), offset, bytes, libc::SYNC_FILE_RANGE_WRITE)
        };
    }

    /// Drops a range from the system's memory.
    pub(in super::super) fn forget_cached(file: &File, offset: u64, bytes: u64) {
        let (Some(offset), Some(bytes)) = (signed(offset), signed(bytes)) else {
            return;
        };
        // The call is advice; without it, the memory is freed later.
        // SAFETY: the descriptor is open while `file` is borrowed, and the call takes no memory of ours.
        let _ = unsafe {
            libc::posix_fadvise64(file.as_raw_fd(), offset, bytes, libc::POSIX_FADV_DONTNEED)
        };
    }

    fn signed(number: u64) -> Option<i64> {
        i64::try_from(number).ok()
    }
}

#[cfg(not(target_os = "linux"))]
mod sys {
    use std::fs::File;
    use std::io;

    pub(in super::super) fn reserve(_: &File, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }

    pub(in super::super) fn begin_writeback(_: &File, _: u64, _: u64) {}

    pub(in super::super) fn forget_cached(_: &File, _: u64, _: u64) {}
}
