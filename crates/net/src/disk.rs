use std::io;
use std::path::Path;

/// Space of the file system that a path is on, in what the calling user may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    /// Bytes that the calling user may still write.
    pub free_bytes: u64,
    /// Size of the file system in bytes.
    pub total_bytes: u64,
}

/// Returns the space of the file system that `path`, which must exist, is on.
///
/// # Errors
/// Returns the system's error, or `Unsupported` where the system has no such call.
pub fn disk_space(path: &Path) -> io::Result<DiskSpace> {
    sys::space(path)
}

#[cfg(unix)]
mod sys {
    #![expect(unsafe_code, reason = "statvfs has no safe interface in std")]

    use std::ffi::CString;
    use std::io;
    use std::mem::MaybeUninit;
    use std::os::unix::ffi::OsStrExt as _;
    use std::path::Path;

    use super::DiskSpace;

    /// Calls `statvfs`.
    pub(super) fn space(path: &Path) -> io::Result<DiskSpace> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        let mut found = MaybeUninit::<libc::statvfs>::uninit();
        // SAFETY: `path` ends with a zero, and the kernel writes one `statvfs`.
        if unsafe { libc::statvfs(path.as_ptr(), found.as_mut_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call succeeded, so the structure is written.
        let found = unsafe { found.assume_init() };
        let block_bytes = wide(found.f_frsize);
        Ok(DiskSpace {
            free_bytes: wide(found.f_bavail).saturating_mul(block_bytes),
            total_bytes: wide(found.f_blocks).saturating_mul(block_bytes),
        })
    }

    /// Widens a number whose type differs between systems.
    fn wide(number: impl TryInto<u64>) -> u64 {
        number.try_into().unwrap_or(0)
    }
}

#[cfg(not(unix))]
mod sys {
    use std::io;
    use std::path::Path;

    use super::DiskSpace;

    pub(super) fn space(_: &Path) -> io::Result<DiskSpace> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_has_a_size_and_a_missing_path_is_an_error() {
        let space = disk_space(Path::new("/")).expect("the root exists");
        assert!(space.total_bytes > 0 && space.free_bytes <= space.total_bytes);
        let error = disk_space(Path::new("/no/such/folder")).expect_err("it does not exist");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
